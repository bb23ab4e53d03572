"""Run one model on many platforms and say who is wrong, by how much more than rounding.

MODEL is one of:

\b
  timm:resnet18               a timm architecture at a small size, weights from the seed
  transformers:bert[:HEAD]    a transformers architecture made tiny, any head
  hub:org/name, DIRECTORY     a pretrained model
  file.py:factory             a function that returns the model (and its inputs)
  file.py                     defines `model` and `inputs()`
  model.pt2, model.mgp        an exported program

Exit code: 0 all agree, 1 a platform differs or did not run it, 2 wrong usage, 3 a bug in mindgap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import ConfigFile, InputsFile, Jobs, On, Seed, Trust, split


def command(
    model: Annotated[str, typer.Argument(help="What to check; the forms are listed above.", metavar="MODEL")],
    on: On = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, float16, bfloat16 or float64; several, comma-separated, are checked in turn."),
    ] = None,
    seed: Seed = 0,
    inputs: InputsFile = None,
    program: Annotated[
        bool, typer.Option("--program", help="Run the exported graph everywhere instead of the source.")
    ] = False,
    trust: Trust = False,
    jobs: Jobs = None,
    config: ConfigFile = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the result as JSON; - for standard output.", metavar="FILE"),
    ] = None,
    svg_file: Annotated[
        Path | None, typer.Option("--svg", help="Save the table as a picture for a report.", metavar="FILE")
    ] = None,
) -> None:
    from mindgap.platforms.config import load_config
    from mindgap.records.files import write_whole
    from mindgap.report.console import ProgressLine, picture_of_check, show_check, show_json
    from mindgap.report.summary import check_document
    from mindgap.session.session import Session

    to_stdout = json_file is not None and str(json_file) == "-"
    _require_directory(None if to_stdout else json_file)
    _require_directory(svg_file)
    names = split(on, "--on") if on is not None else None
    dtypes = split(dtype, "--dtype") if dtype is not None else [None]
    results = []
    progress = ProgressLine()
    with Session(load_config(config), jobs, progress) as session:
        for one in dtypes:
            with progress:
                result = session.check(model, inputs, names, dtype=one, seed=seed, program=program, trust=trust)
            results.append(result)
            if not to_stdout:
                show_check(result)
        document = check_document(results)
    if to_stdout:
        show_json(document)
    elif json_file is not None:
        write_whole(json_file, json.dumps(document, indent=1) + "\n")
    if svg_file is not None:
        write_whole(svg_file, picture_of_check(results, f"mindgap check {model}"))
    if any(result.differs for result in results):
        raise typer.Exit(1)


def _require_directory(path: Path | None) -> None:
    """A mistyped directory is said before the work, not after it."""
    from mindgap.errors import UsageError

    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}", cause=f"there is no directory {path.parent}")
