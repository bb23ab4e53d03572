"""Switches of torch itself that change how operators compute, whatever runs them: oneDNN, TF32, narrow sums."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Final

import torch

from mindgap.platforms.ladder import Knob
from mindgap.platforms.torch.script import WITHOUT_MKLDNN
from mindgap.records.platform import PlatformSpec

MKLDNN: Final = "mkldnn"
FULL_PRECISION: Final = "full_precision"

_NO_MKLDNN: Final = Knob(
    "oneDNN off", {MKLDNN: False}, "oneDNN", "it runs without oneDNN kernels", cure=f"with {WITHOUT_MKLDNN}: ..."
)
_NARROW: Final = {
    "cuda": (
        "backends.cudnn.allow_tf32",
        "backends.cuda.matmul.allow_tf32",
        "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
        "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    ),
    "xpu": ("backends.mkldnn.allow_tf32",),
}
"""What makes products and their sums less precise than their element type, by device."""


def torch_knobs(spec: PlatformSpec) -> tuple[Knob, ...]:
    """The switches that matter on a platform's device."""
    if spec.device is None:
        return (_NO_MKLDNN,) if spec.options.get(MKLDNN, True) else ()
    names = _NARROW.get(spec.device.partition(":")[0], ())
    if not names or spec.options.get(FULL_PRECISION):
        return ()
    cure = " = ".join([*(f"torch.{name}" for name in names), "False"])
    what = "it runs without TF32 and without sums in reduced precision"
    return (Knob("full precision", {FULL_PRECISION: True}, "precision policy", what, "precision policy", cure),)


@contextlib.contextmanager
def chosen(spec: PlatformSpec) -> Iterator[None]:
    """These switches as a platform sets them."""
    with contextlib.ExitStack() as stack:
        if not spec.options.get(MKLDNN, True):
            stack.enter_context(without_mkldnn())
        if spec.options.get(FULL_PRECISION):
            stack.enter_context(_in_full_precision((spec.device or "").partition(":")[0]))
        yield


@contextlib.contextmanager
def without_mkldnn() -> Iterator[None]:
    """Run with ATen's own kernels where oneDNN would be used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TF32 acceleration")  # setting the other flags back warns of Intel GPUs
        with torch.backends.mkldnn.flags(enabled=False):
            yield


@contextlib.contextmanager
def _in_full_precision(device: str) -> Iterator[None]:
    holders = []
    for name in _NARROW.get(device, ()):
        *path, last = name.split(".")
        holder = torch
        for part in path:
            holder = getattr(holder, part)
        holders.append((holder, last, getattr(holder, last)))
    try:
        for holder, last, _ in holders:
            setattr(holder, last, False)
        yield
    finally:
        for holder, last, before in holders:
            setattr(holder, last, before)
