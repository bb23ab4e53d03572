"""Fragments on a platform: many in one program, the refused ones found by halving and remembered.

A crowd shows what may be wrong; what it shows is run again alone, in a process that ran no crowd (`FreshRunner`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mindgap.campaign.dossier import NumberedVariant, Sign
from mindgap.campaign.runners import LocalRunner, OnPause, Stopped
from mindgap.execution.batches import BatchWorker
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool, in_a_row
from mindgap.execution.process import Death
from mindgap.platforms.base import Platform
from mindgap.platforms.crowds import CrowdRun, RunCrowd, run_crowd, structures_of
from mindgap.platforms.messages import operators_in
from mindgap.platforms.registry import adapter_class
from mindgap.platforms.running import believed, died
from mindgap.program.crowd import by_halves, halves
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Limits, PlatformSpec

Refusal = tuple[str, str]
"""The operator that eager refuses and its message, without numbers and names."""
CROWD: Final = 48
"""Programs in a crowd of those that a platform is known to accept; all rounds of a fragment are one program."""
FRAGMENT_S: Final = 30.0
"""CPU time of one fragment where each is prepared alone, a hundred times of what it costs: compilers do hang, and all
others wait."""
BASELINE_S: Final = 2.0
"""CPU time of one fragment on eager, a thousand times of what it costs: some operators take as many steps as an integer
says (`special_chebyshev_polynomial_t`), and all platforms wait for eager."""
BASELINE_WORKER: Final = "fragments"
SEARCH_SHARE: Final = 0.25
"""Of the time limit of a crowd that hung, for each of its parts, but no less than `FRAGMENT_S`: a whole crowd that does
not hang takes a fifth of a campaign's usual limit (docs/decisions/0009)."""
CROWD_WORKER: Final = "crowds"
SEARCH_WORKER: Final = "search"
RISKY_WORKER: Final = "risky"
ALONE_WORKER: Final = "alone"
_OFTEN: Final = 1
"""Fragments that are run alone for an operator with a kind of difference before others like them wait for the end."""
_CHECKS: Final = 2
"""Structures that are run for one check of eager, and rounds of each, before others that fail it wait for the end: code
that does not check often dies, and a process that is started again costs seconds."""
_PRIOR: Final = (0.01, 8.0)
"""The chance that an unknown platform refuses an operator in a dtype so late that others have to be compiled again,
and how many observations that is worth: of 250 fragments inductor refuses 4 while it lowers them. Those that refuse
nearly half of all pairs share their lowering, so no crowd of theirs is halved."""
_REFUSALS: Final = 3.0
"""In a crowd of newcomers. A compiler refuses before it generates code: a crowd that is refused costs a fifth of one
that is compiled, and a small crowd nearly as much as a large one (docs/decisions/0009)."""
_WEIGHT: Final = 2.0
"""How many observations the platform's own rate is worth against those of one operator or dtype."""


