"""Auditing a case: found and proved in one worker, seen again in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from safetensors.torch import save

from mindgap.audit.elsewhere import SPECIAL, Exposed, expose, seen_elsewhere
from mindgap.audit.firing import Fired, fire
from mindgap.audit.flow import Flow
from mindgap.audit.gates import Accused, find_gates
from mindgap.audit.watching import Clock, Watcher, held_by
from mindgap.errors import MindgapError, ModelError, UsageError
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.program.case import Case
from mindgap.records.audit import Found, Gate, Suspicion
from mindgap.records.files import write_whole
from mindgap.records.platform import PlatformSpec

CASES: Final = 2 + len(SPECIAL)
"""Inputs on which other platforms are looked at."""
PROVED: Final = 4
"""Gates that an input is looked for; a model with more hidden branches is proved guilty by these."""


@dataclass(frozen=True, slots=True)
class AuditCase:
    """A case to audit, and files that take the inputs which fire its gates."""

    case: Parcel
    seconds: float
    files: tuple[str, ...]
    exposing: tuple[str, ...] = ()
    """Files that take the cases for other platforms; none where none was asked for."""


@dataclass(frozen=True, slots=True)
class Audited:
    """What was found, and by gate the case with an input that fires it."""

    found: Found
    fired: tuple[Parcel | None, ...] = ()
    rest: tuple[tuple[float, ...], ...] = ()
    """By gate: its whole value at rest."""
    exposed: Exposed = field(default_factory=Exposed)


@hosting(MindgapError)
@task
def audit_case(worker: Worker, request: AuditCase) -> Audited:
    """Watch, force and prove."""
    case = open_parcel(request.case, worker.keep(Constants))
    clock = Clock(request.seconds)
    here = audit_here(case, clock, len(request.files))
    parcels = [
        None if one is None else make_parcel(case.with_program(case.graph, one.tensors), Path(file))
        for one, file in zip(here.fired, request.files)
    ]
    rest = tuple(tuple(one.resting.rest.tolist()) for one in here.accused)
    exposed = expose(here.watcher, clock, request.exposing) if request.exposing else Exposed()
    return Audited(here.found, tuple(parcels), rest, exposed)


@dataclass(frozen=True)
class Here:
    """An audit in this process."""

    found: Found
    fired: list[Fired | None]
    """For the first gates: an input that fires each."""
    accused: list[Accused]
    watcher: Watcher


def audit_here(case: Case, clock: Clock, most: int = PROVED) -> Here:
    """Watch, force and prove in this process."""
    if not case.tensors:
        raise ModelError(f"{case.name} takes no tensors", cause="without an input, nothing can trigger a branch")
    watcher, found, all_accused = find_gates(case, [case.tensors], clock)
    if not watcher.outputs:
        raise ModelError(f"{case.name} does not run on its inputs", cause=next(iter(watcher.refused), ""))
    fired: list[Fired | None] = []
    missed = list(found.not_looked_at)
    for accused in all_accused[:most]:
        fired.append(fire(watcher, accused, clock))
        if fired[-1] is None and clock.is_over():
            missed.append(f"%{accused.gate.operator.node} was forced but not fired: out of time")
    proved = [*fired, *[None] * (len(all_accused) - len(fired))]
    gates = tuple(replace(s.gate, witness=one.witness if one else None) for s, one in zip(all_accused, proved))
    return Here(replace(found, gates=gates, not_looked_at=tuple(missed)), fired, all_accused, watcher)


@dataclass(frozen=True, slots=True)
class FireAgain:
    """A case whose input is said to fire a gate."""

    case: Parcel
    node: int
    rest: tuple[float, ...]
    after: tuple[float, ...]
    """The output that was seen."""
    output: str


@hosting(MindgapError)
@task
def fire_again(worker: Worker, request: FireAgain) -> bool:
    """Whether the program gives the same output again, and another one with the gate held at rest."""
    case = open_parcel(request.case, worker.keep(Constants))
    watcher = Watcher(case, Flow(case.graph))
    after = watcher.run(case.tensors)[request.output]
    before = watcher.forced(case.tensors, request.node, held_by(request.rest))
    same = tuple(after[: len(request.after)].tolist()) == request.after
    return same and before is not None and not before[request.output].equal(after)


def audit_parcel(
    pool: Pool,
    parcel: Parcel,
    folder: Path,
    seconds: float,
    specs: Sequence[PlatformSpec] = (),
    tell: Callable[[str], None] = lambda what: None,
) -> Found:
    """What an audit of a case finds; inputs that fire a gate go to a folder, each seen again in a fresh process.

    With other platforms, also the gates that have another value there.
    """
    parcel = parcel.without_source()
    files, exposing = _files(pool, PROVED), _files(pool, CASES if specs else 0)
    tell("watch, force and prove")
    request = AuditCase(parcel, seconds, files, exposing)
    audited = pool.demand(HOST, audit_case, request, f"auditing {parcel.name}")
    if any(fired is not None and fired.file not in files for fired in audited.fired):
        raise ModelError(f"auditing {parcel.name}: its worker answers with another file than it was given")
    if any(case.file not in exposing for case in audited.exposed.cases):
        raise ModelError(f"auditing {parcel.name}: its worker answers with another file than it was given")
    gates = list(audited.found.gates)
    for number, fired in enumerate(audited.fired[: len(gates)]):
        witness = gates[number].witness
        if fired is None or witness is None:
            continue
        tell("again, in a fresh process")
        pool.retire(HOST)
        question = FireAgain(fired, gates[number].operator.node, audited.rest[number], witness.shift.after,
                             witness.shift.output)  # fmt: skip
        again = pool.demand(HOST, fire_again, question, f"firing %{gates[number].operator.node} again")
        file = _written(fired, folder / f"witness-{gates[number].operator.node}.safetensors")
        proved = Suspicion.HIDDEN if again else Suspicion.SUSPICIOUS
        gates[number] = replace(gates[number], verdict=proved, witness=replace(witness, file=file, seen_again=again))
    if not specs:
        return replace(audited.found, gates=tuple(gates))
    tell("on other platforms")
    elsewhere, missed = seen_elsewhere(pool, specs, audited.exposed, lambda case, name: _written(case, folder / name))
    missed = [*audited.found.not_looked_at, *missed]
    return replace(audited.found, gates=tuple(_joined(gates, elsewhere)), not_looked_at=tuple(missed))


def _joined(gates: Sequence[Gate], elsewhere: Sequence[Gate]) -> list[Gate]:
    """Gates of one branch as one: what platforms do with it is added to what was found here."""
    found = list(gates)
    for gate in elsewhere:
        same = next((n for n, other in enumerate(found) if gate.operator.node in other.slice), None)
        if same is None:
            found.append(gate)
        else:
            hidden = Suspicion.HIDDEN in (gate.verdict, found[same].verdict)
            verdict = Suspicion.HIDDEN if hidden else Suspicion.SUSPICIOUS
            found[same] = replace(found[same], verdict=verdict, platforms=gate.platforms)
    return found


def _files(pool: Pool, count: int) -> tuple[str, ...]:
    return tuple(str(pool.scratch.new_file("case", HOST.worker_name)) for _ in range(count))


def _written(fired: Parcel, path: Path) -> str:
    """The inputs of a case in a file that `--inputs` reads."""
    case = open_parcel(fired, Constants(), mapped=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {path.parent}", cause=error.strerror) from error
    write_whole(path, save({item.name: item.tensor.contiguous() for item in case.inputs.tensors}))
    return str(path)
