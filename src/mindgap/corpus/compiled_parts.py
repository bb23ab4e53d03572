"""Makes torchvision and torchaudio importable where their compiled parts cannot load.

A wheel built for CUDA does not load next to a CPU build of torch. Then `import torchvision` fails (`operator
torchvision::nms does not exist`), and with it timm; `import torchaudio` raises, and transformers imports it wherever it
is installed. Declaring torchvision's operators is enough to import it and to build every model that does not call them.
torchaudio's models need nothing of its compiled part: it is declared absent.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

_SCHEMAS: Final = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
)
_LOADER: Final = "torchaudio._extension"


@functools.cache
def make_importable() -> tuple[str, ...]:
    """Stand in for the compiled parts that do not load; returns the packages that needed it."""
    needed = []
    parts = _compiled("torchvision", "_C*.so", "_C*.pyd")
    if parts is not None and not (parts and all(map(_loads, parts))):  # without any it cannot be imported either
        _declare_operators()
        needed.append("torchvision")
    parts = _compiled("torchaudio", "lib/_torchaudio*.so") if "torchaudio" not in sys.modules else None
    if parts is not None and not all(map(_loads, parts)):
        sys.modules[_LOADER] = _absent_loader()
        needed.append("torchaudio")
    return tuple(needed)


def _compiled(package: str, *patterns: str) -> list[Path] | None:
    """A package's compiled libraries; None where it is not installed."""
    found = importlib.util.find_spec(package)
    folders = (found.submodule_search_locations if found is not None else None) or []
    paths = [path for folder in folders for pattern in patterns for path in sorted(Path(folder).glob(pattern))]
    return paths if folders else None


def _loads(path: Path) -> bool:
    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
        return True
    except (OSError, ImportError):
        return False


@functools.cache
def _declare_operators() -> torch.library.Library:
    """The library object is kept: its declarations end with it."""
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            library.define(schema)  # type: ignore[no-untyped-call]
    return library


def _absent_loader() -> ModuleType:
    """What torchaudio's own loader says when there is no compiled part."""
    module: Any = ModuleType(_LOADER)
    module._IS_TORCHAUDIO_EXT_AVAILABLE = False
    module._IS_ALIGN_AVAILABLE = False
    module.fail_if_no_align = _refusing
    stand_in: ModuleType = module
    return stand_in


def _refusing(function: Any) -> Any:
    """The function, replaced by one that says what is missing."""

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{function.__name__} needs the compiled part of torchaudio, which does not load here")

    return refuse