class Interest:
    """What one platform accepts, refuses and has shown: decides with whom fragments run, and what is run alone."""

    def __init__(self) -> None:
        self._accepted: set[str] = set()
        self._refused: set[str] = set()
        """Operators in a dtype, and operators that it has no conversion for at all."""
        self._seen: Counter[str] = Counter()
        self._turned_down: Counter[str] = Counter()
        """Of those seen, by operator and by dtypes."""
        self._confirmed: Counter[Sign] = Counter()
        """Of what crowds showed: how often it was asked for alone, what vanished there left out."""
        self._proved: dict[Sign, Outcome] = {}
        """What showed alone as well, and how."""
        self._refusals: dict[Refusal, Counter[str]] = {}
        """By refusal of eager: how often each structure was run to learn whether the platform refuses it too."""
        self._lock = threading.Lock()

    def refuses(self, variant: NumberedVariant) -> bool:
        """Whether it is known to refuse a fragment, which then goes last and alone."""
        with self._lock:
            return self._is_refused(variant)

    def settled(self, variant: NumberedVariant, outcome: Outcome) -> None:
        """It ran a fragment, or refused it alone; with one unknown part only, that part is to blame."""
        with self._lock:
            signatures = _signatures(variant)
            unknown = [name for name in signatures if name not in self._accepted]
            breaks = not outcome.ok and outcome.status is not Status.REJECTED  # those are told apart beforehand
            for name in unknown if not breaks else unknown[:1] if len(unknown) == 1 else ():
                for part in ("", _operator(name), name.partition(" ")[2]):
                    self._seen[part] += 1
                    self._turned_down[part] += breaks
            if outcome.ok:
                self._accepted.update(signatures)
            elif outcome.status in (Status.UNSUPPORTED, Status.TIMEOUT):
                named = operators_in(outcome.message)
                self._refused.update({_operator(name) for name in unknown if _name(name) in named})
                self._refused.update(unknown if len(unknown) == 1 else ())

    def confirms(self, sign: Sign) -> bool:
        """Whether what a crowd showed is worth asking for alone now: a cause that is known can wait for the end."""
        with self._lock:
            self._confirmed[sign] += 1
            return self._confirmed[sign] <= _OFTEN

    def tries(self, variant: NumberedVariant, refusal: Refusal) -> bool:
        """Whether what eager refuses is worth running now: a check that was tried can wait for the end."""
        with self._lock:
            tried = self._refusals.setdefault(refusal, Counter())
            structure = variant.parcel.structure
            if structure not in tried and len(tried) == _CHECKS:
                return False
            tried[structure] += 1
            return tried[structure] <= _CHECKS

    def proved(self, sign: Sign, outcome: Outcome) -> None:
        """It showed alone as well."""
        with self._lock:
            self._proved.setdefault(sign, outcome)

    def proof(self, sign: Sign) -> Outcome | None:
        """What it did alone with the first that showed this there as well."""
        with self._lock:
            return self._proved.get(sign)

    def vanished(self, sign: Sign) -> None:
        """Alone it was not there: the next that shows it is asked for again."""
        with self._lock:
            self._confirmed[sign] = 0

    def crowds(
        self, variants: Sequence[NumberedVariant], groups: Sequence[list[int]], most: int
    ) -> Iterator[list[list[int]]]:
        """Which structures run together: the accepted, and newcomers so that few of a crowd are refused."""
        with self._lock:
            chances = {group[0]: self._chance(variants[group[0]]) for group in groups}
        crowd: list[list[int]] = []
        for group in sorted(groups, key=lambda group: chances[group[0]]):
            chance = chances[group[0]]
            if crowd and (chance == 1.0 or len(crowd) == most or len(crowd) * chance >= _REFUSALS):
                yield crowd
                crowd = []
            crowd.append(group)
        if crowd:
            yield crowd

    def _chance(self, variant: NumberedVariant) -> float:
        """How likely the platform is to refuse it."""
        if self._is_refused(variant):
            return 1.0
        passes = 1.0
        usual = (self._turned_down[""] + _PRIOR[0] * _PRIOR[1]) / (self._seen[""] + _PRIOR[1])
        for name in {name for name in _signatures(variant) if name not in self._accepted}:
            parts = (_operator(name), name.partition(" ")[2])
            passes *= 1 - max((self._turned_down[p] + usual * _WEIGHT) / (self._seen[p] + _WEIGHT) for p in parts)
        return 1 - passes

    def _is_refused(self, variant: NumberedVariant) -> bool:
        names = [name for name in _signatures(variant) if name not in self._accepted]
        return any(name in self._refused or _operator(name) in self._refused for name in names)


def _signatures(variant: NumberedVariant) -> list[str]:
    """Operators with the dtypes that they read."""
    return [context.partition(" | ")[0] for context in variant.contexts]


def _operator(context: str) -> str:
    return context.partition(" ")[0]


def _name(context: str) -> str:
    """The operator without its overload, as messages name it."""
    return ".".join(_operator(context).split(".")[:2])


