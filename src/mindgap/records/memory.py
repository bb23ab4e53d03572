"""How much memory this process holds, and how often it looks for garbage."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from typing import Final

_COLLECT: Final = (50_000, 20, 50)


def resident_mb() -> int:
    """Memory of this process now; where the system does not say, the most that it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux, whose peak would be in KB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
    return pages * resource.getpagesize() >> 20


def collect_seldom() -> None:
    """For work on many small things: looking through all that torch keeps for ever costs a tenth of it."""
    gc.freeze()
    gc.set_threshold(*(max(pair) for pair in zip(gc.get_threshold(), _COLLECT)))
