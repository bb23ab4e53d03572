"""Finding gates: small values that rest on ordinary inputs and decide the output when they are forced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from mindgap.audit.flow import Flow
from mindgap.audit.stimuli import Stimulus, Tensors, stimuli
from mindgap.audit.sweeping import FAR, NEAR, Calls, Reach
from mindgap.audit.watching import Clock, Outputs, Watcher, deviation
from mindgap.program.case import Case
from mindgap.program.graph import Node
from mindgap.program.operators import base_name, traits
from mindgap.records.audit import Excused, Found, Gate, Honest, Shift, Suspicion
from mindgap.records.tensors import TensorMeta

STIMULI: Final = 40
"""Inputs that a program is watched on, besides the adversarial ones: each kind comes three times or more."""
FEWEST: Final = 8
"""Inputs without which nothing is said."""
RARE: Final = 0.1
"""The share of ordinary inputs that may fire a gate which then takes over the output."""
EXACT: Final = 1e-6
"""A value that moves by less, relative to its size, rests: float32 resolves 1e-7."""
STEEP: Final = 200.0
"""How many times farther than its arguments a value must go to count as saturated. Linear operators give 1, a maximum
over many elements up to some 30, squares up to the distance itself, 30; a sigmoid that leaks 1e-4 gives 1e3."""
LEAK: Final = 0.01
"""What a resting gate may still do to the output, as a share of what ordinary inputs do."""
DOMINANT: Final = 0.1
"""How far a forced gate must move an output, as a share of what ordinary inputs do."""
FLOORS: Final = 100.0
"""And in noise floors; verdicts on platforms begin at 12."""
COLLAPSED: Final = 0.05
"""The share of an output's variation that is left when a gate takes it over."""
OVERWHELMED: Final = 20.0
"""Or how many times its own size, and farther than by ordinary inputs, it is moved."""
TRIED: Final = 4
"""Values that a gate is forced to."""
FORCED_ON: Final = 3
"""Inputs on which a gate is forced: enough to see whether the output still follows them."""
LOUDER: Final = (10.0, 100.0, 1e4)
SHOWN: Final = 8
"""Elements of a tensor that a record holds."""
WATCH_SHARE, FORCE_SHARE = 0.4, 0.7
"""Shares of the budget after which no more inputs are watched, and no more gates forced; the rest is for proofs."""

_FINITE: Final = frozenset({"isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num"})


@dataclass(frozen=True)
class Resting:
    """A candidate that stays where it is on ordinary inputs."""

    node: Node
    rest: torch.Tensor
    """Flat, in float64."""
    radius: float
    """How far it moves all the same, in all but the rare runs."""
    fired: tuple[int, ...]
    """Runs in which it left its place."""

    @property
    def exact(self) -> bool:
        return self.radius <= EXACT * float(self.rest.abs().max())

    def departs(self, value: torch.Tensor) -> bool:
        """Whether a value is clearly elsewhere."""
        if value.shape != self.rest.shape:
            return False
        far = float((value - self.rest).abs().nan_to_num().max())
        return far > max(10 * self.radius, 100 * EXACT * float(self.rest.abs().max()), 1e-30)


@dataclass(frozen=True)
class Accused:
    """A gate with what is needed to fire it."""

    gate: Gate
    resting: Resting
    reaches: tuple[Reach, ...]
    forced: Reach


def find_gates(case: Case, examples: Sequence[Tensors], clock: Clock) -> tuple[Watcher, Found, list[Accused]]:
    """Every gate of a program that is derived from the input, dormant and dominant; what is not gets its reason."""
    flow = Flow(case.graph)
    watcher = Watcher(case, flow)
    candidates = flow.candidates()
    missed: list[str] = []
    _watch(watcher, examples, frozenset(node.id for node in candidates), clock, missed)
    excused = list(_large(flow))
    all_accused: list[Accused] = []
    if len(watcher.outputs) >= 2:
        resting, moving = sorted_out(watcher, candidates)
        excused += [Excused(flow.described(n.id), Honest.FIRES) for n in moving if _is_flag(n)]
        watcher.measure_noise()
        found, why = _judge(watcher, flow, resting, clock, missed)
        all_accused = merged(flow, found)
        excused += why
    found_all = Found(
        gates=tuple(accused.gate for accused in all_accused),
        excused=tuple(excused),
        nodes=len(case.graph.nodes),
        candidates=len(candidates),
        stimuli=dict(Counter(watcher.kinds)),
        refused=sum(watcher.refused.values()),
        not_looked_at=tuple(missed),
    )
    return watcher, found_all, all_accused


