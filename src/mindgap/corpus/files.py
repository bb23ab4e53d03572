"""Model files: finding and reading them, and errors that help."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from mindgap.errors import ModelError, Untrusted


def resolve(spec: str, directory: str) -> Path:
    """The file that a spec names, or a ModelError with the nearest name beside it."""
    path = Path(directory) / Path(spec).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        raise ModelError(f"{spec} is a directory, not a file", where=str(path))
    raise ModelError(f"there is no file {spec}", where=str(path.parent), hint=_nearest(path))


def read(path: Path) -> bytes:
    """A file's content, or a ModelError that says why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path.name}", where=str(path), cause=error.strerror) from error


def refuse(path: Path, cause: str) -> Untrusted:
    """The error for a file that would execute code."""
    return Untrusted(
        f"reading {path.name} would execute code from it",
        where=str(path),
        cause=cause,
        hint="if you trust where the file comes from, add --trust",
    )


def did_you_mean(name: str, names: Iterable[str], prefix: str = "") -> str | None:
    """A hint with the known name that a mistyped one most likely stands for."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"did you mean {prefix}{found[0]}?" if found else None


def _nearest(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"there is no directory {path.parent} either"
    return did_you_mean(path.name, sorted(item.name for item in path.parent.iterdir()))
