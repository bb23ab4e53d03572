"""Draws which folder of the package imports which: `python scripts/draw_imports.py docs/images/imports.svg`.

The folders stand on a diagonal, ordered by depth: each is one step deeper than the deepest that it imports. A row shows
what a folder imports, a column who imports it. No dot is above the diagonal: there is no circle. The dots are the
imports in the code; one that pyproject.toml does not allow would be red.
"""

from __future__ import annotations

import ast
import functools
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "mindgap"

IN_WORKERS = ("records", "program", "execution", "platforms")
"""What a worker loads to run a program: tests/test_imports.py holds it to that."""

CELL, TOP, LEFT, WIDTH, NAME = 36, 52, 28, 1010, 96
INK, GREY, LINE, WORKER, PART, WRONG = "#1f2933", "#616e7c", "#e4e7eb", "#0b7285", "#3b5bdb", "#c92a2a"


def allowed() -> dict[str, list[str]]:
    """What pyproject.toml lets each folder import."""
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mindgap"]["imports"]
    return found


def imports_of(path: Path) -> set[str]:
    """The folders of mindgap that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "mindgap":
            names |= {f"mindgap.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.split(".")[1] for name in names if name.startswith("mindgap.")}


@functools.cache
def imported(folder: str) -> frozenset[str]:
    """The other folders that a folder imports."""
    found = frozenset().union(*(imports_of(path) for path in (PACKAGE / folder).rglob("*.py")))
    return found - {folder}


def depths(rules: dict[str, list[str]]) -> dict[str, int]:
    """0 for a folder that imports no other, otherwise one more than the deepest that it imports."""
    found: dict[str, int] = {}
    for folder, others in rules.items():  # the file names a folder after those that it imports
        found[folder] = 1 + max((found[other] for other in others), default=-1)
    return found


def purpose(folder: str) -> list[str]:
    """The first sentence of a folder's docstring, in at most two lines."""
    text = ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text())) or ""
    return textwrap.wrap(text.splitlines()[0].rstrip("."), 62)[:2]


def draw() -> str:
    """The picture as SVG; the same code gives the same text."""
    rules = allowed()
    depth = depths(rules)
    order = sorted(rules, key=lambda folder: depth[folder])
    height = TOP + CELL * len(order) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="DejaVu Sans, Verdana, Helvetica, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(LEFT, 28, "Who imports whom", 17, INK, bold=True),
        _text(LEFT + 204, 28, "Row: what a folder imports. Column: who imports it.", 12, GREY),
        f'<rect x="{WIDTH - 312}" y="17" width="14" height="14" rx="4" fill="{WORKER}"/>',
        _text(WIDTH - 290, 28, "loaded by a worker that runs a program", 12, WORKER),
    ]
    for row, folder in enumerate(order):
        parts += _row(row, folder, order, set(rules[folder]))
    return "\n".join([*parts, "</svg>", ""])


def _row(row: int, folder: str, order: list[str], may: set[str]) -> list[str]:
    x, y = LEFT + CELL * row, TOP + CELL * row + CELL // 2
    parts = []
    if row:
        parts.append(f'<path d="M{LEFT} {y}H{x}" stroke="{LINE}"/>')
    if row + 1 < len(order):
        parts.append(f'<path d="M{x + CELL // 2} {y + 14}V{TOP + CELL * len(order)}" stroke="{LINE}"/>')
    for column, other in enumerate(order):
        if other in imported(folder):
            colour = PART if other in may else WRONG
            centre = LEFT + CELL * column + CELL // 2
            title = f"<title>{folder} imports {other}</title>"
            parts.append(f'<circle cx="{centre}" cy="{y}" r="8" fill="{colour}">{title}</circle>')
    colour = WORKER if folder in IN_WORKERS else INK
    parts += [
        f'<rect x="{x}" y="{y - 14}" width="{NAME}" height="28" rx="6" fill="{colour}"/>',
        _text(x + NAME // 2, y + 5, folder, 13, "#ffffff", bold=True, middle=True),
    ]
    lines = purpose(folder)
    first = y + 4 - 7 * (len(lines) - 1)
    parts += [_text(x + NAME + 10, first + 14 * n, line, 11, GREY) for n, line in enumerate(lines)]
    return parts


def _text(x: int, y: int, text: str, size: int, colour: str, bold: bool = False, middle: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{weight}{anchor}>{escape(text)}</text>'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw())
