"""Value numbering: what is computed from the same values in the same way has one number, in whichever program it is.

Names, order, layouts, reshapes and operators that change nothing leave no trace in a number. Constants count by their
content; what is made of constants alone is computed. With `folding`, products and sums with constants move into the
convolution or matrix product before them, as exporters do with a batch normalisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch

from mindgap.audit.canonical import Form
from mindgap.errors import MindgapError
from mindgap.program import ops
from mindgap.program.graph import Node, NodeMeta, Ref, digest, leaves, map_leaves
from mindgap.program.interpret import written_by
from mindgap.program.operators import Rounding, base_name, traits
from mindgap.records.tensors import DTYPES, TensorMeta

CLOSE: Final = 64
"""Units of the last place, of a constant's largest element, that two folded constants may differ by: a folded weight is
rounded some four times, and a bias that cancels loses a few bits more."""
MOST_FOLDED: Final = 1 << 26
"""Elements of what is computed from constants: 256 MB in float32, more than any weight of a corpus model."""

_KEEPS_ORDER: Final = frozenset({
    "alias", "detach", "clone", "contiguous", "view", "reshape", "_unsafe_view", "_reshape_alias", "flatten",
    "unflatten", "squeeze", "unsqueeze", "expand", "expand_as", "view_as", "reshape_as", "slice", "narrow", "to",
    "_to_copy", "type_as", "lift", "lift_fresh", "lift_fresh_copy", "positive", "pos", "ravel", "broadcast_to",
    "atleast_1d", "atleast_2d", "atleast_3d", "resolve_conj", "resolve_neg", "view_copy", "squeeze_copy",
    "unsqueeze_copy", "expand_copy", "detach_copy", "convert_element_type",
})  # fmt: skip
"""Operators whose result holds the elements of their first argument one after the other, where it has as many."""
_COMMUTES: Final = frozenset({
    "add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_xor", "__and__", "__or__",
})  # fmt: skip
_IRRELEVANT: Final = frozenset({"memory_format", "non_blocking", "pin_memory", "layout", "device", "cudnn_enabled"})
"""Arguments that decide where or how numbers lie, not which they are."""
_CONVOLUTIONS: Final = frozenset({"convolution", "conv1d", "conv2d", "conv3d"})
_NORMALISES: Final = frozenset({"batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training"})

Arguments: TypeAlias = dict[str, Any]
"""By name: literals, `Read`s and tuples of them."""


@dataclass(frozen=True, slots=True)
class Read:
    """A value as an argument, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Value:
    """What has a number: an operator with its arguments, an input or a constant."""

    op: str
    args: tuple[tuple[str, Any], ...]
    meta: NodeMeta
    reads: tuple[int, ...]

    def argument(self, name: str) -> Any:
        return dict(self.args).get(name)


@dataclass(frozen=True, slots=True)
class _Known:
    """What a call came to, and what it made on the way."""

    result: Any
    made: tuple[int, ...]
    absorbed: tuple[int, ...]


