"""Invocations: one call of one operator in one dtype, with nothing else in the program that a platform could refuse.

`mindgap ops` asks for them by operator, dtype and kind. Arguments that a fragment would compute (a mask, a sorted
table) are inputs here, so a refusal is about the operator that was asked for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import torch

from mindgap.errors import MindgapError
from mindgap.program import ops
from mindgap.program.graph import (
    Argument,
    Constant,
    Input,
    Node,
    NodeMeta,
    Program,
    Ref,
    changed_leaves,
    digest,
    references,
)
from mindgap.program.inputs import copy_of
from mindgap.program.interpret import Executable
from mindgap.program.made import Recipe, Whole, held, recreate
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, TensorMeta
from mindgap.records.variant import (
    EDGES,
    EMPTY,
    EXPANDED,
    ODD,
    ONE,
    ROLES,
    SAMPLES,
    TURNED,
    Asked,
    Intent,
    Provenance,
    Sweep,
)
from mindgap.variants.base import Base, prepare
from mindgap.variants.catalogue import signature
from mindgap.variants.draft import Draft
from mindgap.variants.fill import emit
from mindgap.variants.fragments import Places, every_result, places
from mindgap.variants.order import END
from mindgap.variants.roles import arguments_in, main_dtype, takes_role
from mindgap.variants.rounds import in_round
from mindgap.variants.rules import Refused, RuleTable, one_thread
from mindgap.variants.samples import sample_calls
from mindgap.variants.special import ORDINARY, recipe_of
from mindgap.variants.synthesis import SHARED_RULES, Variant
from mindgap.variants.values import contiguous_stride

_PLAIN_SHAPES: Final = ((2, 3, 4), (2, 4, 5, 5), (4, 4), (6,), (1, 2, 4, 4, 4), (3, 8), (2, 4, 4))
_EDGE_SHAPES: Final[Mapping[str, Sequence[tuple[int, ...]]]] = {
    EMPTY: ((0,), (0, 3), (2, 0), (0, 3, 4), (2, 0, 4), (0, 3, 5, 5), (0, 2, 4, 4, 4)),
    ONE: ((1,), (), (1, 1), (1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1, 1)),
    ODD: ((17,), (1, 17), (17, 1), (1, 1, 17), (1, 1, 1, 17), (1, 1, 17, 1), (1, 1, 1, 17, 1)),
    TURNED: ((2, 17), (3, 5), (4, 4), (3, 1, 5), (2, 3, 4), (1, 3, 7, 7), (1, 2, 4, 4, 3)),
    EXPANDED: ((17,), (2, 17), (3, 5), (4, 4), (2, 3, 4), (2, 3, 7, 7), (2, 2, 4, 4, 3)),
}
_CHANCE: Final[Mapping[str, Argument]] = {"train": False, "training": False, "dropout_p": 0.0}
"""Arguments that decide whether a call draws numbers, and the value with which it draws none."""
_TRIES: Final = 4
"""Draws of the other arguments per shape."""


class Invoking:
    """The numbered invocations of a sweep; each is made on its own."""

    def __init__(self, sweep: Sweep, bases: Sequence[Base], seed: int, rules: RuleTable = SHARED_RULES) -> None:
        self._sweep = sweep
        self._seed = seed
        self._rules = rules
        self._places: dict[str, Places] = {}
        self._last: tuple[Asked, Variant | None] | None = None
        """The call whose rounds are being made."""
        self._calls: dict[str, list[tuple[Base, Node]]] = {}
        for base in sorted(bases, key=lambda base: base.fingerprint):
            for node in base.program.nodes:
                self._calls.setdefault(node.op, []).append((base, node))

    def make(self, number: int) -> Variant | None:
        """The invocation with this number; None where the operator has none of that kind in that dtype."""
        asked = self._sweep.asked(number)
        with warnings.catch_warnings(), torch.no_grad(), one_thread():
            warnings.simplefilter("ignore")
            try:
                return self._round(asked, number) if asked.turn else self._call(asked, number)
            except (Refused, MindgapError):
                return None

    def _round(self, asked: Asked, number: int) -> Variant:
        """A call on other values: whoever has lowered the call runs it again for next to nothing."""
        first = self._sweep.first_of(number)
        call = self._sweep.asked(first)
        if self._last is None or self._last[0] != call:
            self._last = call, self.make(first)
        found = self._last[1]
        if found is None:
            raise Refused("the call cannot be made")
        made = in_round(found, asked.turn)
        told = (f"call {asked.op} on {asked.dtype} ({asked.kind}: {made.provenance.values})",)
        name = f"{asked.op}/{asked.dtype}/{asked.kind}-{number}"
        provenance = replace(
            made.provenance, seed=number, steps=told, mutations=(f"invoke-{asked.kind}",),
            focus=(asked.op, asked.dtype, asked.kind),
        )  # fmt: skip
        return Variant(replace(made.program, name=name), provenance)

    def _call(self, asked: Asked, number: int) -> Variant:
        op, dtype, kind = asked.op, asked.dtype, asked.kind
        rng = Random(f"{self._seed} invocation {op} {dtype} {kind} {number}")
        base = None
        refusal = ""
        if kind == "corpus":
            program, base = self._of_corpus(op, dtype, rng)
        elif kind == SAMPLES:
            program = _of_samples(op, dtype, rng)
        elif kind in ROLES:
            program = _in_role(op, dtype, kind, rng, self._rules)
        else:
            program, refusal = _applied(op, dtype, kind, rng, self._rules)
        if main_dtype(program) != dtype:
            raise Refused("the operator takes another dtype")
        program = replace(program, nodes=(_without_chance(program.nodes[0]),))
        program = replace(every_result(program), name=f"{op}/{dtype}/{kind}-{number}")
        told = f"call {op} on {dtype} ({kind})" + (f"; eager refuses it: {refusal}" if refusal else "")
        provenance = Provenance(
            base.fingerprint if base else "",
            base.name if base else "",
            number,
            Intent.INVALID if refusal else Intent.VALID,
            (told,),
            (f"invoke-{kind}",),
            ORDINARY,
            focus=(op, dtype, kind),
            is_fragment=True,
        )
        return Variant(program, provenance)

    def _of_corpus(self, op: str, dtype: str, rng: Random) -> tuple[Program, Base]:
        """A call of a real model on what arrives there, floating tensors in the dtype that was asked for."""
        found = self._calls.get(op, [])
        for base, node in rng.sample(found, min(len(found), 2 * _TRIES)):
            given = self._of(base)
            known = {c.id: c for c in base.program.constants}
            tensors: dict[int, torch.Tensor] = {}
            for identity in references(node):
                constant = known.get(identity)
                tensor = given.constants.get(constant.digest) if constant else given.tensors.get(identity)
                if tensor is None:
                    break
                floats = tensor.is_floating_point() and DTYPES[dtype].is_floating_point
                tensors[identity] = tensor.to(DTYPES[dtype]) if floats else tensor
            else:
                constants = frozenset(known) & set(tensors)
                return _program_of(node.op, node.args, node.kwargs, tensors, {}, constants), base
        raise Refused("no model of the corpus calls it with small tensors")

    def _of(self, base: Base) -> Places:
        if base.fingerprint not in self._places:
            self._places[base.fingerprint] = places(base)
        return self._places[base.fingerprint]


def _applied(op: str, dtype: str, kind: str, rng: Random, rules: RuleTable) -> tuple[Program, str]:
    """The operator on made tensors; why eager refuses it where that is what was asked for."""
    shapes = list(_EDGE_SHAPES.get(kind, _PLAIN_SHAPES))
    if kind in EDGES:
        rng.shuffle(shapes)
    reason = "no shape fits"
    for shape in [s for s in shapes for _ in range(_TRIES)]:
        draft = Draft(_tensors(op, shape, dtype, kind, rng), rules, rng)
        draft.allow_poison = True
        try:
            emit(draft, END, op, [Ref(number) for number in range(3)], keep_dtype=True)
            program = draft.build("invocation")
            node = _call_in(program, op)
            if kind != "invalid":
                alone = _alone(program, node)
                if not _is_edge(kind, alone):
                    raise Refused("no argument is of that kind")
                return alone, ""
            for changed in _edits(draft, node, rng):
                with_refusal = _refused(draft, changed)
                if with_refusal:
                    return _alone(draft.build("invocation"), changed), with_refusal  # with what the edit made
            reason = "no edit of its arguments is refused"
        except Refused as refusal:
            reason = str(refusal)
    raise Refused(reason)


def _without_chance(node: Node) -> Node:
    """The call as it is outside of training, where its results are not drawn; Refused when they always are."""
    if not ops.has_tag(node.op, torch.Tag.nondeterministic_seeded):
        return node
    places = {name: ops.position_of(node.op, name) for name in _CHANCE}
    if all(place is None for place in places.values()):
        raise Refused("its results are drawn at random")
    args, kwargs = list(node.args), dict(node.kwargs)
    for name, place in places.items():
        if place is not None and place < len(args):
            args[place] = _CHANCE[name]
        elif name in kwargs:
            kwargs[name] = _CHANCE[name]
    return replace(node, args=tuple(args), kwargs=kwargs)


def _in_role(op: str, dtype: str, kind: str, rng: Random, rules: RuleTable) -> Program:
    """An ordinary call whose arguments in one role have another dtype, if eager takes that."""
    role, _, other = kind.partition(" ")
    if not takes_role(op, role):
        raise Refused(f"it has no {role}")
    for _ in range(2 * _TRIES):  # optional arguments are not always given
        program = _applied(op, dtype, "ordinary", rng, rules)[0]
        metas = {item.id: item.meta for item in program.given()}
        changed = {ref for ref in arguments_in(program, role) if metas[ref].dtype != other}
        if changed:
            break
    else:
        raise Refused(f"its {role} has that dtype already")
    tensors = {item.id: recreate(recipe, item.meta) for item, recipe in zip(program.inputs, program.example)}
    tensors |= {c.id: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
    tensors |= {ref: tensors[ref].to(DTYPES[other]) for ref in changed}
    node = program.nodes[0]
    return _program_of(op, node.args, node.kwargs, tensors, {}, frozenset(c.id for c in program.constants))


def _is_edge(kind: str, program: Program) -> bool:
    """Whether a call is what an edge kind asks for; of the number of elements, that of its first tensor decides."""
    metas = [item.meta for item in program.inputs] or [item.meta for item in program.constants]
    if kind in (EMPTY, ONE, ODD):
        return bool(metas) and math.prod(metas[0].shape) == {EMPTY: 0, ONE: 1, ODD: 17}[kind]
    if kind == EXPANDED:
        return any(step == 0 and size > 1 for meta in metas for size, step in zip(meta.shape, meta.stride))
    return kind != TURNED or any(meta.stride != contiguous_stride(meta.shape) for meta in metas)


def _stride(shape: tuple[int, ...], kind: str, rng: Random) -> tuple[int, ...]:
    """The layout that a kind asks for."""
    stride = contiguous_stride(shape)
    if kind == TURNED and len(shape) > 1:
        turned = contiguous_stride((*shape[:-2], shape[-1], shape[-2]))
        return (*turned[:-2], turned[-1], turned[-2])
    if kind == EXPANDED and shape:
        place = rng.randrange(len(shape))
        rest = contiguous_stride((*shape[:place], 1, *shape[place + 1 :]))
        return (*rest[:place], 0, *rest[place + 1 :])
    return stride


def _tensors(op: str, shape: tuple[int, ...], dtype: str, kind: str, rng: Random) -> Base:
    known = signature(op)
    stride, plain = _stride(shape, kind, rng), contiguous_stride(shape)
    written = kind == EXPANDED and known is not None and known.in_place  # eager writes to no elements that overlap
    strides = (plain if written else stride, stride, stride)
    low, high = rng.choice(((-1.0, 1.0), (-4.0, 4.0), (0.01, 1.0)))
    inputs = tuple(Input(number, f"x{number}", TensorMeta(shape, dtype, strides[number])) for number in range(3))
    example = [recipe_of(dtype, ORDINARY, rng, low, high) for _ in inputs]
    if kind == "ordinary" and dtype.startswith("int"):  # negative numbers, and none to divide by is zero
        example = [Whole(rng.randrange(1 << 16), "whole", *span) for span in ((-9, 10), (1, 10), (1, 10))]
    return prepare("invocation", Program("invocation", inputs, (), (), (), tuple(example)), {})


def _call_in(program: Program, op: str) -> Node:
    return next(node for node in reversed(program.nodes) if node.op == op)


def _edits(draft: Draft, node: Node, rng: Random) -> Iterator[Node]:
    """The call with one argument changed to what it must not be: a dimension, a size, an index out of range."""
    for place, argument in enumerate(node.args):
        others: list[Argument] = []
        if type(argument) is int:
            others = [rng.choice((99, -99))]
        elif isinstance(argument, list | tuple) and argument and all(type(item) is int for item in argument):
            others = [[*argument[:-1], rng.choice((99, -99))]]
        elif type(argument) is Ref and place:
            found = draft.tensor(argument)
            if found.meta.dtype == "int64" and found.rank:
                others = [draft.constant(Whole(0, "index", 99, 100), found.shape, "int64")]
            elif found.rank and found.is_float:
                others = [draft.constant(Whole(0, "extra", 0, 2), (7, *found.shape[1:], 11), found.meta.dtype)]
        for other in others:
            yield replace(node, args=(*node.args[:place], other, *node.args[place + 1 :]))


def _refused(draft: Draft, node: Node) -> str:
    """Why eager refuses a call, as far as its rules tell; empty when it takes it."""
    try:
        draft.rules.sketched(node.op, node.args, node.kwargs, draft.known)  # also whether it checks its arguments
    except Refused as refusal:
        return "" if "does not check" in str(refusal) or "no shape rule" in str(refusal) else str(refusal)
    try:
        draft.rules.evaluate(node.op, node.args, node.kwargs, draft.known)
    except Refused as refusal:
        return str(refusal)
    return ""


def _alone(program: Program, node: Node) -> Program:
    """The call without what made its arguments: they are inputs, in the values that arrive there."""
    constants = {c.digest: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
    inputs = [recreate(recipe, item.meta) for recipe, item in zip(program.example, program.inputs)]
    tensors = {item.id: tensor for item, tensor in zip(program.inputs, inputs)}
    tensors |= {c.id: constants[c.digest] for c in program.constants if c.digest in constants}
    recipes: dict[int, Recipe] = {item.id: recipe for item, recipe in zip(program.inputs, program.example)}
    recipes |= {c.id: c.made for c in program.constants if c.made is not None}

    def note(before: Node, result: Any) -> Any:
        if isinstance(result, torch.Tensor):
            tensors[before.id] = result
        return result

    before = tuple(n for n in program.nodes if n.id < node.id)
    if before:
        Executable(replace(program, nodes=before, outputs=()), constants).run(inputs, note)
    weights = frozenset(c.id for c in program.constants)
    return _program_of(node.op, node.args, node.kwargs, tensors, recipes, weights, node.meta)


def _of_samples(op: str, dtype: str, rng: Random) -> Program:
    """One of torch's own samples; weights are inputs, as samples do not say which they are."""
    calls = sample_calls(op, dtype)
    if not calls:
        raise Refused("torch has no sample of it")
    args, kwargs = rng.choice(calls)
    tensors: dict[int, torch.Tensor] = {}

    def refer(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        same = next((identity for identity, tensor in tensors.items() if tensor is leaf), len(tensors))
        tensors[same] = leaf
        return Ref(same)

    node = changed_leaves(Node(0, op, args, kwargs), refer)
    return _program_of(op, node.args, node.kwargs, tensors, {}, frozenset())


def _program_of(
    op: str,
    args: Sequence[Argument],
    kwargs: Mapping[str, Argument],
    tensors: Mapping[int, torch.Tensor],
    recipes: Mapping[int, Recipe],
    weights: frozenset[int],
    meta: NodeMeta = None,
) -> Program:
    """One call on these tensors, which are named by the references in its arguments."""
    node = Node(0, op, tuple(args), dict(kwargs))
    used = dict.fromkeys(references(node))
    numbers = {old: new for new, old in enumerate(used)}
    inputs: list[Input] = []
    example: list[Recipe] = []
    constants: list[Constant] = []
    for old, new in numbers.items():
        tensor = tensors[old]
        if tensor.layout is not torch.strided or tensor.dtype not in DTYPE_NAMES:
            raise Refused("an argument is not a plain tensor")
        recipe = recipes.get(old) or held(tensor)
        if recipe is None:
            raise Refused("an argument is too large")
        described = TensorMeta.of(tensor)
        if old in weights:
            constants.append(Constant(new, f"w{new}", described, digest(tensor), recipe))
        else:
            inputs.append(Input(new, f"x{new}", described))
            example.append(recipe)
    call = replace(
        changed_leaves(node, lambda leaf: Ref(numbers[int(leaf)]) if type(leaf) is Ref else leaf), id=len(numbers)
    )
    call = replace(call, meta=meta if meta is not None else _result(node, tensors))
    return Program("invocation", tuple(inputs), tuple(constants), (call,), (Ref(call.id),), tuple(example))


def _result(node: Node, tensors: Mapping[int, torch.Tensor]) -> NodeMeta:
    """What eager gives; Refused when it refuses the call."""
    copies = {identity: copy_of(tensor) for identity, tensor in tensors.items()}
    call = changed_leaves(node, lambda leaf: copies[int(leaf)] if type(leaf) is Ref else leaf)
    try:
        return _meta(ops.resolve(node.op)(*call.args, **call.kwargs))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        raise Refused(str(error)[:160]) from error


def _meta(result: Any) -> NodeMeta:
    if isinstance(result, torch.Tensor):
        if result.layout is not torch.strided or result.dtype not in DTYPE_NAMES:
            raise Refused("its result is not a plain tensor")
        return TensorMeta.of(result)
    if isinstance(result, list | tuple):
        return tuple(_meta(item) for item in result)
    raise Refused("its result is not a tensor")
