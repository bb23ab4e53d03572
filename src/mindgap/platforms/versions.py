"""Which versions a result was made with."""

from __future__ import annotations

import platform as machine
from collections.abc import Iterable
from importlib import metadata

import torch

import mindgap
from mindgap.platforms.base import Platform
from mindgap.platforms.registry import adapter_class, runtimes
from mindgap.records.platform import PlatformSpec


def versions(specs: Iterable[PlatformSpec] | None = None, also: Iterable[str] = ()) -> dict[str, str]:
    """mindgap, torch, the packages of these platforms (of all, when none are given), python and the system.

    What is not installed here is left out, and so are platforms of another interpreter: their probe tells the version.
    `also` names distributions besides those of platforms, such as a library that models came from.
    """
    names = [name for cls in _classes(specs) for name in cls.packages]
    return {
        "mindgap": mindgap.__version__,
        "torch": str(torch.__version__),
        **{name: found for name in dict.fromkeys((*names, *also)) if (found := _installed(name)) and name != "torch"},
        "python": machine.python_version(),
        "system": f"{machine.system()} {machine.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }


def _classes(specs: Iterable[PlatformSpec] | None) -> list[type[Platform]]:
    if specs is None:
        return list(runtimes().values())
    found = (adapter_class(spec) for spec in specs if spec.python is None)
    return [cls for cls in found if cls is not None]


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
