"""The line of source code that an operator came from, out of the stack that torch.export keeps for it."""

from __future__ import annotations

import re
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Final

import torch

_FRAME: Final = re.compile(r'File "([^"\n]+)", line (\d+), in ')
_PACKAGES: Final = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
_OURS: Final = Path(__file__).parents[1]
_TORCH: Final = re.compile(rf"{re.escape(str(Path(torch.__file__).parent))}|.*-packages[/\\]torch[/\\]|<eval_with_key>")
_PYTHON: Final = str(Path(sysconfig.get_paths()["stdlib"]))
MOST_LETTERS: Final = 160


def source_line(stack: str | None) -> str:
    """`nets/blocks.py:31`, the innermost line of the user's own code; of an installed package where there is no other.

    Paths start where the user is or imports from, so that a program tells nothing about the machine that made it.
    """
    frames = [(path, number) for path, number in _FRAME.findall(stack or "") if not _is_machinery(path)]
    own = [frame for frame in frames if not _is_installed(frame[0])]
    return next((f"{_shown(path)}:{number}" for path, number in reversed(own or frames)), "")


def _is_machinery(path: str) -> bool:
    """torch and Python's own library: nobody looks for a line there."""
    return bool(_TORCH.match(path)) or (path.startswith(_PYTHON) and not _PACKAGES.match(path))


def _is_installed(path: str) -> bool:
    return bool(_PACKAGES.match(path)) or Path(path).is_relative_to(_OURS)


@lru_cache(maxsize=1 << 10)
def _shown(path: str) -> str:
    installed = _PACKAGES.match(path)
    if installed:
        return path[installed.end() :][-MOST_LETTERS:]
    file = Path(path)
    roots = [Path.cwd(), _OURS.parent, *sorted((Path(entry) for entry in sys.path if entry), key=_depth, reverse=True)]
    found = next((file.relative_to(root) for root in roots if file.is_relative_to(root)), Path(*file.parts[-2:]))
    return found.as_posix()[-MOST_LETTERS:]


def _depth(path: Path) -> int:
    return len(path.parts)
