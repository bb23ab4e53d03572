"""Measure what each stage costs and how well it works.

Every benchmark says what it measured and on what, and compares within one run: absolute times say little on a busy
machine.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindgap.cli.options import AsJson, AsMarkdown, JsonFile, ModelJobs, Seed

if TYPE_CHECKING:
    from mindgap.bench.measurement import Measurement, Tell

app = typer.Typer(no_args_is_help=True)

Rounds = Annotated[int, typer.Option(help="How often to repeat; the median counts.", min=1)]
Cases = Annotated[Path, typer.Option(help="A folder of cases with its truth.json.")]
Only = Annotated[list[str] | None, typer.Option(help="A case to run; repeat it for several. Default: all.")]
Ready = Annotated[list[str] | None, typer.Option(help="A platform; repeat it. Default: all that are ready.")]
KeptRows = Annotated[Path | None, typer.Option(help="Keep finished rows in this file; a second run continues.")]


def _bench(options: Callable[..., None]) -> None:
    """Registers a benchmark: the function declares its options, `measure` of mindgap.bench.NAME does the work."""

    @functools.wraps(options)
    def command(output: Path | None, as_json: bool = False, **given: Any) -> None:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # kernels warn of what benchmarks do on purpose
        measure = import_module(f"mindgap.bench.{options.__name__}").measure
        chosen = {name: value for name, value in given.items() if value not in (None, [])}
        json_file = chosen.pop("json_file", None)
        _show(functools.partial(measure, **chosen), as_json, output, json_file)

    common = inspect.signature(_common, eval_str=True)
    own = inspect.signature(options, eval_str=True).parameters
    shared = [item for item in common.parameters.values() if item.name != "as_json" or "json_file" not in own]
    command.__signature__ = common.replace(parameters=[*own.values(), *shared])  # type: ignore[attr-defined]
    command.__annotations__ = options.__annotations__ | _common.__annotations__
    app.command(options.__name__)(command)


def _common(as_json: AsJson = False, output: AsMarkdown = None) -> None:
    """Options of every benchmark."""


def _show(
    measure: Callable[[Tell], Measurement], as_json: bool, output: Path | None, json_file: Path | None = None
) -> None:
    from mindgap.records.files import write_whole
    from mindgap.report.console import ProgressLine, show_json, show_line, show_table
    from mindgap.report.markdown import measurement_markdown

    with ProgressLine() as progress:
        progress("bench", "measuring")
        found = measure(progress)
    if output is not None:
        write_whole(output, measurement_markdown(found.document(), " ".join(["mindgap", *sys.argv[1:]])))
    if json_file is not None and str(json_file) != "-":
        write_whole(json_file, json.dumps(found.document(), indent=1))
    if as_json or str(json_file) == "-":
        show_json(found.document())
        return
    show_line(f"{found.name}: {found.what}")
    show_line(f"on {found.on}")
    show_table(list(found.rows[0]), [list(map(str, row.values())) for row in found.rows])
    show_line(found.conclusion)


@_bench
def check(rounds: Rounds = 3) -> None:
    """Measure what a check costs beyond the runtimes' own work.

    Once cold, which starts the workers, and then with warm workers.
    """


@_bench
def roundtrip() -> None:
    """Measure how many of forty real models export bit for bit.

    Models of timm and transformers: which become programs, and which programs give the bits of their source.
    """


@_bench
def cases(folder: Cases = Path("cases"), only: Only = None) -> None:
    """Judge real divergences and controls whose truth is known."""


@_bench
def observed(folder: Cases = Path("cases"), only: Only = None, on: Ready = None, keep: KeptRows = None) -> None:
    """Run the cases on every platform that is ready.

    The truth of a case is known for four platforms; what the others do is kept as observed.
    """


@_bench
def models(
    model: Annotated[list[str] | None, typer.Option(help="A model; repeat it. Default: twelve.")] = None,
    on: Ready = None,
    keep: KeptRows = None,
) -> None:
    """Check twelve real models on every platform that is ready."""


@_bench
def backward(rounds: Rounds = 5) -> None:
    """Measure what judging gradients costs, in training steps."""


@_bench
def evaluation(
    repetitions: Annotated[int, typer.Option(help="Evaluations of each kind.", min=2)] = 200,
) -> None:
    """Count false calls of evaluations on sums in another order.

    A classifier of real digits on inputs near a boundary, alone and with a planted fault of several sizes.
    """


@_bench
def onnx_nodes(
    count: Annotated[int | None, typer.Option(help="So many tests, evenly chosen. Default: all.", min=1)] = None,
    on: Ready = None,
    keep: KeptRows = None,
) -> None:
    """Run ONNX's node tests next to mindgap's verdicts."""


@_bench
def onnx_models(
    count: Annotated[int, typer.Option(help="So many models of the smoke and core corpora.", min=1)] = 64,
    wheels: Annotated[Path | None, typer.Option(help="A folder of wheels: their .onnx files too.")] = None,
    on: Ready = None,
    keep: KeptRows = None,
) -> None:
    """Check ONNX files: models of the corpus, and those in wheels."""


@_bench
def codegen(folder: Cases = Path("cases"), only: Only = None) -> None:
    """Compare inductor's C++ and Triton code on known differences.

    First with faults planted in Triton kernels: a dropped mask, an index off by one, a missing promotion.
    """


@_bench
def memory(megabytes: Annotated[int, typer.Option(help="Size of the output; needs as much disk.")] = 2048) -> None:
    """Measure the memory it takes to judge a very large output.

    A real output of 2 GB by default, judged in a fresh process.
    """


@_bench
def explain(
    folder: Cases = Path("cases"),
    on: Annotated[list[str] | None, typer.Option(help="Platforms. Default: all that diverge.")] = None,
    only: Only = None,
    budget: Annotated[float, typer.Option(help="Seconds per explanation.", min=1)] = 120.0,
    keep: KeptRows = None,
    within: Annotated[bool, typer.Option("--within", help="Put each case in the middle of a real program.")] = False,
    jobs: ModelJobs = 2,
) -> None:
    """Explain real differences and count how many are proven.

    An explanation counts when it is reduced to a few operators and its script shows the difference.
    """


@_bench
def quality(
    count: Annotated[int, typer.Option(help="Faults to plant; nine of ten reach an output.", min=1)] = 230,
    seed: Seed = 0,
    keep: KeptRows = None,
    jobs: ModelJobs = 2,
    opaque: Annotated[
        bool, typer.Option("--opaque", help="In ten whole models, on a runtime that shows no inner values.")
    ] = False,
) -> None:
    """Plant faults in variants of real models and explain them.

    Ten kinds of faults: is the node named, its cause right, the witness small, and does the script show it?
    """


@_bench
def verdicts(rounds: Rounds = 5) -> None:
    """Measure what a verdict costs in plain runs of the program.

    Noise, survey and judgement, each as a multiple of one plain run.
    """


@_bench
def calibration(
    programs: Annotated[int, typer.Option(help="Small random programs that must stay silent.", min=4)] = 2000,
    planted: Annotated[int, typer.Option(help="Planted faults of each size.", min=1)] = 500,
) -> None:
    """Count false alarms and missed faults on random programs."""


@_bench
def alarms(
    fragments: Annotated[int, typer.Option(help="Fragments that must stay silent.", min=8)] = 20_000,
    seed: Seed = 0,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the campaign; a second run continues.")] = None,
) -> None:
    """Count false alarms on fragments where nothing is wrong."""


@_bench
def corpus(
    models: Annotated[int, typer.Option(help="Models to build, as diverse as the whole corpus.", min=1)] = 40,
    jobs: ModelJobs = 2,
) -> None:
    """Measure how fast the corpus builds and its size on disk."""


@_bench
def synthesis(
    variants: Annotated[int, typer.Option(help="Variants over which reach is counted.", min=100)] = 20_000,
    executed: Annotated[int, typer.Option(help="Variants that really run on eager.", min=50)] = 5_000,
    long: Annotated[int, typer.Option(help="Variants over which memory is watched.", min=100)] = 100_000,
    part: Annotated[list[str] | None, typer.Option(help="pace, edits, running or reach. Default: all.")] = None,
) -> None:
    """Measure how fast variants are made, and what they reach.

    Also what an edit costs by graph size, and the share of variants that runs.
    """


@_bench
def hunt(
    variants: Annotated[int, typer.Option(help="Variants per campaign.", min=50)] = 400,
    rounds: Annotated[int, typer.Option(help="How often to repeat each, in turns.", min=1)] = 1,
) -> None:
    """Measure the pace of a campaign in variants per second.

    Through eager, eager@scalar and float64, with one worker on one core and two on two.
    """


@_bench
def endurance(
    keep: Annotated[Path, typer.Option(help="The campaign's directory; a second run continues it.", metavar="DIR")],
    variants: Annotated[int, typer.Option(help="Variants in the campaign.", min=10)] = 100_000,
) -> None:
    """Test that a long campaign keeps its pace and its memory flat."""


@_bench
def chaos(
    campaigns: Annotated[int, typer.Option(help="Campaigns to disturb.", min=1)] = 20,
    faults: Annotated[int, typer.Option(help="Faults per campaign, at most.", min=1)] = 11,
    variants: Annotated[int, typer.Option(help="Variants per campaign.", min=1)] = 12,
    seed: Seed = 0,
    jobs: ModelJobs = 2,
) -> None:
    """Disturb campaigns; nothing may be lost or left behind.

    Kills, stops, full disks, deleted files and clocks that jump, at random moments. Full disks need the right to mount.
    """


@_bench
def rediscovery(
    cases: Annotated[
        list[Path] | None, typer.Option(help="A folder of cases with its truth.json; repeat it. Default: cases.")
    ] = None,
    hours: Annotated[float, typer.Option(help="How long to hunt.", min=0)] = 1.0,
    seed: Seed = 0,
    against: Annotated[
        bool, typer.Option("--against/--alone", help="Hunt as long with whole variants alone, to compare.")
    ] = True,
    fragments: Annotated[
        float, typer.Option(help="Which part of the programs are fragments; 0 is whole variants.", min=0, max=1)
    ] = 1.0,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the campaigns in this directory; a second run continues.", metavar="DIR")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Hunt without any hint, then count the known defects found.

    A known defect is a case on a platform where it is known to diverge. It counts as found when a confirmed finding
    blames one of its operators for the same kind of difference on that platform.
    """


