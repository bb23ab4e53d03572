"""How fast the corpus is built, and how much disk it takes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Tell
from mindgap.corpus.building import build_corpus
from mindgap.corpus.stats import summarise
from mindgap.corpus.store import Status, Store

TRAINED: Final = "trained"
"""The library whose weights no seed gives."""


def measure(tell: Tell, models: int = 40, jobs: int = 2) -> Measurement:
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
        {"library": name, **{status: found.get(status, 0) for status in ("built", "duplicate", "failed")}}
        for name, found in stats.by_library.items()
    ]
    return Measurement(
        name="corpus",
        what="models built into a fresh store: loaded, exported, compared bit for bit, searched for dead operators",
        on=f"the first {models} models of the plan over all installed libraries, jobs={jobs}, {os.cpu_count()} cores",
        rows=rows,
        conclusion=f"{done.built / minutes:.1f} models per minute (with the time to start workers and ask libraries); "
        f"{thousand:.1f} MB per 1,000 models with weights from a seed (target: 50), trained weights not counted; "
        f"{stats.alive} of {stats.built} have no dead operator; {len(stats.operators)} operators",
    )
