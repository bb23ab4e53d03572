"""Which results make a check fail."""

from __future__ import annotations

from mindgap.records.check import DEFECTS, CheckResult, PlatformResult
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Probe
from mindgap.records.verdict import Conclusion, Verdict


def result(*conclusions: Conclusion, eager: Status = Status.OK, known: str = "") -> CheckResult:
    """A check with a platform per conclusion."""
    platforms = {}
    for conclusion in conclusions:
        name, failed = conclusion.value, conclusion is Conclusion.FAILED
        status, message = (Status.UNSUPPORTED, "no kernel for aten.foo") if failed else (Status.OK, "")
        outcome = Outcome(name, status, Stage.RUN, message)
        platforms[name] = PlatformResult(outcome, Verdict(name, conclusion, "so it is"), Probe(True), known)
    return CheckResult("m.py", "float32", 0, 3, 10, {}, Outcome("eager", eager, Stage.RUN), platforms)


def test_a_check_fails_on_what_it_is_asked_to() -> None:
    for conclusion in Conclusion:
        one = result(conclusion, Conclusion.AGREES)
        assert one.fails_on({conclusion})
        assert one.fails_on(DEFECTS) == one.differs == (conclusion in DEFECTS)
        assert not result(conclusion, known="torch-1").fails_on({conclusion})
    assert not result(Conclusion.FAILED).fails_on({Conclusion.DIVERGES})


def test_a_model_that_eager_cannot_run_always_fails() -> None:
    """Nothing was compared with anything, so there is nothing to be content with."""
    assert result(Conclusion.AGREES, eager=Status.ERROR, known="torch-1").fails_on({Conclusion.DIVERGES})