@dataclass
class Values:
    """All values of the programs that are compared."""

    folding: bool = False
    all: list[Value] = field(default_factory=list)
    tensors: dict[int, torch.Tensor] = field(default_factory=dict)
    """Constants by number."""
    folded: set[int] = field(default_factory=set)
    """Constants that were computed, with rounding."""
    _numbers: dict[Any, int] = field(default_factory=dict)
    _calls: dict[Any, _Known] = field(default_factory=dict)
    _alike: dict[tuple[tuple[int, ...], torch.dtype], list[int]] = field(default_factory=dict)
    _made: list[int] = field(default_factory=list)
    _absorbed: list[int] = field(default_factory=list)

    def number(self, op: str, args: Arguments, meta: NodeMeta) -> int:
        """The number of a value; a new one where nothing has been computed so before."""
        named = tuple(sorted((name, _hashable(value)) for name, value in args.items() if value is not None))
        found = self._numbers.get((op, named))
        if found is None:
            reads = tuple(leaf.number for _, leaf in leaves([value for _, value in named]) if isinstance(leaf, Read))
            found = self._numbers[op, named] = self._add(Value(op, named, meta, reads))
        self._made.append(found)
        return found

    def constant(self, tensor: torch.Tensor, folded: bool = False) -> int:
        """The number of a constant: the same content, or for computed ones the same but for rounding."""
        content = digest(tensor.detach().contiguous())
        found = self._numbers.get(content)
        if found is None:
            alike = self._alike.setdefault((tuple(tensor.shape), tensor.dtype), [])
            near = (n for n in alike if (folded or n in self.folded) and _are_close(tensor, self.tensors[n]))
            found = next(near, None)
            if found is None:
                found = self._add(Value("constant", (("content", content),), TensorMeta.of(tensor), ()))
                self.tensors[found] = tensor
                alike.append(found)
                self.folded |= {found} if folded else set()
            self._numbers[content] = found
        return found

    def call(self, op: str, args: Arguments, meta: NodeMeta) -> _Known:
        """What an operator with these arguments comes to: a number, several, or a literal."""
        key = op, tuple(sorted((name, _hashable(value)) for name, value in args.items())), _size(meta)
        found = self._calls.get(key)
        if found is None:
            self._made, self._absorbed = [], []
            result = self._simplified(op, args, meta)
            found = self._calls[key] = _Known(result, tuple(self._made), tuple(self._absorbed))
        return found

    def _add(self, value: Value) -> int:
        self.all.append(value)
        return len(self.all) - 1

    def _simplified(self, op: str, args: Arguments, meta: NodeMeta) -> Any:
        name = base_name(op)
        if name == "getitem" and isinstance(args["self"], tuple):
            return args["self"][args["other"]]
        computed = self._computed(op, args)
        if computed is not None:
            return computed
        first = next(iter(args.values()), None)
        if traits(op).borrows:
            kept = {name: value for name, value in args.items() if not isinstance(value, Read)}
            return Read(self.number(name, {**kept, "of": _size(meta)}, meta))
        if isinstance(first, Read) and isinstance(meta, TensorMeta):
            if name in _KEEPS_ORDER and self._holds_same(first.number, meta):
                return Read(self._reshaped(first.number, meta))
            if (traits(op).drops and args.get("train") is False) or self._is_idle(name, args, meta):
                return first
            order = _order(name, args, len(meta.shape))
            if order is not None:
                return Read(self._permuted(first.number, order, meta))
        if self.folding:
            rewritten = self._rewritten(name, args, meta)
            if rewritten is not None:
                return rewritten
        if name in _COMMUTES and _rank(args.get("self")) > _rank(args.get("other")) and args.get("alpha", 1) == 1:
            args = {**args, "self": args["other"], "other": args["self"]}
        return Read(self.number(name, args, meta))

    def _computed(self, op: str, args: Arguments) -> Any:
        """What comes of constants alone; None where something else is read, or the result is not always the same."""
        reads = [leaf.number for _, leaf in leaves(list(args.values())) if isinstance(leaf, Read)]
        if any(number not in self.tensors for number in reads) or not _is_pure(op):
            return None
        given = map_leaves(args, lambda leaf: self.tensors[leaf.number] if isinstance(leaf, Read) else leaf)
        try:
            with torch.no_grad():
                result = _called(op, given)
        except Exception:  # whatever an operator says of arguments that do not suit it
            return None
        if any(isinstance(leaf, torch.Tensor) and leaf.numel() > MOST_FOLDED for _, leaf in leaves(result)):
            return None
        rounds = traits(op).rounding is not Rounding.EXACT or any(number in self.folded for number in reads)
        folded = bool(reads) and rounds
        return map_leaves(
            tuple(result) if isinstance(result, list) else result,
            lambda leaf: Read(self.constant(leaf, folded)) if isinstance(leaf, torch.Tensor) else leaf,
        )

    def _holds_same(self, number: int, meta: TensorMeta) -> bool:
        given = self.all[number].meta
        return (
            isinstance(given, TensorMeta)
            and given.dtype == meta.dtype
            and math.prod(given.shape) == math.prod(meta.shape)
        )

    def _reshaped(self, number: int, meta: TensorMeta) -> int:
        value = self.all[number]
        inner = value.reads[0] if value.op == "reshape" else number
        given = self.all[inner].meta
        if isinstance(given, TensorMeta) and given.shape == meta.shape:
            return inner
        return self.number("reshape", {"self": Read(inner), "shape": meta.shape}, meta)

    def _permuted(self, number: int, order: tuple[int, ...], meta: TensorMeta) -> int:
        value = self.all[number]
        if value.op == "permute":
            inner = value.argument("order")
            number, order = value.reads[0], tuple(inner[n] for n in order)
        if order == tuple(range(len(order))):
            return number
        return self.number("permute", {"self": Read(number), "order": order}, meta)

    def _is_idle(self, name: str, args: Arguments, meta: TensorMeta) -> bool:
        """Whether an operator adds nothing, or multiplies with one."""
        neutral = {"add": 0, "sub": 0, "mul": 1, "div": 1, "true_divide": 1, "pow": 1}.get(name)
        first, other = args.get("self"), args.get("other", args.get("exponent"))
        if neutral is None or not isinstance(first, Read) or args.get("rounding_mode") is not None:
            return False
        same = _size(self.all[first.number].meta) == _size(meta)
        if isinstance(other, Read):
            held = self.tensors.get(other.number)
            return same and held is not None and bool((held == neutral).all())
        return same and isinstance(other, int | float) and other == neutral

    def _rewritten(self, name: str, args: Arguments, meta: NodeMeta) -> Any:
        """The value with its factors and summands moved into what is before it; None where none can be."""
        if name in _NORMALISES:
            return self._normalised(name, args, meta)
        if not isinstance(meta, TensorMeta) or not meta.dtype.startswith(("float", "bfloat")):
            return None
        if name in _CONVOLUTIONS and isinstance(args.get("bias"), Read):
            return self._without_bias(name, args, meta)
        if name in ("add", "sub", "mul", "div") and args.get("alpha", 1) == 1 and not args.get("rounding_mode"):
            value, constant = self._factors(name, args, meta)
            if value is not None and constant is not None:
                return Read(self._scaled(value, constant, meta) if name in ("mul", "div")
                            else self._shifted(value, constant, meta))  # fmt: skip
        return None

    def _factors(self, name: str, args: Arguments, meta: TensorMeta) -> tuple[int | None, int | None]:
        """What a product or sum with a constant is made of: the value, and the factor or summand."""
        sides = [args.get("self"), args.get("other")]
        if name in ("add", "mul") and self._held(sides[0], meta) is not None:
            sides.reverse()
        held = self._held(sides[1], meta)
        if not isinstance(sides[0], Read) or held is None or self._held(sides[0], meta) is not None:
            return None, None
        turned = {"sub": lambda t: -t, "div": lambda t: 1 / t}.get(name)
        return sides[0].number, held if turned is None else self._combined(meta, turned, held)

    def _held(self, side: Any, meta: TensorMeta) -> int | None:
        """A constant by its number, without dimensions of one element in front; also of a literal."""
        if isinstance(side, bool | int | float):
            return self.constant(torch.tensor(side, dtype=DTYPES[meta.dtype]), folded=True)
        if not isinstance(side, Read) or side.number not in self.tensors:
            return None
        tensor = self.tensors[side.number]
        while tensor.dim() and tensor.shape[0] == 1:
            tensor = tensor[0]
        return self.constant(tensor, side.number in self.folded)

    def _combined(self, meta: TensorMeta, combine: Callable[..., torch.Tensor], *constants: int) -> int:
        """A constant made from others, in float64."""
        made = combine(*(self.tensors[number].double() for number in constants))
        return self.constant(made.to(DTYPES[meta.dtype]), folded=True)

    def _normalised(self, name: str, args: Arguments, meta: NodeMeta) -> Any:
        """A batch normalisation with fixed statistics as a product and a sum."""
        parts = [args.get(key) for key in ("weight", "bias", "running_mean", "running_var")]
        first, tuples = args.get("input"), isinstance(meta, tuple)
        result = meta[0] if isinstance(meta, tuple) and meta else meta
        held = [part is None or (isinstance(part, Read) and part.number in self.tensors) for part in parts]
        if args.get("training") or not isinstance(first, Read) or not isinstance(result, TensorMeta) or not all(held):
            return None
        if parts[2] is None or parts[3] is None:
            return None
        weight, bias, mean, variance = (None if part is None else self.tensors[part.number].double() for part in parts)
        assert mean is not None and variance is not None
        factor = (variance + args["eps"]).rsqrt() * (1 if weight is None else weight)
        summand = (0 if bias is None else bias) - mean * factor
        wide = [-1, *(1 for _ in result.shape[2:])]
        dtype = DTYPES[result.dtype]
        factors, summands = (self.constant(t.reshape(wide).to(dtype), folded=True) for t in (factor, summand))
        found = Read(self._shifted(self._scaled(first.number, factors, result), summands, result))
        return (found, None, None) if tuples else found

    def _without_bias(self, name: str, args: Arguments, meta: TensorMeta) -> Any:
        """A convolution, and its bias as a sum."""
        bias = args["bias"].number
        if bias not in self.tensors:
            return None
        wide = self.tensors[bias].reshape(-1, *(1 for _ in meta.shape[2:]))
        plain = self.number(name, {**args, "bias": None}, meta)
        return Read(self._shifted(plain, self.constant(wide, bias in self.folded), meta))

    def _scaled(self, number: int, factor: int, meta: TensorMeta) -> int:
        """A value times a constant."""
        value, by = self.all[number], self.tensors[factor]
        if value.op in ("add", "mul") and (parts := self._with_constant(value)) is not None:
            inner, constant = parts
            self._absorbed.append(number)
            both = self._combined(meta, lambda a, b: a * b, constant, factor)
            if value.op == "mul":
                return self._scaled(inner, both, meta)
            return self._shifted(self._scaled(inner, factor, meta), both, meta)
        weight = self._weight(value)
        if weight is not None:
            kernel = self.tensors[weight[1].number]
            per_row = value.op in _CONVOLUTIONS
            if by.dim() == 0 or (per_row and by.dim() == kernel.dim() - 1 and by.numel() == by.shape[0]) or (
                not per_row and by.dim() == 1
            ):  # fmt: skip
                shape = (-1, *(1 for _ in kernel.shape[1:])) if per_row else (1, -1)
                made = self._combined(meta, lambda w, s: w * s.reshape(shape), weight[1].number, factor)
                self._absorbed.append(number)
                return self.number(value.op, {**dict(value.args), weight[0]: Read(made)}, meta)
        return self.number("mul", {"self": Read(number), "other": Read(factor)}, meta)

    def _shifted(self, number: int, summand: int, meta: TensorMeta) -> int:
        """A value plus a constant."""
        value = self.all[number]
        if value.op == "add" and (parts := self._with_constant(value)) is not None:
            self._absorbed.append(number)
            return self._shifted(parts[0], self._combined(meta, lambda a, b: a + b, parts[1], summand), meta)
        if bool((self.tensors[summand] == 0).all()):
            return number
        return self.number("add", {"self": Read(number), "other": Read(summand)}, meta)

    def _with_constant(self, value: Value) -> tuple[int, int] | None:
        """What a sum or product was made from, where its second part is a constant."""
        first, other = value.argument("self"), value.argument("other")
        if isinstance(first, Read) and isinstance(other, Read) and other.number in self.tensors:
            return first.number, other.number
        return None

    def _weight(self, value: Value) -> tuple[str, Read] | None:
        """The name and value of the constant that a convolution or matrix product multiplies with."""
        name = {"mm": "mat2"}.get(value.op, "weight" if value.op in _CONVOLUTIONS else "")
        found = value.argument(name) if name and not value.argument("transposed") else None
        return (name, found) if isinstance(found, Read) and found.number in self.tensors else None


