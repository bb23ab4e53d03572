"""An evaluation in words, as a table and as a document."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median_low
from typing import Any, Final

import msgspec

from mindgap.records.evaluation import Evaluation, Flip, PlatformEvaluation, TaskVerdict

EVALUATION_SCHEMA: Final = "mindgap.evaluation/1"
SHOWN: Final = 10
"""Changed samples per platform that are listed."""
RATES: Final = frozenset({"top-1", "top-5", "mIoU", "pixel accuracy", "token accuracy"})


def evaluation_document(found: Evaluation) -> dict[str, Any]:
    """Everything, for programs."""
    return {"schema": EVALUATION_SCHEMA, **msgspec.to_builtins(found)}


def facts(found: Evaluation) -> str:
    """What was evaluated, in one line."""
    parts = [
        f"{found.samples} samples",
        found.task,
        found.dtype,
        f"batch {found.batch}",
        f"{found.noise_runs} noise runs",
    ]
    return ", ".join(parts)


def titles(found: Evaluation) -> list[str]:
    return ["platform", *found.eager, "changed", "rounding explains", "p", "verdict"]


def rows(found: Evaluation) -> list[list[str]]:
    """The baseline, then every platform."""
    table = [[found.baseline, *(shown(name, value) for name, value in found.eager.items()), "", "", "", "baseline"]]
    for name, item in found.platforms.items():
        metrics = [shown(metric, item.metrics[metric]) if metric in item.metrics else "" for metric in found.eager]
        ran = item.verdict is not TaskVerdict.FAILED
        numbers = [str(item.changed), f"{item.explained:.2g}", f"{item.p_value:.2g}"] if ran else ["", "", ""]
        table.append([f"{name} (emulated)" if item.emulates else name, *metrics, *numbers, item.verdict.value])
    return table


def shown(metric: str, value: float) -> str:
    """A metric for people."""
    return f"{value:.2%}" if metric in RATES else f"{value:.6g}"


def lines_of(name: str, item: PlatformEvaluation) -> list[str]:
    """What is concluded of a platform, and the samples that changed."""
    told = [f"{name}: {item.sentence}"]
    if item.interval is not None and item.difference is not None and item.changed:
        least, most = (f"{100 * bound:+.2f}" for bound in item.interval)
        told.append(
            f"  top-1 {100 * item.difference:+.2f} points (95% interval {least} to {most}): {item.lost} answers became "
            f"wrong, {item.won} right (McNemar p = {item.mcnemar:.2g})"
        )
    if (earliest := item.first_divergence) is not None:
        places = [flip.first for flip in item.flips if flip.first is not None]
        told.append(
            f"  first divergence at token {earliest.first} (sample {earliest.sample}); median {median_low(places)}"
        )
    told += [f"  {_flip(flip)}" for flip in item.flips[:SHOWN]]
    if len(item.flips) > SHOWN:
        told.append(f"  and {len(item.flips) - SHOWN} more")
    return told


def _flip(flip: Flip) -> str:
    parts = [f"sample {flip.sample} {flip.name}: {flip.eager} -> {flip.candidate}"]
    if flip.label:
        parts.append(f"label {flip.label}")
    if flip.first is not None:
        parts.append(f"first at {flip.first}, {flip.changed:g} changed")
    if flip.float64:
        parts.append(f"float64 {flip.float64}")
    if flip.margin is not None and flip.margin_over_noise is not None:
        parts.append(f"margin {flip.margin:.3g}, {flip.margin_over_noise:.2g} times what rounding moves")
    return ", ".join(parts)


def closing_line(found: Evaluation) -> str:
    """The answer."""
    observed = _by_verdict({name: item for name, item in found.platforms.items() if not item.emulates})
    emulated = _by_verdict({name: item for name, item in found.platforms.items() if item.emulates})
    parts = [observed, f"Emulated, not observed: {emulated}" if emulated else ""]
    return ". ".join(filter(None, parts)) or "no platform was evaluated"


def _by_verdict(platforms: Mapping[str, PlatformEvaluation]) -> str:
    by = {verdict: [n for n, item in platforms.items() if item.verdict is verdict] for verdict in TaskVerdict}
    return "; ".join(f"{verdict.value}: {', '.join(names)}" for verdict, names in by.items() if names)
