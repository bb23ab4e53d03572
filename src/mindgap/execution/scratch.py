"""The directories where workers and their parent share tensors, and where workers keep temporary files."""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import itertools
import os
import re
import signal
import tempfile
import threading
from pathlib import Path
from typing import Final

from mindgap.errors import NoSpace, UsageError
from mindgap.execution.trees import remove_tree

PREFIX: Final = "mindgap-work-"
"""Not the name that older versions use: their directories have no lock and would look abandoned."""
LOCK: Final = "lock"
LEAST_BYTES: Final = 4 << 20
"""With less room, what a worker dies of may be the full disk."""


class Scratch:
    """Two temporary directories, one in shared memory where there is such, one for workers' own files.

    Each is held by a lock that ends with this process, however it ends; whoever starts next removes what nobody
    holds. Ids of processes would not do: processes in another container cannot be seen, but their locks can.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._numbers = itertools.count()
        self._rooms: dict[str, str] = {}
        self._lock = threading.Lock()
        self._shared = _Held(_base())
        self._temporary = _Held(Path(tempfile.gettempdir()))
        atexit.register(self.remove)

    @property
    def path(self) -> Path:
        """Where tensors are shared."""
        return self._shared.path

    def new_file(self, stem: str, writer: str = "") -> Path:
        """A path that nothing uses yet, which a worker of that name may write, or the parent."""
        return self.room(writer) / f"{stem}-{next(self._numbers)}"

    def room(self, writer: str) -> Path:
        """The directory that workers of that name write to."""
        with self._lock:
            found = self._shared.there() / self._rooms.setdefault(writer, f"room-{len(self._rooms)}")
            _make(found)
        return found

    def new_temporary(self) -> Path:
        """An empty directory for the temporary files of one process."""
        with self._lock:
            found = self._temporary.there() / f"worker-{next(self._numbers)}"
            _make(found)
        return found

    def full(self) -> NoSpace | None:
        """The error that says where no space is left; None when there is some."""
        for folder in (self._shared.path, self._temporary.path):
            with contextlib.suppress(OSError):
                found = os.statvfs(folder)
                if found.f_bavail * found.f_frsize < LEAST_BYTES or (found.f_files and not found.f_favail):
                    return no_space(folder)
        return None

    def remove(self) -> None:
        """Delete everything; safe to call twice."""
        if os.getpid() != self._owner:  # a fork of this process: the directories are not its own
            return
        self._shared.remove()
        self._temporary.remove()
        atexit.unregister(self.remove)


class _Held:
    """A directory of this process, below a base that others use too."""

    def __init__(self, base: Path) -> None:
        self._base = base
        _sweep(base)
        self.path, self._descriptor = _new(base)

    def there(self) -> Path:
        """The directory; another one if somebody has removed it."""
        if not (self.path / LOCK).exists():
            self.remove()
            self.path, self._descriptor = _new(self._base)
        return self.path

    def remove(self) -> None:
        if self._descriptor >= 0:
            remove_tree(self.path)
            os.close(self._descriptor)
            self._descriptor = -1


def no_space(folder: Path) -> NoSpace:
    return NoSpace(
        "no space left for the files of workers",
        where=str(folder),
        hint="free some space, or set MINDGAP_SCRATCH or TMPDIR, whichever it is, to a directory that has more",
    )


def _base() -> Path:
    chosen = os.environ.get("MINDGAP_SCRATCH")
    if chosen:
        return Path(chosen)
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())


def _new(base: Path) -> tuple[Path, int]:
    while True:
        try:
            path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
            descriptor = _locked(path)
        except OSError as error:
            raise _no_place(base, error) from error
        if descriptor is not None:
            return path, descriptor


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _no_place(folder, error) from error


def _no_place(folder: Path, error: OSError) -> UsageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(folder)
    return UsageError(
        "there is no place for the files that workers share",
        where=str(folder),
        cause=error.strerror,
        hint="set MINDGAP_SCRATCH to a directory that exists and has space",
    )


def _locked(path: Path) -> int | None:
    """The lock of a directory, taken; None when somebody else has it or the directory has gone."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == (path / LOCK).stat().st_ino:  # somebody may have removed it meanwhile
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def end_users(folder: Path) -> None:
    """End processes whose temporary files lie in a directory, or below: the environment tells."""
    mine = re.compile(rb"(^|\0)TMPDIR=" + re.escape(os.fsencode(folder)) + rb"(/|\0|$)")
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # not ours, or gone meanwhile
            if mine.search(path.read_bytes()):
                os.kill(int(path.parent.name), signal.SIGKILL)


def _sweep(base: Path) -> None:
    """Remove what a killed process left behind, and end what still uses it."""
    for path in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or a file
            descriptor = _locked(path)
            if descriptor is not None:
                end_users(path)
                remove_tree(path)
                os.close(descriptor)