def _are_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two constants differ by no more than folding rounds."""
    if not one.is_floating_point() or not one.numel():
        return False
    largest = float(other.abs().max())
    return float((one.double() - other.double()).abs().max()) <= CLOSE * torch.finfo(one.dtype).eps * largest


def _hashable(value: Any) -> Any:
    """An argument as a key: lists become tuples, and NaN is equal to itself."""
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, Mapping):
        return tuple(sorted((key, _hashable(item)) for key, item in value.items()))
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def _size(meta: NodeMeta) -> Any:
    if isinstance(meta, TensorMeta):
        return meta.shape, meta.dtype
    return tuple(map(_size, meta)) if isinstance(meta, tuple) else None


def _rank(side: Any) -> float:
    """The order of what commutes: earlier values first, literals last."""
    return side.number if isinstance(side, Read) else math.inf


def _order(name: str, args: Arguments, rank: int) -> tuple[int, ...] | None:
    """The dimensions of the argument in the order in which the result has them; None where nothing is permuted."""
    order = list(range(rank))
    if name in ("permute", "permute_copy"):
        return tuple(int(n) % rank for n in args["dims"]) if rank else ()
    if name in ("t", "numpy_T", "mT") and rank == 2:
        return 1, 0
    if name in ("transpose", "swapaxes", "swapdims") and rank and not isinstance(args.get("dim0"), str):
        given: list[Any] = [args.get(f"dim{n}", args.get(f"axis{n}", 0)) for n in (0, 1)]
        one, other = (int(dim) % rank for dim in given)
        order[one], order[other] = order[other], order[one]
        return tuple(order)
    return None


def _is_pure(op: str) -> bool:
    """Whether the same arguments always give the same result, and nothing is written."""
    try:
        return not (ops.mutated_arguments(op) or _is_random(op) or base_name(op).startswith(("empty", "new_empty")))
    except MindgapError:
        return False


def _is_random(op: str) -> bool:
    """Whether an operator draws numbers: each of its calls is another value."""
    try:
        return ops.has_tag(op, torch.Tag.nondeterministic_seeded)
    except MindgapError:
        return False


def _called(op: str, given: Arguments) -> Any:
    function = ops.resolve(op)
    if not isinstance(function, torch._ops.OpOverload):
        return function(*given.values())
    kwargs = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return function(**kwargs)


@dataclass(frozen=True, slots=True)
class Call:
    """A node with its arguments by name, defaults included."""

    node: Node
    args: Arguments
    writes: tuple[int, ...]
    """The values that it writes into."""
    shares: tuple[int, ...]
    """The values whose memory its result may share."""


@dataclass(frozen=True)
class Prepared:
    """A form whose calls were read once."""

    form: Form
    calls: tuple[Call, ...]


def prepared(form: Form) -> Prepared:
    return Prepared(form, tuple(map(_call_of, form.program.nodes)))


def _call_of(node: Node) -> Call:
    writes = tuple(
        int(leaf)
        for position, name in _written(node)
        for _, leaf in leaves(node.args[position] if position < len(node.args) else node.kwargs.get(name))
        if isinstance(leaf, Ref)
    )
    return Call(node, dict(_named(node)), writes, _shared(node))


def _written(node: Node) -> tuple[tuple[int, str], ...]:
    try:
        return written_by(node)
    except MindgapError:
        return ()


def _shared(node: Node) -> tuple[int, ...]:
    try:
        aliased = ops.aliased_arguments(node.op)
    except MindgapError:
        return ()
    given = [value for key, value in (*enumerate(node.args), *node.kwargs.items()) if key in aliased]
    return tuple(int(leaf) for _, leaf in leaves(given) if isinstance(leaf, Ref))


def _named(node: Node) -> Iterator[tuple[str, Any]]:
    """Arguments by name, as the schema has them; by position where there is none."""
    try:
        schema = ops.arguments_of(node.op)
    except MindgapError:
        schema = ()
    if not schema:
        names = ("self", "other") if base_name(node.op) == "getitem" else [f"{n}" for n in range(len(node.args))]
        yield from zip(names, node.args)
        yield from node.kwargs.items()
        return
    for position, argument in enumerate(schema):
        default = argument.default_value if argument.has_default_value() else None
        given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, default)
        if argument.name not in _IRRELEVANT and given is not None:
            yield argument.name, given


@dataclass
class Numbered:
    """A program in numbers."""

    outputs: list[tuple[str, Any]] = field(default_factory=list)
    """Names with `Read`s or literals, before anything is put in another's place."""
    made: dict[int, set[int]] = field(default_factory=dict)
    """By number: the nodes of the model's own program that compute it."""
    inputs: dict[int, str] = field(default_factory=dict)
    weights: dict[int, str] = field(default_factory=dict)
    put: Mapping[int, int] = field(default_factory=dict)
    own: dict[int, set[int]] = field(default_factory=dict)
    """By node of the model's own program: the numbers that stand for its results."""

    def live(self, values: Values) -> set[int]:
        """The numbers that an output depends on and that this program computes or is given."""
        instead: dict[int, list[int]] = {}
        for own, other in self.put.items():
            instead.setdefault(other, []).append(own)
        found: set[int] = set()
        front = [leaf.number for _, output in self.outputs for _, leaf in leaves(output) if isinstance(leaf, Read)]
        seen = set(front)
        while front:
            number = front.pop()
            known = number in self.made or number in self.inputs or number in self.weights
            found |= {number} if known else set()
            near = [*(values.all[number].reads if known else ()), *instead.get(number, ())]
            front += [n for n in near if n not in seen]
            seen.update(near)
        return found


