"""Say which operator makes a platform differ, why, and leave a script that proves it.

\b
  mindgap explain model.py --on openvino -o out/explain
  mindgap explain F-03 -o out/hunt          a finding of the campaign in out/hunt
  mindgap explain --all -o out/hunt         all its findings

MODEL is anything that `mindgap check` takes. DIR gets repro.py (which needs torch and the runtime only), its data
file if any, issue.md ready to paste, and explain.json. A run that was stopped goes on where it was.

Exit code: 1 the difference was explained, 0 a finding is gone, 2 wrong usage or nothing to explain, 3 a bug.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[str | None, typer.Argument(help="A model, or the id of a finding.", metavar="MODEL")] = None,
    on: Annotated[str | None, typer.Option(help="The platform that differs.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write; or the campaign of a finding.", metavar="DIR")
    ] = Path("out/explain"),
    everything: Annotated[bool, typer.Option("--all", help="Every finding of the campaign in DIR.")] = False,
    dtype: Annotated[str | None, typer.Option(help="float32, float16 or bfloat16.")] = None,
    seed: Annotated[int, typer.Option(help="Makes weights, inputs and random operators repeatable.")] = 0,
    inputs: Annotated[
        Path | None, typer.Option(help="A .safetensors or .pt file with the model's inputs.", metavar="FILE")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow reading files that can execute code (pickles).")
    ] = False,
    budget: Annotated[float, typer.Option(help="Seconds for making the witness smaller.", min=0)] = 120.0,
    config: Annotated[
        Path | None, typer.Option(help="A mindgap.toml that declares more platforms.", metavar="FILE")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the result as JSON here; - for standard output.", metavar="FILE"),
    ] = None,
) -> None:
    from mindgap.errors import UsageError
    from mindgap.explain import explain
    from mindgap.platforms.config import load_config
    from mindgap.records.files import write_whole
    from mindgap.reduction.reducer import Budget
    from mindgap.report.console import ProgressLine, show_json, show_line
    from mindgap.report.explain import explanation_document, explanation_lines

    if model is None or on is None:
        raise UsageError("mindgap explain needs a model and a platform", hint="mindgap explain model.py --on openvino")
    settings = load_config(config)
    with ProgressLine() as progress:
        found = explain(
            model,
            on,
            output,
            inputs,
            dtype=dtype,
            seed=seed,
            trust=trust,
            config=settings,
            budget=Budget(seconds=budget),
            progress=progress,
        )
    document = explanation_document(found)
    write_whole(output / "explain.json", json.dumps(document, indent=1) + "\n")
    if json_file is not None and str(json_file) == "-":
        show_json(document)
    else:
        for line in explanation_lines(found):
            show_line(line)
        if json_file is not None:
            write_whole(json_file, json.dumps(document, indent=1) + "\n")
    raise typer.Exit(1)
