"""Makes torchvision importable where its compiled part cannot load.

A torchvision wheel built for CUDA does not load next to a CPU build of torch, and then even `import
torchvision` fails (`operator torchvision::nms does not exist`), and with it timm. Declaring the operators'
schemas is enough to import it and to build every model that does not call them.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Final

import torch

SCHEMAS: Final = (
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


@functools.cache
def make_importable() -> bool:
    """Declare the operators unless the compiled part loads; says whether they were declared."""
    found = importlib.util.find_spec("torchvision")
    folders = (found.submodule_search_locations if found is not None else None) or []
    if not folders or _compiled_part_loads(folders[0]):
        return False
    _declare()
    return True


def _compiled_part_loads(folder: str) -> bool:
    for library in sorted(Path(folder).glob("_C*.so")) + sorted(Path(folder).glob("_C*.pyd")):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
            return True
        except (OSError, ImportError):
            continue
    return False


@functools.cache
def _declare() -> torch.library.Library:
    """The library object is kept: its declarations end with it."""
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in SCHEMAS:
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            library.define(schema)  # type: ignore[no-untyped-call]
    return library
