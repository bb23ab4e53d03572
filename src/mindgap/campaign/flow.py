"""The way of one variant: its platforms run it, those that disagree are judged, the accused are asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.campaign.crowds import CrowdRunner
from mindgap.campaign.culprits import culprit
from mindgap.campaign.dossier import Dossier, Sign
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.queues import WorkQueue
from mindgap.campaign.runners import Judge, Runner
from mindgap.errors import FilesLost
from mindgap.program.codec import decode
from mindgap.records.outcome import Outcome
from mindgap.records.verdict import Conclusion, Kind, Verdict
from mindgap.verdicts.judge import fault_of, judge
from mindgap.verdicts.judging import Comparing, Judged, Question, differs
from mindgap.verdicts.steps import BRIEF, Step

HARMLESS: Final = (Conclusion.AGREES, Conclusion.ROUNDING, Conclusion.HAZARD, Conclusion.UNJUDGED)
"""Conclusions after which nothing is left of what a crowd showed."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One variant for one platform; with two runs it also learns whether the platform agrees with itself."""

    dossier: Dossier
    runs: int


class Flow:
    """Moves dossiers from queue to queue; `finish` is told of each that needs nothing more."""

    def __init__(
        self,
        finish: Callable[[Dossier], None],
        put_off: Callable[[Dossier], bool] = lambda dossier: False,
        proof: Callable[[str, Sign], Outcome | None] = lambda platform, sign: None,
        steps: tuple[Step, ...] = BRIEF,
    ) -> None:
        self.platforms: dict[str, WorkQueue[Errand]] = {}
        self.crowds: dict[str, WorkQueue[Dossier]] = {}
        """Platforms that run fragments many at a time; others run them like any variant."""
        self.alone: dict[str, WorkQueue[Errand]] = {}
        """Platforms in fresh processes, for what a crowd or a shortcut shows."""
        self.brief: WorkQueue[Errand] | None = None
        """The baseline for fragments, where it is on this machine."""
        self.shortcuts: set[str] = set()
        """Platforms of this machine that run whole variants cheaper than users do."""
        self.takes_shortcuts = True
        self.judges: WorkQueue[Dossier] | None = None
        self._steps = steps
        """How much evidence a verdict is made from."""
        self._finish = finish
        self._put_off = put_off
        """Takes away a fragment that shows what is known or that eager refuses like others before; whether it did."""
        self._proof = proof
        """What a platform did alone with another fragment that showed the same in a crowd, where that is enough."""

    def start(self, dossier: Dossier, platforms: Sequence[str]) -> None:
        """Send a variant to platforms that have not run it; with none, only what is known is judged."""
        if dossier.variant.is_fragment and BASELINE in platforms:  # a crowd should know what eager refuses
            dossier.pending = tuple(name for name in platforms if name != BASELINE)
            self._send(dossier, [BASELINE], runs=1)
        elif dossier.variant.is_fragment and platforms:
            self._send_to_crowds(dossier, platforms)
        elif platforms:
            self._send(dossier, platforms, runs=1)
        else:
            self._advance(dossier)

    def run_on(self, runner: Runner) -> Callable[[list[Errand]], None]:
        """What a queue's thread does with a batch."""

        def work(batch: list[Errand]) -> None:
            for runs in sorted({item.runs for item in batch}):
                chosen = [item.dossier for item in batch if item.runs == runs]
                runner.run(
                    [dossier.variant.parcel for dossier in chosen],
                    runs,
                    lambda number, outcome, chosen=chosen: self._arrived(chosen[number], outcome),  # type: ignore[misc]
                    cheaper=runs == 1 and self.takes_shortcuts,
                )

        return work

    def run_crowd_on(self, runner: CrowdRunner) -> Callable[[list[Dossier]], None]:
        """What a queue's thread does with fragments."""

        def work(batch: list[Dossier]) -> None:
            refused = [not dossier.baseline.ok for dossier in batch]
            runner.run([d.variant for d in batch], refused, lambda number, found: self._arrived(batch[number], found))

        return work

    def judge_with(self, judge_: Judge) -> Callable[[list[Dossier]], None]:
        def work(batch: list[Dossier]) -> None:
            left = dict(enumerate(batch))
            pairs = [(dossier, asked) for dossier in batch for asked in compiled_questions(dossier, self._steps)]
            try:
                judge_.judge(
                    [asked for _, asked in pairs], lambda n, found: pairs[n][0].compiled.update(found.verdicts)
                )
                judge_.judge(
                    [question(dossier, self._steps) for dossier in batch],
                    lambda n, found: self._judged(left.pop(n), found),
                )
            except FilesLost:  # what was removed is computed again
                lost = [dossier.forget_lost() for dossier in left.values()]
                if not any(lost):
                    raise
                for dossier in left.values():
                    self._advance(dossier)

        return work

    def _send(self, dossier: Dossier, platforms: Sequence[str], runs: int) -> None:
        with dossier.lock:
            dossier.waiting = set(platforms)
        for name in platforms:
            self._queue_of(dossier, name).put(Errand(dossier, runs))

    def _queue_of(self, dossier: Dossier, name: str) -> WorkQueue[Errand]:
        brief = self.brief if name == BASELINE and dossier.variant.is_fragment else None
        return brief or self.platforms[name]

    def _send_to_crowds(self, dossier: Dossier, platforms: Sequence[str]) -> None:
        with dossier.lock:
            dossier.waiting = set(platforms)
        for name in platforms:
            if name in self.crowds:
                self.crowds[name].put(dossier)
            else:
                self._queue_of(dossier, name).put(Errand(dossier, 1))

    def _confirm(self, dossier: Dossier, doubtful: Sequence[str]) -> None:
        """Ask those that are accused again, and the baseline.

        What a crowd or a shortcut showed must show alone, in a fresh process and the way users run it.
        """
        apart = {name for name in doubtful if name in self.alone} if dossier.variant.is_fragment else self.shortcuts
        if dossier.variant.is_fragment:
            dossier.signs = {name: _sign(dossier, name) for name in apart}
            if self._has_proof(dossier):
                self._conclude(dossier)
                return
            if self._put_off(dossier):
                return
        dossier.confirmed = True
        with dossier.lock:
            dossier.waiting = set(doubtful)
            dossier.in_crowd = {name: dossier.outcomes[name].digest for name in doubtful if name in apart}
        for name in doubtful:
            queue = self.alone[name] if name in apart else self._queue_of(dossier, name)
            queue.put(Errand(dossier, 2))

    def _has_proof(self, dossier: Dossier) -> bool:
        """Whether others showed all this alone; who died in a crowd has died as they did."""
        proofs = {name: self._proof(name, sign) for name, sign in dossier.signs.items()}
        proven = {name: found for name, found in proofs.items() if found is not None}
        if not proofs or len(proven) < len(proofs):
            return False
        dead = {name: found for name, found in proven.items() if dossier.outcomes[name].status.is_death}
        dossier.outcomes |= {
            name: replace(found, seconds=dossier.outcomes[name].seconds) for name, found in dead.items()
        }
        return True

    def _arrived(self, dossier: Dossier, outcome: Outcome) -> None:
        with dossier.lock:
            dossier.record(outcome)
            complete = not dossier.waiting
        if complete:
            self._advance(dossier)

    def _advance(self, dossier: Dossier) -> None:
        """All platforms that had the variant have answered."""
        if dossier.pending:
            if dossier.baseline.ok or not self._put_off(dossier):
                platforms, dossier.pending = dossier.pending, ()
                self._send_to_crowds(dossier, platforms)
            return
        other = dossier.other_alone()
        if other & dossier.verdicts.keys():  # what was judged is not what it gives alone: all is judged again
            dossier.verdicts = {}
        missing = [name for name in dossier.missing_outputs() if name in self.platforms]
        if missing:
            self._send(dossier, missing, runs=1)
        elif dossier.differing() and (not dossier.verdicts or _unstable(dossier)):
            assert self.judges is not None
            self.judges.put(dossier)
        elif not dossier.confirmed and (doubtful := [*self._accepting(dossier), *self._dead(dossier)]):
            dossier.operators |= dict.fromkeys(self._accepting(dossier), refusing_operator(dossier))
            self._confirm(dossier, doubtful)
        else:
            self._conclude(dossier)

    def _accepting(self, dossier: Dossier) -> list[str]:
        """Platforms that ran in a crowd what eager refuses: no numbers differ, but it must show alone as well."""
        if not dossier.variant.is_fragment or dossier.baseline.ok:
            return []
        return [name for name, outcome in dossier.others().items() if outcome.ok and name in self.alone]

    def _dead(self, dossier: Dossier) -> list[str]:
        """Platforms that died of it in a crowd, where others may be to blame; not those that ended as eager did."""
        if not dossier.variant.is_fragment:
            return []
        dead = [name for name, outcome in dossier.others().items() if outcome.status.is_death]
        accused = [name for name in dead if dossier.outcomes[name].status is not dossier.baseline.status]
        return [name for name in accused if name in self.alone and name in dossier.fresh]

    def _judged(self, dossier: Dossier, found: Judged) -> None:
        dossier.verdicts = found.verdicts
        dossier.unmask([n for n, verdict in found.verdicts.items() if verdict.conclusion is Conclusion.FAILED])
        if dossier.variant.is_fragment:
            dossier.operators = culprits(dossier.variant.parcel.program, found)
            dossier.verdicts = with_faults(found)
        accused = [name for name in dossier.doubtful() if name in self.platforms]
        doubtful = [] if dossier.confirmed else [*accused, *self._dead(dossier)]
        if doubtful:
            self._confirm(dossier, doubtful)
        else:
            self._conclude(dossier)

    def _conclude(self, dossier: Dossier) -> None:
        settled = {*dossier.verdicts, *dossier.differing()}  # outputs of a merged platform are gone: its verdict stays
        plain = [outcome for name, outcome in dossier.others().items() if name not in settled]
        dossier.verdicts |= verdicts_without_outputs(dossier.baseline, plain)
        for name, eager in dossier.pairs().items():
            if name not in dossier.compiled and not differs(eager, dossier.outcomes[name]):
                dossier.compiled |= verdicts_without_outputs(eager, [dossier.outcomes[name]])
        dossier.crowd_only = {n for n in dossier.in_crowd if _is_gone(dossier.verdicts[n], dossier.signs.get(n))}
        if dossier.variant.is_fragment:
            nameless = dossier.verdicts.keys() - dossier.operators.keys()
            refused = [name for name in sorted(nameless) if dossier.verdicts[name].kind is Kind.VALIDATION]
            dossier.operators |= dict.fromkeys(refused, refusing_operator(dossier) if refused else "")
        accused = {n: op for n, op in dossier.operators.items() if op and n not in dossier.crowd_only}
        dossier.operators = {n: op for n, op in accused.items() if dossier.verdicts[n].conclusion not in HARMLESS}
        dossier.discard_outputs()
        self._finish(dossier)


