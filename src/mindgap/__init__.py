"""mindgap finds, measures and explains how PyTorch models behave differently across platforms.

    check(model, inputs, on=[...])   one model on many platforms: who is wrong, by how much more than rounding
    explain(model, on, folder)       which operator makes a platform differ, why, and a script that proves it
    evaluate(model, data, on=[...])  whether the answers to labelled data change by more than rounding explains
    hunt(directory, plan)            a campaign over variants of real models
    read(directory)                  a campaign, also one that is running
    platforms()                      what every platform says about itself
    Session()                        the same calls, with workers that stay warm in between

Importing the package is cheap on purpose: a worker of a foreign interpreter imports it too and has only torch, numpy,
msgpack and msgspec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = ["Session", "__version__", "check", "evaluate", "explain", "hunt", "platforms", "read"]

if TYPE_CHECKING:
    from mindgap import platforms
    from mindgap.campaign.hunt import hunt
    from mindgap.campaign.reader import read
    from mindgap.session.calls import check, evaluate, explain
    from mindgap.session.session import Session

_HOME = {
    "Session": "mindgap.session.session",
    "check": "mindgap.session.calls",
    "evaluate": "mindgap.session.calls",
    "explain": "mindgap.session.calls",
    "hunt": "mindgap.campaign.hunt",
    "read": "mindgap.campaign.reader",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "platforms":  # a package that can be called
        return import_module("mindgap.platforms")
    if name not in _HOME:
        raise AttributeError(f"module 'mindgap' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
