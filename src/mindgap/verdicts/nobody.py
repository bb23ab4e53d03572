"""Results that accuse nobody: of emulated hardware, and of operators that mindgap put together itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from mindgap.records.outcome import Outcome
from mindgap.records.verdict import Conclusion, Kind
from mindgap.verdicts.judge import Judgement

EMULATED: Final = "emulated"
"""The rule of such a hazard."""

_DIFFER: Final = (Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.FAILED)


def without_blame(judgements: Mapping[str, Judgement], candidates: Iterable[Outcome]) -> dict[str, Judgement]:
    """Judgements in which nobody is accused of what mindgap emulated or composed."""
    found = dict(judgements)
    for outcome in candidates:
        judgement = found.get(outcome.platform)
        if judgement is None:
            continue
        if outcome.emulates:
            found[outcome.platform] = _softened(judgement, outcome)
        elif outcome.composed and judgement.verdict.conclusion is Conclusion.DIVERGES:
            found[outcome.platform] = _undecided(judgement, outcome)
    return found


def _undecided(judgement: Judgement, outcome: Outcome) -> Judgement:
    """A difference that may be mindgap's own, where it decided what an operator means."""
    names = ", ".join(outcome.composed)
    sentence = f"mindgap's own table says what {names} means here, so the fault may be its own: "
    verdict = replace(
        judgement.verdict,
        conclusion=Conclusion.UNJUDGED,
        sentence=sentence + judgement.verdict.sentence,
        blame=None,
        group=None,
    )
    return replace(judgement, verdict=verdict)


def _softened(judgement: Judgement, outcome: Outcome) -> Judgement:
    verdict = judgement.verdict
    sentence = f"emulated: {outcome.emulates}: {verdict.sentence}"
    if verdict.conclusion not in _DIFFER:
        return replace(judgement, verdict=replace(verdict, sentence=sentence, blame=None))
    kind = verdict.kind or (Kind.VALIDATION if verdict.conclusion is Conclusion.FAILED else None)
    softer = replace(
        verdict, conclusion=Conclusion.HAZARD, sentence=sentence, kind=kind, blame=None, rule=EMULATED, group=None
    )
    return replace(judgement, verdict=softer)
