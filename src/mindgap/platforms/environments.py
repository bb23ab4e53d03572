"""Environments that `mindgap platforms install` made: where they are, and whether they are whole.

    PLATFORMS/tract/installed.json      written last, replaced at once: without it nothing is installed
    PLATFORMS/tract/3fa2…-1/            the environment, made where it stays, because environments cannot be moved

PLATFORMS is `$MINDGAP_PLATFORMS`, or `mindgap/platforms` in the user's data directory.
"""

from __future__ import annotations

import csv
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.platforms.recipe import Recipe
from mindgap.records.files import write_whole

MARKER: Final = "installed.json"
DIRECTORY: Final = "MINDGAP_PLATFORMS"


def directory() -> Path:
    """Where all environments are."""
    own = os.environ.get(DIRECTORY)
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "mindgap" / "platforms"


@dataclass(frozen=True, slots=True)
class Environment:
    """One that was installed to the end."""

    root: Path
    digest: str
    """Of the recipe that it was made by."""
    torch: str
    """The version of torch in it."""
    size_mb: int
    """What it took on the disk, links not counted."""
    seconds: float
    """How long its install took."""
    date: str
    distributions: tuple[str, ...]
    """`name==version` of all that pip put into it."""
    linked: tuple[str, ...] = ()
    """The same of what it shares with the interpreter that made it."""

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return next((self.root / "lib").glob("python3.*/site-packages"), self.root / "lib" / "site-packages")


def home_of(recipe: Recipe) -> Path:
    return directory() / recipe.folder


def find(recipe: Recipe) -> Environment | None:
    """The environment of a recipe that was installed, whole or not by now; None when there is none."""
    try:
        content: dict[str, Any] = json.loads((home_of(recipe) / MARKER).read_bytes())
        root = home_of(recipe) / str(content.pop("root"))
        lists: dict[str, Any] = {name: tuple(map(str, content.pop(name))) for name in ("distributions", "linked")}
        return Environment(root, **content, **lists)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def record(recipe: Recipe, environment: Environment) -> None:
    """From now on it is installed."""
    content = {**asdict(environment), "root": environment.root.name}
    write_whole(home_of(recipe) / MARKER, json.dumps(content, indent=1) + "\n")


def damage(environment: Environment) -> str:
    """What is missing of an environment that was whole once; empty when nothing is."""
    if not environment.python.exists():
        return f"its interpreter {environment.python} is gone"
    folder = environment.packages
    if not folder.is_dir():
        return f"{folder} is gone"
    for entry in folder.iterdir():
        if entry.is_symlink() and not entry.exists():
            return f"it shares {entry.name} with {entry.readlink().parent}, where that is gone"
    there = {_key(path.name): path for path in folder.glob("*.dist-info")}
    for item in environment.distributions:
        name, _, version = item.partition("==")
        info = there.get(_key(f"{name}-{version}.dist-info"))
        if info is None or not (info / "RECORD").is_file():
            return f"{item} is gone"
        lost = next((file for file in _files(info) if not (folder / file).exists()), None)
        if lost is not None:
            return f"{lost} of {item} is gone"
    return ""


def _files(info: Path) -> list[str]:
    """What a distribution put beside itself, without what Python makes again."""
    with (info / "RECORD").open(encoding="utf-8", newline="") as file:
        names = [row[0] for row in csv.reader(file) if row]
    return [name for name in names if not name.endswith(".pyc") and not name.startswith("..")]


def _key(name: str) -> str:
    """Wheels spell `ml-dtypes` and `ml_dtypes` as they like."""
    return name.lower().replace("-", "_").replace(".", "_")