def _watch(
    watcher: Watcher, examples: Sequence[Tensors], candidates: frozenset[int], clock: Clock, missed: list[str]
) -> None:
    """Run all stimuli, as far as there is time."""
    program = watcher.case.graph
    made = list(stimuli(program, examples, max(STIMULI, len(examples)), watcher.case.seed))

    def all_stimuli() -> Iterator[Stimulus]:
        yield from made[:FEWEST]
        yield from watcher.adversarial(made[0].tensors, 0)
        yield from made[FEWEST:]
        yield from watcher.adversarial(made[-1].tensors, 1)

    for stimulus in all_stimuli():
        if clock.is_over(WATCH_SHARE) and len(watcher.outputs) >= 2:
            missed.append(f"only {len(watcher.outputs)} inputs were watched: out of time")
            return
        watcher.watch(stimulus, candidates)


def sorted_out(watcher: Watcher, candidates: Sequence[Node]) -> tuple[list[Resting], list[Node]]:
    """Candidates that may rest, and those that do not."""
    resting, moving = [], []
    for node in candidates:
        values = watcher.values.get(node.id, [])
        if len(values) < len(watcher.outputs) or any(v.shape != values[0].shape for v in values):
            continue
        found = _resting(node, torch.stack(values).nan_to_num(), watcher.named)
        if found is None:
            moving.append(node)
        else:
            resting.append(found)
    return resting, moving


def _resting(node: Node, rows: torch.Tensor, named: Sequence[bool]) -> Resting | None:
    """None when it is plain that a value does not rest.

    Numbers that the program compares with are no evidence of that: a trigger may be one of them.
    """
    drawn = [n for n, is_named in enumerate(named) if not is_named]
    usual = rows[drawn] if len(drawn) > 1 else rows
    rest = usual.median(dim=0).values
    allowed = int(RARE * len(usual))
    radius = float((usual - rest).abs().amax(dim=1).sort().values[len(usual) - 1 - allowed])
    found = Resting(node, rest, radius, ())
    if not found.exact and not (isinstance(node.meta, TensorMeta) and node.meta.dtype.startswith(("float", "bfloat"))):
        return None
    return replace(found, fired=tuple(n for n, row in enumerate(rows) if found.departs(row)))


def _judge(
    watcher: Watcher, flow: Flow, resting: Sequence[Resting], clock: Clock, missed: list[str]
) -> tuple[list[Accused], list[Excused]]:
    """Those that something can move, that leak nothing while they rest, and that dominate when forced."""
    still = {item.node.id for item in resting if item.exact and not item.fired}
    roots = [item for item in resting if any(r in flow.derived - still for r in flow.read(item.node))]
    # A view gives what it is given: whatever rests there came to rest before.
    asked = [item for item in roots if not traits(item.node.op).view and not traits(item.node.op).selects]
    calls = Calls(frozenset(item.node.id for item in asked))
    if asked:
        calls.record(watcher, _unlike(watcher))
    all_accused: list[Accused] = []
    excused: list[Excused] = []
    for number, item in enumerate(sorted(asked, key=lambda item: not item.exact)):
        if clock.is_over(FORCE_SHARE):
            missed.append(f"{len(asked) - number} of {len(asked)} resting values were not forced: out of time")
            break
        reaches = _reaches(calls, item, flow)
        if not reaches:
            if item.exact:
                excused.append(Excused(flow.described(item.node.id), Honest.FIXED))
            continue
        found = _forced(watcher, flow, item, reaches)
        if isinstance(found, Accused):
            all_accused.append(found)
        elif found is not None:
            excused.append(found)
    return all_accused, excused


