"""Emulated accelerators: single policies, and what a vendor's public documentation says of one of its devices."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Final

from mindgap.platforms.base import Profile
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch import emulation
from mindgap.platforms.torch.script import on_torch
from mindgap.records.platform import PlatformSpec

_TORCH_CUDA: Final = "https://docs.pytorch.org/docs/stable/notes/cuda.html"
_PTX: Final = "https://docs.nvidia.com/cuda/parallel-thread-execution/ (cvt)"
_METAL: Final = "Metal Shading Language Specification, 7.5 (edge cases in flush to zero mode)"
_MPS: Final = "https://developer.apple.com/metal/pytorch/ and torch's own error: MPS has no float64"
_NPU: Final = "https://gitcode.com/Ascend/op-plugin/blob/7.3.0/docs/context/torch_npu-npu-conv-allow_hf32.md"


@dataclass(frozen=True, slots=True)
class Preset:
    """Policies with the hardware that they stand in for, and where its documentation says so."""

    stands_for: str
    policies: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def profile(self) -> Profile:
        return Profile(
            f"emulated, not observed: torch eager with {self.stands_for}",
            options={"emulate": self.policies},
            emulates=self.stands_for,
        )


PRESETS: Final = {
    "emulated-tf32": Preset(
        "float32 products and convolutions whose operands keep 10 bits of mantissa (NVIDIA's TF32)",
        ("tf32",), (_TORCH_CUDA, _PTX),
    ),
    "emulated-ftz": Preset("subnormal numbers that count as zero", ("ftz",), (_METAL,)),
    "emulated-bf16-accumulate": Preset(
        "matrix products of bfloat16 and float16 whose partial sums are rounded to that type",
        ("bf16-accumulate",), (_TORCH_CUDA,),
    ),
    "emulated-saturating-casts": Preset(
        "conversions to integers that saturate, and give 0 for NaN", ("saturating-casts",), (_PTX,)
    ),
    "emulated-no-float64": Preset("no float64", ("no-float64",), (_MPS,)),
    "like-a100": Preset(
        "the defaults of torch on an NVIDIA A100: TF32 convolutions, products of half precision with rounded partial "
        "sums, saturating casts",
        ("tf32-convolutions", "bf16-accumulate", "saturating-casts"), (_TORCH_CUDA, _PTX),
    ),
    "like-mps": Preset(
        "an Apple GPU: no float64, subnormal numbers count as zero", ("ftz", "no-float64"), (_MPS, _METAL)
    ),
    "like-ascend": Preset(
        "the default of torch_npu on a Huawei Ascend: HF32 convolutions, whose operands keep 11 bits of mantissa",
        ("hf32-convolutions",), (_NPU,),
    ),
}  # fmt: skip
"""Profiles of eager, by name."""


def policies_of(spec: PlatformSpec) -> tuple[str, ...]:
    """The policies that a platform acts out."""
    chosen = spec.options.get("emulate")
    return tuple(map(str, chosen)) if isinstance(chosen, list | tuple) else ()


def script_of(spec: PlatformSpec) -> ReproducerText:
    """A script that holds the policies themselves."""
    source = inspect.getsource(emulation)
    policies = source[source.index("import contextlib") :].replace("import torch\n", "", 1)
    run = on_torch(spec, "model", [f"emulated({list(policies_of(spec))!r})"])
    return ReproducerText(f"{policies}\n\n{run.text}")
