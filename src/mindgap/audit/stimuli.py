"""What a program is watched on: its example, inputs like it, and every ordinary way to disturb them.

All stay within the range of the example's own numbers, so that whatever they fire is no secret.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from mindgap.program.graph import Node, Program, Ref, leaves, references
from mindgap.program.operators import base_name, traits
from mindgap.records.tensors import TensorMeta

Tensors: TypeAlias = "tuple[torch.Tensor, ...]"


@dataclass(frozen=True, slots=True)
class Stimulus:
    """Inputs of one run, and what they are in a word or two."""

    kind: str
    tensors: Tensors
    named: bool = False
    """Whether it holds numbers that the program itself compares an input with."""


@dataclass(frozen=True, slots=True)
class Field:
    """The numbers that an input may hold."""

    low: float
    high: float
    named: tuple[int, ...] = ()
    """Whole numbers that the program itself compares this input with."""

    @property
    def span(self) -> float:
        return self.high - self.low


_COMPARING: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_REPLACING: Final = frozenset({"where", "masked_fill", "index_put", "clone"})
"""Operators that pass numbers on, but for some."""

Maker: TypeAlias = Callable[[torch.Tensor, Field, torch.Generator], torch.Tensor]


def _shuffled(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    return tensor.reshape(-1)[torch.randperm(tensor.numel(), generator=rng)].reshape(tensor.shape)


def _uniform(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    return field.low + field.span * torch.rand(tensor.shape, generator=rng)


def _gaussian(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    spread = float(tensor.float().std(unbiased=False))
    return tensor.float().mean() + spread * torch.randn(tensor.shape, generator=rng)


def _smooth(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    """Waves of a few periods along each of the last two dimensions, like large shapes in a picture."""
    phases = torch.rand((*tensor.shape[:-2], 2), generator=rng) * 6.3
    field_of = torch.zeros(tensor.shape)
    for place, size in enumerate(tensor.shape[-2:]):
        periods = float(torch.rand((), generator=rng) * 3)
        steps = torch.arange(size) / max(1, size) * periods * 6.3
        wave = torch.sin(steps + phases[..., place : place + 1])
        last = place == len(tensor.shape[-2:]) - 1
        field_of = field_of + (
            wave.unsqueeze(-2) if last and tensor.dim() > 1 else wave.unsqueeze(-1) if not last else wave
        )
    return field.low + field.span * (field_of / 4 + 0.5)


def _solid(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    """One value per channel."""
    shape = [*tensor.shape[:2], *(1 for _ in tensor.shape[2:])]
    return (field.low + field.span * torch.rand(shape, generator=rng)).expand(tensor.shape).clone()


def _noisy(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    return tensor + 0.1 * field.span * torch.randn(tensor.shape, generator=rng)


def _faded(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    """Less contrast: towards a value of the range."""
    share = float(torch.rand((), generator=rng))
    return share * tensor + (1 - share) * (field.low + field.span * float(torch.rand((), generator=rng)))


def _flipped(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    shift = int(torch.randint(tensor.shape[-1], (), generator=rng)) if tensor.dim() else 0
    return tensor.flip(-1).roll(shift, -1) if tensor.dim() else tensor


def _negative(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    return field.low + field.high - tensor


def _stickered(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    """A part of it, at a random place, in one value or in two that alternate."""
    changed = tensor.clone(memory_format=torch.contiguous_format)
    place: list[Any] = [...]
    for size in tensor.shape[-2:]:
        length = 1 + int(torch.randint(max(1, size // 2), (), generator=rng))
        start = int(torch.randint(size - length + 1, (), generator=rng))
        place.append(slice(start, start + length))
    part = changed[tuple(place)]
    first, second = (field.low + field.span * float(v) for v in torch.rand(2, generator=rng).round(decimals=1))
    part.fill_(first)
    part[..., ::2].fill_(second)
    return changed


def _spikes(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    """A few elements at an end of the range."""
    hit = torch.rand(tensor.shape, generator=rng) < 0.02
    ends = torch.where(torch.rand(tensor.shape, generator=rng) < 0.5, field.low, field.high)
    return torch.where(hit, ends.to(tensor.dtype), tensor)


FLOATING: Final[Mapping[str, Maker]] = {
    "shuffled": _shuffled, "noisy": _noisy, "smooth": _smooth, "stickered": _stickered, "gaussian": _gaussian,
    "solid": _solid, "flipped": _flipped, "uniform": _uniform, "faded": _faded, "negative": _negative,
    "spikes": _spikes,
}  # fmt: skip


def _drawn(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    return torch.randint(int(field.low), int(field.high) + 1, tensor.shape, generator=rng)


def _repeated(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    return _drawn(tensor.reshape(-1)[:1], field, rng).expand(tensor.numel()).reshape(tensor.shape).clone()


def _one_changed(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    changed = tensor.reshape(-1).clone()
    changed[int(torch.randint(tensor.numel(), (), generator=rng))] = _drawn(changed[:1], field, rng)[0]
    return changed.reshape(tensor.shape)


def _named(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    """Drawn, and at one place each some of the numbers that the program compares with: an end mark, a padding token.

    Some, because one that the program refuses must not keep the others out.
    """
    changed = _drawn(tensor, field, rng).reshape(-1)
    chosen = torch.randperm(len(field.named), generator=rng)[: 1 + len(field.named) // 2].tolist()
    places = torch.randperm(tensor.numel(), generator=rng)[: max(1, tensor.numel() // 2)].tolist()
    for which, place in zip(chosen, places):
        changed[place] = field.named[which]
    return changed.reshape(tensor.shape)


def _lengths(tensor: torch.Tensor, field: Field, rng: torch.Generator) -> torch.Tensor:
    """The larger number up to a random place of the last dimension and the smaller one behind: padding."""
    size = tensor.shape[-1] if tensor.dim() else 1
    ends = 1 + torch.randint(size, (*tensor.shape[:-1], 1), generator=rng)
    inside = torch.arange(size) < ends
    return torch.where(inside, int(field.high), int(field.low)).reshape(tensor.shape)


NAMED: Final = "named"
WHOLE: Final[Mapping[str, Maker]] = {
    "drawn": _drawn, NAMED: _named, "one changed": _one_changed, "shuffled": _shuffled, "repeated": _repeated,
}  # fmt: skip
MASKS: Final[Mapping[str, Maker]] = {"lengths": _lengths, "drawn": _drawn, "one changed": _one_changed}
"""For inputs of zeros and ones."""


def stimuli(program: Program, examples: Sequence[Tensors], count: int, seed: int) -> Iterator[Stimulus]:
    """The examples, then inputs made from them, all kinds in turn."""
    fields = fields_of(program, examples)
    rng = torch.Generator().manual_seed(seed)
    for example in examples:
        yield Stimulus("example", example)
    for number in range(count - len(examples)):
        example = examples[number % len(examples)]
        made = [_made(tensor, field, number, rng) for tensor, field in zip(example, fields)]
        named = any(name == NAMED and field.named for (name, _), field in zip(made, fields))
        yield Stimulus(made[0][0] if made else "", tuple(tensor for _, tensor in made), named)


def _made(tensor: torch.Tensor, field: Field, number: int, rng: torch.Generator) -> tuple[str, torch.Tensor]:
    """The `number`-th of the ways to make an input like this one."""
    if not tensor.numel() or tensor.is_complex():
        return "example", tensor
    flags = not tensor.is_floating_point() and (field.low, field.high) == (0.0, 1.0)
    makers = FLOATING if tensor.is_floating_point() else MASKS if flags else WHOLE
    name = list(makers)[number % len(makers)]
    made = makers[name](tensor, field, rng)
    if tensor.is_floating_point():
        made = made.clamp(field.low, field.high)
    return name, made.to(tensor.dtype)


def fields_of(program: Program, examples: Sequence[Tensors]) -> list[Field]:
    """The range of each input: of the examples' numbers, and of indices up to the end of what they point into."""
    found = []
    ends, compared, beside = _ends(program), _compared(program, _COMPARING), _compared(program)
    for place, item in enumerate(program.inputs):
        given = [example[place] for example in examples if example[place].numel()]
        known = [part.double() for part in given if not part.is_complex()]
        finite = [part[part.isfinite()] for part in known]
        low = min((float(part.min()) for part in finite if part.numel()), default=0.0)
        high = max((float(part.max()) for part in finite if part.numel()), default=1.0)
        if given and not given[0].is_floating_point():
            end = ends.get(item.id)
            low, high = (min(0.0, low), max(high, 1.0)) if end is None else (0.0, float(end - 1))
        # What the program asks for is an ordinary number of the input, though the example may have none so large.
        asked = [n for n in compared.get(item.id, ()) if item.id not in ends or 0 <= n < ends[item.id]]
        named = dict.fromkeys([*asked, *(n for n in beside.get(item.id, ()) if low <= n <= high)])
        found.append(Field(low, high, tuple(named)))
    return found


