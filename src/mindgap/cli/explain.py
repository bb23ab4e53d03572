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

from mindgap.cli.options import ConfigFile, Dtype, InputsFile, Seed, Trust

if TYPE_CHECKING:
    from mindgap.records.explanation import Explanation

FINDING: Final = re.compile(r"F-\d+")


def command(
    model: Annotated[str | None, typer.Argument(help="A model, or the id of a finding.", metavar="MODEL")] = None,
    on: Annotated[str | None, typer.Option(help="The platform that differs.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write; or the campaign of a finding.", metavar="DIR")
    ] = Path("out/explain"),
    everything: Annotated[bool, typer.Option("--all", help="Every finding of the campaign in DIR.")] = False,
    dtype: Dtype = None,
    seed: Seed = 0,
    inputs: InputsFile = None,
    trust: Trust = False,
    budget: Annotated[float, typer.Option(help="Seconds for making the witness smaller.", min=0)] = 120.0,
    config: ConfigFile = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the result as JSON here; - for standard output.", metavar="FILE"),
    ] = None,
) -> None:
    from mindgap.campaign.reader import finding_ids
    from mindgap.errors import MindgapError, UsageError
    from mindgap.platforms.config import load_config
    from mindgap.reduction.reducer import Budget
    from mindgap.report.console import ProgressLine, show_error, show_json
    from mindgap.report.explain import EXPLAIN_SCHEMA
    from mindgap.session.session import Session

    to_stdout = json_file is not None and str(json_file) == "-"
    findings = finding_ids(output) if everything else [model] if model and FINDING.fullmatch(model) else []
    if not (everything or findings) and (model is None or on is None):
        raise UsageError("mindgap explain needs a model and a platform", hint="mindgap explain model.py --on openvino")
    documents: list[dict[str, Any]] = []
    progress = ProgressLine()
    with Session(load_config(config), progress=progress) as session:
        if everything or findings:
            for identity in findings:
                try:
                    with progress:
                        found = session.explain_finding(output, identity, Budget(seconds=budget))
                except MindgapError as error:
                    if not everything:
                        raise
                    show_error(error)
                    continue
                documents.append(_write(found, output / identity, quiet=to_stdout))
        else:
            assert model is not None and on is not None
            with progress:
                found = session.explain(
                    model, on, output, inputs, dtype=dtype, seed=seed, trust=trust, budget=Budget(seconds=budget)
                )
            documents.append(_write(found, output, quiet=to_stdout))
    if json_file is not None:
        result = documents[0] if len(documents) == 1 else {"schema": EXPLAIN_SCHEMA, "findings": documents}
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
        for line in explanation_lines(found, str(folder)):
            show_line(line)
    return document


def write_json(path: Path, document: dict[str, Any]) -> None:
    from mindgap.records.files import write_whole

    write_whole(path, json.dumps(document, indent=1) + "\n")
