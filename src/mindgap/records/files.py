"""Writing files so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from mindgap.errors import NoSpace, UsageError


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a file atomically: a temporary file in the same directory, then a rename."""
    content = data.encode() if isinstance(data, str) else data
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(
                f"no space left to write {path.name}",
                where=str(path.parent),
                hint="free some space and run the command again",
            ) from error
        raise UsageError(f"cannot write {path}", cause=error.strerror or str(error)) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def claim(directory: Path, what: str) -> int:
    """Only one process writes to a directory; the lock ends with the process, however it ends."""
    import fcntl  # not on every system that workers run on

    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write to {directory}", cause=error.strerror) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UsageError(
            f"another {what} is writing to {directory}", hint="wait for it, or choose another directory with -o"
        ) from error
    return handle
