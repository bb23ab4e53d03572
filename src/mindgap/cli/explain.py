"""Find the operator that makes a platform differ, and prove it.

\b
  mindgap explain model.py --on openvino -o out/explain
  mindgap explain F-03 -o out/hunt          a finding of the campaign in out/hunt
  mindgap explain --all -o out/hunt         all its findings
  mindgap explain --sample 17 --on openvino -o out/evaluate     a sample whose answer changed

MODEL is anything that `mindgap check` takes. mindgap writes to DIR: repro.py, a script that shows the difference and
needs only torch and the runtime (with its data file, if any), issue.md to paste into a report, and explain.json. A run
that was stopped continues where it was.

Exit code: 1 a difference was explained, 0 the campaign has none, 2 wrong usage or nothing to explain, 3 a bug in
mindgap.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindgap.cli.options import Backward, ConfigFile, Dtype, InputsFile, JsonFile, Seed, Trust, output, refuse_mistakes
from mindgap.errors import MindgapError, UsageError

if TYPE_CHECKING:
    from mindgap.records.explanation import Explanation

FINDING: Final = re.compile(r"F-\d+")


def command(
    model: Annotated[str | None, typer.Argument(help="A model, or the id of a finding.", metavar="MODEL")] = None,
    on: Annotated[str | None, typer.Option(help="The platform that differs.")] = None,
    directory: Annotated[Path, output("Where to write, or the campaign of the finding.", "DIR")] = Path("out/explain"),
    everything: Annotated[bool, typer.Option("--all", help="Explain every finding of the campaign in DIR.")] = False,
    sample: Annotated[
        int | None, typer.Option(help="A sample that the evaluation in DIR kept, with its model.", min=0)
    ] = None,
    dtype: Dtype = None,
    seed: Seed = 0,
    inputs: InputsFile = None,
    backward: Backward = False,
    trust: Trust = False,
    budget: Annotated[
        float, typer.Option(help="Seconds for the whole explanation; the best answer by then is printed.", min=1)
    ] = 300.0,
    config: ConfigFile = None,
    json_file: JsonFile = None,
) -> None:
    if sample is not None:
        if model is not None or everything or inputs is not None or on is None:
            raise UsageError(
                "--sample takes its model from an evaluation", hint="mindgap explain --sample 17 --on openvino -o DIR"
            )
        from mindgap.evaluation.samples import kept_sample

        kept = kept_sample(directory, sample)
        model, inputs, dtype, seed = kept.model, kept.inputs, kept.dtype, kept.seed
        directory = directory / f"sample-{sample}"
    is_finding = everything or (model is not None and FINDING.fullmatch(model))
    if not is_finding and (model is None or on is None):
        raise UsageError("mindgap explain needs a model and a platform", hint="mindgap explain model.py --on openvino")
    refuse_mistakes(
        model=None if is_finding else model, inputs=inputs, dtypes=[dtype], on=[on] if on is not None else (),
        config=config, campaign=directory if is_finding else None,
    )  # fmt: skip
    from mindgap.campaign.reader import finding_ids
    from mindgap.platforms.config import load_config
    from mindgap.reduction.reducer import Budget
    from mindgap.report.console import ProgressLine, save_json
    from mindgap.report.explain import EXPLAIN_SCHEMA
    from mindgap.report.terminal import show_error
    from mindgap.session.session import Session

    findings = finding_ids(directory) if everything else [str(model)] if is_finding else []
    documents: list[dict[str, Any]] = []
    quiet = str(json_file) == "-"
    limit = Budget(seconds=budget)
    progress = ProgressLine()
    with Session(load_config(config), progress=progress) as session:
        for identity in findings:
            try:
                with progress:
                    found = session.explain_finding(directory, identity, limit)
            except MindgapError as error:
                if not everything:
                    raise
                show_error(error)
            else:
                documents.append(_write(found, directory / identity, quiet))
        if not is_finding:
            assert model is not None and on is not None
            with progress:
                found = session.explain(
                    model, on, directory, inputs, dtype=dtype, seed=seed, trust=trust, budget=limit, backward=backward
                )
            documents.append(_write(found, directory, quiet))
    if json_file is not None:
        many = {"schema": EXPLAIN_SCHEMA, "findings": documents}
        save_json(json_file, documents[0] if len(documents) == 1 else many)
    raise typer.Exit(1 if documents else 0)


def _write(found: Explanation, folder: Path, quiet: bool) -> dict[str, Any]:
    """explain.json next to the script, and the lines for a person."""
    from mindgap.report.console import save_json, show_line
    from mindgap.report.explain import explanation_document, explanation_lines

    document = explanation_document(found)
    save_json(folder / "explain.json", document)
    if not quiet:
        for line in explanation_lines(found, str(folder)):
            show_line(line)
    return document
