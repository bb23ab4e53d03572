"""Versions that a reader needs to reproduce a result."""

from __future__ import annotations

import platform as machine
from collections.abc import Sequence
from importlib import metadata
from typing import Final

import torch

from mindgap import __version__
from mindgap.records.platform import PlatformSpec

_REPORTED: Final = ("onnx", "onnxruntime", "openvino", "timm", "transformers")


def versions_of(specs: Sequence[PlatformSpec] = ()) -> dict[str, str]:
    installed = {item.name: item.version for item in metadata.distributions() if item.name in _REPORTED}
    return {
        "mindgap": __version__,
        "torch": str(torch.__version__),
        **{name: installed[name] for name in _REPORTED if name in installed},
        "python": machine.python_version(),
        "system": f"{machine.system()} {machine.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }
