"""Messages on a pipe: a header with the length and the number of the request, then msgpack of a typed record.

Whatever a worker sends carries the number of the request that it belongs to, so nothing that comes late or was never
asked for can pass as the answer to another request.
"""

from __future__ import annotations

import os
import select
import struct
import time
from typing import Final

import msgspec

from mindgap.errors import MindgapError
from mindgap.records.outcome import Stage
from mindgap.records.platform import PlatformSpec

MAGIC: Final = b"MGAP"
MOST_BYTES: Final = 256 << 20
"""Of one message. Tensors travel in files; programs and messages are far smaller."""
_HEADER: Final = struct.Struct("<4sII")


class Start(msgspec.Struct, frozen=True, tag=True):
    """To a worker: become this platform."""

    spec: PlatformSpec
    import_paths: tuple[str, ...]


class Ask(msgspec.Struct, frozen=True, tag=True):
    """To a worker: run this task."""

    task: str
    """`module:function`."""
    request: bytes


class Reached(msgspec.Struct, frozen=True, tag=True):
    """From a worker: a stage begins; if the process dies, it died there."""

    stage: Stage


class Item(msgspec.Struct, frozen=True, tag=True):
    """From a worker: one more result of a task that has many."""

    result: bytes


class Answer(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the task is done."""

    result: bytes
    resident_mb: int
    """Memory that the worker holds now."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the task raised a MindgapError."""

    kind: str
    what: str
    where: str | None
    cause: str | None
    hint: str | None


class Broken(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the task raised anything else."""

    message: str
    traceback: str


Message = Start | Ask | Reached | Item | Answer | Refused | Broken
_DECODER: Final = msgspec.msgpack.Decoder(Message)
_ENCODER: Final = msgspec.msgpack.Encoder()


class BrokenAnswer(Exception):
    """What arrived is not a message: cut off in the middle, or something else wrote to the pipe."""


class OutOfStep(BrokenAnswer):
    """What arrived belongs to another request."""


class Silence(Exception):
    """Nothing arrived before the deadline."""


def send(descriptor: int, number: int, message: Message) -> None:
    """Write one message of the request with this number."""
    body = _ENCODER.encode(message)
    if len(body) > MOST_BYTES:
        raise MindgapError(f"a message of {len(body) >> 20} MB is too large", hint="tensors travel in files")
    data = memoryview(_HEADER.pack(MAGIC, len(body), number) + body)
    while data:
        data = data[os.write(descriptor, data) :]


def receive(descriptor: int, deadline: float | None = None) -> tuple[int, Message] | None:
    """The next message and its number; None when the other side closed the pipe between two messages."""
    header = _read(descriptor, _HEADER.size, deadline)
    if not header:
        return None
    if len(header) < _HEADER.size:
        raise BrokenAnswer("the header was cut off")
    magic, size, number = _HEADER.unpack(header)
    if magic != MAGIC:
        raise BrokenAnswer("something other than a message was written to the pipe")
    if size > MOST_BYTES:
        raise BrokenAnswer(f"a message of {size >> 20} MB, more than {MOST_BYTES >> 20} MB")
    body = _read(descriptor, size, deadline)
    if len(body) < size:
        raise BrokenAnswer(f"{len(body)} of {size} bytes arrived")
    try:
        return number, _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
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
