"""Show which operators platforms support, declared and observed.

\b
  mindgap ops --declared                                             # what packages register; nothing runs
  mindgap ops --declared --package torch_npu-2.14.0-cp311-manylinux_2_28_x86_64.whl
  mindgap ops timm:resnet50 --on eager:mps,eager:npu,eager:cuda      # can they run my model?
  mindgap ops --on onnxruntime,openvino --dtype float32 -o out/ops   # run invocations here; again to continue

Declared is what a platform's package registers, read without importing it. Observed is what ran here: every operator
of real models and of torch's catalogue, in every dtype, on many inputs, each difference run again alone.

Exit code: 0, also for a model that could run perhaps; 1 when --baseline shows something worse, or a platform lacks an
operator of MODEL that nothing can replace; 2 wrong usage, or nothing is declared of any platform; 3 a bug in mindgap;
130, 143 or 129 interrupted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mindgap.cli.options import ConfigFile, Jobs, JsonFile, JunitFile, Seed, output, refuse_mistakes, split
from mindgap.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mindgap.operators.document import Answer, Change
    from mindgap.operators.universe import Models

EXIT_INTERRUPTED: Final = 130
OBSERVED: Final = ("eager@scalar", "onnxruntime", "openvino")
DTYPES: Final = (
    "float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
)  # fmt: skip


def command(
    model: Annotated[
        str | None, typer.Argument(help="Only the operators of this model, declared.", metavar="[MODEL]")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="Platforms, comma-separated. Default: with --declared all that declare something, otherwise "
            "eager@scalar,onnxruntime,openvino."
        ),
    ] = None,
    declared: Annotated[bool, typer.Option("--declared", help="Only what packages register; nothing runs.")] = False,
    package: Annotated[
        list[Path] | None,
        typer.Option(help="A wheel or folder to read what it registers; not executed. Repeatable.", metavar="FILE"),
    ] = None,
    ops: Annotated[
        str | None, typer.Option("--ops", help="Operators, comma-separated: softmax, aten.add.Tensor. Default: all.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Element types to run, comma-separated (default: float32,int64); with --declared, what takes them."
        ),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="Models to count: a corpus of `mindgap corpus build`, or a table of one (`mindgap corpus stats "
            "--operators FILE`). Default: the table that comes with mindgap; smoke: the corpus that comes with it.",
            metavar="DIR|FILE|smoke",
        ),
    ] = None,
    directory: Annotated[Path | None, output("Run here and keep the results; again to continue.", "DIR")] = None,
    hours: Annotated[float | None, typer.Option(help="Stop running after this many hours.", min=0)] = None,
    scripts: Annotated[
        bool, typer.Option("--scripts", help="Write a script for each wrong result and crash, and run it again.")
    ] = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    baseline: Annotated[
        Path | None, typer.Option(help="An earlier --json FILE: what changed since?", metavar="FILE")
    ] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write every cell as CSV.", metavar="FILE")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables as Markdown.", metavar="FILE")
    ] = None,
    junit: JunitFile = None,
    json_file: JsonFile = None,
    config: ConfigFile = None,
) -> None:
    if model is None and not declared and directory is None:
        raise UsageError(
            "nothing to do: use --declared for what packages register, or -o DIR to run operators here",
            hint="mindgap ops --declared",
        )
    names = split(on, "--on") if on is not None else []
    dtypes = split(dtype, "--dtype") if dtype is not None else ["float32", "int64"]
    for item in dtypes:
        if item not in DTYPES:
            raise UsageError(f"--dtype does not know {item!r}", hint=f"one or more of {', '.join(DTYPES)}")
    store = models if models is not None and str(models) != "smoke" and not models.is_file() else None
    refuse_mistakes(
        model=model, on=names, config=config, corpus=store,
        files=[baseline, *(path for path in package or () if not path.is_dir())],
        outputs=[json_file, csv_file, markdown, junit],
    )  # fmt: skip
    from mindgap.operators.answering import declared_answer, is_missing, model_answer, with_observed
    from mindgap.operators.declared import DEFAULT
    from mindgap.operators.document import changes, document, read_baseline
    from mindgap.operators.universe import models_of

    earlier = read_baseline(baseline) if baseline is not None else None
    asked = split(ops, "--ops") if ops is not None else []
    counted = models_of(models)
    runs_here = not declared and model is None
    shown = names or (OBSERVED if runs_here else DEFAULT)
    answer = declared_answer(shown, counted, package or (), asked, dtypes if dtype is not None else ())
    interrupted = False
    if not answer.declared and directory is None:
        reasons = "; ".join(f"{name}: {why}" for name, why in (answer.unknown or {}).items())
        raise UsageError("nothing is declared of any of these platforms", cause=reasons)
    if model is not None:
        answer = model_answer(answer, model, _operators_of(model, seed, config))
    elif runs_here:
        assert directory is not None
        interrupted = _run(directory, shown, asked, dtypes, counted, store, hours, seed, jobs, config)
    if directory is not None:
        if scripts and not interrupted:
            _prove(directory, config, counted.counts, jobs)
        answer = with_observed(answer, directory)
    _show(answer, json_file, csv_file, markdown)
    found = changes(earlier, document(answer)) if earlier is not None else None
    if found is not None:
        _show_changes(found, quiet=str(json_file) == "-")
    if junit is not None:
        _write_junit(junit, answer, found)
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if any(change.is_worse for change in found or ()) or is_missing(answer):
        raise typer.Exit(1)


def _run(
    directory: Path,
    platforms: list[str] | tuple[str, ...],
    asked: list[str],
    dtypes: list[str],
    counted: Models,
    corpus: Path | None,
    hours: float | None,
    seed: int,
    jobs: int | None,
    config: Path | None,
) -> bool:
    """Run invocations, or continue; whether it was interrupted."""
    from mindgap.operators.sweeping import sweep, universe
    from mindgap.operators.universe import chosen
    from mindgap.platforms.config import load_config
    from mindgap.report.campaign_console import HuntProgress
    from mindgap.session.session import import_paths
    from mindgap.variants.samples import sampled_operators

    known = universe(counted, sampled_operators())
    operators = chosen(asked, known) if asked else known
    with HuntProgress("invocations") as progress:
        ending = sweep(
            directory, platforms, operators, dtypes, corpus=corpus, seed=seed, hours=hours, jobs=jobs,
            config=load_config(config), watch=progress, import_paths=import_paths(),
        )  # fmt: skip
    return ending.reason == "interrupted"


def _prove(directory: Path, config: Path | None, weights: Mapping[str, int], jobs: int | None) -> None:
    """A script for each accusation, run again."""
    from mindgap.operators.observed import read_sweep
    from mindgap.operators.proving import prove
    from mindgap.platforms.config import load_config
    from mindgap.report.console import ProgressLine

    with ProgressLine() as progress:
        prove(directory, read_sweep(directory), load_config(config), progress, weights, jobs or os.cpu_count() or 1)


def _operators_of(model: str, seed: int, config: Path | None) -> set[str]:
    """The operators of a model's exported graph; it is loaded in a worker, and does not run on any platform."""
    from mindgap.operators.universe import needed
    from mindgap.platforms.config import load_config
    from mindgap.program.codec import decode
    from mindgap.report.console import ProgressLine
    from mindgap.session.session import Session

    progress = ProgressLine()
    with progress, Session(load_config(config), progress=progress) as session:
        parcel = session.build(model, None, seed=seed)
    if not parcel.program:
        raise UsageError(f"{model} cannot be exported, so its operators are not known", cause=parcel.export_failure)
    return set(needed(node.op for node in decode(parcel.program).nodes))


