"""Two campaigns hold the same: every outcome, verdict and finding, order and times aside."""

from __future__ import annotations

from pathlib import Path

from mindgap.bench.chaos import content

__all__ = ["assert_same", "content"]


def assert_same(first: Path, second: Path) -> None:
    one, two = content(first), content(second)
    for name in one:
        assert one[name] == two[name], name
    assert one["outcomes"]
