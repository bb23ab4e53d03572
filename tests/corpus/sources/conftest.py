"""Libraries that leave traces which other tests would meet."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_lazy_modules() -> Iterator[None]:
    """speechbrain's lazy modules raise ImportError when hypothesis looks at everything that is imported."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "speechbrain"]:
        del sys.modules[name]
