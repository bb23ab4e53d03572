"""Calls that crashed a process: noted before they are made, so that the next process does not make them again.

A kernel may crash where it should refuse. Without a note a resumed campaign would reach the same
call and crash again, for ever.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

_ROOM: Final = 2048


class Quarantine:
    """A file of calls that must not be made, and beside it the call that is being made now."""

    def __init__(self, path: Path) -> None:
        self._known = set(path.read_text().splitlines()) if path.exists() else set()
        self._now = _open(_beside(path))
        self.leave()

    def __contains__(self, call: str) -> bool:
        return _line(call) in self._known

    def enter(self, call: str) -> None:
        """A call begins; the kernel keeps the note even when this process dies."""
        text = _line(call).encode()
        self._now[:] = text + b"\0" * (_ROOM - len(text))

    def leave(self) -> None:
        """The call returned."""
        self._now[:] = b"\0" * _ROOM


def keep(path: Path) -> str:
    """Add the call that a process died in; the caller knows that it was not killed from outside."""
    unfinished = _beside(path).read_bytes().rstrip(b"\0").decode(errors="replace") if _beside(path).exists() else ""
    if unfinished:
        with path.open("a") as file:
            file.write(f"{unfinished}\n")
    return unfinished


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.now")


def _open(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        os.ftruncate(handle, _ROOM)
        return mmap.mmap(handle, _ROOM)
    finally:
        os.close(handle)


def _line(call: str) -> str:
    """A call in one line that fits."""
    return call.replace("\n", " ").encode()[:_ROOM].decode(errors="ignore")
