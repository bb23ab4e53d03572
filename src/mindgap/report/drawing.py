"""A program, or the slice of it around some operators, as an SVG picture: data flows from top to bottom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from typing import Final

from mindgap.program.graph import Node, Program, references
from mindgap.report.explain import short
from mindgap.report.listing import meta_text
from mindgap.report.summary import many
from mindgap.report.terminal import plain_text

WHOLE: Final = 40
"""Operators of a program that is drawn whole; viewers that draw thousands freeze."""
LINE, PAD, GAP_X, GAP_Y, LETTER, MOST_LETTERS = 16, 10, 28, 34, 7.3, 34
SWEEPS: Final = 8
"""Orders and positions settle within a few sweeps for so few boxes."""

STYLE: Final = (
    ".g-box{fill:#fff;stroke:#8a94a3}.g-input .g-box{fill:#eef1f5}.g-culprit .g-box{stroke:#c2410c;stroke-width:2.5}"
    ".g-added .g-box{stroke:#1d5fbf;stroke-width:2.5}"
    ".g-text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1c2430}"
    ".g-name{font-weight:700}.g-small{fill:#5a6675}.g-remark{fill:#c2410c}.g-edge{fill:none;stroke:#8a94a3}"
    ".g-more{stroke-dasharray:3 3}.g-tip{fill:#8a94a3}"
    "@media (prefers-color-scheme:dark){.g-box{fill:#1b2027;stroke:#7d8896}.g-input .g-box{fill:#262d36}"
    ".g-text{fill:#e6e9ee}.g-small{fill:#a9b3bf}.g-culprit .g-box{stroke:#ff8a5c}.g-remark{fill:#ff8a5c}"
    ".g-added .g-box{stroke:#7fb0f5}}"
)
"""For a picture on its own; the page has the same in its own sheet."""


@dataclass
class Box:
    """One operator or input with its place."""

    id: int
    lines: list[tuple[str, str]]
    """Text with the class of its style."""
    kind: str
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(len(text) for text, _ in self.lines) * LETTER + 2 * PAD if self.lines else 0.0

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + PAD if self.lines else 0.0


def around(program: Program, culprits: Sequence[int], most: int = WHOLE) -> set[int]:
    """The nodes nearest to some nodes, along the flow in both directions; from the first of all where none are."""
    nodes = {node.id: node for node in program.nodes}
    if len(nodes) <= most:
        return set(nodes)
    users: dict[int, list[int]] = {}
    for node in program.nodes:
        for reference in references(node):
            users.setdefault(reference, []).append(node.id)
    chosen = [node for node in culprits if node in nodes][:most] or [program.nodes[0].id]
    found = dict.fromkeys(chosen)
    front = list(found)
    while front and len(found) < most:
        near = [r for node in front for r in (*references(nodes[node]), *users.get(node, ()))]
        front = [node for node in dict.fromkeys(near) if node in nodes and node not in found]
        found |= dict.fromkeys(front[: most - len(found)])
    return set(found)


def draw(
    program: Program,
    chosen: Collection[int],
    culprits: Collection[int] = (),
    remarks: Mapping[int, str] | None = None,
    added: Collection[int] = (),
    alone: bool = False,
    total: int | None = None,
) -> str:
    """The picture of these nodes and the inputs they read; dashed ends lead out of it. `alone` gives it its colours.

    `total` counts the operators of a program that is here only in part.
    """
    nodes = [node for node in program.nodes if node.id in chosen]
    boxes = {box.id: box for box in _boxes(program, nodes, culprits, remarks or {}, added)}
    edges = [(r, node.id) for node in nodes for r in dict.fromkeys(references(node)) if r in boxes]
    routes = _place(boxes, edges)
    leading = {r for node in program.nodes if node.id not in chosen for r in references(node) if r in boxes}
    constants = {item.id for item in program.constants}
    open_ = {n.id for n in nodes if any(r not in boxes and r not in constants for r in references(n))}
    parts = [_edge(boxes[a], boxes[b], routes[a, b]) for a, b in edges]
    parts += [_stub(boxes[i], out=True) for i in sorted(leading)] + [_stub(boxes[i], out=False) for i in sorted(open_)]
    parts += [_box(box) for box in boxes.values()]
    every = [*boxes.values(), *(box for route in routes.values() for box in route)]
    return _svg(every, parts, f"{program.name}: {len(nodes)} of {total or len(program.nodes)} operators", alone)


def _svg(boxes: Collection[Box], parts: Sequence[str], title: str, alone: bool) -> str:
    """`boxes` are all, also the empty ones that edges go through."""
    width = max((box.x + box.width for box in boxes), default=0) + PAD
    height = max((box.y + box.height for box in boxes), default=0) + GAP_Y
    style = f"<style>{STYLE}</style>" if alone else ""
    title = escape(plain_text(title))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">{style}<title>{title}</title>{"".join(parts)}</svg>'
    )


def by_module(program: Program, alone: bool = False) -> str:
    """A large program with a box per module: as deep in the tree of modules as there is room for.

    A module that is used again has another box, where there is room; otherwise it stands where it came first.
    """
    depth, deepest = 1, max((len(node.where.split(".")) for node in program.nodes), default=1)
    while depth < deepest and len(_runs(program, depth + 1)) <= WHOLE:
        depth += 1
    modules = _runs(program, depth)
    if len(modules) > WHOLE:
        merged: dict[str, list[Node]] = {}
        for name, nodes in modules:
            merged.setdefault(name, []).extend(nodes)
        modules = list(merged.items())
    owner = {node.id: n for n, (_, nodes) in enumerate(modules) for node in nodes}
    edges = dict.fromkeys(
        (owner[r], owner[node.id])
        for node in program.nodes
        for r in references(node)
        if r in owner and owner[r] < owner[node.id]
    )
    boxes = {}
    for n, (name, nodes) in enumerate(modules):
        lines = [(_cut(name or "(top level)", end=True), "g-name"), (many(len(nodes), "operator"), "g-small"),
                 (_cut(meta_text(nodes[-1].meta)), "g-small")]  # fmt: skip
        boxes[n] = Box(n, lines, "g-node")
    routes = _place(boxes, list(edges))
    parts = [_edge(boxes[a], boxes[b], routes[a, b]) for a, b in edges] + [_box(box) for box in boxes.values()]
    every = [*boxes.values(), *(box for route in routes.values() for box in route)]
    return _svg(every, parts, f"{program.name}: {len(program.nodes)} operators by module", alone)


def _runs(program: Program, depth: int) -> list[tuple[str, list[Node]]]:
    """Operators of one module that follow each other."""
    grouped = groupby(program.nodes, key=lambda node: ".".join(node.where.split(".")[:depth]))
    return [(name, list(nodes)) for name, nodes in grouped]


def _boxes(
    program: Program,
    nodes: Sequence[Node],
    culprits: Collection[int],
    remarks: Mapping[int, str],
    added: Collection[int],
) -> list[Box]:
    read = {r for node in nodes for r in references(node)}
    weights = {item.id: item for item in program.constants}
    found = [
        Box(item.id, [(_cut(item.name), "g-name"), (_cut(str(item.meta)), "g-small")], "g-input")
        for item in program.inputs
        if item.id in read
    ]
    for node in nodes:
        lines = [(_cut(f"{short(node.op)}  %{node.id}"), "g-name"), (_cut(meta_text(node.meta)), "g-small")]
        held = [weights[r].name for r in references(node) if r in weights]
        if held:
            lines.append((_cut(f"with {', '.join(name.rpartition('.')[2] for name in held)}"), "g-small"))
        if node.where:
            lines.append((_cut(node.where, end=True), "g-small"))
        if node.line:
            lines.append((_cut(node.line, end=True), "g-small"))
        if remarks.get(node.id):
            lines.append((_cut(remarks[node.id]), "g-remark"))
        kind = "g-culprit" if node.id in culprits else "g-added" if node.id in added else "g-node"
        found.append(Box(node.id, lines, kind))
    return found


def _cut(text: str, end: bool = False) -> str:
    """Text that fits a box; of a path the end says most."""
    if len(text) <= MOST_LETTERS:
        return text
    return f"…{text[1 - MOST_LETTERS :]}" if end else f"{text[: MOST_LETTERS - 1]}…"


def _place(boxes: Mapping[int, Box], edges: Sequence[tuple[int, int]]) -> dict[tuple[int, int], list[Box]]:
    """Layers by the longest way from a source, boxes near what they read and feed, and no two over each other.

    An edge over several layers has an empty box in each, so that it goes around what stands there; these are returned.
    """
    _layer(boxes, edges)
    every = dict(boxes)
    links: list[tuple[int, int]] = []
    routes: dict[tuple[int, int], list[Box]] = {}
    for a, b in edges:
        between = range(boxes[a].layer + 1, boxes[b].layer)
        routes[a, b] = [Box(-len(every) - 1 - n, [], "", layer) for n, layer in enumerate(between)]
        every |= {box.id: box for box in routes[a, b]}
        links += pairwise([a, *(box.id for box in routes[a, b]), b])
    above: dict[int, list[Box]] = {i: [] for i in every}
    below: dict[int, list[Box]] = {i: [] for i in every}
    for a, b in links:
        above[b].append(every[a])
        below[a].append(every[b])
    layers: dict[int, list[Box]] = {}
    for box in every.values():
        layers.setdefault(box.layer, []).append(box)
    for row in layers.values():
        _spread(row)
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        for number in sorted(layers, reverse=sweep % 2 == 1):
            row = layers[number]
            for box in row:
                if near[box.id]:
                    middle = sum(other.x + other.width / 2 for other in near[box.id]) / len(near[box.id])
                    box.x = middle - box.width / 2
            row.sort(key=lambda box: box.x)
            _spread(row)
    left = min((box.x for box in every.values()), default=0.0)
    y = float(PAD)
    for number in sorted(layers):
        highest = max(box.height for box in layers[number])
        for box in layers[number]:
            box.x, box.y = box.x - left + PAD, y + GAP_Y / 2 + (0 if box.lines else highest / 2)
        y += highest + GAP_Y
    return routes


def _layer(boxes: Mapping[int, Box], edges: Sequence[tuple[int, int]]) -> None:
    for a, b in edges:
        boxes[b].layer = max(boxes[b].layer, boxes[a].layer + 1)
    read = {b for _, b in edges}
    for a in {a for a, _ in edges} - read:  # a source stands right above what reads it
        boxes[a].layer = min(boxes[b].layer for first, b in edges if first == a) - 1


def _spread(row: Sequence[Box]) -> None:
    """Push boxes of a layer apart, keeping their middle where it was."""
    wanted = sum(box.x + box.width / 2 for box in row) / len(row)
    for before, box in pairwise(row):
        box.x = max(box.x, before.x + before.width + GAP_X)
    middle = sum(box.x + box.width / 2 for box in row) / len(row)
    for box in row:
        box.x += wanted - middle


def _edge(a: Box, b: Box, through: Sequence[Box] = ()) -> str:
    x2, y2 = b.x + b.width / 2, b.y
    places = [(a.x + a.width / 2, a.y + a.height), *((box.x, box.y) for box in through), (x2, y2 - 5)]
    path = f"M{places[0][0]:.0f},{places[0][1]:.0f}"
    for (x, y), (to_x, to_y) in pairwise(places):
        bend = max(12.0, (to_y - y) / 2)
        path += f" C{x:.0f},{y + bend:.0f} {to_x:.0f},{to_y - bend:.0f} {to_x:.0f},{to_y:.0f}"
    tip = f"M{x2 - 4:.0f},{y2 - 7:.0f} L{x2 + 4:.0f},{y2 - 7:.0f} L{x2:.0f},{y2:.0f} Z"
    return f'<path class="g-edge" d="{path}"/><path class="g-tip" d="{tip}"/>'


def _stub(box: Box, out: bool) -> str:
    """A dashed end where the flow leaves the picture, or comes from outside of it."""
    x = box.x + box.width - 14 if out else box.x + 14
    y1, y2 = (box.y + box.height, box.y + box.height + 14) if out else (box.y - 14, box.y)
    return f'<path class="g-edge g-more" d="M{x:.0f},{y1:.0f} L{x:.0f},{y2:.0f}"/>'


def _box(box: Box) -> str:
    texts = "".join(
        f'<text class="g-text {kind}" x="{box.x + PAD:.0f}" y="{box.y + LINE * (n + 1) - 1:.0f}">'
        f"{escape(plain_text(text))}</text>"
        for n, (text, kind) in enumerate(box.lines)
    )
    round_ = 12 if box.kind == "g-input" else 4
    return (
        f'<g class="{box.kind}"><rect class="g-box" x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" '
        f'height="{box.height:.0f}" rx="{round_}"/>{texts}</g>'
    )
