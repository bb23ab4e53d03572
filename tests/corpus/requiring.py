"""Tests of optional libraries: skipped where a package is missing, unless all of them were promised."""

from __future__ import annotations

import importlib.util
import os

import pytest

from mindgap.corpus.registry import Library


def require(library: Library, *packages: str) -> None:
    """Skip without these packages, by default all of the library; fail where MINDGAP_REQUIRE_SOURCES is set."""
    missing = [name for name in packages or library.packages if importlib.util.find_spec(name) is None]
    if missing:
        tell = pytest.fail if os.environ.get("MINDGAP_REQUIRE_SOURCES") else pytest.skip
        tell(f"{missing[0]} is not installed: {library.install}")