@_bench
def report(
    variants: Annotated[int, typer.Option(help="Variants in the campaign.", min=100)] = 100_000,
    seed: Seed = 0,
) -> None:
    """Measure the size of a report and its time to open.

    The campaign is drawn from the seed and written by the real ledger; the page opens in headless Chromium.
    """


@_bench
def throughput(
    on: Annotated[list[str] | None, typer.Option(help="Platforms. Default: onnxruntime, openvino, inductor.")] = None,
    minutes: Annotated[float, typer.Option(help="How long to measure each.", min=0.1)] = 5.0,
    seed: Seed = 0,
) -> None:
    """Measure judged programs per second, whole and in fragments.

    One platform at a time: whole variants by the stock path, whole variants with shortcuts, then fragments in crowds.
    Fragments are counted by structure (all rounds as one) and by round; what failed counts in neither.
    """


@_bench
def witnesses(
    directory: Annotated[Path, typer.Argument(help="A campaign.", metavar="DIR")],
    count: Annotated[int, typer.Option(help="Divergences to run again.", min=1)] = 200,
    seed: Seed = 0,
    keep: KeptRows = None,
    jobs: ModelJobs = 1,
) -> None:
    """Run divergences again, each alone in a fresh process."""


@_bench
def lowering(
    on: Annotated[list[str] | None, typer.Option(help="Platforms. Default: onnxruntime, openvino.")] = None,
    variants: Annotated[int, typer.Option(help="Whole variants to compare.", min=3)] = 60,
    operators: Annotated[
        int | None, typer.Option(help="Variants of programs with at most so many operators. Default: of all.", min=1)
    ] = None,
    seed: Seed = 0,
    keep: KeptRows = None,
    jobs: ModelJobs = 1,
) -> None:
    """Compare torch's own lowering with that from remembered calls.

    The smoke corpus and variants of it, each program twice on each platform: do both ways give the same bits, and what
    do they cost?
    """