def _is_gone(verdict: Verdict, sign: Sign | None) -> bool:
    """Whether nothing is left of what a crowd showed; that a platform accepts more than eager may be no defect."""
    shown = sign is not None and sign[1] is Kind.VALIDATION
    return verdict.conclusion in HARMLESS and not (shown and verdict.kind is Kind.VALIDATION)


def _sign(dossier: Dossier, name: str) -> Sign:
    """Where no operator is named, rounds of one structure have one cause."""
    verdict, status = dossier.verdicts.get(name), dossier.outcomes[name].status
    if status.is_death:
        return dossier.variant.parcel.structure or dossier.variant.fingerprint, status
    operator = dossier.operators.get(name, "") or dossier.variant.parcel.structure
    return f"{operator} {dossier.cell}".rstrip(), Kind.VALIDATION if verdict is None else verdict.kind


def refusing_operator(dossier: Dossier) -> str:
    """The operator that eager refuses: where its call failed, or the only one that there is."""
    return dossier.baseline.failed_at or culprit(decode(dossier.variant.parcel.program), ())


def culprits(content: bytes, found: Judged) -> dict[str, str]:
    """By platform that diverges: the operator at fault, where the fragment tells it by itself."""
    wrong = {
        name: {item.output for item in judged.comparisons if item.conclusion is Conclusion.DIVERGES}
        for name, judged in found.judgements.items()
        if judged.verdict.conclusion is Conclusion.DIVERGES
    }
    program = decode(content) if wrong else None
    named = {name: culprit(program, outputs) for name, outputs in wrong.items()} if program is not None else {}
    return {name: operator for name, operator in named.items() if operator}


