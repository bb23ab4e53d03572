"""Whether a smaller witness still shows the same finding, asked as cheaply as possible."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from mindgap.program.case import Case
from mindgap.program.crowd import crowd_of
from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.reduction.journal import Journal
from mindgap.tracing.capture import capture
from mindgap.tracing.examine import Examination, Examiner, Symptom
from mindgap.tracing.extract import Value
from mindgap.verdicts.comparison import gravest

NO: Final = ""
"""The journal's answer for a witness that does not show the finding."""


class Asker:
    """The question of a reduction: same platform, same kind, same blame.

    Several proposals are first put into one program, so that the platform compiles once; the one
    that shows the finding there must also show it alone.
    """

    def __init__(self, examiner: Examiner, symptom: Symptom, journal: Journal | None = None) -> None:
        self.examiner = examiner
        self.symptom = symptom
        self.journal = Journal() if journal is None else journal
        self.seen: Examination | None = None
        """How the witness that was last taken showed it, if it was asked here and not read from the journal."""

    def __call__(self, witnesses: Sequence[Case], after_cut: bool) -> int | None:
        answers = [self.journal.get(witness.key) for witness in witnesses]
        unknown = [place for place, answer in enumerate(answers) if answer is None]
        decided = next((place for place, answer in enumerate(answers) if answer != NO), None)
        if decided is not None and answers[decided] is None:
            promising = self._side_by_side([witnesses[place] for place in unknown], after_cut)
            for place, good in zip(unknown, promising or [True] * len(unknown)):
                if not good:
                    answers[place] = self._note(witnesses[place], None)
        for place, witness in enumerate(witnesses):
            answer, found = answers[place], None
            if answer is None:
                found = self.examiner.shows(witness, self.symptom, exactly=not after_cut)
                answer = self._note(witness, found)
            if answer != NO:
                self.seen = found
                self.symptom = _read(answer, self.symptom)
                return place
        return None

    def values(self, witness: Case, parts: Sequence[Collection[int]]) -> list[dict[int, Value]]:
        """What each part of a program is fed with, as eager computes it."""
        return capture(lambda shown: self.examiner.run(self.examiner.baseline, shown), witness, parts)

    def _note(self, witness: Case, found: Examination | None) -> str:
        symptom = found.symptom if found is not None else None
        answer = NO if symptom is None else _text(symptom)
        self.journal.note(witness.key, answer)
        return answer

    def _side_by_side(self, witnesses: Sequence[Case], after_cut: bool) -> list[bool] | None:
        """For each witness whether it may show the finding; None when they cannot be told apart together."""
        if len(witnesses) < 2 or not (self.symptom.eager_runs and self.symptom.candidate_runs):
            return None
        crowd = crowd_of(witnesses, "proposals")
        found = self.examiner.examine(crowd.case)
        if not found.both_ran:
            return None
        return [self._shows(found, names, after_cut) for names in crowd.names]

    def _shows(self, found: Examination, names: Iterable[str], after_cut: bool) -> bool:
        comparisons = [found.comparisons[name] for name in names if name in found.comparisons]
        worst = gravest(comparisons) if comparisons else None
        if worst is None or worst.conclusion is not Conclusion.DIVERGES:
            return False
        return self.symptom.fits(Symptom(worst.conclusion, worst.kind, worst.blame), exactly=not after_cut)


def _text(symptom: Symptom) -> str:
    """What of a symptom may change when operators are cut away."""
    kind, blame = symptom.kind, symptom.blame
    return f"{kind.value if kind else '-'} {blame.value if blame else '-'}"


def _read(text: str, before: Symptom) -> Symptom:
    kind, _, blame = text.partition(" ")
    return replace(before, kind=None if kind == "-" else Kind(kind), blame=None if blame == "-" else Blame(blame))