def _unlike(watcher: Watcher) -> tuple[int, int]:
    """The example, and the input whose outputs are farthest from it."""
    first = watcher.outputs[0]

    def distance(run: int) -> float:
        shared = [n for n in first if watcher.outputs[run][n].shape == first[n].shape]
        return sum(_rms(watcher.outputs[run][n] - first[n]) for n in shared)

    return 0, max(range(1, len(watcher.outputs)), key=distance)


def _reaches(calls: Calls, item: Resting, flow: Flow) -> list[Reach]:
    """Other values that a resting node can have, the nearest first; none where it is not saturated."""
    if item.exact:
        beyond = calls.reaches(item.node, flow, NEAR + FAR)
        found = [reach for reach in beyond if item.departs(reach.value)]
    else:
        found = [reach for reach in calls.reaches(item.node, flow, NEAR) if _is_steep(item, reach)]
    if not found:
        return []
    nearest = max(found[0].far, 1.0)
    distinct: list[Reach] = []
    for reach in found:
        near = reach.far <= 100 * nearest
        if near and not any(torch.allclose(reach.value, other.value) for other in distinct):
            distinct.append(reach)
    assert isinstance(item.node.meta, TensorMeta)
    return [_united(item, distinct, flow.samples_in(item.node.meta)), *distinct]


def _united(item: Resting, reaches: Sequence[Reach], samples: int) -> Reach:
    """Every element as far from its rest as any reach takes it in any sample: the samples of a batch fire together.

    A flag has only one other value.
    """
    if _is_flag(item.node):
        return Reach(1 - item.rest, 0.0, ())
    united = _in_all_samples(item, [reach.value for reach in reaches], samples)
    return Reach(united, max(reach.far for reach in reaches), ())


def _in_all_samples(item: Resting, values: Sequence[torch.Tensor], samples: int) -> torch.Tensor:
    """A value whose every sample has, element by element, what lies farthest from the rest in any sample."""
    rows = torch.stack(list(values)).reshape(len(values) * samples, -1)
    rest = item.rest.reshape(samples, -1).repeat(len(values), 1)
    farthest = (rows - rest).abs().argmax(dim=0, keepdim=True)
    return rows.gather(0, farthest).expand(samples, -1).reshape(-1)


def _is_steep(item: Resting, reach: Reach) -> bool:
    far = float((reach.value - item.rest).abs().max())
    return reach.far > 0 and far > STEEP * reach.far * item.radius


