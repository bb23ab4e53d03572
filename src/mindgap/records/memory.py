"""How much memory this process holds."""

from __future__ import annotations

import resource
from pathlib import Path


def resident_mb() -> int:
    """Memory of this process now; where the system does not say, the most that it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux, whose peak would be in KB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
    return pages * resource.getpagesize() >> 20
