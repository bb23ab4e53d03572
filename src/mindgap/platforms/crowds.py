"""Running many cases on a platform at the cost of few.

Side by side they are one program, by the platform's ordinary way: prepared once, run, split afterwards. Apart, each is
prepared alone, after what they share was made once for all of them (`Platform.foresee`). Cases that differ in nothing
but their inputs are prepared once either way, and take turns. Those whose inputs may end the process take theirs last,
in a copy of it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from mindgap.errors import MindgapError, NoSpace
from mindgap.execution import arena
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.tasks import Worker, hosting, stream_task
from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.platforms.copies import MOST_CPU_S, ONE_CPU_S, Ended, SharedStage, answer_of_copy
from mindgap.platforms.messages import operators_in
from mindgap.platforms.running import Refusals, elsewhere, one_run, refuse_fallback
from mindgap.program.case import Case
from mindgap.program.crowd import by_halves, crowd_of
from mindgap.records.memory import collect_seldom
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor


@dataclass(frozen=True, slots=True)
class RunCrowd:
    """Cases that run side by side or apart, and the file that takes the outputs of each."""

    cases: tuple[Parcel, ...]
    files: tuple[str, ...]
    apart: bool = False
    risky: tuple[int, ...] = ()
    """By position: cases that eager refuses."""
    guarded: bool = False
    """Whether the process ended when it ran them before: then copies of it do, until it is clear who ends them."""


@dataclass(frozen=True, slots=True)
class CrowdRun:
    """What became of a crowd: an outcome per case, or None where `failure` is that of all of those together.

    Apart, there is one with a single outcome for each case.
    """

    outcomes: tuple[Outcome | None, ...] = ()
    failure: Outcome | None = None
    named: tuple[str, ...] = ()
    """Operators that the failure names."""


@hosting(NoSpace)
@stream_task
def run_crowd(worker: Worker, request: RunCrowd) -> Iterator[CrowdRun]:
    """Prepare and run all cases in one program, and give each its own outputs; or one after the other."""
    collect_seldom()
    usual = worker.platform
    cheaper = type(usual)(replace(usual.spec, options={**usual.in_crowds, **usual.spec.options}))
    if request.apart:
        for outcome, parcel, file in zip(_apart(cheaper, worker, request), request.cases, request.files):
            yield CrowdRun((_told(worker, outcome, parcel, file),))
        return
    found = _together(cheaper, worker, request)
    told = [
        _told(worker, outcome, parcel, file) if outcome is not None else None
        for outcome, parcel, file in zip(found.outcomes, request.cases, request.files)
    ]
    yield replace(found, outcomes=tuple(told))


def _told(worker: Worker, found: Outcome, parcel: Parcel, file: str) -> Outcome:
    """A refusal of the cheaper way as users meet it."""
    usual: Platform = worker.platform
    refusals = worker.keep(Refusals)
    ended = found.status in (Status.CRASH, Status.TIMEOUT)  # a copy of this process: here it would end this one
    if found.ok or ended or not usual.in_crowds or refusals.knows(found):
        return found
    (told,) = _apart(usual, worker, RunCrowd((parcel,), (file,)))
    refusals.learn(found, told)
    return told


def _apart(platform: Platform, worker: Worker, request: RunCrowd) -> Iterator[Outcome]:
    """One after the other; those that differ in nothing but their inputs, as long as they follow each other, in what
    was prepared for the first of them."""
    cases = [open_parcel(parcel, worker.keep(Constants)) for parcel in request.cases]
    groups = [list(group) for _, group in groupby(range(len(cases)), lambda n: request.cases[n].structure or n)]
    platform.foresee([cases[group[0]] for group in groups])
    for group in groups:
        clock = StageClock(worker.reach)
        try:
            prepared = platform.prepare(cases[group[0]], clock)
            refuse_fallback(platform, prepared)
        except Exception as error:
            failure = _failed(platform, error, clock)
            yield from [failure, *[replace(failure, seconds={})] * (len(group) - 1)]
            continue
        for number in group:
            try:
                outputs = one_run(prepared, cases[number], clock)
                yield _ran(platform, prepared, outputs, Path(request.files[number]), clock.seconds)
            except NoSpace:
                raise
            except Exception as error:
                yield _failed(platform, error, clock)
            clock = StageClock(worker.reach)


def _together(platform: Platform, worker: Worker, request: RunCrowd) -> CrowdRun:
    """One program of all structures, prepared once; cases of one structure take turns in it.

    What the platform will surely refuse is prepared alone: among others it would only cost them a second try. So is a
    structure with no case that eager takes, each time in a copy of this process.
    """
    crowd = _Crowd(platform, worker, request)
    structures = structures_of(request.cases)
    hopeless = [s for s in structures if len(structures) > 1 and platform.surely_refuses(crowd.cases[s[0]])]
    wild = [s for s in structures if s not in hopeless and crowd.risky.issuperset(s)]
    likely = [s for s in structures if s not in hopeless and s not in wild]
    if request.guarded:
        crowd.run_in_copies(likely)
    elif likely:
        crowd.run(likely)
    for members in hopeless:
        crowd.run([members])
    for members in wild:
        crowd.run_in_copies([members])
    return crowd.found()


class _Crowd:
    """What becomes of the cases of a request that run side by side."""

    def __init__(self, platform: Platform, worker: Worker, request: RunCrowd) -> None:
        self.cases = [open_parcel(parcel, worker.keep(Constants)) for parcel in request.cases]
        self.risky = frozenset(request.risky)
        self._platform, self._worker = platform, worker
        self._files = [Path(file) for file in request.files]
        self._outcomes: dict[int, Outcome] = {}
        self._failure: Outcome | None = None
        self._named: tuple[str, ...] = ()

    def found(self) -> CrowdRun:
        outcomes = tuple(self._outcomes.get(number) for number in range(len(self.cases)))
        return CrowdRun(outcomes, self._failure if None in outcomes else None, self._named)

    def run(self, some: Sequence[Sequence[int]]) -> None:
        """All of them in one program; where that fails, it is noted what failed."""
        clock = StageClock(self._worker.reach)
        try:
            self._outcomes |= _Turns(self._platform, self.cases, some, self.risky, clock).run(self._files)
        except NoSpace:
            raise
        except Exception as error:
            failed = _failed(self._platform, error, clock)
            same_for_all = clock.current is not Stage.RUN or failed.status is Status.UNSUPPORTED
            if len(some) == 1 and (same_for_all or len(some[0]) == 1):
                first, *rest = some[0]
                self._outcomes |= {first: failed} | dict.fromkeys(rest, replace(failed, seconds={}))
            else:
                self._failure, self._named = failed, tuple(operators_in(str(error)))

    def run_in_copies(self, structures: Sequence[Sequence[int]]) -> None:
        """The same in copies of this process, in ever smaller parts; of a single structure each case by itself."""
        by_halves(structures, self._settles_in_a_copy)

    def _settles_in_a_copy(self, some: Sequence[Sequence[int]]) -> bool:
        if len(some) == 1:
            self._settle_apart(some[0])
            return True

        def work() -> CrowdRun:
            self.run(some)
            return self.found()

        answer = answer_of_copy(work, CrowdRun, min(MOST_CPU_S, self._platform.spec.limits.cpu_s))
        outcomes = () if isinstance(answer, Ended) else answer.outcomes
        self._outcomes |= {number: outcome for number, outcome in enumerate(outcomes) if outcome is not None}
        return all(number in self._outcomes for members in some for number in members)

    def _settle_apart(self, members: Sequence[int]) -> None:
        """Cases of one structure, each in a copy; what fails before any inputs are looked at fails for all of them."""
        for place, number in enumerate(members):
            found = self._outcomes[number] = self._in_a_copy(number)
            if not found.ok and found.stage is not Stage.RUN:
                self._outcomes |= dict.fromkeys(members[place + 1 :], replace(found, seconds={}))
                return

    def _in_a_copy(self, number: int) -> Outcome:
        reached = SharedStage(self._worker.reach)
        work = partial(_alone, self._platform, self.cases[number], self._files[number], StageClock(reached.enter))
        answer = answer_of_copy(work, Outcome, _one_cpu_s(self._platform))
        return answer.outcome(self._platform.spec.name, reached.current) if isinstance(answer, Ended) else answer


def _one_cpu_s(platform: Platform) -> float:
    return min(ONE_CPU_S, platform.spec.limits.cpu_s)


def _alone(platform: Platform, case: Case, file: Path, clock: StageClock) -> Outcome:
    try:
        prepared = platform.prepare(case, clock)
        refuse_fallback(platform, prepared)
        return _ran(platform, prepared, one_run(prepared, case, clock), file, clock.seconds)
    except NoSpace:
        raise
    except Exception as error:
        return _failed(platform, error, clock)


def structures_of(parcels: Sequence[Parcel]) -> list[list[int]]:
    """Which cases differ in nothing but their inputs; one that says nothing of its structure is the only one of it."""
    found: dict[str, list[int]] = {}
    for number, parcel in enumerate(parcels):
        found.setdefault(parcel.structure or f"#{number}", []).append(number)
    return list(found.values())


class _Turns:
    """A crowd with one place for each structure."""

    def __init__(
        self,
        platform: Platform,
        cases: Sequence[Case],
        structures: Sequence[Sequence[int]],
        risky: frozenset[int],
        clock: StageClock,
    ) -> None:
        self._platform, self._cases, self._clock = platform, cases, clock
        self._count = sum(map(len, structures))
        self._harmless = [[n for n in members if n not in risky] or list(members) for members in structures]
        self._risky = [[n for n in members if n not in some] for members, some in zip(structures, self._harmless)]
        self._crowd = crowd_of([cases[members[0]] for members in self._harmless])
        self._prepared = platform.prepare(self._crowd.case, clock)
        refuse_fallback(platform, self._prepared)

    def run(self, files: Sequence[Path]) -> dict[int, Outcome]:
        """An outcome for each case; raises where no turn can tell them apart."""
        found: dict[int, Outcome] = {}
        works: list[int] | None = None
        failed: list[list[int]] = []
        for turn in range(max(map(len, self._harmless))):
            chosen = [members[min(turn, len(members) - 1)] for members in self._harmless]
            try:
                found |= self._turn(chosen, files, found)
                works = chosen
            except NoSpace:
                raise
            except Exception:
                if len(chosen) > 1 and works is None:
                    raise  # nobody knows yet who is to blame
                failed.append(chosen)
        for chosen in failed:
            for place, number in enumerate(chosen):
                if number not in found:
                    found |= self._blamed(place, number, works or [number], files)
        for place, members in enumerate(self._risky):
            for number in members:
                found[number] = self._in_a_copy(place, number, works or [number], files)
        return found

    def _in_a_copy(self, place: int, number: int, works: Sequence[int], files: Sequence[Path]) -> Outcome:
        """One case that may end whatever runs it, among others that are known to run."""

        def work() -> Outcome:
            return self._blamed(place, number, works, files)[number]

        answer = answer_of_copy(work, Outcome, _one_cpu_s(self._platform))
        return answer.outcome(self._platform.spec.name) if isinstance(answer, Ended) else answer

    def _blamed(self, place: int, number: int, works: Sequence[int], files: Sequence[Path]) -> dict[int, Outcome]:
        """One case among others that are known to run."""
        chosen = [*works[:place], number, *works[place + 1 :]]
        try:
            return self._turn(chosen, files, dict.fromkeys(works))
        except NoSpace:
            raise
        except Exception as error:
            return {number: replace(_failed(self._platform, error, self._clock), seconds={})}

    def _turn(self, chosen: Sequence[int], files: Sequence[Path], known: Mapping[int, object]) -> dict[int, Outcome]:
        """Outcomes of those that are not known yet."""
        case = self._crowd.on([self._cases[number] for number in chosen])
        parts = self._crowd.split(one_run(self._prepared, case, self._clock))
        seconds = {stage: spent / self._count for stage, spent in self._clock.seconds.items()}
        return {
            number: _ran(self._platform, self._prepared, part, files[number], seconds, len(chosen))
            for number, part in zip(chosen, parts)
            if number not in known
        }


def _ran(
    platform: Platform,
    prepared: Prepared,
    part: Sequence[NamedTensor],
    file: Path,
    seconds: Mapping[str, float],
    among: int = 1,
) -> Outcome:
    """The outcome of a case that ran as one of `among` structures in a program."""
    return Outcome(
        platform.spec.name,
        Status.OK,
        Stage.RUN,
        ran=prepared.ran,
        note="; ".join(filter(None, [prepared.note, elsewhere(prepared, among)])),
        fallback=_share_of(prepared, among),
        seconds=seconds,
        composed=prepared.composed,
        digest=arena.digest_of(part),
        file=str(file),
        stored=arena.store(file, part),
    )


def _share_of(prepared: Prepared, among: int) -> float | None:
    """What a case gave away: of a crowd only where all of it did, or nothing, does its share tell of each case."""
    share = prepared.fallback.share if prepared.fallback is not None else None
    return share if among == 1 or share in (0.0, 1.0) else None


def _failed(platform: Platform, error: Exception, clock: StageClock) -> Outcome:
    sys.stderr.write("".join(traceback.format_exception(error)))
    message = str(error) if isinstance(error, MindgapError) else platform.message_of(error)
    status = platform.status_of(error, clock.current)
    return Outcome(platform.spec.name, status, clock.current, message, seconds=clock.seconds)
