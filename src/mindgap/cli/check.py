"""Run one model on many platforms and say which one is wrong.

Errors are measured against float64, as multiples of what rounding explains. MODEL is one of:

\b
  timm:resnet18               a timm architecture at a small size, weights from the seed
  transformers:bert[:HEAD]    a transformers architecture made tiny, any head
  hub:org/name, DIRECTORY     a pretrained model
  file.py:factory             a function that returns the model (and its inputs)
  file.py                     defines `model` and `inputs()`
  model.pt2, model.mgp        an exported program

Exit code: 0 all agree, 1 a platform differs or cannot run it, 2 wrong usage, 3 a bug in mindgap.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import ConfigFile, InputsFile, Jobs, JsonFile, Model, On, Seed, Trust, split


def command(
    model: Model,
    on: On = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, float16, bfloat16 or float64; comma-separated for several, in turn."),
    ] = None,
    seed: Seed = 0,
    inputs: InputsFile = None,
    program: Annotated[
        bool, typer.Option("--program", help="Run the exported graph everywhere instead of the source.")
    ] = False,
    trust: Trust = False,
    jobs: Jobs = None,
    config: ConfigFile = None,
    json_file: JsonFile = None,
    svg_file: Annotated[
        Path | None, typer.Option("--svg", help="Save the table as a picture for a report.", metavar="FILE")
    ] = None,
) -> None:
    from mindgap.errors import UsageError
    from mindgap.platforms.config import load_config
    from mindgap.records.files import write_whole
    from mindgap.report.console import ProgressLine, picture_of_check, save_json, show_check
    from mindgap.report.summary import check_document
    from mindgap.session.session import Session

    for path in (json_file, svg_file):  # a mistyped directory is reported before the work, not after it
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"cannot write {path}", cause=f"there is no directory {path.parent}")
    names = split(on, "--on") if on is not None else None
    dtypes = split(dtype, "--dtype") if dtype is not None else [None]
    results = []
    progress = ProgressLine()
    with Session(load_config(config), jobs, progress) as session:
        for one in dtypes:
            with progress:
                result = session.check(model, inputs, names, dtype=one, seed=seed, program=program, trust=trust)
            results.append(result)
            if str(json_file) != "-":
                show_check(result)
    if json_file is not None:
        save_json(json_file, check_document(results))
    if svg_file is not None:
        write_whole(svg_file, picture_of_check(results, f"mindgap check {model}"))
    if any(result.differs for result in results):
        raise typer.Exit(1)
