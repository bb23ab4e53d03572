"""Messages on a pipe: a header with the length, then msgpack."""

from __future__ import annotations

import os
import select
import struct
import time
from typing import Any, Final

from mindgap.program.codec import pack, unpack

MAGIC: Final = b"MGAP"
_HEADER: Final = struct.Struct("<4sI")


class BrokenAnswer(Exception):
    """What arrived is not a message: cut off in the middle, or something else wrote to the pipe."""


class Silence(Exception):
    """Nothing arrived before the deadline."""


def send(descriptor: int, message: Any) -> None:
    """Write one message."""
    body = pack(message)
    data = memoryview(_HEADER.pack(MAGIC, len(body)) + body)
    while data:
        data = data[os.write(descriptor, data) :]


def receive(descriptor: int, deadline: float | None = None) -> Any:
    """The next message; None when the other side closed the pipe between two messages."""
    header = _read(descriptor, _HEADER.size, deadline)
    if not header:
        return None
    if len(header) < _HEADER.size:
        raise BrokenAnswer("the header was cut off")
    magic, size = _HEADER.unpack(header)
    if magic != MAGIC:
        raise BrokenAnswer("something other than a message was written to the pipe")
    body = _read(descriptor, size, deadline)
    if len(body) < size:
        raise BrokenAnswer(f"{len(body)} of {size} bytes arrived")
    try:
        return unpack(bytes(body))
    except Exception as error:
        raise BrokenAnswer(f"the message cannot be read: {error}") from error


def _read(descriptor: int, size: int, deadline: float | None) -> bytearray:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Silence("an answer that began did not end in time")
        part = os.read(descriptor, min(size - len(data), 1 << 20))
        if not part:
            break
        data += part
    return data