def numbered(which: Prepared, values: Values, put: Mapping[int, int] | None = None) -> Numbered:
    """A program in numbers; with `put`, who reads one of these values reads another in its place."""
    found = Numbered(put=put or {})
    program = which.form.program
    known: dict[int, Any] = {}
    shares: dict[int, set[int]] = {}
    random = 0

    def place(structure: Any) -> Any:
        return map_leaves(
            structure, lambda leaf: Read(found.put.get(leaf.number, leaf.number)) if isinstance(leaf, Read) else leaf
        )

    for position, item in enumerate(program.inputs):
        number = values.number("input", {"position": position}, item.meta)
        found.inputs[number] = item.name
        known[item.id] = Read(number)
    for constant in program.constants:
        number = values.constant(which.form.constants[constant.digest])
        found.weights.setdefault(number, constant.name)
        known[constant.id] = place(Read(number))
    results = dict(known)
    for call in which.calls:
        node, source = call.node, which.form.source[call.node.id]
        args = {name: map_leaves(_frozen(value), lambda leaf: known[leaf] if isinstance(leaf, Ref) else leaf)
                for name, value in call.args.items()}  # fmt: skip
        if _is_random(node.op):
            random += 1
            args["turn"] = random
        came = values.call(node.op, args, node.meta)
        for number in came.made:
            absorbed = {n for old in came.absorbed for n in found.made.get(old, ())}
            found.made.setdefault(number, set()).update({source}, absorbed)
        results[node.id], known[node.id] = came.result, place(came.result)
        _note_computed(found, values, source, came.result)
        shares[node.id] = {node.id}.union(*(shares.setdefault(other, {other}) for other in call.shares))
        for member in shares[node.id]:
            shares[member] = shares[node.id]
        for target in call.writes:
            _write(found, values, known, results, target, node, shares, source)
    found.outputs = [(name, map_leaves(leaf, lambda x: results[x] if isinstance(x, Ref) else x))
                     for name, leaf in program.output_leaves()]  # fmt: skip
    return found