@_bench
def ops(
    on: Annotated[
        list[str] | None, typer.Option(help="Platforms. Default: onnxruntime, openvino, eager@scalar.")
    ] = None,
    minutes: Annotated[float, typer.Option(help="How long the sweep may take.", min=0.1)] = 20.0,
    seed: Seed = 0,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the sweep; `mindgap ops -o` reads it.")] = None,
) -> None:
    """Measure how fast `mindgap ops` reads and runs operators.

    A sweep of every operator at float32 on all platforms at once.
    """


@_bench
def audit(
    count: Annotated[
        int, typer.Option(help="Canaries to plant, in memory only, each in a model that suits it.", min=1)
    ] = 324,
    held_out: Annotated[
        float, typer.Option(help="Share of them with parameters that were held out.", min=0, max=1)
    ] = 0.5,
    family: Annotated[list[str] | None, typer.Option(help="A family of canaries; repeat it. Default: all.")] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="Honest programs: smoke, core, what `mindgap corpus build` made, or a folder of wheels."),
    ] = None,
    seed: Seed = 0,
    keep: KeptRows = None,
    minutes: Annotated[float | None, typer.Option(help="Begin nothing new after so long.", min=0)] = None,
    part: Annotated[list[str] | None, typer.Option(help="honest or canaries; repeat it. Default: both.")] = None,
    jobs: ModelJobs = 1,
) -> None:
    """Plant hidden branches and count those that audits find.

    And audit every program of some corpora as it is: whatever is reported there is a false alarm.
    """
