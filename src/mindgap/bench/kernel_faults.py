"""`inductor@triton` with a fault planted in the kernels that inductor writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from mindgap.platforms.base import Prepared, StageClock, StageFailure
from mindgap.platforms.torch.compiled import Inductor
from mindgap.program.case import Case
from mindgap.records.outcome import Status

FAULTS: Final[dict[str, tuple[str, str]]] = {
    "a dropped mask": (r"tl\.where\([^,()]*mask[^,()]*, (\w+), (?:[^()]|\([^()]*\))*\)", r"\1"),
    "an index off by one": (r"tl\.load\(in_ptr0 \+ \(", "tl.load(in_ptr0 + (1 + "),
    "a missing promotion": (r"([\w)])\.to\(tl\.(?:float32|int64)\)", r"\1"),
}
"""What to look for in the source of a kernel, and what stands there instead."""

NO_PLACE: Final = "its kernels have no place for this fault"


class PlantedTriton(Inductor):
    """Inductor's Triton code with one of the faults, in every kernel that has such a place."""

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        from torch._inductor.async_compile import AsyncCompile

        places = 0
        write: Callable[..., Any] = AsyncCompile.triton
        pattern, instead = FAULTS[str(self.spec.options["fault"])]

        def faulty(compiler: Any, name: str, source: str, *args: Any, **kwargs: Any) -> Any:
            nonlocal places
            spoilt, count = re.subn(pattern, instead, source)
            places += count
            return write(compiler, name, spoilt, *args, **kwargs)

        AsyncCompile.triton = faulty  # type: ignore[method-assign, assignment]
        try:
            prepared = super().prepare(case, clock)
        finally:
            AsyncCompile.triton = write  # type: ignore[method-assign]
        if not places:
            raise StageFailure(Status.UNSUPPORTED, NO_PLACE)
        return prepared
