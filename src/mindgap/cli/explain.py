"""Say which operator makes a platform differ, why, and leave a script that proves it.

\b
  mindgap explain model.py --on openvino -o out/explain
  mindgap explain F-03 -o out/hunt          a finding of the campaign in out/hunt
  mindgap explain --all -o out/hunt         all its findings

MODEL is anything that `mindgap check` takes. DIR gets repro.py (which needs torch and the runtime only), its data
file if any, issue.md ready to paste, and explain.json. A run that was stopped goes on where it was.

Exit code: 1 a difference was explained, 0 a campaign has none, 2 wrong usage or nothing to explain, 3 a bug.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from mindgap.explain import Explanation

FINDING: Final = re.compile(r"F-\d+")


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
    from mindgap.errors import MindgapError, UsageError
    from mindgap.execution.pool import Pool
    from mindgap.explain import explain, explain_finding, finding_ids
    from mindgap.pipeline import import_paths
    from mindgap.platforms.config import load_config
    from mindgap.reduction.reducer import Budget
    from mindgap.report.console import ProgressLine, show_error, show_json

    settings, limit = load_config(config), Budget(seconds=budget)
    to_stdout = json_file is not None and str(json_file) == "-"
    findings = finding_ids(output) if everything else [model] if model and FINDING.fullmatch(model) else []
    documents = []
    if findings:
        with Pool(import_paths()) as pool:
            for identity in findings:
                try:
                    with ProgressLine() as progress:
                        found = explain_finding(
                            output, identity, config=settings, budget=limit, pool=pool, progress=progress
                        )
                except MindgapError as error:
                    if not everything:
                        raise
                    show_error(error)
                    continue
                documents.append(_write(found, output / identity, quiet=to_stdout))
    elif model is None or on is None:
        raise UsageError("mindgap explain needs a model and a platform", hint="mindgap explain model.py --on openvino")
    else:
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
                budget=limit,
                progress=progress,
            )
        documents.append(_write(found, output, quiet=to_stdout))
    if json_file is not None:
        result = documents[0] if len(documents) == 1 else {"schema": documents[0]["schema"], "findings": documents}
        if to_stdout:
            show_json(result)
        else:
            write_json(json_file, result)
    raise typer.Exit(1 if documents else 0)


def _write(found: Explanation, folder: Path, quiet: bool) -> dict[str, Any]:
    """explain.json beside the script, and the lines for a person."""
    from mindgap.report.console import show_line
    from mindgap.report.explain import explanation_document, explanation_lines

    document = explanation_document(found)
    write_json(folder / "explain.json", document)
    if not quiet:
        for line in explanation_lines(found):
            show_line(line)
    return document


def write_json(path: Path, document: dict[str, Any]) -> None:
    from mindgap.records.files import write_whole

    write_whole(path, json.dumps(document, indent=1) + "\n")
