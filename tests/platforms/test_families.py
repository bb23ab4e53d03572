"""Who shares an exporter, a compiler or kernels, and is one witness with whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mindgap.platforms.base import LAVAPIPE, XNNPACK, Platform
from mindgap.platforms.registry import adapter_class, resolve


def families(name: str) -> set[str]:
    spec = resolve(name)
    return set((adapter_class(spec) or Platform).families_of(spec))


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (("onnxruntime", "onnxruntime@noopt", "onnx-reference", "tract", "onnxruntime:webgpu"), "onnx"),
        (("eager", "eager@scalar", "inductor", "aot_eager", "zentorch"), "torch"),
        (("jax", "eager:xla", "inductor:xla"), "xla"),
        (("eager:cuda", "inductor:cuda"), "cuda"),
        (("openvino", "openvino:GPU"), "openvino"),
        (("executorch", "executorch@xnnpack"), "executorch"),
        (("litert", "litert@x64", "executorch@xnnpack"), XNNPACK),
        (("mlx", "mindspore"), "mindgap's table"),
        (("iree:vulkan", "onnxruntime:webgpu"), LAVAPIPE),
    ],
)
def test_who_shares_an_exporter_a_compiler_or_kernels(names: Sequence[str], shared: str) -> None:
    for name in names:
        assert shared in families(name), name


@pytest.mark.parametrize(
    ("one", "other"), [("litert", "executorch"), ("iree", "onnxruntime"), ("eager", "jax"), ("mlx", "litert")]
)
def test_who_shares_nothing(one: str, other: str) -> None:
    assert not families(one) & families(other)
