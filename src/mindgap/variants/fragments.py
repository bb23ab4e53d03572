"""Fragments: one to about a dozen operators, changed, on the tensors that really arrive there, every result returned.

A fragment is either an operator of the catalogue on tensors of a real program's shapes and layouts, in any dtype and
with any class of values (`special.py`), or a neighbourhood cut out of a real program and then mutated like a whole
variant. The masking rest of the model is gone, and so is most of the cost.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import torch

from mindgap.errors import MindgapError
from mindgap.program.build import without_unused
from mindgap.program.graph import Constant, Input, Node, Program, Ref, digest, references
from mindgap.program.interpret import Executable
from mindgap.program.made import Recipe, held, recreate
from mindgap.program.operators import traits
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, TensorMeta
from mindgap.records.variant import Intent, Provenance
from mindgap.variants import catalogue
from mindgap.variants.base import Base, is_frozen, prepare, written_values
from mindgap.variants.draft import Draft, meta_of
from mindgap.variants.fill import emit
from mindgap.variants.order import END
from mindgap.variants.rounds import ROUNDS, in_round
from mindgap.variants.rules import Refused, Result, RuleTable, one_thread
from mindgap.variants.special import ORDINARY, classes_of, recipe_of
from mindgap.variants.synthesis import SHARED_RULES, Variant, make_variant
from mindgap.variants.values import contiguous_stride

MOST_ELEMENTS: Final = 4096
"""Of a tensor that arrives at a fragment: real layers of small models, and few enough for a thousand in a crowd."""
MOST_RESULTS: Final = 1 << 16
"""Elements of all results."""
MOST_NODES: Final = 16
_DTYPES: Final = (
    {"float32": 1},
    {"int64": 2, "int32": 2, "int16": 1, "int8": 1, "uint8": 2, "bool": 1},
    {"float16": 5, "bfloat16": 5, "float64": 1},
)
"""By turn: what an operator is wished for in. It meets a dtype of each kind before one of them comes again."""
_EVERY_DTYPE: Final = tuple(dtype for some in _DTYPES for dtype in some)
_PLAIN: Final = 0.6
"""How often it is the operator alone: what is around it may hide it, or be refused."""
_INPUTS: Final = 3
"""Tensors for one call."""
_SHAPES: Final = (
    (1,), (17,), (3,), (8,), (33,), (0,), (), (1, 1), (2, 17), (4, 8), (0, 3), (3, 1, 5), (2, 3, 4), (1, 3, 7, 7),
    (2, 4, 5, 5),
)  # fmt: skip
"""Lengths that vector code treats specially: one element, one more than a register holds, none."""
_REAL_SHAPE: Final = 0.5
_CUT_SHARE: Final = 0.5
"""How often a fragment is to be cut out of a real program; the others put an operator on tensors of one. More than a
third really are: not every operator takes what it finds in four places."""
_PLACES: Final = 4
"""Places of a program that are tried: many hold large tensors, do not run in the wished dtype, or do not take the
operator."""
_AS_IT_IS: Final = 0.15
"""How often a place gets nothing but mutations of whole variants, which may or may not use the wished operator."""
_SIZES: Final = (1, 2, 2, 3, 4, 6)
"""Operators that are cut out."""
_SECOND: Final = 0.7
"""How often another operator reads the result."""
_REVEALED: Final = 0.3
"""How often that is the reciprocal: it tells signed zeros apart, and infinities from large numbers."""
_WRITE: Final = 0.35
"""How often a value is overwritten by an in-place operator before, and how often behind."""
_TRIES: Final = 4
_MOST_ATTEMPTS: Final = 40
_AS_INPUTS: Final = 0.5
"""How often weights, positions and other arguments are inputs, so that its rounds change them; compilers treat
constants in ways of their own."""
_OTHER_DTYPE: Final = 0.15
"""How often the second tensor has another dtype than the first."""
_REFUSED: Final = 0.08
"""How often an operator may get values that eager refuses although shapes and dtypes fit: do platforms check them?"""
_MUTATED: Final = 0.5
"""How often an applied operator is then mutated like a part of a real program."""
_INVALID: Final = 0.1
_EQUIVALENT: Final = 0.03


@dataclass(frozen=True, slots=True)
class Wish:
    """What a fragment should exercise: an operator, in a dtype, on a class of values."""

    op: str
    dtype: str
    values: str


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """A base with the small tensors that flow through it on its example."""

    base: Base
    tensors: dict[int, torch.Tensor]
    constants: dict[str, torch.Tensor]


def places(base: Base) -> Places:
    """Run a base once and keep what a fragment may be fed with."""
    program = base.program
    made = {c.digest: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
    constants = {**base.kept, **made}
    tensors: dict[int, torch.Tensor] = {}

    def keep(identity: int, result: Any) -> None:
        small = isinstance(result, torch.Tensor) and result.numel() <= MOST_ELEMENTS
        if small and result.dtype in DTYPE_NAMES and result.layout is torch.strided:
            tensors[identity] = result.detach().clone()

    def note(node: Node, result: Any) -> Any:
        keep(node.id, result)
        return result

    inputs = [recreate(recipe, item.meta) for recipe, item in zip(program.example, program.inputs)]
    for item, tensor in zip(program.inputs, inputs):
        keep(item.id, tensor)
    with torch.no_grad(), one_thread():
        Executable(program, constants).run(inputs, note)
    small = {c.digest for c in program.constants if math.prod(c.meta.shape) <= MOST_ELEMENTS}
    return Places(base, tensors, {name: tensor for name, tensor in constants.items() if name in small})


@functools.cache
def operators() -> tuple[str, ...]:
    """What a fragment may be asked for: operators that compute, and those that overwrite."""
    return (*catalogue.functional(), *catalogue.unusual(), *catalogue.in_place())


def wish(seed: int, index: int) -> Wish:
    """The wish of the fragment with this number: every operator comes once before any comes again."""
    turn, place = divmod(index, len(operators()))
    op = _shuffled(seed, turn)[place]
    rng = Random(f"{seed} {index}")
    # Operators begin with different kinds, so that a short campaign has all of them.
    weights = _DTYPES[(turn + operators().index(op)) % len(_DTYPES)]
    dtype = rng.choices(list(weights), list(weights.values()))[0]
    return Wish(op, dtype, rng.choice(classes_of(dtype)))


@functools.lru_cache(maxsize=8)
def _shuffled(seed: int, turn: int) -> list[str]:
    return Random(f"{seed} {turn}").sample(operators(), len(operators()))


class Fragmenting:
    """The numbered stream of fragments over several bases: each is made on its own, so none needs those before it."""

    def __init__(self, bases: Sequence[Base], seed: int, rules: RuleTable = SHARED_RULES) -> None:
        self._bases = sorted(bases, key=lambda base: base.fingerprint)
        self._places: dict[str, Places] = {}
        self._seed = seed
        self._rules = rules
        self._last: tuple[int, Variant] | None = None
        self.skipped: Counter[str] = Counter()
        """Wishes that could not be fulfilled as they were, by reason."""

    def make(self, index: int) -> Variant:
        """The fragment with this number: a program, in one of its rounds."""
        place, turn = divmod(index, ROUNDS)
        if self._last is None or self._last[0] != place:
            self._last = place, self._first_round(place)
        return in_round(self._last[1], turn)

    def _first_round(self, index: int) -> Variant:
        """Where the wish cannot be had, a fragment as near to it as possible."""
        asked = wish(self._seed, index)
        rng = Random(f"{self._seed} fragment {index}")
        for attempt in range(_MOST_ATTEMPTS):
            base = rng.choice(self._bases)
            seed = rng.getrandbits(48)
            if attempt >= _TRIES:  # another dtype, then another operator
                dtype = rng.choice(_EVERY_DTYPE)
                asked = replace(asked, dtype=dtype, values=rng.choice(classes_of(dtype)))
            if attempt >= 2 * _TRIES:
                asked = replace(asked, op=rng.choice(operators()))
            try:
                return make_fragment(self._of(base), seed, asked, self._rules)
            except (Refused, MindgapError) as refusal:
                self.skipped[str(refusal)[:80]] += 1
        return make_fragment(
            self._of(self._bases[0]), index, Wish("aten.neg.default", "float32", "ordinary"), self._rules
        )

    def _of(self, base: Base) -> Places:
        if base.fingerprint not in self._places:
            self._places[base.fingerprint] = places(base)
        return self._places[base.fingerprint]


def make_fragment(given: Places, seed: int, asked: Wish, rules: RuleTable = SHARED_RULES) -> Variant:
    """The fragment of a base for a seed and a wish, in its first round: the same in every process.

    Refused when it cannot be had.
    """
    rng = Random(f"{given.base.fingerprint} {seed} {asked.op} {asked.dtype} {asked.values}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _cut_out(given, rng, asked, rules) if rng.random() < _CUT_SHARE else None
        found = found or _applied(given, rng, asked, rules, is_plain=rng.random() < _PLAIN)
    program = every_result(found.program, with_inputs=rng.random() < _AS_INPUTS)
    if not program.nodes or len(program.nodes) > MOST_NODES:
        raise Refused("it has too many operators" if program.nodes else "it has no operator")
    provenance = replace(
        found.provenance,
        base=given.base.fingerprint,
        base_name=given.base.name,
        seed=seed,
        donor="",
        donor_name="",
        focus=(asked.op, asked.dtype, asked.values),
        is_fragment=True,
    )
    return Variant(replace(program, name=f"{given.base.name}/{seed:x}"), provenance)


def _applied(given: Places, rng: Random, asked: Wish, rules: RuleTable, is_plain: bool) -> Variant:
    """The operator on tensors of a real shape, or of one that vector code treats specially; with others around it
    unless it is to be plain."""
    shape, stride = _shape(given, rng)
    low, high = rng.choice(((-1.0, 1.0), (-1.0, 1.0), (-4.0, 4.0), (0.01, 1.0), (-100.0, 100.0)))
    metas = []
    for number in range(_INPUTS):
        mine, step = shape, stride
        if number and shape and rng.random() < 0.15:  # broadcast
            mine = (*shape[:-1], 1) if rng.random() < 0.5 else shape[1:]
            step = contiguous_stride(mine)
        dtype = rng.choice(_EVERY_DTYPE) if number and rng.random() < _OTHER_DTYPE else asked.dtype
        metas.append(TensorMeta(mine, dtype, step))
    inputs = [Input(number, f"x{number}", meta) for number, meta in enumerate(metas)]
    example = [recipe_of(meta.dtype, asked.values if meta.dtype == asked.dtype else ORDINARY, rng, low, high)
               for meta in metas]  # fmt: skip
    base = prepare("fragment", Program("fragment", tuple(inputs), (), (), (), tuple(example)), {})
    draft = _FragmentDraft(base, rules, rng)
    draft.allow_poison = True
    draft.keeps_refused = rng.random() < _REFUSED
    tensors = [Ref(number) for number in range(_INPUTS)]
    if not is_plain and rng.random() < _WRITE:
        _overwrite(draft, tensors[0])
    result = _tried(draft, asked.op, tensors)
    draft.steps.append(f"apply {asked.op} to {asked.dtype}{list(shape)} with {asked.values} values")
    if not is_plain and rng.random() < _SECOND:
        state = draft.checkpoint()
        other = "aten.reciprocal.default" if rng.random() < _REVEALED else rng.choice(catalogue.functional())
        try:
            result = emit(draft, END, other, [result, tensors[1]])
            draft.steps.append(f"apply {other} to its result")
        except Refused:
            draft.restore(state)
    if not is_plain and rng.random() < _WRITE:
        _overwrite(draft, rng.choice((result, tensors[0])))
    intent, told = _intent_of(draft)
    provenance = Provenance("", "", 0, intent, told, ("apply-operator",), values=asked.values)
    found = Variant(draft.build("fragment"), provenance)
    mutates = not is_plain and rng.random() < _MUTATED and not draft.refusal
    return _mutated(found, rng, rules) if mutates else found


class _FragmentDraft(Draft):
    """A draft that may keep a call which eager refuses for its values alone."""

    keeps_refused = False
    refusal = ""

    def _evaluate(self, node: Node) -> Result:
        try:
            return super()._evaluate(node)
        except Refused as refusal:
            if not self.keeps_refused or self.refusal or "not implemented" in str(refusal):
                raise  # where eager has no kernel there is no check that others could lack
            found = self.rules.sketched(node.op, node.args, node.kwargs, self.known)
            self.refusal = str(refusal)
            return found


def _mutated(found: Variant, rng: Random, rules: RuleTable) -> Variant:
    """The same with the mutations of whole variants on top; as it was where none fits."""
    program = every_result(found.program)
    if any(traits(node.op).traps for node in program.nodes):
        return found  # it is run here to be varied, and what a cast made of an infinity may end this process
    constants = {c.digest: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
    try:
        base = prepare("fragment", program, constants)
        more = make_variant(
            base, rng.getrandbits(48), invalid_share=3 * _INVALID, equivalent_share=_EQUIVALENT, rules=rules
        )
    except (Refused, MindgapError):
        return found
    return _together(found.provenance, more)


def _tried(draft: _FragmentDraft, op: str, tensors: Sequence[Ref]) -> Ref:
    """Arguments are drawn again where the operator refuses them; values that it refuses to the end are kept."""
    for attempt in range(_TRIES):
        state = draft.checkpoint()
        draft.keeps_refused |= attempt == _TRIES - 1
        try:
            return emit(draft, END, op, tensors)
        except Refused:
            draft.restore(state)
            draft.refusal = ""
            if attempt == _TRIES - 1:
                raise
    raise AssertionError


def _overwrite(draft: Draft, source: Ref) -> None:
    state = draft.checkpoint()
    op = draft.rng.choice(catalogue.in_place())
    try:
        writer = emit(draft, END, op, [source])
        node = draft.node(writer)
        if node is None or node.args[0] != source:
            raise Refused("the operator needs another shape or dtype")
        draft.overwritten(source, writer)
        draft.steps.append(f"overwrite %{int(source)} with {op}")
    except Refused:
        draft.restore(state)


def _shape(given: Places, rng: Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if given.tensors and rng.random() < _REAL_SHAPE:
        tensor = given.tensors[rng.choice(sorted(given.tensors))]
        if tensor.numel() <= MOST_ELEMENTS // 4:
            return tuple(tensor.shape), tuple(tensor.stride())
    shape = rng.choice(_SHAPES)
    stride = contiguous_stride(shape)
    if len(shape) > 1 and rng.random() < 0.25:  # transposed
        turned = contiguous_stride((*shape[:-2], shape[-1], shape[-2]))
        stride = (*turned[:-2], turned[-1], turned[-2])
    return shape, stride


def _cut_out(given: Places, rng: Random, asked: Wish, rules: RuleTable) -> Variant | None:
    """A neighbourhood of a real program, in the wished dtype, on what arrives there, with the wished operator put in.

    None where the program has no small tensors there, or does not run in that dtype.
    """
    is_plain = rng.random() < _AS_IT_IS
    for _ in range(_PLACES):
        try:
            base = _place(given, rng, asked)
            return _varied(base, rng, asked, rules) if is_plain else _with_operator(base, rng, asked, rules)
        except (Refused, MindgapError):
            continue
    return None


def _place(given: Places, rng: Random, asked: Wish) -> Base:
    """Some operators of a real program that run by themselves, with what they really give in this dtype."""
    part, constants = _part(given, _neighbourhood(given, rng), rng, asked)
    if not DTYPES[asked.dtype].is_floating_point and any(traits(node.op).traps for node in part.nodes):
        raise Refused("a division of whole numbers may end this process")
    base = prepare("fragment", part, constants)
    nodes = tuple(replace(node, meta=meta_of(base.values.get(node.id))) for node in part.nodes)
    program = replace(base.program, nodes=nodes)
    return replace(base, program=program, objects=frozenset(map(id, nodes)))


def _cut(base: Base, asked: Wish) -> Provenance:
    """What is known of a place that nobody has changed yet."""
    told = f"cut out {', '.join(node.op for node in base.program.nodes)} in {asked.dtype} with {asked.values} values"
    return Provenance("", "", 0, Intent.VALID, (told,), ("cut-out",), values=asked.values)


def _varied(base: Base, rng: Random, asked: Wish, rules: RuleTable) -> Variant:
    """The place changed like a whole variant."""
    seed, focus = rng.getrandbits(48), (asked.op,)
    more = make_variant(base, seed, focus=focus, invalid_share=_INVALID, equivalent_share=_EQUIVALENT, rules=rules)
    return _together(_cut(base, asked), more)


def _with_operator(base: Base, rng: Random, asked: Wish, rules: RuleTable) -> Variant:
    """The wished operator reads what the place is given or computes; sometimes that is mutated then."""
    draft = _FragmentDraft(base, rules, rng)
    draft.allow_poison = True
    draft.keeps_refused = rng.random() < _REFUSED
    results = [int(leaf) for leaf in base.program.outputs if isinstance(leaf, Ref)]
    wished = [i for i in (*results, *results, *(item.id for item in base.program.inputs))
              if draft.tensor(i).meta.dtype == asked.dtype]  # fmt: skip
    if not wished:
        raise Refused("nothing there has the dtype")
    tensors = [Ref(rng.choice(wished)) for _ in range(_INPUTS)]
    if rng.random() < _WRITE:
        _overwrite(draft, tensors[0])
    _tried(draft, asked.op, tensors)
    draft.steps.append(f"apply {asked.op} to %{int(tensors[0])}")
    intent, told = _intent_of(draft)
    added = Variant(draft.build("fragment"), Provenance("", "", 0, intent, told, ("apply-operator",)))
    found = _together(_cut(base, asked), added)
    mutates = intent is Intent.VALID and rng.random() < _MUTATED
    return _mutated(found, rng, rules) if mutates else found


def _intent_of(draft: _FragmentDraft) -> tuple[Intent, tuple[str, ...]]:
    """What a draft was made for, and its steps in words."""
    if not draft.refusal:
        return Intent.VALID, tuple(draft.steps)
    return Intent.INVALID, (*draft.steps, f"eager refuses it: {draft.refusal}")


def _together(before: Provenance, after: Variant) -> Variant:
    """What was done before and after, on the values of before."""
    more = after.provenance
    steps, names = (*before.steps, *more.steps), (*before.mutations, *more.mutations)
    return Variant(after.program, replace(more, steps=steps, mutations=names, values=before.values))


def _neighbourhood(given: Places, rng: Random) -> set[int]:
    """Nodes that read each other around a random one."""
    nodes, users = given.base.program.nodes, given.base.users
    by_id = {node.id: node for node in nodes}
    if not nodes:
        raise Refused("the program has no operator")
    chosen = {rng.choice(nodes).id}
    for _ in range(rng.choice(_SIZES) - 1):
        near = {r for i in chosen for r in references(by_id[i]) if r in by_id}
        near |= {user for i in chosen for user in users.get(i, ())}
        left = sorted(near - chosen)
        if not left:
            break
        chosen.add(rng.choice(left))
    for identity in sorted(chosen):  # what takes results apart belongs to its operator
        node = by_id[identity]
        if node.op == "operator.getitem":
            chosen.add(int(node.args[0]))
    if any(is_frozen(by_id[i]) and by_id[i].op != "operator.getitem" for i in chosen):
        raise Refused("an operator there draws random numbers")
    return chosen


def _part(given: Places, chosen: set[int], rng: Random, asked: Wish) -> tuple[Program, dict[str, torch.Tensor]]:
    """The chosen nodes as a program; floating inputs and weights in the wished dtype, some inputs with its values.

    Where the wish is for whole numbers, floating ones are drawn anew; those that are whole already are positions.
    """
    program = given.base.program
    nodes = [node for node in program.nodes if node.id in chosen]
    needed = dict.fromkeys(r for node in nodes for r in references(node) if r not in chosen)
    known = {c.id: c for c in program.constants}
    inputs: list[Input] = []
    example: list[Recipe] = []
    constants: dict[int, Constant] = {}
    tensors: dict[str, torch.Tensor] = {}
    for identity in needed:
        constant = known.get(identity)
        tensor = given.constants.get(constant.digest) if constant is not None else given.tensors.get(identity)
        if tensor is None:
            raise Refused("what arrives there is too large")
        floating = tensor.is_floating_point()
        cast = _in_dtype(tensor, asked.dtype, rng) if floating else tensor
        meta = TensorMeta.of(cast)
        written = identity in given.base.written
        if constant is not None and not written:
            recipe = constant.made if cast is tensor else held(cast)
            if recipe is None:
                raise Refused("a weight there is too large")
            constants[identity] = Constant(identity, constant.name, meta, digest(cast), recipe)
            tensors[digest(cast)] = cast
            continue
        value = held(cast)
        if floating and (value is None or (asked.values != ORDINARY and rng.random() < 0.7)):
            finite = tensor[torch.isfinite(tensor)].double()
            bound = min(100.0, float(finite.abs().max())) if finite.numel() else 1.0
            value = recipe_of(asked.dtype, asked.values, rng, -bound, bound)  # type: ignore[assignment]
        if value is None:
            raise Refused("what arrives there is too large")
        inputs.append(Input(identity, f"v{identity}", meta))
        example.append(value)
    outputs = tuple(Ref(node.id) for node in nodes if isinstance(node.meta, TensorMeta))
    bare = tuple(replace(node, where="", line="") for node in nodes)
    part = Program("fragment", tuple(inputs), tuple(constants.values()), bare, outputs, tuple(example))
    return part, tensors


def _in_dtype(tensor: torch.Tensor, dtype: str, rng: Random) -> torch.Tensor:
    """A floating tensor in another dtype; small numbers cast to whole ones would all be zero, so others are drawn."""
    element = DTYPES[dtype]
    if element.is_floating_point:
        return tensor.to(element)
    return recreate(recipe_of(dtype, ORDINARY, rng), replace(TensorMeta.of(tensor), dtype=dtype))


def every_result(program: Program, with_inputs: bool = False) -> Program:
    """The program that returns whatever it computes; what several results hold is taken apart.

    `with_inputs` also gives it its constants as inputs, as far as they are made from a recipe.
    """
    fresh = max((item.id for item in (*program.given(), *program.nodes)), default=0) + 1
    taken = {(int(n.args[0]), n.args[1]) for n in program.nodes if n.op == "operator.getitem"}
    nodes: list[Node] = []
    outputs: list[Ref] = []
    elements = 0
    for node in program.nodes:
        nodes.append(node)
        metas = [(node.id, node.meta)]
        if isinstance(node.meta, tuple):
            metas = []
            for place, meta in enumerate(node.meta):
                if (node.id, place) not in taken and isinstance(meta, TensorMeta):
                    nodes.append(Node(fresh, "operator.getitem", (Ref(node.id), place), meta=meta))
                    metas.append((fresh, meta))
                    fresh += 1
        for identity, meta in metas:
            if isinstance(meta, TensorMeta):
                outputs.append(Ref(identity))
                elements += math.prod(meta.shape)
    if elements > MOST_RESULTS:
        raise Refused("its results are too large")
    used = {r for node in nodes for r in references(node)}
    given = [(item, recipe) for item, recipe in zip(program.inputs, program.example) if item.id in used]
    written = written_values(program)  # statistics of a norm: in a crowd, others would read what one has written
    moved = [c for c in program.constants if c.id in written or (with_inputs and c.made is not None)]
    if any(c.made is None for c in moved):
        raise Refused("it writes to a weight that no seed gives")
    given += [(Input(c.id, f"v{c.id}", c.meta), c.made) for c in moved if c.made is not None]
    return without_unused(
        replace(
            program,
            constants=tuple(c for c in program.constants if c not in moved),
            inputs=tuple(item for item, _ in given),
            example=tuple(recipe for _, recipe in given),
            nodes=tuple(nodes),
            outputs=tuple(outputs),
        )
    )
