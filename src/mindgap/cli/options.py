"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mindgap.errors import UsageError
from mindgap.records.source import PRECISIONS
from mindgap.records.verdict import Conclusion


def output(help: str, metavar: str = "FILE") -> Any:
    """The option -o."""
    return typer.Option("-o", "--output", help=help, metavar=metavar)


Model = Annotated[str, typer.Argument(help="A model, in any form that `mindgap check --help` lists.", metavar="MODEL")]
On = Annotated[
    str | None,
    typer.Option(
        help="Platforms, comma-separated; `mindgap platforms` lists them, and eager is always the baseline. "
        "Default: eager@scalar,inductor,onnxruntime,openvino, those that are ready here."
    ),
]
CampaignDirectory = Annotated[Path, typer.Argument(help="The campaign's directory.", metavar="DIR")]
ConfigFile = Annotated[Path | None, typer.Option(help="A mindgap.toml that declares more platforms.", metavar="FILE")]
KnownFile = Annotated[Path | None, typer.Option(help="A known.toml with findings already reported.", metavar="FILE")]
FailOn = Annotated[
    str,
    typer.Option(
        help="Verdicts that make the exit code 1, comma-separated: diverges, failed, unstable, hazard, unjudged.",
        metavar="VERDICTS",
    ),
]
FAIL_ON: Final = "diverges,failed,unstable"
InputsFile = Annotated[
    Path | None, typer.Option(help="A .safetensors or .pt file with the model's inputs.", metavar="FILE")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result as JSON; - for standard output.", metavar="FILE")
]
JunitFile = Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML for a build server.", metavar="FILE")]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", help="Write a Markdown summary for a pull request.", metavar="FILE")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON document instead.")]
AsMarkdown = Annotated[Path | None, output("Also write the result as Markdown.")]
Trust = Annotated[bool, typer.Option("--trust", help="Allow files that can execute code when read (pickles).")]
Backward = Annotated[
    bool, typer.Option("--backward", help="A training step: the loss, and the gradient of each parameter and input.")
]
Isolate = Annotated[
    bool,
    typer.Option("--isolate", help="Workers write nowhere but in their own directories and have no network (Linux)."),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same weights, inputs and random choices.")]
Jobs = Annotated[int | None, typer.Option(help="How many programs run at once. Default: one per core.", min=1)]
ModelJobs = Annotated[int, typer.Option("--jobs", help="How many models or programs to process at once.", min=1)]
_PRECISIONS = f"{', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}"
Dtype = Annotated[str | None, typer.Option(help=f"{_PRECISIONS}.")]
Dtypes = Annotated[str | None, typer.Option("--dtype", help=f"{_PRECISIONS}; comma-separated for several, in turn.")]


def refuse_mistakes(
    *,
    model: str | None = None,
    inputs: Path | None = None,
    dtypes: Sequence[str | None] = (),
    on: Sequence[str] = (),
    config: Path | None = None,
    campaign: Path | None = None,
    corpus: Path | None = None,
    programs: Sequence[str] = (),
    files: Sequence[Path | None] = (),
    outputs: Sequence[Path | None] = (),
) -> None:
    """Everything that can be known of what was typed, before torch is imported and a worker starts.

    `files` must exist, and of `outputs` the directory; an output is no directory itself.
    """
    from mindgap.campaign.directory import ledger_of
    from mindgap.corpus import spelling
    from mindgap.corpus.files import corpus_ledger, resolve
    from mindgap.platforms.spelling import refuse_unknown

    refuse_unknown(on, config)
    for dtype in filter(None, dtypes):
        spelling.refuse_precision(dtype)
    if model is not None:
        spelling.refuse_unknown(model, Path.cwd())
    if campaign is not None:
        ledger_of(campaign)
    if corpus is not None:
        corpus_ledger(corpus)
    for file in filter(None, (inputs, *files)):
        resolve(str(file), str(Path.cwd()))
    for program in programs:
        spelling.program_files(program)
    for path in filter(None, outputs):
        if not path.absolute().parent.is_dir():
            raise UsageError(f"cannot write {path}", cause=f"there is no directory {path.parent}")
        if path.is_dir():
            raise UsageError(f"cannot write {path}", cause="it is a directory", hint="name a file in it")


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was typed, also with the value that it has anyway."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def store_of(corpus: str) -> Path | None:
    """The directory that an option names as a corpus, if it names one."""
    from mindgap.corpus.spelling import SHIPPED

    return Path(corpus) if corpus not in SHIPPED and Path(corpus).is_dir() else None


def split(text: str, option: str) -> list[str]:
    """The names in a comma-separated option."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise UsageError(f"{option} is empty")
    return parts


def conclusions(text: str) -> set[Conclusion]:
    """The verdicts of --fail-on; agreement and rounding are no reason to fail."""
    allowed = [item.value for item in Conclusion if item not in (Conclusion.AGREES, Conclusion.ROUNDING)]
    for name in split(text, "--fail-on"):
        if name not in allowed:
            raise UsageError(f"--fail-on does not know {name!r}", hint=f"one or more of {', '.join(allowed)}")
    return {Conclusion(name) for name in split(text, "--fail-on")}
