"""Distributions of this interpreter in another environment: linked file by file, so that only they are found there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path


def key(name: str) -> str:
    """A distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def shared(names: Iterable[str], needs: bool = True) -> dict[str, metadata.Distribution]:
    """These distributions of this interpreter and, with `needs`, all that they need, as far as they can be linked."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [key(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            item = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # an optional one, or one of another system
        if not _entries(item):
            continue  # packed by a system that keeps no list of files, or editable
        found[name] = item
        if needs:
            waiting += [key(text) for text in map(_required, item.requires or ()) if text]
    return found


def link(item: metadata.Distribution, packages: Path) -> None:
    """Link a distribution's top-level files and folders into another site-packages.

    A folder that is there already (a namespace, such as `google`) takes the links one level down.
    """
    for entry in _entries(item):
        _link(Path(str(item.locate_file(entry))), packages / entry)


def _link(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink() and source.is_dir():
        for child in source.iterdir():
            _link(child, target / child.name)
    elif not target.exists() and source.exists():
        target.symlink_to(source.resolve())


def _entries(item: metadata.Distribution) -> list[str]:
    """The first part of every path that it owns; scripts and other files outside of site-packages are left out."""
    parts = {file.parts[0] for file in item.files or () if file.parts}
    own = {part for part in parts if part not in ("..", "__pycache__", "/")}
    is_editable = any(part.startswith("__editable__") for part in own)
    return [] if is_editable else sorted(own)


def _required(text: str) -> str:
    """The name in a requirement that holds here; empty for one of an extra or of another system."""
    requirement, _, marker = text.partition(";")
    if "extra" in marker or ("platform_system" in marker and "Linux" not in marker):
        return ""
    found = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
    return found[0] if found else ""
