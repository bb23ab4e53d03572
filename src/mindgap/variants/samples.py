"""Torch's own samples of operators (OpInfo), as calls of ATen overloads."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.records.tensors import DTYPES
from mindgap.records.variant import SAMPLES_NEED

INSTALL: Final = "pip install 'mindgap[ops]'"
MOST_SAMPLES: Final = 8
"""Of an OpInfo in one dtype."""
_MOST_ELEMENTS: Final = 4096
_TO_NAME: Final = 3
"""Samples that are looked at to learn which overloads there are."""

Call = tuple[tuple[Any, ...], dict[str, Any]]


def has_samples() -> bool:
    """Whether torch's samples can be read here."""
    return importlib.util.find_spec(SAMPLES_NEED) is not None


@functools.cache
def sample_calls(op: str, dtype: str) -> tuple[Call, ...]:
    """Arguments of an overload from torch's samples; none where there are none or the package is missing."""
    _, name, overload = op.split(".")
    found: list[Call] = []
    for info in _by_operator().get(name.removesuffix("_"), ()):
        for args, kwargs in _samples(info, dtype):
            with contextlib.suppress(Exception):  # the sample is of another overload
                if _overload(name, args, kwargs) == overload:
                    found.append((args, kwargs))
    return tuple(found)


@functools.cache
def sampled_operators() -> tuple[str, ...]:
    """Overloads of ATen that torch has samples of in some dtype of float32, int64 and bool."""
    found: dict[str, None] = {}
    for name, infos in _by_operator().items():
        for info in infos:
            for dtype in ("float32", "int64", "bool"):
                for args, kwargs in islice(_samples(info, dtype), _TO_NAME):
                    with contextlib.suppress(Exception):
                        op = f"aten.{name}.{_overload(name, args, kwargs)}"
                        is_random = ops.has_tag(op, torch.Tag.nondeterministic_seeded)
                        if isinstance(ops.resolve(op), torch._ops.OpOverload) and not is_random:
                            found[op] = None
    return tuple(sorted(found))


def _overload(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The overload that a call means, as torch names it: `default` for the one without a name."""
    return str(torch._C._jit_resolve_packet(f"aten::{name}", *args, **kwargs)) or "default"


@functools.cache
def _by_operator() -> dict[str, tuple[Any, ...]]:
    """OpInfo entries by the name of their ATen operator."""
    if not has_samples():
        return {}
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        database = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    found: dict[str, list[Any]] = {}
    for info in database:
        for name in dict.fromkeys((info.aten_name, info.name.rpartition(".")[2])):
            if name and hasattr(torch.ops.aten, name):
                found.setdefault(name, []).append(info)
                break
    return {name: tuple(infos) for name, infos in found.items()}


def _samples(info: Any, dtype: str) -> Iterator[Call]:
    element = DTYPES[dtype]
    if element not in info.dtypes:
        return
    try:
        with _seeding_cpu_only(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = list(islice(info.sample_inputs("cpu", element, requires_grad=False), MOST_SAMPLES))
    except Exception:  # a generator of torch's tests may want what is not here: a device, scipy
        return
    for sample in samples:
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        if all(t.numel() <= _MOST_ELEMENTS for t in args if isinstance(t, torch.Tensor)):
            yield args, kwargs


@contextlib.contextmanager
def _seeding_cpu_only() -> Iterator[None]:
    """`torch.manual_seed` notes a stack for each device that is absent, which is most of what a sample costs."""
    usual = torch.manual_seed
    torch.manual_seed = torch.default_generator.manual_seed
    try:
        yield
    finally:
        torch.manual_seed = usual