def _show(answer: Answer, json_file: Path | None, csv_file: Path | None, markdown: Path | None) -> None:
    from mindgap.operators.document import document, table
    from mindgap.records.files import write_whole
    from mindgap.report.console import save_json, show_line, show_table
    from mindgap.report.operators import notes, page, sections

    if str(json_file) != "-":
        for title, columns, rows in sections(answer):
            show_line(f"\n{title}")
            show_table(columns, rows)
        for note in notes(answer):
            show_line(note)
    if json_file is not None:
        save_json(json_file, document(answer))
    if csv_file is not None:
        write_whole(csv_file, table(answer))
    if markdown is not None:
        write_whole(markdown, page(answer, " ".join(["mindgap", *sys.argv[1:]])))


def _write_junit(file: Path, answer: Answer, found: Sequence[Change] | None) -> None:
    """A test per operator, dtype and platform; next to a baseline only what became worse fails."""
    from mindgap.operators.document import document
    from mindgap.records.files import write_whole
    from mindgap.report import ci
    from mindgap.report.documents import as_operators

    worse = {(c.platform, f"{c.operator} {c.dtype}") for c in found if c.is_worse} if found is not None else None
    tests = ci.operator_tests(as_operators(document(answer)), worse)
    write_whole(file, ci.junit(list(tests), "mindgap ops"))


def _show_changes(found: Sequence[Change], quiet: bool) -> None:
    from mindgap.report.console import show_line, show_table
    from mindgap.report.operators import change_rows

    if quiet:
        return
    show_line(f"\nsince the baseline: {len(found)} cells changed, {sum(c.is_worse for c in found)} of them worse")
    if found:
        show_table(["", "evidence", "platform", "operator", "dtype", "before", "now"], change_rows(found)[:50])