def _note_computed(found: Numbered, values: Values, source: int, result: Any) -> None:
    """Constants that a program computes are its own, and every node knows what its results are called."""
    numbers = {leaf.number for _, leaf in leaves(result) if isinstance(leaf, Read)}
    found.own.setdefault(source, set()).update(numbers)
    for number in numbers:
        if number in values.tensors and number not in found.weights:
            found.weights[number] = ""


def _write(
    found: Numbered,
    values: Values,
    known: dict[int, Any],
    results: dict[int, Any],
    target: int,
    writer: Node,
    shares: dict[int, set[int]],
    source: int,
) -> None:
    """Everything that may share memory with what was written is another value from here on."""
    written = known[writer.id]
    for member in shares.get(target, {target}) | {target}:
        if member == writer.id or not isinstance(known.get(member), Read):
            continue
        if member == target and ops.returns_first_argument(writer.op):
            known[member] = results[member] = written
            continue
        old = known[member]
        number = values.number("written", {"self": old, "by": written}, values.all[old.number].meta)
        found.made.setdefault(number, set()).add(source)
        known[member] = results[member] = Read(number)


def _frozen(value: Any) -> Any:
    """Lists as tuples: exporters write either for the same argument."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value


def differing(values: Values, number: int, goal: int) -> list[tuple[int, int]]:
    """The pairs of values that would have to be the same for two calls to be one; none where that is not enough."""
    one, other = values.all[number], values.all[goal]
    if one.op != other.op or _size(one.meta) != _size(other.meta):
        return []
    first, second = _operands(one), _operands(other)
    if first.keys() != second.keys():
        return []
    ways = [second]
    if one.op in _COMMUTES and {"self", "other"} <= second.keys():
        ways.append({**second, "self": second["other"], "other": second["self"]})
    found = [pairs for way in ways if (pairs := _paired(values, first, way)) is not None]
    return min(found, key=len, default=[])


def _operands(value: Value) -> dict[str, Any]:
    """The arguments of a value one by one, those in lists too."""
    return {f"{name}{path}": leaf for name, given in value.args for path, leaf in leaves(given)}


def _paired(values: Values, one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[int, int]] | None:
    found = []
    for name, own in one.items():
        theirs = other[name]
        if own == theirs:
            continue
        if not (isinstance(own, Read) and isinstance(theirs, Read)):
            return None
        if _size(values.all[own.number].meta) != _size(values.all[theirs.number].meta):
            return None
        found.append((own.number, theirs.number))
    return found
