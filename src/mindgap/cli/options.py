"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.errors import UsageError

On = Annotated[
    str | None,
    typer.Option(
        help="Platforms, comma-separated; `mindgap platforms` lists them. "
        "Default: eager@scalar,inductor,onnxruntime,openvino."
    ),
]
ConfigFile = Annotated[Path | None, typer.Option(help="A mindgap.toml that declares more platforms.", metavar="FILE")]
KnownFile = Annotated[
    Path | None, typer.Option(help="A known.toml: findings that are reported already.", metavar="FILE")
]
InputsFile = Annotated[
    Path | None, typer.Option(help="A .safetensors or .pt file with the model's inputs.", metavar="FILE")
]
Trust = Annotated[bool, typer.Option("--trust", help="Allow reading files that can execute code (pickles).")]
Seed = Annotated[int, typer.Option(help="Makes weights, inputs and random operators repeatable.")]
Jobs = Annotated[int | None, typer.Option(help="Programs at work at the same time. Default: cores.", min=1)]
Dtype = Annotated[str | None, typer.Option(help="float32, float16, bfloat16 or float64.")]


def split(text: str, option: str) -> list[str]:
    """The names in a comma-separated option."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise UsageError(f"{option} is empty")
    return parts
