"""What a copy of a model has that the original has not, up to names, layouts, folding, fusion and decomposition.

Both programs are put in numbers (`numbering`): a number that only the copy has is a difference. Whatever comes after a
planted operator has other numbers too, so values of the copy are put in the place of the original's where that makes
the most of the rest alike; each value that stands in another's place is itself a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import torch

from mindgap.audit.canonical import Form, as_written, decomposed
from mindgap.audit.flow import Flow
from mindgap.audit.numbering import Numbered, Prepared, Read, Values, differing, numbered, prepared
from mindgap.audit.watching import Clock
from mindgap.errors import MindgapError
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.program.case import Case
from mindgap.program.graph import Ref, references
from mindgap.records.audit import Difference, Gate, Likeness, Operator, OtherWeight, Region

TRIED: Final = 12
"""Values of the copy that are tried in one place of the original: a detector has fewer operators of one kind that come
before the right one."""

_FORMS: Final[tuple[tuple[Likeness, Callable[[Case], Form], bool], ...]] = (
    (Likeness.WRITTEN, as_written, False),
    (Likeness.DECOMPOSED, decomposed, False),
    (Likeness.FOLDED, decomposed, True),
)


def compare(copy: Case, original: Case, clock: Clock) -> Difference:
    """The difference in the first form in which the copy has all of the original, or else where it is smallest."""
    best: Difference | None = None
    missed: list[str] = []
    made: dict[Callable[[Case], Form], tuple[Prepared, Prepared]] = {}
    for likeness, form, folding in _FORMS:
        if best is not None and clock.is_over():
            missed.append(f"the programs were not compared {likeness.value}: out of time")
            break
        if form not in made:
            try:
                made[form] = prepared(form(copy)), prepared(form(original))
            except Exception as error:  # whatever torch says of what it cannot trace
                missed.append(f"the programs could not be compared {likeness.value}: {str(error)[:200]}")
                made[form] = made[as_written]
        aligned = _aligned(*made[form], Values(folding), clock)
        found = _Told(copy, original, aligned).difference(likeness)
        if best is None or _size(found) < _size(best):
            best = found
        if not found.only_there:
            break
    assert best is not None
    return replace(best, not_looked_at=(*best.not_looked_at, *missed))


def _size(found: Difference) -> int:
    return sum(len(region.operators) for region in found.only_here) + len(found.only_there) + len(found.weights)


@dataclass
class Aligned:
    """Two programs in the same numbers."""

    values: Values
    here: Numbered
    there: Numbered
    put: dict[int, int] = field(default_factory=dict)
    """By number of the copy: the number of the original in whose place it stands."""
    finished: bool = True

    def returned(self) -> Iterator[tuple[int, int]]:
        """Outputs of the copy that are other values than those of the original: their numbers, here and there."""
        pairs = [(mine, theirs) for (_, mine), (_, theirs) in zip(self.here.outputs, self.there.outputs)]
        for mine, theirs in pairs:
            tensors = isinstance(mine, Read) and isinstance(theirs, Read)
            if tensors and self.put.get(mine.number, mine.number) != theirs.number:
                yield mine.number, theirs.number


def _aligned(copy: Prepared, original: Prepared, values: Values, clock: Clock) -> Aligned:
    """The copy with its own values in places of the original's, as long as that makes more of the rest alike."""
    there = numbered(original, values)
    wanted = there.live(values)
    found = Aligned(values, numbered(copy, values), there)
    hopeless: set[int] = set()
    mine = found.here.live(values)
    while missing := sorted(n for n in wanted - mine - hopeless if n not in values.tensors):
        if clock.is_over():
            found.finished = False
            break
        step = _step(found, copy, missing[0], mine, wanted)
        if step is None:
            hopeless.add(missing[0])
            continue
        found.put, found.here = step, numbered(copy, values, step)
        mine = found.here.live(values)
    return found


def _step(found: Aligned, copy: Prepared, goal: int, mine: set[int], wanted: set[int]) -> dict[int, int] | None:
    """One more value of the copy in a place of the original, so that `goal` is in the copy; None where none fits."""
    moves = sorted(_moves(found, goal, mine, wanted), key=lambda move: move.rank)
    certain = bool(moves) and not moves[0].values  # it reads the same values, with another weight
    best: dict[int, int] | None = None
    most = len(mine & wanted)
    for move in moves[: 1 if certain else TRIED]:
        put = found.put | move.pairs
        count = len(numbered(copy, found.values, put).live(found.values) & wanted)
        if count > most:
            best, most = put, count
    return best


@dataclass(frozen=True)
class _Move:
    """What would have to stand in what's place for an operator of the copy to be one of the original."""

    pairs: dict[int, int]
    values: int
    """Pairs that are no weights."""
    position: int

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.values, len(self.pairs), self.position


def _moves(found: Aligned, goal: int, mine: set[int], wanted: set[int]) -> Iterator[_Move]:
    values = found.values
    for number in mine - wanted:
        pairs = differing(values, number, goal)
        if not pairs or any(own in wanted or own in found.put for own, _ in pairs):
            continue
        held = [own in values.tensors for own, _ in pairs]
        if held != [other in values.tensors for _, other in pairs]:
            continue
        yield _Move(dict(pairs), held.count(False), min(found.here.made.get(number, {0})))


