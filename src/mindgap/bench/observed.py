"""The cases on every platform that is ready: what it does, written down as observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mindgap.bench.cases import read_truth
from mindgap.bench.everywhere import UNSEEN, check_everywhere, ready_platforms
from mindgap.bench.measurement import Measurement, Row, Tell, grouped
from mindgap.platforms.versions import versions
from mindgap.records.verdict import Conclusion


def measure(
    tell: Tell,
    folder: Path = Path("cases"),
    only: Sequence[str] = (),
    on: Sequence[str] = (),
    keep: Path | None = None,
) -> Measurement:
    """Check every case of a folder on every platform; a row of the table per platform."""
    names = [name for name in read_truth(folder) if not only or name in only]
    models = {name: str((folder / f"{name}.py").absolute()) for name in names}
    platforms = ready_platforms(on)
    rows = check_everywhere(models, platforms, keep, lambda what: tell("observed", what))
    wrong = [f"  {r['model']} on {r['platform']}: {r['sentence']}" for r in rows if r["verdict"] == "diverges"]
    unseen = [f"  {UNSEEN}: {r['model']} on {r['platform']}: {r['sentence']}" for r in rows if r["verdict"] == UNSEEN]
    return Measurement(
        name="observed",
        what="verdicts on cases whose truth is known only for four platforms: what was seen, not what is right",
        on=f"{len(models)} cases x {len(platforms)} platforms that were ready",
        rows=grouped(rows, lambda row: str(row["platform"]), _row),
        conclusion="\n".join([f"{len(wrong)} of {len(rows)} diverge:", *wrong, *unseen]),
        versions={**versions([]), **platforms},
    )


def _row(platform: str, rows: Sequence[Row]) -> Row:
    counts = Counter(str(row["verdict"]) for row in rows)
    return {"platform": platform, "cases": len(rows), **{item.value: counts[item.value] for item in Conclusion}}
