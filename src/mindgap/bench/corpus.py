"""How fast the corpus is built, and how much room it takes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement
from mindgap.corpus.building import build_corpus
from mindgap.corpus.stats import summarise
from mindgap.corpus.store import Status, Store
from mindgap.platforms.versions import versions

TRAINED: Final = "trained"
"""The library whose weights no seed gives."""


def measure(tell: Callable[[str, str], None], models: int = 40, jobs: int = 2) -> Measurement:
    """Build the first models of the plan, which are as diverse as the whole, into a fresh store."""
    with tempfile.TemporaryDirectory(prefix="mindgap-bench-") as folder:
        directory = Path(folder) / "corpus"
        done = build_corpus(directory, models=models, jobs=jobs, progress=tell)
        with Store(directory) as store:
            entries = store.entries()
            stats = summarise(entries, store.size_bytes())
    minutes = done.seconds / 60
    seeded = [entry.bytes for entry in entries if entry.status is Status.BUILT and entry.library != TRAINED]
    thousand = sum(seeded) / 1e3 / max(1, len(seeded))
    rows = [
        {
            "library": name,
            "built": found.get("built", 0),
            "duplicate": found.get("duplicate", 0),
            "failed": found.get("failed", 0),
        }
        for name, found in stats.by_library.items()
    ]
    return Measurement(
        name="corpus",
        what="models built into a fresh store: loaded, exported, compared bit for bit, looked at for dead operators",
        on=f"the first {models} models of the plan over all installed libraries, jobs={jobs}, {os.cpu_count()} cores",
        rows=tuple(rows),
        conclusion=f"{done.built / minutes:.1f} models a minute (starting workers and asking libraries included); "
        f"{thousand:.1f} MB for 1,000 models with weights from a seed (target: 50), trained weights on top; "
        f"{stats.alive} of {stats.built} without a dead operator; "
        f"{len(stats.operators)} operators",
        versions=versions(),
    )
