"""How a runtime is installed: an environment of its own, as data in the runtime's own file.

    RECIPE = Recipe(
        "toy",
        "Toy's interpreter on this CPU, not on its chip",
        pins=("toy-runtime==1.2.0", "toy-kernels==1.2.0"),
        size_mb=40,
    )

    class Toy(Platform):
        runtime = "toy"
        recipes = {"": RECIPE}          # ":DEVICE" or "@PROFILE" where only that one needs it

Pins are the whole closure beside torch and what torch needs: pip resolves nothing, so that two machines get the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module


@dataclass(frozen=True, slots=True)
class DebianFile:
    """A package of Debian's archive that is unpacked into the environment, without root and without its scripts."""

    name: str
    path: str
    """In whichever archive this system's apt is set up for, so that the user's own mirror counts."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Versioned:
    """The package whose versions make a runtime another one, for `mindgap bisect`."""

    package: str
    pins: tuple[str, ...] = ()
    """What it needs beside torch and what workers need."""
    size_mb: int = 400
    """What an environment with one version takes on the disk, at most."""
    prepare: str | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one environment holds."""

    name: str
    """What `mindgap platforms install` calls it."""
    really: str
    """What runs in truth: `Apple's MLX on this CPU, not Metal`."""
    pins: tuple[str, ...]
    """Distributions as `name==version`. One that this interpreter has in the same version is linked, not copied."""
    size_mb: int
    """On disk, measured after an install that copied every pin; what is linked costs nothing."""
    torch: str | None = None
    """A version of torch of its own; None is the one that runs mindgap, linked."""
    debian: tuple[DebianFile, ...] = ()
    prepare: str | None = None
    """`module:function` of this package, called with the environment's root when all is unpacked."""
    lacks: str | None = None
    """`module:function` of this package that names the hardware it needs and this machine has not; empty for none."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of its workers; `{root}` stands for the environment's directory."""

    @property
    def command(self) -> str:
        return f"mindgap platforms install {self.name}"

    @property
    def renewal(self) -> str:
        """For one that is there and does not work: what is whole is not installed twice unless it is asked for."""
        return f"mindgap platforms update {self.name}"

    @property
    def missing_hardware(self) -> str:
        """What this machine lacks for it, and no install brings: `a processor with AVX-512`."""
        if self.lacks is None:
            return ""
        module, _, function = self.lacks.partition(":")
        return str(getattr(import_module(module), function)())

    @property
    def folder(self) -> str:
        """Its directory's name: a colon would end a path in PYTHONPATH."""
        return self.name.replace(":", "-").replace("@", "-")

    @property
    def digest(self) -> str:
        """Of all that decides what is installed: a newer mindgap may bring newer pins."""
        content = {key: value for key, value in asdict(self).items() if key not in ("really", "size_mb", "lacks")}
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()
