"""No verdict and no sentence contradicts the evidence, whatever eager and a candidate did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.execution.arena import digest_of
from mindgap.program.inputs import Inputs
from mindgap.records.check import CheckResult, PlatformResult
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor, same_outputs
from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.report.summary import check_document, check_row, closing_line, eager_failure, remarks
from mindgap.verdicts.elements import THRESHOLD
from mindgap.verdicts.judge import judge
from mindgap.verdicts.judging import Comparing, Judged, without_reference
from mindgap.verdicts.replay import with_replayed
from mindgap.verdicts.steps import judge_all
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.surveyor import survey
from mindgap.verdicts.unspecified.chance import RANDOM_STREAM

X = torch.linspace(-2.0, 2.0, 48)

MODELS = {
    "smooth": lambda t: t.exp(),
    "ill-conditioned": lambda t: (t * 1e4).sin().cumsum(0) * 1e3 % 1.0,
    "random": lambda t: torch.nn.functional.dropout(t.exp(), 0.5, True),
    "indices": lambda t: t.argsort(),
    "whole numbers": lambda t: (t * 10).to(torch.int64),
    "overlapping": lambda t: _shifted(t),
}


def _shifted(values):
    values = torch.stack([values, values])
    values[:, 1:].copy_(values[:, :-1])
    return values[0]


def evidence_of(model: str) -> tuple[torch.Tensor, Survey]:
    torch.manual_seed(0)
    right = MODELS[model](X.clone())
    return right, survey(MODELS[model], Inputs.of([X], {}))


EVIDENCE = {model: evidence_of(model) for model in MODELS}


def _nan(t):
    return torch.where(torch.arange(48) == 7, torch.nan, t) if t.is_floating_point() else t


CHANGES = {
    "nothing": lambda t: t.clone(),
    "the last bit": lambda t: t.nextafter(torch.tensor(math.inf)) if t.is_floating_point() else t.clone(),
    "a tenth": lambda t: t * 1.1 if t.is_floating_point() else t + 1,
    "one element": lambda t: t.clone().index_fill_(0, torch.tensor([5]), 40),
    "NaN": _nan,
    "the sign of zero": lambda t: t * -0.0 if t.is_floating_point() else t.clone(),
    "the order": lambda t: t.flip(0),
    "the shape": lambda t: t[:40],
    "the type": lambda t: t.to(torch.float64 if t.dtype is torch.float32 else torch.int32),
}


@dataclass(frozen=True)
class Seen:
    """One combination of what eager did, what the candidate did, and what else is known."""

    eager: Outcome
    candidate: Outcome
    survey: Survey | None
    model: str
    change: str
    on_purpose: bool
    candidates: tuple[Outcome, ...]


failures = st.sampled_from([status for status in Status if status is not Status.OK])

COUNTED = "buffer:count"
BUFFERS = {
    "none": lambda: ([], ()),
    "counted": lambda: ([NamedTensor(COUNTED, torch.tensor(3))], ()),
    "not counted": lambda: ([NamedTensor(COUNTED, torch.tensor(2))], ()),
    "not returned": lambda: ([], (f"{COUNTED} (not returned)",)),
}
"""What becomes of a buffer that the model changes."""


@st.composite
def outcomes(draw, name, right, changes):
    """What a platform did with a model whose output should be `right`."""
    if not draw(st.integers(0, 3)):
        message = draw(st.sampled_from(["RuntimeError: index 9 is out of range", "no kernel"]))
        return Outcome(name, draw(failures), draw(st.sampled_from(list(Stage))), message), "nothing"
    change = draw(st.sampled_from(changes))
    outputs = [NamedTensor("output", CHANGES[change](right))]
    outputs += [NamedTensor("extra", torch.ones(2))] * draw(st.integers(0, 1))
    buffers, kept_back = BUFFERS[draw(st.sampled_from(sorted(BUFFERS)))]()
    outputs = draw(st.sampled_from([outputs, outputs, outputs, []])) + buffers
    left_out = draw(st.sampled_from([(), ("aux (Session)",)])) + kept_back
    stable = draw(st.sampled_from([None, True, True, False]))
    return Outcome(name, Status.OK, Stage.RUN, stable=stable, not_compared=left_out, outputs=tuple(outputs)), change


def with_digest(outcome: Outcome) -> Outcome:
    """As a worker reports it."""
    return replace(outcome, digest=digest_of(outcome.outputs)) if outcome.ok else outcome


@st.composite
def combinations(draw, candidates=("ort",)):
    model = draw(st.sampled_from(sorted(MODELS)))
    right, known = EVIDENCE[model]
    eager, _ = draw(outcomes("eager", right, ["nothing", "nothing", "nothing", *sorted(CHANGES)]))
    found = [draw(outcomes(name, right, sorted(CHANGES))) for name in candidates]
    evidence = draw(st.sampled_from([known, known, None, Survey(problem="RuntimeError: no float64")]))
    others = [with_digest(outcome) for outcome, _ in found]
    return Seen(with_digest(eager), others[0], evidence, model, found[0][1], draw(st.booleans()), tuple(others))


@settings(max_examples=1500, deadline=None)
@given(combinations())
def test_no_verdict_contradicts_its_evidence(seen: Seen) -> None:
    found = judge(seen.eager, [seen.candidate], seen.survey, refusal_agrees=seen.on_purpose)["ort"]
    verdict = found.verdict
    says, text = verdict.conclusion, verdict.sentence
    both_ran = seen.eager.ok and seen.candidate.ok
    same = both_ran and same_outputs(seen.eager.outputs, seen.candidate.outputs)
    left_out = bool(seen.eager.not_compared or seen.candidate.not_compared)
    if says is Conclusion.AGREES:
        refused = seen.on_purpose and not seen.eager.ok and not seen.candidate.ok
        assert refused or (same and seen.eager.outputs and not left_out)
    if says is Conclusion.ROUNDING:
        assert both_ran and not same and not left_out
        assert verdict.error_over_bound is None or verdict.error_over_bound <= THRESHOLD
    if not both_ran:
        assert_failure(seen, verdict)
    if both_ran and seen.eager.outputs and seen.candidate.outputs:
        assert_structure(seen, verdict)
    if says is Conclusion.DIVERGES and verdict.kind is Kind.VALUE and verdict.rule is None and seen.model != "random":
        assert max(verdict.error_over_bound or 0.0, verdict.eager_error_over_bound or 0.0) > THRESHOLD
    is_random = seen.survey is not None and RANDOM_STREAM in seen.survey.rules
    if seen.candidate.ok and seen.candidate.stable is False and not is_random:
        assert says in (Conclusion.UNSTABLE, Conclusion.UNJUDGED) or not seen.eager.ok
    assert (verdict.blame is not None) == (says is Conclusion.DIVERGES)
    assert (verdict.rule is not None) == (says is Conclusion.HAZARD)
    assert_sentence(verdict, text, same)


def assert_failure(seen: Seen, verdict) -> None:
    """Eager or the candidate did not run it."""
    says, eager, candidate = verdict.conclusion, seen.eager, seen.candidate
    if not candidate.ok:
        assert says is not Conclusion.HAZARD and says is not Conclusion.UNJUDGED
        assert says is not Conclusion.DIVERGES or (eager.ok and candidate.status is Status.REJECTED)
        assert says is not Conclusion.AGREES or (seen.on_purpose and not eager.ok)
        return
    expected = {
        Status.UNSUPPORTED: (Conclusion.HAZARD, Kind.VALIDATION, None),  # no kernel: shown, and nobody's defect
        Status.CRASH: (Conclusion.DIVERGES, Kind.VALIDATION, Blame.EAGER),
        Status.REJECTED: (Conclusion.DIVERGES, Kind.VALIDATION, Blame.CANDIDATE),
        Status.ERROR: (Conclusion.DIVERGES, Kind.VALIDATION, Blame.CANDIDATE),
        Status.TIMEOUT: (Conclusion.UNJUDGED, None, None),
        Status.OOM: (Conclusion.UNJUDGED, None, None),
    }
    assert (says, verdict.kind, verdict.blame) == expected[eager.status]


def assert_structure(seen: Seen, verdict) -> None:
    """Another shape, another type or a missing output is never excused, whatever chance decides."""
    ours, others = ({item.name: item.tensor for item in side.outputs} for side in (seen.eager, seen.candidate))
    kept_back = {name.partition(" (")[0] for name in seen.candidate.not_compared}
    bad = [name for name in ours if name not in others and name not in kept_back]
    bad += [n for n in ours if n in others and (ours[n].shape, ours[n].dtype) != (others[n].shape, others[n].dtype)]
    bad += [name for name in ours if name == COUNTED and name in others and int(ours[name]) != int(others[name])]
    decided = [Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.UNJUDGED]
    if bad == [COUNTED] and COUNTED in others:  # the survey does not know it, so it is unjudged; a hazard speaks first
        decided.append(Conclusion.HAZARD)
    assert not bad or verdict.conclusion in decided, (bad, verdict)
    could_judge = seen.survey is not None and not seen.survey.problem and seen.eager.stable is not False
    missing = [name for name in bad if name not in others or ours[name].shape != others[name].shape]
    if missing and could_judge and seen.candidate.stable is not False:
        assert verdict.conclusion is Conclusion.DIVERGES


def assert_sentence(verdict, text, same):
    eagers = verdict.eager_error_over_bound
    assert "same bits" not in text or same or verdict.conclusion is Conclusion.UNJUDGED
    assert "eager is right" not in text or (eagers is not None and eagers <= THRESHOLD)
    assert "ort is right" not in text or (verdict.error_over_bound or 0.0) <= THRESHOLD
    assert "ort is wrong" not in text or verdict.blame is Blame.CANDIDATE
    assert "eager is wrong" not in text or verdict.blame is Blame.EAGER
    assert "both are wrong" not in text or verdict.blame is Blame.BOTH
    assert "within rounding" not in text or verdict.conclusion in (Conclusion.ROUNDING, Conclusion.UNJUDGED)
    assert text and "None" not in text and "  " not in text


@settings(max_examples=600, deadline=None)
@given(combinations(candidates=("ort", "ov")))
def test_no_line_of_a_check_contradicts_its_verdicts(seen: Seen) -> None:
    """Header, rows, last line, exit code and JSON of a check of two platforms."""
    groups = [(seen.eager, seen.candidates)]
    judged = judge_all(groups, seen.survey)
    platforms = {
        outcome.platform: PlatformResult(outcome, judged[outcome.platform].verdict, Probe(True))
        for outcome in seen.candidates
    }
    reference = without_reference([Comparing(*group) for group in groups])
    result = CheckResult("net", "float32", 0, 3, 0, {}, seen.eager, platforms, reference=reference)
    last, first = closing_line(result), eager_failure(result)
    said = {item.verdict.conclusion for item in platforms.values()}
    assert bool(first) is not seen.eager.ok
    assert ("Nothing diverges" in last) == (seen.eager.ok and Conclusion.DIVERGES not in said)
    assert ("could not run the model" in last or "did not reach eager" in last) is not seen.eager.ok
    wrong = {Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.FAILED}
    assert result.differs == (not seen.eager.ok or bool(said & wrong))
    ran = [outcome for outcome in seen.candidates if outcome.ok]
    assert ("no platform gave other bits" in reference) == (
        seen.eager.ok and bool(ran) and all(o.digest == seen.eager.digest for o in ran)
    )
    assert ("eager could not run it" in reference) is not seen.eager.ok
    document = check_document([result])
    assert document["differs"] == result.differs and document["summary"] == last
    for name, item in platforms.items():
        assert document["platforms"][name]["verdict"] == item.verdict.conclusion.value
        row = check_row(name, item)
        assert "agrees" not in row or item.verdict.conclusion is Conclusion.AGREES
        told = item.verdict.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING)
        assert any(name in names.split(", ") for names, _, _ in remarks(result)) is not told


@settings(max_examples=300, deadline=None)
@given(combinations(), combinations())
def test_replaying_chance_only_adds_evidence(first: Seen, again: Seen) -> None:
    """A fault that shows with eager's random numbers is reported; nothing that was found before is taken back."""
    before = Judged(judge(first.eager, [first.candidate], first.survey))
    replayed = Judged(judge(again.eager, [again.candidate], again.survey))
    verdict = with_replayed(before, replayed).verdicts["ort"]
    old, new = before.verdicts["ort"], replayed.verdicts["ort"]
    assert new.sentence in verdict.sentence and "replayed" in verdict.sentence
    shows = new.conclusion in (Conclusion.DIVERGES, Conclusion.UNSTABLE)
    assert verdict.conclusion is (new if shows else old).conclusion
    assert (verdict.kind, verdict.blame, verdict.rule) == ((n := new if shows else old).kind, n.blame, n.rule)
