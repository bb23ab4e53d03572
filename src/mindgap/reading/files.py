"""Bytes of other people's files, never more than a limit, and one error for whatever is wrong with them."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindgap.errors import CorruptFile, MindgapError


@contextlib.contextmanager
def refusing(what: str, where: str | Path | None = None, kind: type[MindgapError] = CorruptFile) -> Iterator[None]:
    """Turn whatever damaged data raises inside into one error: parsers raise many types on hostile bytes."""
    place = str(where) if where is not None else None
    try:
        yield
    except MindgapError as error:
        error.where = error.where or place
        raise
    except Exception as error:
        told = " ".join(str(error).split())[:200]
        cause = told if type(error) in _TELLING else f"{type(error).__name__}: {told}".removesuffix(": ")
        raise kind(what, where=place, cause=cause) from error


_TELLING = (ValueError, TypeError)
"""What readers of mindgap raise themselves, in words."""


def read_file(path: Path, most: int, kind: type[MindgapError] = CorruptFile) -> bytes:
    """The content of a regular file of at most so many bytes."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # nobody waits for a pipe
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise kind(f"{path.name} is not a regular file", where=str(path))
            content = file.read(min(found.st_size, most) + 1)
    except OSError as error:
        raise kind(f"cannot read {path.name}", where=str(path), cause=error.strerror) from error
    except MemoryError as error:
        raise kind(f"{path.name} does not fit into memory", where=str(path)) from error
    if len(content) > most:
        raise kind(f"{path.name} is too large", where=str(path), cause=f"more than {size(most)}")
    return content


def inflate(data: Any, most: int) -> bytes:
    """What zlib compressed; raises ValueError when it is damaged or would be larger than `most`."""
    if not isinstance(data, bytes):
        raise ValueError(f"compressed data is bytes, not {type(data).__name__}")
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(data, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not reader.eof:
        raise ValueError(f"it holds more than {size(most)}" if len(content) >= most else "it is cut off")
    return content


def parse_toml(content: bytes, path: Path, kind: type[MindgapError]) -> dict[str, Any]:
    """Settings that somebody wrote by hand."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # also numbers and dates that Python cannot hold
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise kind(f"{path.name} is not valid TOML", where=str(path), cause=cause) from error


def size(count: int) -> str:
    """A number of bytes for a message."""
    return f"{count >> 30} GB" if count >= 1 << 30 else f"{count >> 20} MB" if count >= 1 << 20 else f"{count} bytes"
