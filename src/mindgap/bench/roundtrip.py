"""How many real models become programs that give their source's bits."""

from __future__ import annotations

import time

from mindgap.bench.measurement import Measurement, Tell
from mindgap.corpus.roundtrip import FORTY, roundtrip
from mindgap.records.source import Source


def measure(tell: Tell) -> Measurement:
    """Load, export, encode, decode and run each of forty models, and compare bits with the model itself."""
    rows = []
    for number, spec in enumerate(FORTY, start=1):
        tell("model", f"{number} of {len(FORTY)}: {spec}")
        start = time.perf_counter()
        found = roundtrip(Source(spec))
        rows.append({"model": spec, "built": found.built, "exact": found.exact, "nodes": found.nodes,
                     "bytes": found.bytes, "seconds": round(time.perf_counter() - start, 1),
                     "reason": found.reason})  # fmt: skip
    built, exact = sum(bool(row["built"]) for row in rows), sum(bool(row["exact"]) for row in rows)
    return Measurement(
        name="roundtrip",
        what="source module, program and decoded program compared bit for bit; the source runs without gradients and "
        "without the fused attention path, which export never takes and which rounds differently",
        on=f"{len(FORTY)} models of timm and transformers (made tiny), weights from seed 0",
        rows=rows,
        conclusion=f"{built} of {len(rows)} became programs; {exact} of {len(rows)} give the source's bits "
        f"({exact / len(rows):.0%})",
    )