class CrowdRunner:
    """Runs fragments on one platform, in a worker of their own; a crowd that fails is halved until one is alone."""

    def __init__(self, pool: Pool, spec: PlatformSpec, interest: Interest, stopped: Stopped, on_pause: OnPause) -> None:
        self._pool = pool
        adapter = adapter_class(spec) or Platform
        self._shares_lowering = adapter.shares_lowering
        self._can_be_copied = adapter.can_be_copied(spec)
        limits = (
            replace(spec.limits, cpu_s=min(FRAGMENT_S, spec.limits.cpu_s)) if self._shares_lowering else spec.limits
        )
        self._spec = replace(spec, worker=CROWD_WORKER, limits=limits)
        self._interest = interest
        self._stopped = stopped
        self._worker = BatchWorker(pool, self._spec, run_crowd, stopped=stopped, on_pause=on_pause)
        self._risky = BatchWorker(
            pool, replace(self._spec, worker=RISKY_WORKER), run_crowd, stopped=stopped, on_pause=on_pause
        )
        """For what eager refuses: when it dies, what the other one has learned stays."""
        searching = replace(self._spec, worker=SEARCH_WORKER, limits=_shortened(limits))
        self._search = BatchWorker(pool, searching, run_crowd, stopped=stopped, on_pause=on_pause)
        """For the parts of a crowd that hung: each part that holds the guilty one hangs as well."""
        self._hopeless: dict[str, Outcome] = {}
        """By structure: how it ended the worker before any of its rounds ran, so that none of them can."""

    def run(
        self, variants: Sequence[NumberedVariant], refused: Sequence[bool], done: Callable[[int, Outcome], None]
    ) -> None:
        """Every fragment is done when this returns, unless the campaign was stopped.

        What eager has `refused` is told: compiled code that does not check as eager does often dies of it.
        """
        if self._shares_lowering:  # one by one they cost little more, and a refusal costs nobody else anything
            numbers = range(len(variants))
            self._settle_apart(self._worker, variants, [n for n in numbers if not refused[n]], done)
            self._settle_apart(self._risky, variants, [n for n in numbers if refused[n]], done)
            return
        groups = self._with_hope(variants, structures_of([variant.parcel for variant in variants]), done)
        if not self._can_be_copied:
            self._settle_apart(self._risky, variants, [n for n in range(len(variants)) if refused[n]], done)
            groups = [some for group in groups if (some := [n for n in group if not refused[n]])]
        wild = [group for group in groups if all(refused[number] for number in group)]
        usual = [group for group in groups if group not in wild]
        crowds: list[list[list[int]]] = [*self._interest.crowds(variants, usual, CROWD), wild]
        for crowd in crowds:
            self._settle_all(variants, crowd, refused, done)

    def _settle_apart(
        self,
        worker: BatchWorker[RunCrowd, CrowdRun],
        variants: Sequence[NumberedVariant],
        numbers: Sequence[int],
        done: Callable[[int, Outcome], None],
    ) -> None:
        groups = structures_of([variants[number].parcel for number in numbers])
        numbers = [numbers[place] for group in groups for place in group]  # rounds follow each other
        files = [self._pool.scratch.new_file("outputs", worker.spec.worker_name) for _ in numbers]

        def request(chosen: Sequence[int]) -> RunCrowd:
            cases = tuple(variants[numbers[n]].parcel for n in chosen)
            return RunCrowd(cases, tuple(str(files[n]) for n in chosen), True)

        def settle(place: int, outcome: Outcome) -> None:
            self._interest.settled(variants[numbers[place]], outcome)
            done(numbers[place], outcome)

        def accept(place: int, found: CrowdRun, alone: bool) -> bool:
            (outcome,) = self._believed(found, [files[place]]).outcomes
            assert outcome is not None
            if outcome.status is Status.OOM and not alone:  # others may have eaten the memory
                return False
            if outcome.status is Status.OOM:
                worker.retire()
                self._give_up(variants[numbers[place]], outcome)
            settle(place, outcome)
            return True

        def on_death(place: int, death: Death) -> None:
            files[place].unlink(missing_ok=True)
            outcome = died(self._spec.name, death)
            self._give_up(variants[numbers[place]], outcome)
            settle(place, outcome)

        def is_settled(place: int) -> bool:
            outcome = self._hopeless.get(variants[numbers[place]].parcel.structure)
            if outcome is not None:
                settle(place, outcome)
            return outcome is not None

        left = [place for place in range(len(numbers)) if not is_settled(place)]
        numbers, files = [numbers[place] for place in left], [files[place] for place in left]
        worker.work(len(numbers), request, accept, on_death, is_settled)

    def _give_up(self, variant: NumberedVariant, outcome: Outcome) -> None:
        """No round of a structure is tried any more after what happened before the inputs of one were looked at."""
        structure = variant.parcel.structure
        if structure and outcome.stage is not Stage.RUN:
            self._hopeless[structure] = replace(outcome, seconds={})

    def _with_hope(
        self, variants: Sequence[NumberedVariant], groups: Sequence[list[int]], done: Callable[[int, Outcome], None]
    ) -> list[list[int]]:
        """Structures that nothing is known against; the others are done."""
        for number in (number for group in groups for number in group):
            outcome = self._hopeless.get(variants[number].parcel.structure)
            if outcome is not None:
                self._interest.settled(variants[number], outcome)
                done(number, outcome)
        return [group for group in groups if variants[group[0]].parcel.structure not in self._hopeless]

    def _settle_all(
        self,
        variants: Sequence[NumberedVariant],
        crowd: Sequence[Sequence[int]],
        refused: Sequence[bool],
        done: Callable[[int, Outcome], None],
    ) -> None:
        """Structures in one program, with the numbers of their rounds; in parts where that fails."""
        named: tuple[str, ...] = ()
        settled: set[int] = set()
        worker = self._worker

        def settle(groups: Sequence[Sequence[int]]) -> bool:
            nonlocal named, worker
            left = [number for group in groups for number in group if number not in settled]
            found = self._run(worker, [variants[number] for number in left], [refused[number] for number in left])
            if found is None:
                return True  # the campaign was stopped
            for number, outcome in zip(left, found.outcomes):
                if outcome is not None:
                    settled.add(number)
                    self._interest.settled(variants[number], outcome)
                    done(number, outcome)
            named = found.named
            if found.failure is not None and found.failure.status is Status.TIMEOUT:
                worker = self._search
                if len(groups) == 1 and not settled.issuperset(left):  # of its rounds, several may hang
                    return all(settle([[number]]) for number in left)
            return settled.issuperset(left)

        def part(groups: Sequence[Sequence[int]]) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]:
            """Those with an operator that the failure names, and the others; halves where it names none.

            Rounds of one structure are parted last.
            """
            left = [group for group in groups if not settled.issuperset(group)]
            if len(left) == 1:
                some, others = halves(left[0])
                return [some], [others]
            guilty = [g for g in left if any(_name(c) in named for c in variants[g[0]].contexts)]
            rest = [group for group in left if group not in guilty]
            return (guilty, rest) if guilty and rest else halves(left)

        by_halves(crowd, settle, part)
        if worker is self._search:
            worker.retire()

    def _run(
        self, worker: BatchWorker[RunCrowd, CrowdRun], variants: Sequence[NumberedVariant], refused: Sequence[bool]
    ) -> CrowdRun | None:
        """What became of each in one crowd; None when the campaign was stopped."""
        files = [self._pool.scratch.new_file("outputs", worker.spec.worker_name) for _ in variants]
        risky = tuple(number for number, is_refused in enumerate(refused) if is_refused)
        request = RunCrowd(tuple(v.parcel for v in variants), tuple(map(str, files)), risky=risky)
        found = worker.once(request)
        if isinstance(found, Death):
            found = self._after_death(worker, request, found)
        if isinstance(found, CrowdRun) and _lacks_memory(found):
            found = self._with_more_memory(worker, request, found)
        if isinstance(found, Death):
            return self._told(variants, found)
        return self._believed(found, files) if found is not None else None

    def _after_death(
        self, worker: BatchWorker[RunCrowd, CrowdRun], request: RunCrowd, death: Death
    ) -> CrowdRun | Death | None:
        """Another look, where no smaller crowd will tell more."""
        if death.status is Status.CRASH and len(request.cases) > 1 and self._can_be_copied:
            return worker.once(replace(request, guarded=True))
        hung = death.status is Status.TIMEOUT
        if not _ends_all(request.cases, death) or (hung and worker is self._search):
            return death
        again = self._search if hung else worker  # others died with it before: it must die by itself
        found = again.once(request, fresh=True)
        return in_a_row(found) if isinstance(found, Death) else found

    def _with_more_memory(
        self, worker: BatchWorker[RunCrowd, CrowdRun], request: RunCrowd, found: CrowdRun
    ) -> CrowdRun | Death | None:
        """Others may have eaten the memory: who lacked it is left for a new worker, and believed there when alone."""
        if len(structures_of(request.cases)) == 1:
            again = worker.once(request, fresh=True)
            worker.retire()
            return again
        worker.retire()
        return replace(
            found, outcomes=tuple(o if o is None or o.status is not Status.OOM else None for o in found.outcomes)
        )

    def _told(self, variants: Sequence[NumberedVariant], death: Death) -> CrowdRun:
        """A death as the outcome of all that it was the death of, and of nobody where smaller crowds will tell."""
        outcome = died(self._spec.name, death)
        if not _ends_all([variant.parcel for variant in variants], death):
            return CrowdRun((None,) * len(variants), outcome)
        if not death.outside:
            self._give_up(variants[0], outcome)
        return CrowdRun((outcome,) * len(variants), outcome)

    def _believed(self, found: CrowdRun, files: Sequence[Path]) -> CrowdRun:
        """What a worker says of these files; one that speaks of others has crashed."""
        if len(found.outcomes) != len(files):
            lie = Outcome(self._spec.name, Status.CRASH, Stage.LOAD, "its answer speaks of other programs")
            return CrowdRun((lie if len(files) == 1 else None,) * len(files), lie)
        outcomes = tuple(
            believed(outcome, self._spec, file) if outcome is not None else None
            for outcome, file in zip(found.outcomes, files)
        )
        if outcomes == (None,):
            outcomes = (found.failure or Outcome(self._spec.name, Status.CRASH, Stage.LOAD, "it gave no answer"),)
        return replace(found, outcomes=outcomes)


