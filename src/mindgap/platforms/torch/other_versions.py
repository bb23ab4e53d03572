"""Other versions of torch, each in an environment of its own, alone or with a vendor's plug-in.

The registry's wheels for Linux are CUDA builds, and the libraries that they link against are gigabytes that a CPU never
uses: `stub_cuda.py` makes empty ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mindgap.platforms.base import Profile
from mindgap.platforms.recipe import Recipe, Versioned

_NEEDS: Final = (
    "filelock==4.2.10", "typing_extensions==4.16.0", "sympy==1.14.0", "mpmath==1.3.0", "networkx==3.6.1",
    "Jinja2==3.1.6", "MarkupSafe==3.0.4", "fsspec==2026.9.0", "setuptools==84.2.1",
)  # fmt: skip
"""What torch imports beside the CUDA packages."""

_STUBS: Final = "mindgap.platforms.torch.stub_cuda:make"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of torch as profiles of torch's runtimes, which share its environment."""

    name: str
    exact: str
    size_mb: int
    """What its environment takes on the disk."""

    def profile(self, what: str) -> Profile:
        return Profile(f"{what} of torch {self.exact} on this CPU", options={"torch": self.exact})

    @property
    def recipe(self) -> Recipe:
        really = f"torch {self.exact} on this CPU"
        return Recipe(f"torch@{self.name}", really, _NEEDS, self.size_mb, torch=self.exact, prepare=_STUBS)


VERSIONED: Final = Versioned("torch", _NEEDS, size_mb=2000, prepare=_STUBS)
"""Any other version, for `mindgap bisect`."""

VERSIONS: Final = {"torch-2.9": Version("2.9", "2.9.1", size_mb=1811)}
"""By profile: `eager@torch-2.9`, `inductor@torch-2.9`."""

_XLA: Final = Recipe(
    "eager:xla",
    "torch 2.9.1 on XLA's CPU client through torch_xla, not on a TPU",
    pins=(
        *_NEEDS, "torch_xla==2.9.0", "absl-py==2.5.1", "PyYAML==6.0.3", "requests==2.34.2", "urllib3==2.8.0",
        "idna==3.20", "certifi==2026.10.18", "charset-normalizer==3.5.2",
    ),
    size_mb=2122,
    torch="2.9.1",  # torch_xla is built for one version of torch
    prepare=_STUBS,
    env={
        "PJRT_DEVICE": "CPU",
        "CPU_NUM_DEVICES": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    },
)  # fmt: skip

RECIPES: Final = {f"@{profile}": version.recipe for profile, version in VERSIONS.items()} | {":xla": _XLA}
"""Environments of torch's runtimes, by profile or device."""
