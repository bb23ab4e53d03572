"""A sentence says what its comparison says, whatever that is."""

from __future__ import annotations

import math
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.verdicts.comparison import SEVERITY, Comparison
from mindgap.verdicts.elements import THRESHOLD
from mindgap.verdicts.sentences import of_comparison, times
from mindgap.verdicts.unspecified import RULES

VALUES = (Kind.VALUE, Kind.NONFINITE, Kind.SIGNED_ZERO)
ratios = st.none() | st.sampled_from([0.0, 0.5, THRESHOLD, 12.5, 28.0, 32.0, 4e7, math.inf]) | st.floats(0, 1e12)


@st.composite
def comparisons(draw, conclusion=None):
    conclusion = conclusion or draw(st.sampled_from(SEVERITY))
    total = draw(st.integers(1, 100))
    differing = draw(st.integers(1, total))
    wrong = draw(st.integers(1, differing)) if conclusion is Conclusion.DIVERGES else 0
    ratio, eager_ratio, far = draw(ratios), draw(ratios), None
    if conclusion is Conclusion.ROUNDING:
        ratio = draw(st.none() | st.floats(0, THRESHOLD))
        far = draw(st.none() | st.floats(THRESHOLD, 1e12))
    return Comparison(
        "logits",
        conclusion,
        draw(st.sampled_from(Kind)),
        draw(st.sampled_from(Blame)) if conclusion is Conclusion.DIVERGES else None,
        ratio=ratio,
        eager_ratio=eager_ratio,
        far=far,
        worst=draw(st.none() | st.just((3,))),
        candidate_value="1",
        eager_value="2",
        right_value=draw(st.sampled_from(["", "3"])),
        wrong=wrong,
        explained=draw(st.integers(0, differing)),
        differing=differing,
        total=total,
        rule=draw(st.sampled_from(sorted(RULES))) if conclusion is Conclusion.HAZARD else None,
        why=draw(st.sampled_from(["", "for a reason"])),
    )


@settings(max_examples=600)
@given(comparisons(), st.sampled_from([0, 8]))
def test_a_sentence_never_contradicts_its_comparison(found, runs):
    text = of_comparison(found, "ort", runs)
    ours, eagers = found.ratio or 0.0, found.eager_ratio or 0.0
    diverges = found.conclusion is Conclusion.DIVERGES
    assert ("ort is wrong" in text) == (diverges and found.blame is Blame.CANDIDATE)
    assert ("eager is wrong" in text) == (diverges and found.blame is Blame.EAGER)
    assert ("both are wrong" in text) == (diverges and found.blame is Blame.BOTH)
    assert ("unclear" in text) == (diverges and found.blame is Blame.UNCLEAR)
    known, eager_known = found.ratio is not None, found.eager_ratio is not None
    assert "eager is right" not in text or (found.blame is Blame.CANDIDATE and eager_known and eagers <= THRESHOLD)
    assert "ort is right" not in text or (found.blame is Blame.EAGER and known and ours <= THRESHOLD)
    assert ("not judged" in text) == (found.conclusion is Conclusion.UNJUDGED)
    assert "within rounding" not in text or found.conclusion is Conclusion.ROUNDING
    assert found.conclusion is not Conclusion.HAZARD or found.rule in text or found.rule == "intermediate-precision"
    assert not re.search(r"beyond any|which is rounding|times what rounding|None|  |(inf|nan) noise", text)


@settings(max_examples=300)
@given(comparisons(Conclusion.ROUNDING), st.sampled_from([0, 8]))
def test_the_number_of_rounding_is_within_what_is_allowed(found, runs):
    text = of_comparison(found, "ort", runs)
    shown = re.search(r"([\d.e+-]+) of 12 allowed", text)
    assert shown or found.why or not found.ratio
    if shown:
        assert float(shown[1]) <= THRESHOLD and shown[1] == times(found.ratio)


@settings(max_examples=300)
@given(comparisons(Conclusion.DIVERGES))
def test_the_number_of_a_divergence_is_the_one_that_decides(found):
    text = of_comparison(found, "ort", 8)
    if found.kind not in VALUES:
        return
    deciding = {
        Blame.CANDIDATE: [found.ratio],
        Blame.EAGER: [found.eager_ratio],
        Blame.BOTH: [found.ratio, found.eager_ratio],
        Blame.UNCLEAR: [found.ratio],
    }[found.blame]
    for ratio in deciding:
        if math.isinf(ratio or 0.0):
            assert "not rounding" in text or "far off" in text
        else:
            assert f"{times(ratio or 0.0)} noise floors" in text


def test_sentences_read_as_an_engineer_speaks():
    near = Comparison("logits", Conclusion.ROUNDING, Kind.VALUE, ratio=7.0, worst=(0, 4), right_value="1", total=9)
    assert of_comparison(near, "ort", 8) == "within rounding: 7 of 12 allowed noise floors, logits[0, 4]"
    far = Comparison(
        "logits", Conclusion.DIVERGES, Kind.VALUE, Blame.CANDIDATE, 4e7, 0.3, worst=(0, 4), candidate_value="2",
        eager_value="1", right_value="1", wrong=3, differing=3, total=9,
    )  # fmt: skip
    assert of_comparison(far, "ort", 8) == (
        "logits[0, 4] is 2, eager has 1, float64 says 1 (3 of 9 elements): 4e7 noise floors off (12 allowed); "
        "eager is right there, so ort is wrong"
    )