class _Told:
    """Numbers as operators of the models' own programs."""

    def __init__(self, copy: Case, original: Case, aligned: Aligned) -> None:
        self.aligned = aligned
        self.here, self.there = Flow(copy.graph), Flow(original.graph)
        self.original = original.name
        self.mine = aligned.here.live(aligned.values)
        self.wanted = aligned.there.live(aligned.values)

    def difference(self, likeness: Likeness) -> Difference:
        computed = {n for n in self.mine - self.wanted if n not in self.aligned.values.tensors}
        only = {node for number in computed for node in self.aligned.here.made.get(number, ())}
        only = self._with_idle(only)
        live = [node.id for node in self.here.program.nodes if node.id in self.here.live]
        absent = {n for n in self.wanted - self.mine if n not in self.aligned.values.tensors}
        gone = {node for number in absent for node in self.aligned.there.made.get(number, ())}
        return Difference(
            original=self.original,
            likeness=likeness,
            nodes=len(live),
            matched=sum(node not in only for node in live),
            only_here=tuple(self._region(nodes) for nodes in self._connected(only)),
            only_there=tuple(self.there.described(node) for node in sorted(gone, key=self.there.position.__getitem__)),
            weights=tuple(self._weights()),
            not_looked_at=() if self.aligned.finished else ("the rest of the programs was not aligned: out of time",),
        )

    def _with_idle(self, only: set[int]) -> set[int]:
        """With the operators that compute nothing of their own and serve nothing else: views, copies, constants."""
        found = set(only)
        needed = {
            next(iter(nodes))
            for number, nodes in self.aligned.here.made.items()
            if number in self.mine and len(nodes) == 1
        }
        for node in reversed(self.here.program.nodes):
            users = self.here.users.get(node.id, ())
            if node.id not in needed and users and all(user in found for user in users):
                found.add(node.id)
        return found

    def _connected(self, only: set[int]) -> list[list[int]]:
        """Groups of operators that read each other, in program order."""
        group: dict[int, set[int]] = {}
        for node in self.here.program.nodes:
            if node.id in only:
                near = [group[r] for r in references(node) if r in group]
                group[node.id] = {node.id}.union(*near)
                for member in group[node.id]:
                    group[member] = group[node.id]
        found = {id(nodes): nodes for nodes in group.values()}
        return [sorted(nodes, key=self.here.position.__getitem__) for nodes in found.values()]

    def _region(self, nodes: Sequence[int]) -> Region:
        here, members = self.here, set(nodes)
        read = dict.fromkeys(r for node in nodes for r in references(here.nodes[node]) if r not in members)
        users = dict.fromkeys(u for node in nodes for u in here.users.get(node, ()) if u not in members)
        returned = [(name, int(leaf)) for name, leaf in here.program.output_leaves() if isinstance(leaf, Ref)]
        return Region(
            operators=tuple(map(here.described, nodes)),
            inputs=tuple(item.name for item in here.program.inputs if item.id in read),
            reads=tuple(here.described(r) for r in read if r in here.nodes),
            controls=tuple(map(here.described, users)),
            outputs=tuple(name for name, node in returned if node in members),
            replaces=tuple(self._replaced(members)),
            picture=here.pictured(nodes, nodes[-1]),
        )

    def _replaced(self, members: set[int]) -> Iterator[Operator]:
        """The operators of the original in whose place the region stands."""
        pairs = [*self.aligned.put.items(), *self.aligned.returned()]
        found: dict[int, None] = {}
        for own, other in pairs:
            if self.aligned.here.made.get(own, set()) & members:
                found |= dict.fromkeys([max(made)] if (made := self.aligned.there.made.get(other)) else [])
        yield from map(self.there.described, found)

    def _weights(self) -> Iterator[OtherWeight]:
        held = self.aligned.values.tensors
        for own, other in self.aligned.put.items():
            if own in held:
                mine, theirs = held[own], held[other]
                names = self.aligned.here.weights.get(own, ""), self.aligned.there.weights.get(other, "")
                yield OtherWeight(*names, str(self.aligned.values.all[own].meta), _far(mine, theirs))


def _far(one: torch.Tensor, other: torch.Tensor) -> float:
    largest = float(other.double().abs().max()) if other.numel() else 0.0
    far = float((one.double() - other.double()).abs().max()) if other.numel() else 0.0
    return far / largest if largest else (float("inf") if far else 0.0)


@dataclass(frozen=True, slots=True)
class CompareCases:
    """A copy and the original that it is compared with."""

    copy: Parcel
    original: Parcel
    seconds: float


@hosting(MindgapError)
@task
def compare_cases(worker: Worker, request: CompareCases) -> Difference:
    """What the copy has that the original has not."""
    copy, original = (open_parcel(item, worker.keep(Constants)) for item in (request.copy, request.original))
    return compare(copy, original, Clock(request.seconds))


def compare_parcels(pool: Pool, copy: Parcel, original: Parcel, seconds: float) -> Difference:
    """The same, in a worker."""
    request = CompareCases(copy.without_source(), original.without_source(), seconds)
    return pool.demand(HOST, compare_cases, request, f"comparing {copy.name} with {original.name}")


def with_gates(found: Difference, gates: Sequence[Gate]) -> Difference:
    """Each region with the reported gates that lie in it."""
    regions = []
    for region in found.only_here:
        members = {operator.node for operator in region.operators}
        inside = tuple(gate.operator.node for gate in gates if gate.operator.node in members)
        regions.append(replace(region, gates=inside))
    return replace(found, only_here=tuple(regions))
