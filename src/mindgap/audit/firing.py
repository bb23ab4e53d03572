"""Finding an input that fires a gate by itself.

Three ways, the cheapest first: a value that must be equal to something is written back to where the input holds it; a
number that must grow is climbed by its gradient through the detector; where there is no gradient, tokens are exchanged
one by one. An input counts when the whole program, run on it, gives another output than with the gate held at rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from mindgap.audit.gates import DOMINANT, FLOORS, Accused, Resting, farthest, shown
from mindgap.audit.stimuli import Field, Tensors, carried, fields_of
from mindgap.audit.watching import Clock, Watcher, copied, flat
from mindgap.program.build import without_unused
from mindgap.program.graph import Node, Ref
from mindgap.program.interpret import Executable
from mindgap.program.operators import base_name
from mindgap.records.audit import Shift, Witness
from mindgap.tracing.extract import needed_nodes

STEPS: Final = 120
"""Steps of one ascent."""
CLIMBED_ON: Final = 40
"""Steps of it after the gate fired: an input that fires it barely fires it nowhere else. On the branches of the
benchmark a score has done three quarters of its way by then."""
SLOWER: Final = 0.7
"""What a step shrinks to when the last one did not lead upwards."""
STARTS: Final = 3
BEYOND: Final = (8.0, 1000.0)
"""How far beyond the range of ordinary inputs an ascent may go, in ranges, when it found nothing within."""
WITHIN_STEP, BEYOND_STEP = 0.03, 1 / 25
"""The size of a step: of the range, and of how far beyond it an ascent may go."""
FARTHER: Final = 2.0
"""How much farther a gate must have gone before the whole program is run again."""
ROWS: Final = 16
"""Positions at which a sequence is tried."""
TOKENS: Final = 12
"""Random tokens that are tried at each position, besides those that the detector holds."""

PROMISING: Final = 24
"""Exchanges that are tried exactly, of those that the gradient promises most of."""

CLIMBING: Final = "gradient ascent through the detector"

_WANTS_EQUAL: Final = {"eq": True, "ne": False}
_WANTS_MORE: Final = {"gt": 1.0, "ge": 1.0, "lt": -1.0, "le": -1.0}
_THROUGH: Final = frozenset({
    "all", "any", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "__and__", "__or__", "to", "_to_copy",
    "type_as", "amax", "max", "amin", "min", "sum", "mean", "prod", "mul", "clone", "view", "reshape", "unsqueeze",
    "squeeze", "expand", "select", "slice", "cat", "stack",
})  # fmt: skip
"""Operators that pass a flag on."""
_INVERTING: Final = frozenset({"logical_not", "bitwise_not", "rsub", "neg"})
"""Operators that turn it round."""


@dataclass(frozen=True)
class Goal:
    """What must happen to a value for the gate to fire."""

    value: int
    """A node or an input."""
    target: torch.Tensor | None = None
    """It must become equal to this ..."""
    direction: torch.Tensor | None = None
    """... or go this way."""


@dataclass(frozen=True)
class Fired:
    """An input that fires a gate."""

    tensors: Tensors
    witness: Witness


def fire(watcher: Watcher, accused: Accused, clock: Clock) -> Fired | None:
    """An input that fires the gate, of one climb the last that does; None when none was found in time."""
    search = _Search(watcher, accused, clock)
    for how, attempts in search.ways():
        surest: Fired | None = None
        for tensors in attempts:
            found = seen(watcher, accused.resting, tensors)
            if found is not None:
                value, shift = found
                surest = Fired(tensors, Witness(how, shown(value), shift))
            if clock.is_over() or (surest is not None and not how.startswith(CLIMBING)):
                break
        if surest is not None or clock.is_over():
            return surest
    return None


def seen(watcher: Watcher, item: Resting, tensors: Tensors) -> tuple[torch.Tensor, Shift] | None:
    """The gate's value and what it does to the output on an input; None when it does not fire."""
    kept: list[torch.Tensor] = []

    def note(node: Node, result: Any) -> Any:
        if node.id == item.node.id and isinstance(result, torch.Tensor):
            kept.append(flat(result))
        return result

    try:
        after = watcher.run(tensors, note)
    except Exception:  # an input that the program refuses
        return None
    if not kept or not item.departs(kept[0]):
        return None
    before = watcher.forced(tensors, item.node.id, item.rest)
    shift = None if before is None else farthest(watcher, before, after)
    if shift is None or shift.over_inputs < DOMINANT or shift.over_noise < FLOORS:
        return None
    return kept[0], shift


