"""Model files: finding and reading them, and errors that help."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from mindgap.errors import ModelError, Untrusted, UsageError
from mindgap.records.source import Source


def resolve(spec: str, directory: str) -> Path:
    """The file that a spec names, or a ModelError with the nearest name beside it."""
    path = Path(directory) / Path(spec).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        raise ModelError(f"{spec} is a directory, not a file", where=str(path))
    raise ModelError(f"there is no file {spec}", where=str(path.parent), hint=_nearest(path))


def default_directory() -> Path:
    """`~/.cache/mindgap/corpus`, or where XDG_CACHE_HOME says."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mindgap" / "corpus"


def corpus_ledger(directory: Path) -> Path:
    """The ledger of the corpus in a directory; raises UsageError where there is none."""
    path = directory / "ledger.sqlite"
    if not path.is_file():
        raise UsageError(f"there is no corpus in {directory}", hint="mindgap corpus build makes one")
    return path


def make_importable(source: Source) -> None:
    """Before the user's own code runs: his modules can be imported, after everybody else's."""
    sys.path.extend(path for path in source.import_paths if path not in sys.path)


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
    beside = sorted(item for item in path.parent.iterdir() if item.is_file())
    stems = {
        item.stem: item.name for item in beside if item.suffix == path.suffix
    }  # .py alone makes no two names alike
    near = difflib.get_close_matches(path.stem, list(stems), n=1)
    same = [stems[near[0]]] if near else [item.name for item in beside if item.stem == path.stem]
    return f"did you mean {same[0]}?" if same else None
