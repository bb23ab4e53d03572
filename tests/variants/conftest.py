"""Small bases that are prepared once."""

from __future__ import annotations

import pytest

from mindgap.variants.base import Base, load_bases

NAMES = ("rl-actor-critic", "graph-gcn", "time-series-tcn", "tabular-ft-transformer", "diffusion-unet")


@pytest.fixture(scope="session")
def bases() -> list[Base]:
    return load_bases([f"smoke:{name}" for name in NAMES])


@pytest.fixture(scope="session")
def base(bases: list[Base]) -> Base:
    return bases[0]
