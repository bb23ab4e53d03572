"""What the package offers at its top."""

from __future__ import annotations

import pytest

import mindgap


def test_the_public_names_are_these_and_all_can_be_called() -> None:
    names = ["Session", "__version__", "check", "evaluate", "explain", "hunt", "platforms", "read"]
    assert mindgap.__all__ == names
    assert all(callable(getattr(mindgap, name)) for name in mindgap.__all__ if name != "__version__")


def test_no_module_stands_in_the_way_of_a_name() -> None:
    import mindgap.explanation.explain
    import mindgap.platforms.registry

    assert callable(mindgap.explain) and callable(mindgap.platforms)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mindgap.nothing  # noqa: B018
