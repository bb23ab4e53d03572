"""Evidence of one cause is one finding, whatever the order in which it came."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.campaign.known import Known
from mindgap.campaign.triage import Explained, group, rough_key, with_known, with_new_ids
from mindgap.records.explanation import Cause, CauseKind, Explanation, Layer, Proof, Script, TracedOperator
from mindgap.records.finding import Evidence, Finding, Ids
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.verdict import Conclusion, Kind, Verdict
from tests.records.test_check import result


def evidence(program: int = 0, platform: str = "inductor", **details: Any) -> Evidence:
    plain = {
        "program": program,
        "name": f"program~{program}",
        "nodes": 10 + program,
        "base": f"base{program % 3}",
        "platform": platform,
        "conclusion": Conclusion.DIVERGES,
        "status": "ok",
        "stage": "run",
        "message": "",
        "message_class": "",
        "kind": "value",
        "blame": "candidate",
        "operator": "aten.tanh.default",
    }
    return Evidence(**{**plain, **details})


def failure(program: int, platform: str, status: str, message: str) -> Evidence:
    return evidence(
        program,
        platform,
        conclusion=Conclusion.FAILED,
        status=status,
        stage="compile",
        message=message,
        message_class=message,
        kind=None,
        blame=None,
        operator=None,
    )


def test_one_cause_is_one_finding_with_its_smallest_witness() -> None:
    (found,) = group([evidence(5, error_over_bound=40.0), evidence(2, error_over_bound=90.0), evidence(8)])
    assert (found.variants, found.bases, found.witness.program) == (3, 1, 2)
    assert found.error_over_bound == 90.0 and found.platforms == ("inductor",)


def test_what_is_found_can_be_counted_while_it_is_found() -> None:
    ran = Outcome("inductor", Status.OK, Stage.RUN)
    diverges = Verdict("inductor", Conclusion.DIVERGES, "", Kind.VALUE)
    assert rough_key(diverges, ran) != rough_key(Verdict("inductor", Conclusion.DIVERGES, "", Kind.NONFINITE), ran)
    assert rough_key(Verdict("inductor", Conclusion.ROUNDING, "", Kind.VALUE), ran) is None
    failed = Verdict("inductor", Conclusion.FAILED, "")
    sizes = [Outcome("inductor", Status.ERROR, Stage.COMPILE, f"cannot fuse [{n}, 4]") for n in (3, 5)]
    other = Outcome("inductor", Status.ERROR, Stage.COMPILE, "no kernel")
    assert rough_key(failed, sizes[0]) == rough_key(failed, sizes[1]) != rough_key(failed, other)


def test_platforms_share_a_finding_only_where_they_were_wrong_in_the_same_way() -> None:
    apart = group([evidence(1, "onnxruntime"), evidence(1, "openvino")])
    assert [finding.platforms for finding in apart] == [("onnxruntime",), ("openvino",)]
    (together,) = group(
        [
            evidence(1, "onnxruntime", fault="value-1"),
            evidence(1, "openvino", fault="value-1"),
            evidence(2, "onnxruntime"),
        ]
    )
    assert together.platforms == ("onnxruntime", "openvino") and together.variants == 2


def test_where_eager_is_wrong_it_is_the_platform_of_the_finding() -> None:
    (found,) = group([evidence(1, "onnxruntime", blame="eager"), evidence(1, "openvino", blame="eager")])
    assert found.platforms == ("eager",) and found.variants == 1


def test_failures_are_grouped_by_message_and_the_gravest_come_first() -> None:
    found = group(
        [
            failure(1, "openvino", "unsupported", "no conversion rule for aten::igamma"),
            failure(2, "openvino", "unsupported", "no conversion rule for aten::igamma"),
            failure(3, "openvino", "crash", "killed by SIGSEGV"),
            evidence(4),
        ]
    )
    assert [(f.category, f.kind, f.variants) for f in found] == [
        ("divergence", "value", 1),
        ("failure", "crash", 1),
        ("failure", "unsupported", 2),
    ]
    assert found[2].operator == "aten.igamma"


def test_ids_stay_with_their_findings() -> None:
    first = [evidence(1), failure(3, "openvino", "crash", "x")]
    before = with_new_ids(group(first), Ids())
    assert ids_of(group(first, ids=before)) == {"aten.tanh.default": "F-01", "": "F-02"}
    later = [*first, evidence(2, operator="aten.sin.default")]
    ids = with_new_ids(group(later, ids=before), before)
    assert ids_of(group(later, ids=ids)) == {"aten.tanh.default": "F-01", "": "F-02", "aten.sin.default": "F-03"}


def ids_of(findings: list[Finding]) -> dict[str, str]:
    return {finding.operator: finding.id for finding in findings}


def test_an_id_stays_when_the_operator_becomes_known() -> None:
    """The signature is another then, and what looked like one finding may turn out to be two."""
    ids = with_new_ids(group([evidence(1, operator=None), evidence(2, operator=None)]), Ids())
    assert ids_of(group([evidence(1), evidence(2)], ids=ids)) == {"aten.tanh.default": "F-01"}
    parted = [evidence(1), evidence(2, operator=None), evidence(3, operator="aten.sin.default")]
    found = group(parted, ids=ids)
    assert ids_of(found) == {"aten.tanh.default": "F-01", "": "", "aten.sin.default": ""}
    ids = with_new_ids(found, ids)
    assert ids_of(group(parted, ids=ids)) == {"aten.tanh.default": "F-01", "": "F-02", "aten.sin.default": "F-03"}


def test_an_id_without_its_evidence_goes_by_signature() -> None:
    """Ledgers that were written before only have signatures."""
    (finding,) = group([evidence(1)])
    old = Ids({finding.signature: "F-07"})
    assert group([evidence(1)], ids=old)[0].id == "F-07"
    (later,) = group([evidence(5)], ids=Ids(old.by_signature, {"F-07": evidence(1).place}))
    assert later.id == "F-07", "the program of the id is no evidence any more"
    assert with_new_ids(group([evidence(2, kind="nonfinite")]), old).places.keys() == {"F-08"}


def explanation(operator: str = "aten.tanh.default", remark: str = "has the wrong sign", layer: str = "") -> Explained:
    verdict = Verdict("inductor", Conclusion.DIVERGES, "", Kind.VALUE)
    step = TracedOperator(3, 2, operator, "", "float32", 40.0, 40.0, at_fault=True)
    found = Explanation(
        "variant", "inductor", "1", verdict, (step,), (3,), False, "", Cause(CauseKind.IMPLEMENTATION, remark),
        Layer(layer, "") if layer else None, Proof(verdict, Status.OK, Stage.RUN, (operator,), 1, True),
        Script("repro.py", True, ""),
    )  # fmt: skip
    return Explained(found, "explanations/1-inductor")


def test_one_root_cause_is_one_finding_however_it_shows_itself() -> None:
    seen = [evidence(1), evidence(2, kind="nonfinite"), evidence(4, kind="integer", operator="aten.sin.default")]
    assert len(group(seen)) == 3
    causes = {(1, "inductor"): explanation(), (2, "inductor"): explanation(),
              (4, "inductor"): explanation("aten.sin.default")}  # fmt: skip
    tanh, sin = sorted(group(seen, causes), key=lambda finding: finding.variants, reverse=True)
    assert (tanh.operator, tanh.variants, tanh.witness.program) == ("aten.tanh.default", 2, 1)
    assert tanh.explanation is not None and tanh.folder == "explanations/1-inductor"
    assert (sin.operator, sin.variants) == ("aten.sin.default", 1)


def test_another_cause_of_the_same_operator_is_another_finding() -> None:
    seen = [evidence(1), evidence(2, kind="nonfinite")]
    for other in (explanation(remark="gives NaN where a number is due"), explanation(layer="fusion")):
        assert len(group(seen, {(1, "inductor"): explanation(), (2, "inductor"): other})) == 2


def test_a_merged_finding_keeps_the_older_id() -> None:
    seen = [evidence(2, kind="nonfinite"), evidence(1)]
    ids = with_new_ids(group(seen), Ids())
    assert [finding.id for finding in group(seen, ids=ids)] == ["F-01", "F-02"]
    (merged,) = group(seen, {(1, "inductor"): explanation(), (2, "inductor"): explanation()}, ids)
    assert merged.id == "F-01"


items = st.builds(
    evidence,
    st.integers(0, 6),
    st.sampled_from(["inductor", "openvino", "onnxruntime"]),
    operator=st.sampled_from(["aten.sin.default", "aten.tanh.default", None]),
    fault=st.sampled_from([None, "value-1", "value-2"]),
    kind=st.sampled_from(["value", "nonfinite"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(items, max_size=12, unique_by=lambda item: (item.program, item.platform)), st.randoms())
def test_order_does_not_matter_and_nothing_is_lost(found: list[Evidence], shuffler: random.Random) -> None:
    shuffled = list(found)
    shuffler.shuffle(shuffled)
    findings = group(found)
    assert findings == group(shuffled)
    assert sorted(map(repr, found)) == sorted(repr(item) for finding in findings for item in finding.evidence)
    assert len({finding.signature for finding in findings}) == len(findings)


@pytest.mark.parametrize(
    ("conclusion", "pattern", "is_known"),
    [
        (Conclusion.FAILED, r"failure \| failed \| unsupported .* aten\.foo .* m\.py$", True),
        (Conclusion.FAILED, "other_model", False),
        (Conclusion.DIVERGES, r"divergence \| diverges", True),
        (Conclusion.HAZARD, r"^hazard \| hazard", True),
        (Conclusion.AGREES, "", False),
    ],
)
def test_a_check_knows_what_campaigns_know(conclusion: Conclusion, pattern: str, is_known: bool) -> None:
    """One known.toml for both: a platform of a check has the signature of a finding, followed by its model."""
    listed = [Known("torch-1", re.compile(pattern), "https://x")]
    item = with_known(result(conclusion), listed).platforms[conclusion.value]
    assert item.known == ("torch-1 https://x" if is_known else "")
