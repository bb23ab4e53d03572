"""Evaluate a model on labelled data: jitter or a regression.

\b
  mindgap evaluate model.py --data imagenet/val --on inductor,openvino -o out/evaluate
  mindgap evaluate model.py --data val --labels ground_truth.txt
  mindgap evaluate model.py --data samples.npz --task segmentation
  mindgap evaluate model.py --data boxes.safetensors --task file.py:score --trust

DATA is a directory with one folder of images per class, a directory of images with --labels, or a .npz or .safetensors
file with the model's inputs and `labels`. Each platform's answers are compared with eager's, those to an ONNX file with
what ONNX's reference implementation gives. Runs with random rounding noise say how many answers rounding changes; an
exact test says whether a platform changes more. With -o, the samples that changed are kept for `mindgap explain
--sample`, and the same command continues a run that was stopped.

Exit code: 0 no platform regresses, 1 one regresses or did not run the model, 2 wrong usage, 3 a bug in mindgap.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import (
    ConfigFile,
    Dtype,
    Isolate,
    Jobs,
    JsonFile,
    Model,
    On,
    Seed,
    Trust,
    output,
    refuse_mistakes,
    split,
)
from mindgap.errors import UsageError
from mindgap.evaluation.dataset import list_samples
from mindgap.evaluation.spelling import Wanted, refuse_task


def command(
    model: Model,
    data: Annotated[Path, typer.Option(help="A directory of images, or .npz or .safetensors.", metavar="DATA")],
    on: On = None,
    task: Annotated[
        str,
        typer.Option(help="classification, segmentation, next-token, or file.py:function (needs --trust)."),
    ] = "classification",
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A label per line in the order of the images, or lines of a name and a label.", metavar="FILE"
        ),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(help="Class names in the order of the model's outputs. Default: sorted.", metavar="FILE"),
    ] = None,
    first_label: Annotated[int, typer.Option(help="The label of the model's first output.", min=0)] = 0,
    limit: Annotated[int | None, typer.Option(help="Draw so many samples from all.", min=1)] = None,
    batch: Annotated[int, typer.Option(help="Samples at once.", min=1)] = 16,
    noise_runs: Annotated[int, typer.Option(help="Runs with rounding noise per batch.", min=1)] = 8,
    answer: Annotated[str | None, typer.Option(help="The output that answers. Default: the first that fits.")] = None,
    mean: Annotated[str | None, typer.Option(help="Of the channels, comma-separated.")] = None,
    std: Annotated[str | None, typer.Option(help="Of the channels, comma-separated.")] = None,
    crop: Annotated[float | None, typer.Option(help="The share of the shorter side that is kept.")] = None,
    interpolation: Annotated[str | None, typer.Option(help="nearest, bilinear, bicubic or lanczos.")] = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Count images that cannot be read, and go on.")
    ] = False,
    directory: Annotated[Path | None, output("Keep what is found; the same command continues it.", "DIR")] = None,
    dtype: Dtype = None,
    seed: Seed = 0,
    trust: Trust = False,
    isolate: Isolate = False,
    jobs: Jobs = None,
    config: ConfigFile = None,
    json_file: JsonFile = None,
) -> None:
    names = split(on, "--on") if on is not None else None
    refuse_mistakes(
        model=model, dtypes=[dtype], on=names or (), config=config, files=[labels, classes], outputs=[json_file]
    )
    wanted = Wanted(crop, interpolation, _numbers(mean, "--mean"), _numbers(std, "--std"))
    refuse_task(task, trust, Path.cwd())
    list_samples(data, labels, classes, first_label)
    from mindgap.evaluation.samples import RESULT
    from mindgap.platforms.config import load_config
    from mindgap.report import evaluation as words
    from mindgap.report.console import ProgressLine, save_json, show_line, show_table
    from mindgap.session.session import Session

    progress = ProgressLine()
    with Session(load_config(config), jobs, progress, isolate) as session, progress:
        found = session.evaluate(
            model, data, names, task=task, labels=labels, classes=classes, first_label=first_label, limit=limit,
            batch=batch, noise_runs=noise_runs, answer=answer, preprocessing=wanted, skip_unreadable=skip_unreadable,
            dtype=dtype, seed=seed, trust=trust, folder=directory, count=progress.count,
        )  # fmt: skip
    if directory is not None:
        save_json(directory / RESULT, words.evaluation_document(found))
    if json_file is not None:
        save_json(json_file, words.evaluation_document(found))
    if str(json_file) != "-":
        show_line(f"{found.model}  {words.facts(found)}")
        for line in filter(None, [found.preprocessing, _skipped(found.skipped)]):
            show_line(line)
        show_table(words.titles(found), words.rows(found))
        for name, item in found.platforms.items():
            for line in words.lines_of(name, item):
                show_line(line)
        for name, reason in found.left_out.items():
            show_line(f"  {name} left out: {reason}")
        show_line(words.closing_line(found))
    if found.regresses:
        raise typer.Exit(1)


def _skipped(skipped: tuple[str, ...]) -> str:
    return f"{len(skipped)} images could not be read, the first: {skipped[0]}" if skipped else ""


def _numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} takes numbers with commas between them", cause=text) from error
