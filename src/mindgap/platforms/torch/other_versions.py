"""Other versions of torch, each in an environment of its own, and torch_xla, which needs the version it was built for.

The registry's wheels for Linux are CUDA builds, and the libraries that they link against are gigabytes that a CPU never
uses: `stub_cuda.py` makes empty ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mindgap.platforms.base import Profile
from mindgap.platforms.recipe import Recipe

_NEEDS: Final = (
    "filelock==4.2.10", "typing_extensions==4.16.0", "sympy==1.14.0", "mpmath==1.3.0", "networkx==3.6.1",
    "Jinja2==3.1.6", "MarkupSafe==3.0.4", "fsspec==2026.9.0", "setuptools==84.2.1",
)  # fmt: skip
"""What torch imports beside the CUDA packages."""

_STUBS: Final = "mindgap.platforms.torch.stub_cuda:make"

_VERSIONS: Final = {"2.9": ("2.9.1", 1811)}
"""By the name in a profile: the exact version, and what its environment takes on the disk in MB."""


def _profile(version: str) -> str:
    return f"torch-{version}"


def profiles(what: str) -> dict[str, Profile]:
    """A profile for each version: `eager@torch-2.9`."""
    return {_profile(name): Profile(f"{what} of torch {exact} on this CPU") for name, (exact, _) in _VERSIONS.items()}


RECIPES: Final[Mapping[str, Recipe]] = {
    f"@{_profile(name)}": Recipe(
        f"torch@{name}",
        f"torch {exact} on this CPU",
        pins=_NEEDS,
        size_mb=size_mb,
        torch=exact,
        prepare=_STUBS,
    )
    for name, (exact, size_mb) in _VERSIONS.items()
}
"""One environment per version, for eager and for inductor."""

XLA: Final = Recipe(
    "eager:xla",
    "torch_xla's device on XLA's CPU client, not on a TPU",
    pins=(
        "torch_xla==2.9.0",
        "absl-py==2.5.1",
        "PyYAML==6.0.3",
        "requests==2.34.2",
        "certifi==2026.10.18",
        "charset-normalizer==3.5.2",
        "idna==3.20",
        "urllib3==2.8.0",
        *_NEEDS,
    ),
    size_mb=2260,
    torch="2.9.1",  # what torch_xla 2.9.0 was built for
    prepare=_STUBS,
    env={
        "PJRT_DEVICE": "CPU",
        "CPU_NUM_DEVICES": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    },
)
"""A device of torch that is neither the CPU nor hardware."""
