"""Other versions of torch, each in an environment of its own.

The registry's wheels for Linux are CUDA builds, and the libraries that they link against are gigabytes that a CPU never
uses: `stub_cuda.py` makes empty ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mindgap.platforms.base import Profile
from mindgap.platforms.recipe import Recipe

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
        return Profile(f"{what} of torch {self.exact} on this CPU")

    @property
    def recipe(self) -> Recipe:
        really = f"torch {self.exact} on this CPU"
        return Recipe(f"torch@{self.name}", really, _NEEDS, self.size_mb, torch=self.exact, prepare=_STUBS)


VERSIONS: Final = {"torch-2.9": Version("2.9", "2.9.1", size_mb=1811)}
"""By profile: `eager@torch-2.9`, `inductor@torch-2.9`."""

RECIPES: Final = {f"@{profile}": version.recipe for profile, version in VERSIONS.items()}
