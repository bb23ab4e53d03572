"""How deep, how many and how large the values of a msgpack document are, found without building any of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mindgap.reading.limits import DEPTH, ITEMS

_SCALARS: Final = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
"""Bytes that follow the type of a number."""
_FIXED: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
"""Bytes of an extension of a fixed size."""
_SIZED: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes of the length of text or bytes."""
_EXTENDED: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4}
"""Bytes of the length of an extension."""
_LISTS: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Bytes of the count of a list or map, and the values of one of its items."""


def survey(data: bytes, nested: Collection[int] = (), depth: int = DEPTH, items: int = ITEMS) -> None:
    """Raise ValueError unless this is one document within the limits; `nested` are extensions that hold another one.

    A parser builds what it reads: a few bytes of lists in lists end the process before it could refuse them.
    """
    ends = [len(data)]
    """Where each document that is open ends; an extension is a document in a document."""
    left = [1]
    """Values that each open list still has."""
    inner: list[bool] = [False]
    """Whether an open list is the content of an extension, which must end where the extension does."""
    position = 0
    while left:
        if not left[-1]:
            if inner.pop():
                if position != ends.pop():
                    raise ValueError("an extension is longer than its content")
            elif len(left) == 1:
                break
            left.pop()
            continue
        left[-1] -= 1
        items -= 1
        if items < 0:
            raise ValueError("it holds too many values")
        end = ends[-1]
        if position >= end:
            raise ValueError("it is cut off")
        kind = data[position]
        position += 1
        count = -1
        if kind < 0x80 or kind >= 0xE0 or kind in (0xC0, 0xC2, 0xC3):
            continue
        if kind in _SIZED:  # the nodes of a program: most of it
            width = _SIZED[kind]
            position += width + int.from_bytes(data[position : position + width], "big")
        elif kind < 0x90:
            count = 2 * (kind & 0x0F)
        elif kind < 0xA0:
            count = kind & 0x0F
        elif kind < 0xC0:
            position += kind & 0x1F
        elif kind in _SCALARS:
            position += _SCALARS[kind]
        elif kind in _LISTS:
            width, each = _LISTS[kind]
            count = each * int.from_bytes(data[position : position + width], "big")
            position += width
        elif kind in _FIXED or kind in _EXTENDED:
            width = _EXTENDED.get(kind, 0)
            length = _FIXED.get(kind) or int.from_bytes(data[position : position + width], "big")
            position += width
            code = data[position] if position < end else -1
            position += 1
            if code in nested:
                if position + length > end:
                    raise ValueError("it is cut off")
                ends.append(position + length)
                left.append(1)
                inner.append(True)
            else:
                position += length
        else:
            raise ValueError(f"byte {position - 1} starts no value")
        if position > end:
            raise ValueError("it is cut off")
        if count >= 0:
            if count > items:
                raise ValueError("it holds too many values")
            left.append(count)
            inner.append(False)
        if len(left) > depth + 1:
            raise ValueError(f"it is nested deeper than {depth}")
    if position != len(data):
        raise ValueError("something follows the end")
