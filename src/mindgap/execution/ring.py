"""What a worker printed last, in a piece of memory that its guardian writes and its parent reads.

It has a fixed size and no name: a worker that prints without end fills nothing, and nobody can delete it.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from typing import Final

ROOM: Final = 1 << 16
"""Bytes that are kept of what was printed."""
_HEADER: Final = struct.Struct("<QQ")
"""How much was ever printed, and whether the guardian holds something that is not here yet."""
_ALONE: Final = _HEADER.size
"""Where the guardian notes that nothing of what it guarded is left."""
_ENDING: Final = 1024
_START: Final = _ALONE + 1 + _ENDING
SIZE: Final = _START + ROOM


class Ring:
    """One side of the memory behind a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE)

    def close(self) -> None:
        self._memory.close()

    @property
    def printed(self) -> int:
        """Bytes that were ever printed."""
        return int(_HEADER.unpack_from(self._memory)[0])

    @property
    def busy(self) -> bool:
        """Whether something was read from the worker and is not here yet."""
        return bool(_HEADER.unpack_from(self._memory)[1])

    def take(self, descriptor: int) -> int:
        """Move what a worker printed from its pipe to the ring; how much it was."""
        printed = self.printed
        _HEADER.pack_into(self._memory, 0, printed, 1)
        try:
            data = os.read(descriptor, ROOM)
        except BlockingIOError:
            data = b""
        place = printed % ROOM
        first = data[: ROOM - place]
        self._memory[_START + place : _START + place + len(first)] = first
        self._memory[_START : _START + len(data) - len(first)] = data[len(first) :]
        _HEADER.pack_into(self._memory, 0, printed + len(data), 0)
        return len(data)

    def since(self, mark: int) -> bytes:
        """What was printed after a moment, as far as it is kept."""
        printed = self.printed
        count = min(max(0, printed - mark), ROOM)
        place = (printed - count) % ROOM
        kept = self._memory[_START:SIZE]
        return (kept[place:] + kept[:place])[:count]

    @property
    def is_alone(self) -> bool:
        """Whether the guardian has ended everything that it guarded."""
        return self._memory[_ALONE] == 1

    def be_alone(self) -> None:
        self._memory[_ALONE] = 1

    def end(self, status: str, message: str) -> None:
        """Note why the guardian ended the worker."""
        text = json.dumps([status, message[:400]]).encode()
        self._memory[_ALONE + 1 : _START] = text.ljust(_ENDING, b"\0")

    @property
    def ending(self) -> tuple[str, str] | None:
        """Why the guardian ended the worker; None when it did not."""
        text = bytes(self._memory[_ALONE + 1 : _START]).rstrip(b"\0")
        if not text:
            return None
        status, message = json.loads(text)
        return str(status), str(message)
