"""Emulated results: what differs is a portability hazard, and nobody is blamed."""

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
    """Judgements in which those on emulated hardware accuse nobody."""
    found = dict(judgements)
    for outcome in candidates:
        if outcome.emulates and outcome.platform in found:
            found[outcome.platform] = _softened(found[outcome.platform], outcome)
    return found


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