def with_faults(found: Judged) -> dict[str, Verdict]:
    """The verdicts on a fragment, which is judged platform by platform, with what tells that several share a fault."""
    return {
        name: replace(judged.verdict, group=judged.verdict.group or fault_of(judged))
        for name, judged in found.judgements.items()
    }


def question(dossier: Dossier, steps: tuple[Step, ...] = BRIEF) -> Question:
    """Who is wrong, among those that do not give the baseline's bits?"""
    candidates = tuple(dossier.outcomes[name] for name in sorted(dossier.differing()) if dossier.outcomes[name].file)
    return Question(dossier.variant.parcel, (Comparing(dossier.baseline, candidates),), steps, refusal_agrees=True)


def compiled_questions(dossier: Dossier, steps: tuple[Step, ...] = BRIEF) -> list[Question]:
    """Compiled platforms that do not give the bits of eager on their own device."""
    return [
        Question(dossier.variant.parcel, (Comparing(eager, (dossier.outcomes[name],)),), steps, refusal_agrees=True)
        for name, eager in dossier.pairs().items()
        if differs(eager, dossier.outcomes[name]) and eager.file and dossier.outcomes[name].file
    ]


def verdicts_without_outputs(baseline: Outcome, outcomes: Sequence[Outcome]) -> dict[str, Verdict]:
    """Verdicts that need no numbers: the same bits, or somebody did not run it."""
    known = [replace(outcome, file="", stored=()) for outcome in (baseline, *outcomes)]
    return {name: found.verdict for name, found in judge(known[0], known[1:], None, refusal_agrees=True).items()}


def _unstable(dossier: Dossier) -> bool:
    """Whether asking again gave another answer than the one that was judged."""
    asked = [dossier.outcomes[name] for name in (BASELINE, *dossier.verdicts)]
    return any(outcome.stable is False for outcome in asked)
