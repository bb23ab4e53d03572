"""Directories that somebody else filled: how much is in them, and how they are removed whatever they hold."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

MOST_ENTRIES: Final = 100_000
"""Counting more would take longer than a guardian may look away."""
BEYOND: Final = 1 << 62
"""A size that no limit allows: there is more than can be counted."""


def bytes_below(top: str) -> int:
    """Disk space of everything below a directory, without following links."""
    total, seen, waiting = 0, 0, [top]
    while waiting:
        folder = waiting.pop()
        try:
            entries = os.scandir(folder)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # nested so deeply that nobody can look
                return BEYOND
            continue
        with entries:
            for entry in entries:
                seen += 1
                if seen > MOST_ENTRIES:
                    return BEYOND
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                with contextlib.suppress(OSError):  # it may have gone meanwhile
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def remove_tree(top: Path) -> None:
    """Remove a directory and all that is in it, as far as this user may.

    Whoever filled it may have nested it deeper than a path or a stack can be, and forbidden us to enter: every
    directory below is made ours, and its own directories are moved up before it goes.
    """
    waiting = 0
    for _ in range(MOST_ENTRIES):
        folders = _emptied(top)
        if not folders:
            break
        for folder in folders:
            for inner in _emptied(folder):
                waiting += 1
                with contextlib.suppress(OSError):
                    inner.rename(top / f".removing-{waiting}")
            with contextlib.suppress(OSError):
                folder.rmdir()
        if _emptied(top) == folders:  # nothing helps
            return
    with contextlib.suppress(OSError):
        top.rmdir()


def _emptied(folder: Path) -> list[Path]:
    """The directories that are left in a directory when everything else is removed."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
    left = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                left.append(folder / entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 - a path of the entry, as it is
    return left
