"""The directory where workers and their parent share tensors and logs."""

from __future__ import annotations

import atexit
import errno
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from mindgap.errors import NoSpace, UsageError

PREFIX: Final = "mindgap-"


class Scratch:
    """A temporary directory, in shared memory where there is one; removed at the end."""

    def __init__(self) -> None:
        base = _base()
        _sweep(base)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
        except OSError as error:
            kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else UsageError
            raise kind(
                "there is no place for the files that workers share",
                where=str(base),
                cause=error.strerror,
                hint="set MINDGAP_SCRATCH to a directory that exists and has space",
            ) from error
        self._numbers = itertools.count()
        # A foreign interpreter finds this package, and nothing else of ours, through this link.
        self.package_root = self.path / "package"
        self.package_root.mkdir()
        (self.package_root / "mindgap").symlink_to(Path(__file__).resolve().parent.parent)
        atexit.register(self.remove)

    def new_file(self, stem: str) -> Path:
        """A path that nothing uses yet."""
        return self.path / f"{stem}-{next(self._numbers)}"

    def remove(self) -> None:
        """Delete everything; safe to call twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        atexit.unregister(self.remove)


def _base() -> Path:
    chosen = os.environ.get("MINDGAP_SCRATCH")
    if chosen:
        return Path(chosen)
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())


def _sweep(base: Path) -> None:
    """Remove what a killed parent left behind."""
    for path in base.glob(f"{PREFIX}*-*"):
        owner = path.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