def _shortened(limits: Limits) -> Limits:
    """For parts of a crowd that hung; the wall-clock limit stays, as a busy machine must not look like a hang."""
    cpu_s = min(limits.cpu_s, max(FRAGMENT_S, SEARCH_SHARE * limits.cpu_s))
    return replace(limits, cpu_s=cpu_s, idle_s=min(limits.idle_s, cpu_s))


def _ends_all(cases: Sequence[Parcel], death: Death) -> bool:
    """Whether a death is that of each of these cases: of a structure that was prepared no round was run."""
    return len(cases) == 1 or (death.stage is not Stage.RUN and len(structures_of(cases)) == 1)


def _lacks_memory(found: CrowdRun) -> bool:
    return any(o is not None and o.status is Status.OOM for o in (found.failure, *found.outcomes))


class BriefRunner(LocalRunner):
    """The baseline for fragments: whoever takes long is ended soon, and once: each has its own CPU time."""

    sure_of = (Status.TIMEOUT,)

    def __init__(self, pool: Pool, spec: PlatformSpec, stopped: Stopped, on_pause: OnPause, number: int = 0) -> None:
        limits = replace(spec.limits, cpu_s=min(BASELINE_S, spec.limits.cpu_s))
        super().__init__(pool, replace(spec, worker=f"{BASELINE_WORKER} {number}", limits=limits), stopped, on_pause)


class FreshRunner(LocalRunner):
    """The platform as users meet it: each program alone, in a process that was started for this batch."""

    def __init__(self, pool: Pool, spec: PlatformSpec, stopped: Stopped, on_pause: OnPause) -> None:
        super().__init__(pool, replace(spec, worker=ALONE_WORKER), stopped, on_pause)

    def run(
        self, cases: Sequence[Parcel], runs: int, done: Callable[[int, Outcome], None], cheaper: bool = False
    ) -> None:
        self._pool.retire(self._spec)
        super().run(cases, runs, done)
