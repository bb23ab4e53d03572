"""Results cached per object: variants of one model share most of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Memo(Generic[T, R]):
    """A function of immutable objects that are too deep to be hashed: results are found by identity."""

    def __init__(self, make: Callable[[T], R], most: int = 1 << 14) -> None:
        self._make = make
        self._most = most
        self._kept: dict[int, tuple[T, R]] = {}
        """With the object: its identity is not given to another one while it is here."""

    def __call__(self, item: T) -> R:
        found = self._kept.get(id(item))
        if found is None:
            if len(self._kept) >= self._most:
                self._kept.clear()
            found = self._kept[id(item)] = (item, self._make(item))
        return found[1]
