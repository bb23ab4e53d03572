"""Decomposing an exported program costs torch half a second before it looks at it; this is most of that, paid once.

For programs of a few calls only: what it gives is confirmed without it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

import torch
from torch._export import utils

_stock_composites: Final = utils._collect_all_valid_cia_ops_for_namespace
_stock_py_impl: Final = torch._ops.OperatorBase.py_impl


@functools.cache
def _composites(namespace: Any) -> set[Any]:
    """Torch asks anew because operators may be registered meanwhile; no worker registers any between two programs."""
    return set(_stock_composites(namespace))


def _py_impl(operator: Any, key: Any) -> Callable[[Any], Any]:
    """`OpOverload.py_impl` for a dispatch key; torch's own makes generic types for its annotations in each call."""
    if not isinstance(key, torch._C.DispatchKey) or key in operator.py_kernels:
        found: Callable[[Any], Any] = _stock_py_impl(operator, key)
        return found

    def register(function: Any) -> Any:
        operator.py_kernels[key] = function
        operator._dispatch_cache.clear()
        return function

    return register


@contextlib.contextmanager
def quick_tables(wanted: bool = True) -> Iterator[None]:
    """Torch collects its composite operators once, and overrides them without ceremony."""
    if not wanted:
        yield
        return
    with (
        patch.object(utils, "_collect_all_valid_cia_ops_for_namespace", _composites),
        patch.object(torch._ops.OperatorBase, "py_impl", _py_impl),
    ):
        yield
