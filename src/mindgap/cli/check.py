"""Run one model on many platforms and say which one is wrong.

Errors are measured against float64, as multiples of what rounding explains. MODEL is one of:

\b
  file.py:factory             a function that returns the model (and its inputs)
  file.py                     defines `model` and `inputs()`
  model.pt2, model.mgp        an exported program
  model.onnx                  an ONNX file, as it is: on runtimes that read it
  model.pt                    a pickled module; needs --trust and --inputs
  hub:org/name, DIRECTORY     a pretrained model
  timm:resnet18               a timm architecture at a small size, weights from the seed
  transformers:bert[:HEAD]    a transformers architecture made tiny, any head
  LIBRARY:NAME                others: docs/check.md, `mindgap corpus list`

Exit code: 0 no platform has a verdict that --fail-on names, 1 one has and neither --known nor --baseline has it, or
eager cannot run the model, 2 wrong usage, 3 a bug in mindgap, 130, 143 or 129 interrupted by Ctrl-C, SIGTERM or SIGHUP.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import (
    FAIL_ON,
    Backward,
    ConfigFile,
    Dtypes,
    FailOn,
    InputsFile,
    Isolate,
    Jobs,
    JsonFile,
    JunitFile,
    KnownFile,
    MarkdownFile,
    Model,
    On,
    Seed,
    Trust,
    conclusions,
    refuse_mistakes,
    split,
)


def command(
    model: Model,
    on: On = None,
    dtype: Dtypes = None,
    seed: Seed = 0,
    inputs: InputsFile = None,
    program: Annotated[
        bool, typer.Option("--program", help="Run the exported graph everywhere instead of the source.")
    ] = False,
    tolerance: Annotated[
        bool, typer.Option("--tolerance", help="Recommend what a test of each output should allow.")
    ] = False,
    invariance: Annotated[
        bool,
        typer.Option("--invariance", help="Does a sample get the same result alone, among others, in another order?"),
    ] = False,
    backward: Backward = False,
    trust: Trust = False,
    fail_on: FailOn = FAIL_ON,
    known: KnownFile = None,
    isolate: Isolate = False,
    jobs: Jobs = None,
    config: ConfigFile = None,
    json_file: JsonFile = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="The JSON of an earlier check: what it has as well does not fail.", metavar="FILE"),
    ] = None,
    junit: JunitFile = None,
    markdown: MarkdownFile = None,
    svg_file: Annotated[
        Path | None, typer.Option("--svg", help="Save the table as a picture for a report.", metavar="FILE")
    ] = None,
) -> None:
    names = split(on, "--on") if on is not None else None
    dtypes = split(dtype, "--dtype") if dtype is not None else [None]
    failing = conclusions(fail_on)
    refuse_mistakes(
        model=model, inputs=inputs, dtypes=dtypes, on=names or (), config=config, files=[known, baseline],
        outputs=[json_file, svg_file, junit, markdown],
    )  # fmt: skip
    from mindgap.campaign.known import load_known
    from mindgap.campaign.triage import with_known
    from mindgap.platforms.config import load_config
    from mindgap.records.files import write_whole
    from mindgap.report import ci
    from mindgap.report.comparison import Baseline
    from mindgap.report.console import ProgressLine, picture_of_check, save_json, show_check
    from mindgap.report.results import lines_of
    from mindgap.report.summary import check_document, closing_line
    from mindgap.session.session import Session

    listed = load_known(known) if known is not None else []
    before = Baseline.read(baseline) if baseline is not None else None
    results = []
    progress = ProgressLine()
    with Session(load_config(config), jobs, progress, isolate) as session:
        for one in dtypes:
            with progress:
                result = session.check(
                    model, inputs, names, dtype=one, seed=seed, program=program, trust=trust, tolerance=tolerance,
                    invariance=invariance, backward=backward,
                )  # fmt: skip
            result = with_known(result, listed)
            results.append(before.marked(result) if before is not None else result)
            if str(json_file) != "-":
                show_check(results[-1])
    if json_file is not None:
        save_json(json_file, check_document(results))
    if svg_file is not None:
        write_whole(svg_file, picture_of_check(results, f"mindgap check {model}"))
    lines = [line for result in results for line in lines_of(result)]
    if junit is not None:
        write_whole(junit, ci.junit(list(ci.result_tests(lines, {item.value for item in failing})), "mindgap check"))
    if markdown is not None:
        sentence = " ".join(closing_line(result) for result in results)
        write_whole(markdown, ci.results_markdown(f"mindgap check {model}", sentence, lines))
    if any(result.fails_on(failing) and not (before and before.excuses(result, failing)) for result in results):
        raise typer.Exit(1)
