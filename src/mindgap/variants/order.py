"""Where nodes stand, while others are put between them."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Final

from mindgap.variants.rules import Refused

END: Final = -1
"""The anchor behind the last node."""
_STEP: Final = 1 / 16  # of the room that is left: about 400 nodes fit in front of one


class Order:
    """Nodes of a base stand at whole numbers, inserted ones between them; nothing is moved."""

    def __init__(self, position: Mapping[int, int]) -> None:
        self._position = position
        self._keys: dict[int, float] = {}
        self._gaps: dict[int, list[tuple[float, int]]] = {}

    def copy(self) -> Order:
        twin = Order(self._position)
        twin._keys = dict(self._keys)
        twin._gaps = {index: list(found) for index, found in self._gaps.items()}
        return twin

    def key(self, identity: int) -> float:
        """Where a value stands: before everything for inputs and constants."""
        if identity == END:
            return len(self._position)
        found = self._keys.get(identity)
        return self._position.get(identity, -1) if found is None else found

    def put(self, identity: int, anchor: int) -> None:
        """A new node in front of another, behind everything that is there already."""
        upper = self.key(anchor)
        position = int(-(-upper // 1))  # of the base node at or after the anchor
        gap = self._gaps.setdefault(position, [])
        index = bisect.bisect_left(gap, (upper, -1))
        lower = gap[index - 1][0] if index else float(position - 1)
        key = lower + (upper - lower) * _STEP
        if not lower < key < upper:
            raise Refused("there is no room for another node here")
        gap.insert(index, (key, identity))
        self._keys[identity] = key

    def inserted(self) -> dict[int, list[int]]:
        """Inserted nodes in order, by the position of the base node that follows them."""
        return {index: [identity for _, identity in sorted(found)] for index, found in self._gaps.items()}
