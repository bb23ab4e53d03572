"""What each operator of a program is exercised with: the coverage that platforms are asked for."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Final

from mindgap.program import ops
from mindgap.program.graph import Node, NodeMeta, Program, Ref, leaves, references
from mindgap.program.made import Planted, Recipe, Whole
from mindgap.records.tensors import TensorMeta
from mindgap.variants.coverage import layout_of, literal_class
from mindgap.variants.special import FLOATING, ORDINARY, POSITIONS, WHOLE, classes_of, special_values

VECTOR: Final = 8
"""Elements of float32 in a register of AVX2: what is no multiple leaves a rest that other code computes."""
_NONE: Final[frozenset[str]] = frozenset()


def contexts_of(program: Program, values: str) -> tuple[str, ...]:
    """`OPERATOR DTYPES | rank, layout, literals, length, memory, class of values`, one for each class that gets there.

    What stands before the bar is what a platform accepts or refuses as a rule; empty tensors and scalars count there.
    `values` names special values that no class of its own tells, such as stray positions.
    """
    classes, sharing = classes_in(program, values), sharing_in(program)
    found: dict[str, None] = {}
    for node, tensors, call in _calls(program):
        for each in sorted(_arriving(node, classes)) or [ORDINARY]:
            found[f"{call} {_length(tensors)} {sharing.get(node.id, 'own')} {each}"] = None
    return tuple(found)


def calls_of(program: Program) -> tuple[str, ...]:
    """The same without values, lengths and memory: what real programs call."""
    return tuple(dict.fromkeys(f"{call} " for _, _, call in _calls(program)))


def _calls(program: Program) -> Iterator[tuple[Node, list[TensorMeta], str]]:
    metas: dict[int, NodeMeta] = {item.id: item.meta for item in program.given()}
    for node in program.nodes:
        read = [metas.get(reference) for reference in references(node)]
        metas[node.id] = node.meta
        if node.op == "operator.getitem":
            continue
        tensors = [meta for meta in read if isinstance(meta, TensorMeta)]
        dtypes = ",".join(dict.fromkeys(meta.dtype for meta in tensors))
        rank, layout = (len(tensors[0].shape), layout_of(tensors[0])) if tensors else (0, "-")
        odd = " empty" if any(0 in meta.shape for meta in tensors) else " scalar" if tensors and not rank else ""
        yield node, tensors, f"{node.op} {dtypes}{odd} | {rank} {layout} {literal_class(node)}"


def _length(tensors: list[TensorMeta]) -> str:
    """Whether vector code is left with a rest."""
    counts = [math.prod(meta.shape) for meta in tensors]
    return "odd" if any(count % VECTOR for count in counts) else "even"


def sharing_in(program: Program) -> Mapping[int, str]:
    """Nodes whose operands share memory (`shared`), and those that write to what other names see (`seen`)."""
    root: dict[int, int] = {}
    seen: dict[int, int] = {}
    found: dict[int, str] = {}
    for node in program.nodes:
        read = [root.get(reference, reference) for reference in references(node)]
        aliased = _named_arguments(node, ops.aliased_arguments(node.op))
        written = _named_arguments(node, _written(node.op))
        if len(set(read)) < len(read):
            found[node.id] = "shared"
        elif any(seen.get(root.get(reference, reference)) for reference in written):
            found[node.id] = "seen"
        if aliased:
            root[node.id] = root.get(aliased[0], aliased[0])
            seen[root[node.id]] = seen.get(root[node.id], 0) + (not written)
    return found


@functools.cache
def _written(op: str) -> frozenset[str | int]:
    """Positions and names of the arguments that an operator writes to."""
    return frozenset(part for pair in ops.mutated_arguments(op) for part in pair)


def _named_arguments(node: Node, places: frozenset[str | int]) -> list[int]:
    """What is read at some places of a call."""
    if not places:
        return []
    given = (*enumerate(node.args), *node.kwargs.items())
    return [int(leaf) for place, argument in given if place in places
            for _, leaf in leaves(argument) if isinstance(leaf, Ref)]  # fmt: skip


def classes_in(program: Program, values: str) -> Mapping[int, frozenset[str]]:
    """By value: the classes of values that reach it, as far as its dtype has them."""
    found: dict[int, frozenset[str]] = {}
    for item, recipe in zip(program.inputs, program.example):
        found[item.id] = class_of(recipe, item.meta.dtype, values)
    for constant in program.constants:
        found[constant.id] = class_of(constant.made, constant.meta.dtype, values)
    for node in program.nodes:
        arriving = _arriving(node, found)
        kept = arriving & _possible(node.meta)
        found[node.id] = kept
        for reference in _named_arguments(node, _written(node.op)):
            found[reference] = found.get(reference, _NONE) | kept
    return found


def class_of(recipe: Recipe | None, dtype: str, values: str) -> frozenset[str]:
    """The classes of values that a recipe plants."""
    if isinstance(recipe, Planted):
        ground = recipe.ground
        away = isinstance(ground, Whole) and ground.stream in POSITIONS
        return frozenset({values if away else _class_of_values(recipe.values, dtype) or values} - {"", ORDINARY})
    is_tied = isinstance(recipe, Whole) and dtype.startswith(("float", "bfloat"))
    return frozenset({"ties"}) if is_tied else _NONE


@functools.lru_cache(maxsize=1024)
def _class_of_values(values: tuple[float | int, ...], dtype: str) -> str:
    known = (FLOATING if dtype.startswith(("float", "bfloat")) else WHOLE) if len(classes_of(dtype)) > 1 else ()
    return next((name for name in known if str(special_values(name, dtype)) == str(values)), "")  # NaN is not itself


def _possible(meta: NodeMeta) -> frozenset[str]:
    """Classes that results may hold."""
    metas = meta if isinstance(meta, tuple) else (meta,)
    return frozenset().union(*(_classes(item.dtype) for item in metas if isinstance(item, TensorMeta)))


@functools.cache
def _classes(dtype: str) -> frozenset[str]:
    return frozenset(classes_of(dtype))


def _arriving(node: Node, classes: Mapping[int, frozenset[str]]) -> frozenset[str]:
    return _NONE.union(*(classes.get(reference, _NONE) for reference in references(node)))
