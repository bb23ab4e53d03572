"""One pool of workers for all tests of a module: starting them costs seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mindgap.bench.faults import PLANTED
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.session.session import import_paths
from mindgap.tracing.examine import Examiner


@pytest.fixture(scope="package")
def pool() -> Iterator[Pool]:
    with Pool(import_paths()) as workers:
        yield workers


@pytest.fixture
def examiner(pool: Pool) -> Examiner:
    """Next to eager, a platform that is wrong at marked nodes."""
    return Examiner(pool, resolve("eager"), PLANTED)
