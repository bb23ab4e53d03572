"""Campaigns inside a benchmark: an interruption is meant for the whole."""

from __future__ import annotations

import pytest

from mindgap.bench.throughput import measure


def test_an_interrupted_campaign_ends_the_benchmark() -> None:
    """Without that, Ctrl-C would only begin the next of its campaigns."""
    told: list[str] = []

    def tell(what: str, more: str) -> None:
        told.append(f"{what} {more}")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(tell, on=["eager@scalar"], minutes=0.5)
    assert len(told) == 1 and "whole variants, stock" in told[0]
