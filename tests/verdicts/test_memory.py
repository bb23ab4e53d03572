"""A large output is judged within bounded memory."""

from __future__ import annotations

from mindgap.bench.memory import measure


def test_a_large_output_needs_little_memory():
    # 64 MB in chunks of half a megabyte stand for 2 GB, which `mindgap bench memory` really judges.
    (row,) = measure(lambda who, what: None, megabytes=64, chunk=1 << 17).rows
    assert (row["verdict"], row["worst"]) == ("diverges", f"output[{1 << 23}]")
    assert row["extra_mb"] < 32  # half of the output, as 1 GB is of 2 GB
