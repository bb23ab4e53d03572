"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mindgap.errors import UsageError


def output(help: str, metavar: str = "FILE") -> Any:
    """The option -o."""
    return typer.Option("-o", "--output", help=help, metavar=metavar)


Model = Annotated[str, typer.Argument(help="A model, in any form that `mindgap check --help` lists.", metavar="MODEL")]
On = Annotated[
    str | None,
    typer.Option(
        help="Platforms, comma-separated; `mindgap platforms` lists them, and eager is always the baseline. "
        "Default: eager@scalar,inductor,onnxruntime,openvino."
    ),
]
CampaignDirectory = Annotated[Path, typer.Argument(help="The campaign's directory.", metavar="DIR")]
ConfigFile = Annotated[Path | None, typer.Option(help="A mindgap.toml that declares more platforms.", metavar="FILE")]
KnownFile = Annotated[Path | None, typer.Option(help="A known.toml with findings already reported.", metavar="FILE")]
InputsFile = Annotated[
    Path | None, typer.Option(help="A .safetensors or .pt file with the model's inputs.", metavar="FILE")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result as JSON; - for standard output.", metavar="FILE")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON document instead.")]
AsMarkdown = Annotated[Path | None, output("Also write the result as Markdown.")]
Trust = Annotated[bool, typer.Option("--trust", help="Allow files that can execute code when read (pickles).")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same weights, inputs and random choices.")]
Jobs = Annotated[int | None, typer.Option(help="How many programs run at once. Default: one per core.", min=1)]
ModelJobs = Annotated[int, typer.Option("--jobs", help="How many models or programs to process at once.", min=1)]
Dtype = Annotated[str | None, typer.Option(help="float32, float16, bfloat16 or float64.")]


def split(text: str, option: str) -> list[str]:
    """The names in a comma-separated option."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise UsageError(f"{option} is empty")
    return parts
