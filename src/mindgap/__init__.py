"""mindgap finds, measures and explains how PyTorch models behave differently across platforms.

Importing the package is cheap on purpose: a worker of a foreign interpreter imports it too and has
only torch, numpy and msgpack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "check", "hunt"]

if TYPE_CHECKING:
    from mindgap.campaign.hunt import hunt
    from mindgap.pipeline import check


def __getattr__(name: str) -> Any:
    if name == "check":
        from mindgap.pipeline import check

        return check
    if name == "hunt":
        from mindgap.campaign.hunt import hunt

        return hunt
    raise AttributeError(f"module 'mindgap' has no attribute {name!r}")
