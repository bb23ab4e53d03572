"""Twelve real models on every platform that is ready: which run, which agree, which are refused and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindgap.bench.everywhere import check_everywhere, ready_platforms
from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.platforms.versions import versions

MODELS: Final = (
    "vision-resnet", "vision-convnext", "vision-vit", "vision-segformer", "language-bert", "language-gpt2",
    "language-llama", "language-mamba", "audio-wav2vec2", "multimodal-clip", "recommendation-dlrm",
    "time-series-lstm",
)  # fmt: skip
"""Of the smoke corpus, which every installation has: convolutions, attention, recurrence, state spaces, embeddings."""


def measure(tell: Tell, model: Sequence[str] = (), on: Sequence[str] = (), keep: Path | None = None) -> Measurement:
    """Check each model on each platform; a row of the table per platform."""
    specs = {item.removeprefix("smoke:"): item for item in model or [f"smoke:{name}" for name in MODELS]}
    platforms = ready_platforms(on)
    seen = check_everywhere(specs, platforms, keep, lambda what: tell("models", what))
    cells = {(row["platform"], row["model"]): row for row in seen}
    rows = [{"platform": platform, **{name: _cell(cells[platform, name]) for name in specs}} for platform in platforms]
    told = [
        f"- `{row['platform']}`, {row['model']}: {row['sentence']}"
        for row in seen
        if row["verdict"] not in ("agrees", "rounding")
    ]
    return Measurement(
        name="models",
        what="real models on every platform that is ready; a number is an error, in last bits where those settle it, "
        "otherwise in noise floors (12 are allowed)",
        on=f"{len(specs)} models of the smoke corpus x {len(platforms)} platforms",
        rows=rows,
        conclusion="\n".join(["What is not the same, and why:", "", *told] if told else ["All agree."]),
        versions={**versions([]), **platforms},
    )


def _cell(row: Row) -> str:
    """`agrees`, the error of what differs within rounding, or the verdict."""
    if row["verdict"] == "rounding" and row.get("floors") is not None:
        return f"{row['floors']:.1f}"
    return str(row["verdict"])
