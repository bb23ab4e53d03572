"""Gates that fire on one platform only: what rests here and decides the output is looked at on other platforms.

In a worker, values that rest are found and forced, whether or not anything can move them here: rounding, NaN, casts and
integers may move them elsewhere. Then every platform runs the program with these values returned beside its outputs, on
ordinary and on special numbers, and is compared with eager.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from mindgap.audit.gates import DOMINANT, FLOORS, Accused, Resting, accused_of, farthest, merged, shown, sorted_out
from mindgap.audit.stimuli import Stimulus, fields_of, stimuli
from mindgap.audit.sweeping import Reach
from mindgap.audit.watching import Clock, Watcher, flat
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Parcel, make_parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run
from mindgap.program.graph import Ref
from mindgap.program.operators import traits
from mindgap.records.audit import Gate, PlatformGate, Suspicion
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec

SPECIAL: Final[Mapping[str, tuple[float, ...]]] = {
    "not finite": (float("nan"), float("inf"), float("-inf")),
    "huge and tiny": (1e30, -1e30, 1e-42, -1e-42),
    "whole and negative": (-7.0, -1.0, 3e9, 2.0**31),
}
"""Numbers where platforms part: NaN and infinity, overflow and denormals, casts, integer division and wrapping."""
EVERY: Final = 7
"""One in so many elements of an input becomes special."""
MOST: Final = 12
"""Values that are returned beside the outputs."""
OUTPUTS, GATES = "outputs", "gates"


@dataclass(frozen=True, slots=True)
class Exposed:
    """Gates that rest here, and cases that return them."""

    gates: tuple[Gate, ...] = ()
    rest: tuple[tuple[float, ...], ...] = ()
    forced: tuple[tuple[float, ...], ...] = ()
    cases: tuple[Parcel, ...] = ()
    kinds: tuple[str, ...] = ()
    """What each case is fed with."""
    spreads: Mapping[str, float] | None = None
    """By output: how far ordinary inputs move it."""


def expose(watcher: Watcher, clock: Clock, files: Sequence[str]) -> Exposed:
    """What rests and dominates in a program, with the program on inputs that may move it elsewhere."""
    found = _resting(watcher, clock)[:MOST]
    if not found:
        return Exposed()
    case, program = watcher.case, watcher.case.graph
    returned = {OUTPUTS: program.outputs, GATES: [Ref(one.resting.node.id) for one in found]}
    exposing = case.with_program(replace(program, outputs=returned))
    fed = _fed(watcher)[: len(files)]
    return Exposed(
        tuple(one.gate for one in found),
        tuple(tuple(one.resting.rest.tolist()) for one in found),
        tuple(tuple(one.forced.value.tolist()) for one in found),
        tuple(make_parcel(exposing.with_program(exposing.graph, s.tensors), Path(f)) for s, f in zip(fed, files)),
        tuple(stimulus.kind for stimulus in fed),
        {name: watcher.spread(name) for name in watcher.outputs[0]},
    )


def _resting(watcher: Watcher, clock: Clock) -> list[Accused]:
    """Values that never moved and dominate when they do."""
    found: list[Accused] = []
    resting, _ = sorted_out(watcher, watcher.flow.candidates())
    for item in resting:
        known = traits(item.node.op)
        if not item.exact or item.fired or known.view or known.selects or clock.is_over():
            continue
        reach = Reach(_other(item), 0.0, ())
        outputs = watcher.forced(watcher.given[0], item.node.id, reach.value)
        shift = None if outputs is None else farthest(watcher, watcher.outputs[0], outputs)
        if shift is not None and shift.over_inputs >= DOMINANT and shift.over_noise >= FLOORS:
            found.append(accused_of(watcher.flow, item, (reach,), reach, shift, False, 0))
    return merged(watcher.flow, found)


def _other(item: Resting) -> torch.Tensor:
    """The other value of a flag, or of what is used like one; else one more."""
    flags = (item.rest == 0) | (item.rest == 1)
    return torch.where(flags, 1 - item.rest, item.rest + 1)


def _fed(watcher: Watcher) -> list[Stimulus]:
    """The example, another ordinary input, and both with special numbers in them."""
    program = watcher.case.graph
    ordinary = list(stimuli(program, [watcher.given[0]], 2, watcher.case.seed + 1))
    found = list(ordinary)
    fields = fields_of(program, watcher.given)
    for kind, numbers in SPECIAL.items():
        tensors = []
        for tensor, field in zip(ordinary[1].tensors, fields):
            if not tensor.is_floating_point() or not tensor.numel():
                tensors.append(torch.full_like(tensor, int(field.high)) if not tensor.is_complex() else tensor)
                continue
            changed = tensor.reshape(-1).clone()
            places = torch.arange(0, len(changed), EVERY)
            changed[places] = torch.tensor(numbers).to(tensor.dtype)[torch.arange(len(places)) % len(numbers)]
            tensors.append(changed.reshape(tensor.shape))
        found.append(Stimulus(kind, tuple(tensors)))
    return found


def seen_elsewhere(
    pool: Pool, specs: Sequence[PlatformSpec], exposed: Exposed, write: Callable[[Parcel, str], str]
) -> tuple[list[Gate], list[str]]:
    """The gates that have another value on a platform than on eager, and what could not be looked at.

    `write` puts the inputs of a case into a file of that name.
    """
    gates, missed = list(exposed.gates), []
    for case, kind in zip(exposed.cases, exposed.kinds):
        eager = _outputs(pool, resolve("eager"), case)
        if eager is None:
            continue
        for spec in specs:
            there = _outputs(pool, spec, case)
            if there is None:
                missed.append(f"{spec.name} does not run it on {kind} numbers with its gates returned")
                continue
            known = {number for number, gate in enumerate(gates) if spec.name in {i.platform for i in gate.platforms}}
            parted = [number for number in _parted(eager, there, exposed) if number not in known]
            if not parted:
                continue
            pool.retire(spec)
            again = _outputs(pool, spec, case) or {}
            moves = _moves(eager, there, exposed.spreads or {}) and _moves(eager, again, exposed.spreads or {})
            still = set(_parted(eager, again, exposed))
            for number in parted:
                gate, name = gates[number], f"{GATES}[{number}]"
                file = write(case, re.sub(r"[^\w.-]+", "-", f"witness-{gate.operator.node}-{spec.name}.safetensors"))
                item = PlatformGate(spec.name, shown(eager[name]), shown(there[name]), kind, file, number in still)
                verdict = Suspicion.HIDDEN if moves and number in still else gate.verdict
                gates[number] = replace(gate, verdict=verdict, platforms=(*gate.platforms, item))
    return [gate for gate in gates if gate.platforms], list(dict.fromkeys(missed))


def _parted(here: Mapping[str, torch.Tensor], there: Mapping[str, torch.Tensor], exposed: Exposed) -> Iterator[int]:
    """The gates that went at least half of their way on one side only."""
    for number, (forced, rest) in enumerate(zip(exposed.forced, exposed.rest)):
        value, other = (values.get(f"{GATES}[{number}]") for values in (here, there))
        if value is None or other is None or value.shape != other.shape:
            continue
        way = torch.tensor(forced) - torch.tensor(rest)
        if bool(((other - value).abs().nan_to_num() > way.abs() / 2)[way != 0].any()):
            yield number


def _outputs(pool: Pool, spec: PlatformSpec, case: Parcel) -> dict[str, torch.Tensor] | None:
    outcome: Outcome = opened(run(pool, spec, case))
    discarded(outcome)
    return {item.name: flat(item.tensor) for item in outcome.outputs} if outcome.ok else None


def _moves(here: Mapping[str, torch.Tensor], there: Mapping[str, torch.Tensor], spreads: Mapping[str, float]) -> bool:
    """Whether the outputs differ, too, by more than a share of what ordinary inputs do."""
    for name, value in here.items():
        other = there.get(name)
        own = name.removeprefix(f"{OUTPUTS}.").removeprefix(OUTPUTS) or "output"
        if name.startswith(GATES) or other is None or other.shape != value.shape:
            continue
        both = value.isfinite() & other.isfinite()
        change = (other - value)[both]
        if change.numel() and float(change.square().mean().sqrt()) > DOMINANT * spreads.get(own, 0.0) > 0:
            return True
    return False
