"""One file or folder per runtime; discovered, never branched on.

In: a case (program, weights, inputs, the user's own model). Out: named outputs. Guarantee: a platform that cannot
be used stays listed and says why; everything that goes wrong carries the stage at which it happened.

The module itself can be called: `mindgap.platforms()` asks every platform about itself.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package that is also a function of the public API, which is where its name is wanted twice."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("mindgap.session.calls").platforms(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
