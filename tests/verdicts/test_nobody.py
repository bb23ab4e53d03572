"""Results that accuse nobody: of emulated hardware, and of operators that mindgap put together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.records.outcome import Outcome, Status
from mindgap.records.verdict import Conclusion, Kind
from mindgap.verdicts.judge import Judgement, judge
from mindgap.verdicts.nobody import EMULATED, without_blame
from tests.verdicts.programs import failed, ok, surveyed

X = torch.linspace(0.1, 3.0, 16)
EXP = surveyed(torch.exp, X)
HARDWARE = "a chip without float64"


def judged(candidate: Outcome) -> Judgement:
    found = judge(ok("eager", X.exp()), [candidate], EXP)
    return without_blame(found, [candidate])[candidate.platform]


@pytest.mark.parametrize("candidate, kind", [
    (ok("c", X.exp() + 1), Kind.VALUE), (failed("c", Status.UNSUPPORTED), Kind.VALIDATION),
    (replace(ok("c", X.exp() + 1), stable=False), Kind.VALUE),
])  # fmt: skip
def test_what_emulated_hardware_changes_is_a_hazard(candidate: Outcome, kind: Kind) -> None:
    verdict = judged(replace(candidate, emulates=HARDWARE)).verdict
    assert (verdict.conclusion, verdict.kind, verdict.blame) == (Conclusion.HAZARD, kind, None)
    assert verdict.rule == EMULATED and verdict.sentence.startswith(f"emulated: {HARDWARE}: ")


def test_what_it_leaves_alone_is_still_called_emulated() -> None:
    verdict = judged(replace(ok("c", X.exp()), emulates=HARDWARE)).verdict
    assert verdict.conclusion is Conclusion.AGREES and verdict.sentence.startswith("emulated: ")


def test_a_difference_of_a_composed_operator_is_not_judged() -> None:
    wrong = replace(ok("c", X.exp() + 1), composed=("avg_pool2d", "scatter"))
    verdict = judged(wrong).verdict
    assert (verdict.conclusion, verdict.blame) == (Conclusion.UNJUDGED, None)
    assert verdict.sentence.startswith("mindgap's own table says what avg_pool2d, scatter means here")
    assert judged(replace(wrong, outputs=ok("c", X.exp()).outputs)).verdict.conclusion is Conclusion.AGREES


def test_everybody_else_is_judged_as_before() -> None:
    candidate = ok("c", X.exp() + 1)
    before = judge(ok("eager", X.exp()), [candidate], EXP)
    assert without_blame(before, [candidate]) == before
    assert without_blame({}, [replace(candidate, emulates=HARDWARE)]) == {}