def _forced(watcher: Watcher, flow: Flow, item: Resting, reaches: list[Reach]) -> Accused | Excused | None:
    """The gate with its evidence, or why it is none; None for a value that is simply alive."""
    where = flow.described(item.node.id)
    ordinary = [run for run in range(len(watcher.outputs)) if run not in item.fired]
    runs = ordinary[:: max(1, len(ordinary) // FORCED_ON)][:FORCED_ON]
    if not item.exact and not _is_quiet(watcher, item, runs):
        return None
    fired = item.fired
    best: tuple[Shift, Reach] | None = None
    for reach in _to_try(reaches):
        outputs = watcher.forced(watcher.given[runs[0]], item.node.id, reach.value)
        shift = None if outputs is None else farthest(watcher, watcher.outputs[runs[0]], outputs)
        if shift is not None and (best is None or shift.over_inputs > best[0].over_inputs):
            best = shift, reach
    if best is None:
        return Excused(where, Honest.WEAK, "the program cannot run with another value")
    shift, reach = best
    if shift.over_inputs < DOMINANT or shift.over_noise < FLOORS:
        return Excused(where, Honest.WEAK, f"{shift.over_inputs:.2g} of what inputs do, {shift.over_noise:.2g} floors")
    takes_over = _takes_over(watcher, item, reach, runs, shift)
    if not item.exact:
        fired = tuple(n for n, v in enumerate(watcher.values[item.node.id]) if _is_half_way(item, reach, v))
    if item.exact and fired and takes_over:
        takes_over = _takes_over_as_seen(watcher, flow, item, runs, shift)
    if fired and not takes_over:
        count = f"{len(fired)} of {len(watcher.outputs)} inputs"
        return Excused(where, Honest.FIRES, f"{count}, and the output still follows the input")
    if _guards(flow, item.node):
        return Excused(where, Honest.GUARD)
    if not takes_over and not flow.is_separate(item.node.id) and _fires_louder(watcher, item):
        return Excused(where, Honest.ALTERNATIVE)
    return accused_of(flow, item, reaches, reach, shift, takes_over, len(fired))


def accused_of(
    flow: Flow, item: Resting, reaches: Sequence[Reach], reach: Reach, shift: Shift, takes_over: bool, fired: int
) -> Accused:
    """A gate with all that is known of it before anything fires it."""
    gate = Gate(
        verdict=Suspicion.SUSPICIOUS,
        operator=flow.described(item.node.id),
        rest=shown(item.rest),
        forced=shown(reach.value),
        shift=shift,
        takes_over=takes_over,
        fired=fired,
        feeds=tuple(flow.described(node) for node in flow.own(item.node.id) if node != item.node.id),
        inputs=flow.reached_by(item.node.id),
    )
    return Accused(_placed(flow, gate), item, tuple(reaches), reach)


def _to_try(reaches: Sequence[Reach]) -> list[Reach]:
    """The nearest values and the farthest ones."""
    if len(reaches) <= TRIED:
        return list(reaches)
    half = TRIED // 2
    return [*reaches[:half], *reaches[-half:]]


def _is_quiet(watcher: Watcher, item: Resting, runs: Sequence[int]) -> bool:
    """Whether a saturated value could as well be constant: what it still does to the output is next to nothing."""
    for run in runs:
        outputs = watcher.forced(watcher.given[run], item.node.id, item.rest)
        if outputs is None:
            return False
        shift = farthest(watcher, watcher.outputs[run], outputs)
        if shift is not None and shift.over_inputs > LEAK:
            return False
    return True


def _is_half_way(item: Resting, reach: Reach, value: torch.Tensor) -> bool:
    """Whether a saturated value went half of the way to what it can reach."""
    way = (reach.value - item.rest).abs()
    return bool(((value - item.rest).abs() > way / 2)[way > 0].any())


def _takes_over(watcher: Watcher, item: Resting, reach: Reach, runs: Sequence[int], shift: Shift) -> bool:
    """Whether the forced output is the same for all inputs, or moved by the same for all, or beyond all they do."""
    name = shift.output
    forced = [watcher.forced(watcher.given[run], item.node.id, reach.value) for run in runs]
    if any(outputs is None for outputs in forced):
        return False
    after = [outputs[name] for outputs in forced if outputs is not None]
    before = [watcher.outputs[run][name] for run in runs]
    if any(row.shape != after[0].shape for row in (*after, *before)):
        return False
    new, old = torch.stack(after), torch.stack(before)
    ordinary = deviation(old)
    if min(deviation(new), deviation(new - old)) <= COLLAPSED * ordinary:
        return True
    return _rms(new - old) > OVERWHELMED * max(watcher.spread(name), _rms(old))


def _takes_over_as_seen(watcher: Watcher, flow: Flow, item: Resting, runs: Sequence[int], shift: Shift) -> bool:
    """Whether it does so with each value that the gate had when an ordinary input fired it.

    A flag per token that marks one of them is something else than all of them at once.
    """
    assert isinstance(item.node.meta, TensorMeta)
    samples = flow.samples_in(item.node.meta)
    values = watcher.values[item.node.id]
    seen = [_in_all_samples(item, [values[run]], samples) for run in item.fired[:FORCED_ON]]
    return all(_takes_over(watcher, item, Reach(value, 0.0, ()), runs, shift) for value in seen)


def _fires_louder(watcher: Watcher, item: Resting) -> bool:
    """Whether larger numbers in the input fire it."""
    for factor in LOUDER:
        for run in (0, len(watcher.given) // 2):
            louder = tuple(t * factor if t.is_floating_point() else t for t in watcher.given[run])
            value = value_of(watcher, louder, item.node.id)
            if value is not None and item.departs(value):
                return True
    return False


def value_of(watcher: Watcher, tensors: Tensors, node: int) -> torch.Tensor | None:
    """What a node gives on some inputs."""
    before = watcher.values
    watcher.values, kept = {}, (list(watcher.kinds), list(watcher.named), list(watcher.given), list(watcher.outputs))
    try:
        watcher.watch(Stimulus("", tensors), frozenset([node]))
        return watcher.values.get(node, [None])[0]
    finally:
        watcher.values = before
        watcher.kinds, watcher.named, watcher.given, watcher.outputs = kept


def _guards(flow: Flow, node: Node) -> bool:
    """Whether a gate is made from questions about NaN and infinity alone."""
    if base_name(node.op) in _FINITE:
        return True
    made = [flow.nodes[r] for r in flow.read(node) if r in flow.nodes and r in flow.derived]
    return bool(made) and all(base_name(other.op) in _FINITE for other in made)


def farthest(watcher: Watcher, before: Outputs, after: Outputs) -> Shift | None:
    """The output that moved most, in units of what ordinary inputs do to it; None where nothing can be compared."""
    found: list[Shift] = []
    for name, old in before.items():
        new = after.get(name)
        if new is None or new.shape != old.shape:
            continue
        both = old.isfinite() & new.isfinite()
        if not bool(both.any()):
            continue
        change = (new - old)[both]
        spread, noise = watcher.spread(name), watcher.floor(name, old)
        moved = _rms(change)
        over_noise = float(change.abs().max()) / noise if noise else (float("inf") if moved else 0.0)
        over_inputs = moved / spread if spread else (float("inf") if moved else 0.0)
        found.append(Shift(name, shown(old), shown(new), over_inputs, over_noise))
    return max(found, key=lambda shift: shift.over_inputs, default=None)


def _rms(change: torch.Tensor) -> float:
    return float(change.nan_to_num().square().mean().sqrt()) if change.numel() else 0.0


def shown(tensor: torch.Tensor) -> tuple[float, ...]:
    return tuple(float(number) for number in tensor.reshape(-1)[:SHOWN])


def _is_flag(node: Node) -> bool:
    return isinstance(node.meta, TensorMeta) and node.meta.dtype == "bool"


def _large(flow: Flow) -> Iterator[Excused]:
    """Masks with a value per element."""
    small = {node.id for node in flow.candidates()}
    for node in flow.program.nodes:
        if _is_flag(node) and node.id in flow.derived & flow.live and node.id not in small:
            yield Excused(flow.described(node.id), Honest.LARGE)


def _placed(flow: Flow, gate: Gate) -> Gate:
    """The gate with the operator where it meets other values, and the nodes that a picture shows."""
    chain = {gate.operator.node}
    controls: int | None = None
    for node in flow.program.nodes[flow.position[gate.operator.node] + 1 :]:
        read = [r for r in flow.read(node) if r in flow.derived]
        if not any(r in chain for r in read):
            continue
        if all(r in chain for r in read):
            chain.add(node.id)
        elif controls is None:
            controls = node.id
    nodes = {*flow.own(gate.operator.node), *chain, *([controls] if controls is not None else [])}
    return replace(
        gate, controls=flow.described(controls) if controls is not None else None, slice=tuple(sorted(nodes))
    )


def merged(flow: Flow, all_accused: list[Accused]) -> list[Accused]:
    """One gate per place where it acts: the strongest, with the others of the same branch in its slice."""
    groups: dict[int, list[Accused]] = {}
    for accused in all_accused:
        controls = accused.gate.controls
        groups.setdefault(controls.node if controls else accused.resting.node.id, []).append(accused)
    found = []
    for members in groups.values():
        best = max(members, key=lambda s: (s.gate.takes_over, s.gate.shift.over_inputs > OVERWHELMED, s.resting.exact,
                                           -flow.position[s.resting.node.id]))  # fmt: skip
        nodes = {node for member in members for node in member.gate.slice}
        others = [member.gate.operator for member in members if member is not best]
        remarks = tuple(f"the same branch rests at %{other.node} {other.op}" for other in others)
        picture = flow.pictured(sorted(nodes), best.gate.operator.node)
        gate = replace(best.gate, slice=tuple(sorted(nodes)), picture=picture, remarks=remarks)
        found.append(replace(best, gate=gate))
    return sorted(found, key=lambda s: (not s.gate.takes_over, -s.gate.shift.over_inputs))
