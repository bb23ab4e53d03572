"""Find the version of a runtime that broke or mended a model.

\b
  mindgap bisect model.py --on onnxruntime --versions 1.20..1.31
  mindgap bisect model.py --on openvino --versions 2025.0.0,2025.4.1,2026.4.1
  mindgap bisect model.py --on eager --pythons torch29/bin/python,torch213/bin/python

An environment is made for each version that is needed, as `mindgap platforms install` makes them, and kept; the model
runs in each and is judged as `mindgap check` does. Offline, give interpreters that have the runtime.

Exit code: 0 all versions do the same, 1 two neighbours differ, 2 wrong usage, or fewer than two versions ran the model,
3 a bug in mindgap.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import ConfigFile, Dtype, InputsFile, JsonFile, Model, Seed, Trust, refuse_mistakes, split
from mindgap.errors import UsageError


def command(
    model: Model,
    on: Annotated[str, typer.Option(help="The platform whose versions are compared.")],
    versions: Annotated[
        str | None, typer.Option(help="A range (1.20..1.31) of what pip finds, or a list.", metavar="VERSIONS")
    ] = None,
    pythons: Annotated[
        str | None, typer.Option(help="Interpreters that have it, the oldest version first.", metavar="A,B")
    ] = None,
    dtype: Dtype = None,
    seed: Seed = 0,
    inputs: InputsFile = None,
    trust: Trust = False,
    config: ConfigFile = None,
    json_file: JsonFile = None,
) -> None:
    if (versions is None) == (pythons is None):
        raise UsageError("give either --versions or --pythons", hint="--versions 1.20..1.31")
    interpreters = split(pythons, "--pythons") if pythons is not None else []
    for interpreter in interpreters:
        if not Path(interpreter).is_file():
            raise UsageError(f"there is no interpreter {interpreter}")
    refuse_mistakes(model=model, inputs=inputs, dtypes=[dtype], on=[on], config=config, outputs=[json_file])
    from mindgap.platforms.config import load_config
    from mindgap.report.bisection import bisection_document, bisection_rows
    from mindgap.report.console import ProgressLine, save_json, show_line, show_table
    from mindgap.session.session import Session

    progress = ProgressLine()
    with Session(load_config(config), progress=progress) as session, progress:
        found = session.bisect(
            model, on, versions=versions, pythons=interpreters, inputs=inputs, dtype=dtype, seed=seed, trust=trust
        )
    if json_file is not None:
        save_json(json_file, bisection_document(found))
    if str(json_file) != "-":
        show_table(("version", "verdict", "what it said"), bisection_rows(found))
        show_line(f"{found.sentence} ({len(found.tried)} of {found.of} versions tried)")
    if len(found.known) < 2:
        raise typer.Exit(2)
    if found.first_after:
        raise typer.Exit(1)
