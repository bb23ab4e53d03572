"""Makes torchaudio importable where its compiled part cannot load.

A torchaudio wheel built for CUDA raises on import next to a CPU build of torch, and transformers imports it
wherever it is installed. Its models need nothing of the compiled part: it is declared absent.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_LOADER = "torchaudio._extension"


@functools.cache
def make_importable() -> bool:
    """Declare the compiled part absent unless it loads; says whether it was declared so."""
    found = importlib.util.find_spec("torchaudio") if "torchaudio" not in sys.modules else None
    folders = (found.submodule_search_locations if found is not None else None) or []
    if not folders or _compiled_part_loads(folders[0]):
        return False
    sys.modules[_LOADER] = _absent()
    return True


def _compiled_part_loads(folder: str) -> bool:
    """Whether every library loads; none at all is a package that was built without them."""
    for library in sorted(Path(folder, "lib").glob("_torchaudio*.so")):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except (OSError, ImportError):
            return False
    return True


def _absent() -> ModuleType:
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