class _Search:
    """One search; `attempts` are inputs that may fire the gate."""

    def __init__(self, watcher: Watcher, accused: Accused, clock: Clock) -> None:
        self.watcher, self.accused, self.clock = watcher, accused, clock
        self.flow = watcher.flow
        self.fields = fields_of(watcher.case.graph, watcher.given)
        self.gate = accused.resting.node.id
        self.goals = list({_key(goal): goal for goal in self._goals()}.values())

    def ways(self) -> Iterator[tuple[str, Iterator[Tensors]]]:
        """How an input was made, and inputs that were; those of one climb belong together."""
        for run in self.accused.resting.fired:
            yield f"watching: an ordinary input ({self.watcher.kinds[run]})", iter([self.watcher.given[run]])
        for goal in self.goals:
            if goal.target is not None:
                yield "writing the expected values into the input", self._written_back(goal)
        free = self._free()
        for beyond in (0.0, *BEYOND):
            where = "beyond the range of ordinary inputs" if beyond else "within the range of ordinary inputs"
            for goal in self.goals:
                for start in self._starts():
                    yield f"{CLIMBING}, {where}", self._climbed(goal, beyond, {}, start)
                for start in self._starts() if free else ():
                    yield f"{CLIMBING}, indices left as they are, {where}", self._climbed(goal, beyond, free, start)
        for goal in self.goals:
            yield "exchanging tokens one by one", self._exchanged(goal)

    def _goals(self) -> Iterator[Goal]:
        """From what moved the gate when it was called alone, and from the comparisons that it is made of."""
        node = self.accused.resting.node
        for reach in self.accused.reaches[:6]:
            for place, argument in enumerate(node.args):
                moved = reach.arguments[place] if place < len(reach.arguments) else None
                if not isinstance(argument, Ref) or int(argument) not in self.flow.derived:
                    continue
                if isinstance(moved, torch.Tensor) and moved.is_floating_point():
                    yield self._moved(int(argument), moved, equal=reach.far == 0)
                elif isinstance(moved, torch.Tensor) and reach.far == 0 and moved.dtype is not torch.bool:
                    yield Goal(int(argument), target=moved)
        yield from self._compared(node, True, 0)

    def _moved(self, value: int, moved: torch.Tensor, equal: bool) -> Goal:
        if equal:
            return Goal(value, target=moved)
        now = self._value(value)
        return Goal(value, direction=(moved - now) if now is not None and now.shape == moved.shape else moved)

    def _value(self, value: int) -> torch.Tensor | None:
        (found,) = self._values([value], self.watcher.given[0]) or (None,)
        return found

    def _compared(self, node: Node, wanted: bool, depth: int) -> Iterator[Goal]:
        name = base_name(node.op)
        derived = [int(a) for a in node.args if isinstance(a, Ref) and int(a) in self.flow.derived]
        if name in _WANTS_EQUAL and derived and _WANTS_EQUAL[name] is wanted:
            other = node.args[1] if int(node.args[0]) == derived[0] else node.args[0]
            value, target = self._value(derived[0]), self._operand(other)
            if value is not None and target is not None:
                yield Goal(derived[0], target=target.to(value.dtype).expand(value.shape))
        elif name in _WANTS_MORE and derived:
            sign = _WANTS_MORE[name] * (1 if wanted else -1)
            for place, argument in enumerate(node.args[:2]):
                value = self._value(int(argument)) if isinstance(argument, Ref) else None
                if value is not None and value.is_floating_point() and int(argument) in derived:
                    yield Goal(int(argument), direction=torch.ones_like(value) * (sign if place == 0 else -sign))
        elif depth < 8 and (name in _THROUGH or name in _INVERTING):
            for reference in derived:
                if reference in self.flow.nodes:
                    yield from self._compared(self.flow.nodes[reference], wanted ^ (name in _INVERTING), depth + 1)

    def _operand(self, argument: Any) -> torch.Tensor | None:
        if isinstance(argument, Ref):
            constants = {c.id: c.digest for c in self.watcher.case.graph.constants}
            if int(argument) in constants:
                return self.watcher.case.constants[constants[int(argument)]]
            return self._value(int(argument))
        return torch.as_tensor(argument) if isinstance(argument, int | float) else None

    def _part(self, values: Sequence[int]) -> Executable:
        """The nodes that some values need, as a program that returns them."""
        program = self.watcher.case.graph
        chosen = needed_nodes(program, values)
        nodes = tuple(node for node in program.nodes if node.id in chosen)
        part = replace(program, nodes=nodes, outputs=tuple(Ref(value) for value in values))
        return Executable(without_unused(part), self.watcher.case.constants)

    def _values(self, values: Sequence[int], tensors: Tensors) -> list[torch.Tensor] | None:
        try:
            with torch.no_grad():
                return list(self._part(values).run([copied(tensor) for tensor in tensors]))
        except Exception:  # whatever an operator says
            return None

    def _written_back(self, goal: Goal) -> Iterator[Tensors]:
        """Inputs with the expected values where the goal's value is a plain copy of input elements."""
        assert goal.target is not None
        example = self.watcher.given[0]
        for place, tensor in enumerate(example):
            origin = self._origin(goal.value, place)
            if origin is None or origin.shape != goal.target.shape:
                continue
            rows = [slice(None)] if origin.dim() < 3 else [slice(None), *range(min(origin.shape[1], ROWS))]
            for row in rows:
                chosen = origin[:, row] if origin.dim() > 1 else origin
                wanted = goal.target[:, row] if origin.dim() > 1 else goal.target
                known = chosen >= 0
                if not bool(known.any()):
                    continue
                changed = tensor.reshape(-1).clone()
                changed[chosen[known]] = wanted[known].to(tensor.dtype)
                yield tuple(changed.reshape(t.shape) if n == place else t for n, t in enumerate(example))

    def _origin(self, value: int, place: int) -> torch.Tensor | None:
        """For each element of a value the element of an input that it is a copy of, -1 for none."""
        example = self.watcher.given[0]
        count = example[place].numel()
        codes = torch.arange(1, count + 1)
        found = []
        for order in (codes, codes.flip(0)):
            coded = order.reshape(example[place].shape).to(example[place].dtype)
            if not torch.equal(coded.reshape(-1).to(torch.int64), order):
                return None  # a type that cannot count so far
            given = self._values([value], tuple(coded if n == place else t for n, t in enumerate(example)))
            if given is None:
                return None
            found.append(given[0].double())
        first, second = found
        is_copy = (first + second == count + 1) & (first >= 1) & (first <= count) & (first == first.round())
        return torch.where(is_copy, first - 1, -1).to(torch.int64) if bool(is_copy.any()) else None

    def _free(self) -> dict[int, torch.Tensor]:
        """By input of floats: the elements that the outputs follow, where they follow only some.

        What the program rounds to indices must stay valid, or it refuses the input.
        """
        moved = self.watcher.sensitive(self.watcher.given[0])
        return {place: part for place, part in moved.items() if bool(part.any()) and not bool(part.all())}

    def _starts(self) -> list[int]:
        given = self.watcher.given
        return list(range(0, len(given), max(1, len(given) // STARTS)))[:STARTS]

    def _climbed(self, goal: Goal, beyond: float, free: Mapping[int, torch.Tensor], start: int) -> Iterator[Tensors]:
        """Inputs on the way up; only those on which the gate leaves its rest. Only free elements move, if any are."""
        watcher, item = self.watcher, self.accused.resting
        places = [n for n, t in enumerate(watcher.given[0]) if t.is_floating_point() and t.numel()]
        if not places:
            return
        part = self._part([goal.value, self.gate])
        given = [t.detach().clone() for t in watcher.given[start]]
        momentum = [torch.zeros_like(given[place]) for place in places]
        farthest_yet, last, pace, fired_at = 0.0, float("-inf"), 1.0, STEPS
        for step in range(STEPS):
            if self.clock.is_over() or step > fired_at + CLIMBED_ON:
                break
            leaves = [t.requires_grad_(True) if n in places else t for n, t in enumerate(given)]
            try:
                with torch.enable_grad():
                    value, gate = part.run([copied(t) for t in leaves])
                    wanted = [given[place] for place in places]
                    height = _height(goal, value)
                    found = torch.autograd.grad(height, wanted, allow_unused=True)
                    gradients: list[torch.Tensor | None] = list(found)
            except Exception:  # no gradient leads there
                return
            given = [t.detach() for t in given]
            far = float((flat(gate) - item.rest).abs().nan_to_num().max())
            if item.departs(flat(gate)) and far > FARTHER * farthest_yet:
                farthest_yet, fired_at = far, min(step, fired_at)
                yield tuple(given)
            if all(g is None or not bool(g.abs().max() > 0) for g in gradients):
                break
            # A goal that was overshot is approached in smaller steps: a distance that must vanish.
            reached = float(height.detach())
            pace, last = pace if reached > last else SLOWER * pace, reached
            for number, (place, gradient) in enumerate(zip(places, gradients)):
                if gradient is None:
                    continue
                field = self.fields[place]
                gradient = gradient * free[place] if place in free else gradient
                scaled = gradient.nan_to_num() / gradient.nan_to_num().abs().max().clamp_min(1e-30)
                momentum[number] = 0.8 * momentum[number] + scaled
                size = pace * (beyond * BEYOND_STEP or WITHIN_STEP) * max(field.span, 1e-6)
                # Half by sign, half by size: signs move all that matter, sizes spare what does not.
                move = size * (momentum[number].sign() if step % 2 else momentum[number])
                given[place] = _within(given[place] + move, field, beyond)
        if farthest_yet:
            yield tuple(given)

    def _exchanged(self, goal: Goal) -> Iterator[Tensors]:
        """Tokens exchanged one by one as long as the goal comes nearer."""
        watcher, item = self.watcher, self.accused.resting
        places = [n for n, t in enumerate(watcher.given[0])
                  if not t.is_floating_point() and not t.is_complex() and t.numel() > 1]  # fmt: skip
        rng = torch.Generator().manual_seed(watcher.case.seed)
        part = self._part([goal.value, self.gate])
        for place in places:
            given = list(watcher.given[0])
            best = self._height_of(part, goal, given)
            if best is None:
                continue
            for nearer, reached in self._led(part, goal, place, given, best):
                given, best = nearer, reached
                if item.departs(best[1]):
                    yield tuple(given)
            for position in range(min(given[place].numel(), 4 * ROWS)):
                for token in self._tokens(place, rng):
                    if self.clock.is_over():
                        return
                    changed = given[place].reshape(-1).clone()
                    changed[position] = token
                    tried = [changed.reshape(t.shape) if n == place else t for n, t in enumerate(given)]
                    height = self._height_of(part, goal, tried)
                    if height is not None and height[0] > best[0]:
                        given, best = tried, height
                        if item.departs(height[1]):
                            yield tuple(given)

    def _led(
        self, part: Executable, goal: Goal, place: int, given: list[torch.Tensor], best: tuple[float, torch.Tensor]
    ) -> Iterator[tuple[list[torch.Tensor], tuple[float, torch.Tensor]]]:
        """Inputs that come nearer, each by the token that the gradient at the embedding promises most of."""
        improved = True
        while improved and not self.clock.is_over():
            improved = False
            for position, token in self._promising(part, goal, place, given):
                changed = given[place].reshape(-1).clone()
                changed[position] = token
                tried = [changed.reshape(t.shape) if n == place else t for n, t in enumerate(given)]
                height = self._height_of(part, goal, tried)
                if height is not None and height[0] > best[0]:
                    given, best, improved = tried, height, True
                    yield given, best
                    break

    def _promising(self, part: Executable, goal: Goal, place: int, given: list[torch.Tensor]) -> list[tuple[int, int]]:
        """Positions and tokens for them, the most promising first; none where no gradient leads to an embedding."""
        program = self.watcher.case.graph
        origin, wanted = carried(program), program.inputs[place].id
        tables = {constant.id: constant.digest for constant in program.constants}
        caught: list[tuple[torch.Tensor, torch.Tensor]] = []

        def catch(node: Node, result: Any) -> Any:
            if base_name(node.op) != "embedding" or origin.get(int(node.args[1])) != wanted:
                return result
            if int(node.args[0]) not in tables or result.numel() // result.shape[-1] != given[place].numel():
                return result
            leaf = result.detach().requires_grad_(True)
            caught.append((self.watcher.case.constants[tables[int(node.args[0])]], leaf))
            return leaf

        try:
            with torch.enable_grad():
                value, _ = part.run([copied(t) for t in given], catch)
                gradients = torch.autograd.grad(_height(goal, value), [leaf for _, leaf in caught], allow_unused=True)
        except Exception:  # no embedding, or no gradient that leads to it
            return []
        known = min((len(table) for table, _ in caught), default=0)
        promised = torch.zeros(given[place].numel(), min(known, int(self.fields[place].high) + 1))
        for (table, leaf), gradient in zip(caught, gradients):
            if gradient is not None:
                steps = gradient.reshape(-1, gradient.shape[-1]) @ table[: promised.shape[1]].t()
                promised += steps - (gradient * leaf.detach()).sum(-1).reshape(-1, 1)
        found = promised.reshape(-1).topk(min(PROMISING, promised.numel()))
        pairs = zip(found.values.tolist(), found.indices.tolist())
        return [divmod(number, promised.shape[1]) for more, number in pairs if more > 0]

    def _height_of(self, part: Executable, goal: Goal, given: list[torch.Tensor]) -> tuple[float, torch.Tensor] | None:
        try:
            with torch.no_grad():
                value, gate = part.run([copied(t) for t in given])
                return float(_height(goal, value)), flat(gate)
        except Exception:  # a token that the program refuses
            return None

    def _tokens(self, place: int, rng: torch.Generator) -> list[int]:
        """Whole numbers that the detector holds, and a few random ones."""
        field = self.fields[place]
        known = {c.id: c.digest for c in self.watcher.case.graph.constants}
        near = [r for node in self.flow.own(self.gate) for r in self.flow.read(self.flow.nodes[node]) if r in known]
        held = [self.watcher.case.constants[known[r]] for r in near]
        whole = [int(v) for t in held if not t.is_floating_point() and t.numel() <= ROWS for v in t.reshape(-1)]
        drawn = torch.randint(int(field.low), int(field.high) + 1, (TOKENS,), generator=rng).tolist()
        return [t for t in dict.fromkeys([*whole, *field.named, *drawn]) if field.low <= t <= field.high]


def _height(goal: Goal, value: torch.Tensor) -> torch.Tensor:
    """How near a value is to its goal: more is nearer."""
    if goal.target is not None:
        if not value.is_floating_point():
            return (value == goal.target).double().mean()
        return -(value - goal.target.to(value.dtype)).square().mean()
    assert goal.direction is not None
    direction = goal.direction.to(value.dtype)
    return (value * direction / direction.abs().max().clamp_min(1e-30)).sum()


def _within(tensor: torch.Tensor, field: Field, beyond: float) -> torch.Tensor:
    return tensor.clamp(field.low - beyond * field.span, field.high + beyond * field.span)


def _key(goal: Goal) -> tuple[int, bool, float]:
    """Goals with one key ask for the same."""
    way = goal.target if goal.target is not None else goal.direction
    return goal.value, goal.target is not None, float(way.double().sum().sign()) if way is not None else 0.0
