"""Whether a smaller witness still shows the same finding, asked as cheaply as possible."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mindgap.records.verdict import Conclusion
from mindgap.reduction.journal import Journal
from mindgap.tracing.capture import capture
from mindgap.tracing.examine import Examination, Examiner, Symptom
from mindgap.tracing.extract import Value, merged
from mindgap.tracing.witness import Witness
from mindgap.verdicts.finding import gravest


class Asker:
    """The question of a reduction: same platform, same kind, same blame.

    Several proposals are first put side by side into one program, so that the platform compiles once; the one
    that shows the finding there must also show it alone.
    """

    def __init__(self, examiner: Examiner, symptom: Symptom, journal: Journal | None = None) -> None:
        self.examiner = examiner
        self.symptom = symptom
        self.journal = journal or Journal()

    def __call__(self, witnesses: Sequence[Witness], after_cut: bool) -> int | None:
        answers = {place: self.journal.get(w.key) for place, w in enumerate(witnesses)}
        unknown = [place for place, answer in answers.items() if answer is None]
        promising = self._side_by_side([witnesses[place] for place in unknown], after_cut)
        if promising is not None:
            for place, good in zip(unknown, promising):
                if not good:
                    answers[place] = False
                    self.journal.note(witnesses[place].key, False)
        for place, witness in enumerate(witnesses):
            if answers[place] is None:
                answers[place] = self._alone(witness, after_cut)
            if answers[place]:
                return place
        return None

    def values(self, witness: Witness, parts: Sequence[Collection[int]]) -> list[dict[int, Value]]:
        """What each part of a program is fed with, as eager computes it."""
        return capture(lambda shown: self.examiner.run(self.examiner.baseline, shown), witness, parts)

    def _alone(self, witness: Witness, after_cut: bool) -> bool:
        found = self.examiner.shows(witness, self.symptom, exactly=not after_cut)
        self.journal.note(witness.key, found is not None)
        if found is not None and found.symptom is not None:
            self.symptom = found.symptom
        return found is not None

    def _side_by_side(self, witnesses: Sequence[Witness], after_cut: bool) -> list[bool] | None:
        """For each witness whether it may show the finding; None when they cannot be told apart together."""
        if len(witnesses) < 2 or not (self.symptom.eager_runs and self.symptom.candidate_runs):
            return None
        whole, owned = merged(witnesses, "side by side")
        found = self.examiner.examine(whole)
        if not (found.eager.ok and found.candidate.ok):
            return None
        return [self._shows(found, names, after_cut) for names in owned]

    def _shows(self, found: Examination, names: Sequence[str], after_cut: bool) -> bool:
        findings = [found.findings[name] for name in names if name in found.findings]
        worst = gravest(findings) if findings else None
        if worst is None or worst.conclusion is not Conclusion.DIVERGES:
            return False
        return self.symptom.fits(Symptom(worst.conclusion, worst.kind, worst.blame), exactly=not after_cut)