def carried(program: Program) -> dict[int, int]:
    """Values that are an input in another shape or type, or with some numbers replaced, and that input."""
    origin = {item.id: item.id for item in program.inputs}
    for node in program.nodes:
        known = traits(node.op)
        passed = node.args[1:3] if base_name(node.op) == "where" else node.args[:1]
        passes = known.view or known.casts or known.selects or base_name(node.op) in _REPLACING
        for first in passed if passes else ():
            if isinstance(first, Ref) and int(first) in origin:
                origin[node.id] = origin[int(first)]
    return origin


def _ends(program: Program) -> dict[int, int]:
    """By input: how many elements there are of what it is an index into."""
    metas = {item.id: item.meta for item in program.given()} | {
        node.id: node.meta for node in program.nodes if isinstance(node.meta, TensorMeta)
    }
    origin = carried(program)
    found: dict[int, int] = {}
    for node in program.nodes:
        table = metas.get(int(node.args[0])) if node.args and isinstance(node.args[0], Ref) else None
        for index, axis in _indices(node):
            if index in origin and table is not None and axis < len(table.shape):
                size = table.shape[axis]
                found[origin[index]] = min(size, found.get(origin[index], size))
    return found


def _indices(node: Node) -> Iterator[tuple[int, int]]:
    """Values that a node takes for indices, and the dimension of its first argument that each counts along."""
    name = base_name(node.op)
    if name == "embedding" and isinstance(node.args[1], Ref):
        yield int(node.args[1]), 0
    elif name in ("index", "index_put", "_unsafe_index") and isinstance(node.args[1], list | tuple):
        yield from ((int(leaf), axis) for axis, leaf in enumerate(node.args[1]) if isinstance(leaf, Ref))
    elif len(node.args) > 2 and traits(node.op).indexed and isinstance(node.args[2], Ref):
        with contextlib.suppress(TypeError, ValueError):
            yield int(node.args[2]), int(node.args[1])


def _compared(program: Program, by: Collection[str] = ()) -> dict[int, tuple[int, ...]]:
    """By input: whole numbers that stand beside it in a call, of some operators or of any."""
    origin = carried(program)
    found: dict[int, list[int]] = {}
    for node in program.nodes:
        if traits(node.op).view or traits(node.op).casts or (by and base_name(node.op) not in by):
            continue
        numbers = [
            int(leaf) for _, leaf in leaves(node.args[1:]) if isinstance(leaf, int) and not isinstance(leaf, Ref)
        ]
        for reference in references(node):
            if reference in origin:
                found.setdefault(origin[reference], []).extend(n for n in numbers if type(n) is int)
    return {identity: tuple(dict.fromkeys(numbers)) for identity, numbers in found.items()}
