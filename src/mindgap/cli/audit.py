"""Look for a hidden branch in a model, and prove it.

\b
  mindgap audit model.pt2
  mindgap audit model.pt2 --on onnxruntime,openvino     and a branch that fires only there
  mindgap audit copy.pt2 --compare original.pt2         and what only the copy has

MODEL is anything that `mindgap check` takes. A gate is reported if it is derived from the input and small per sample,
dormant on natural, random, perturbed and adversarial inputs, and dominant: forced to another value, it moves the output
far beyond rounding. `hidden branch` means that an input fires it by itself; the input is written to DIR.

Exit code: 0 none found, 1 a hidden branch or a suspicious gate, or a difference from ORIGINAL, 2 wrong usage or a model
that cannot be exported, 3 a bug in mindgap.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import (
    ConfigFile,
    Dtype,
    InputsFile,
    Isolate,
    JsonFile,
    Model,
    Seed,
    Trust,
    output,
    refuse_mistakes,
    split,
)


def command(
    model: Model,
    on: Annotated[
        str | None, typer.Option(help="Platforms where a gate may have another value than on eager, comma-separated.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="The model that MODEL is a copy of: tells operators and weights that only one of them has.",
            metavar="ORIGINAL",
        ),
    ] = None,
    directory: Annotated[Path, output("Where inputs that fire a gate are written.", "DIR")] = Path("out/audit"),
    inputs: InputsFile = None,
    budget: Annotated[float, typer.Option(help="Seconds of CPU time to look and to prove, at most.", min=1)] = 60.0,
    dtype: Dtype = None,
    seed: Seed = 0,
    trust: Trust = False,
    isolate: Isolate = False,
    config: ConfigFile = None,
    json_file: JsonFile = None,
) -> None:
    names = split(on, "--on") if on is not None else []
    refuse_mistakes(model=model, inputs=inputs, dtypes=[dtype], on=names, config=config, outputs=[json_file])
    if compare is not None:
        refuse_mistakes(model=compare)
    from mindgap.platforms.config import load_config
    from mindgap.records.audit import Suspicion
    from mindgap.report.audit import audit_document, audit_lines
    from mindgap.report.console import ProgressLine, save_json, show_line
    from mindgap.session.session import Session

    progress = ProgressLine()
    with Session(load_config(config), progress=progress, isolated=isolate) as session, progress:
        result = session.audit(model, directory, inputs, names, dtype=dtype, seed=seed, trust=trust, budget_s=budget,
                               compare=compare)  # fmt: skip
    if str(json_file) != "-":
        for line in audit_lines(result):
            show_line(line)
    if json_file is not None:
        save_json(json_file, audit_document(result))
    differs = result.difference is not None and not result.difference.is_alike
    if result.verdict is not Suspicion.NONE or differs:
        raise typer.Exit(1)
