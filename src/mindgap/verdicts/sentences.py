"""One sentence a verdict: what differs, by how much, who is wrong, how sure and why."""

from __future__ import annotations

import math

from mindgap.records.outcome import Outcome, Status
from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.verdicts.comparison import Comparison
from mindgap.verdicts.unspecified import RULES
from mindgap.verdicts.unspecified.precision import INTERMEDIATE_PRECISION


def times(ratio: float) -> str:
    """`37`, `4e7`: a multiple that a person reads at a glance."""
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0e}".replace("e+0", "e").replace("e+", "e")


def of_comparison(found: Comparison, platform: str, runs: int) -> str:
    """What one output shows."""
    if found.conclusion is Conclusion.AGREES:
        return "same bits as eager"
    if found.conclusion is Conclusion.HAZARD:
        return _hazard(found)
    if found.conclusion is Conclusion.UNJUDGED:
        return f"{found.output} differs in {_share(found)}, not judged: {found.why}"
    if found.conclusion is Conclusion.ROUNDING:
        return _rounding(found, runs)
    return _divergence(found, platform, runs)


def _share(found: Comparison) -> str:
    if found.total == 1:
        return "its one element"
    return f"{found.wrong or found.differing} of {found.total} elements"


def _hazard(found: Comparison) -> str:
    if found.rule == INTERMEDIATE_PRECISION:
        return (
            f"{found.location} is {found.candidate_value} where eager has {found.eager_value}: {found.why}; "
            "a platform may keep intermediate values at higher precision"
        )
    reason = RULES[found.rule].reason if found.rule in RULES else found.rule
    count = f"{found.differing} of {found.total} elements differ" if found.differing else found.why
    return f"{found.output}: {count}, where behaviour is unspecified ({found.rule}): {reason}"


def _rounding(found: Comparison, runs: int) -> str:
    if found.why:
        return f"{found.output} differs in {_share(found)}: {found.why}"
    if not found.ratio:
        return f"{found.output} differs from eager in the last bits of {_share(found)}"
    if not found.right_value:
        return (
            f"{found.location} is {times(found.ratio)} times what rounding explains away from eager, which is rounding"
        )
    if not runs:
        return f"{found.location} is within {times(found.ratio)} units in the last place of float64, which is rounding"
    return f"{found.location} is off by {times(found.ratio)} times what rounding explains, which is rounding"


def _divergence(found: Comparison, platform: str, runs: int) -> str:
    if found.kind in (Kind.DTYPE, Kind.SHAPE):
        what = f"{found.output} is {found.candidate_value} where eager gives {found.eager_value}"
        return f"{what}; eager defines what an operator returns, so {platform} is wrong"
    if found.kind is Kind.ORDER:
        what = f"{found.output} puts {_share(found)} in the wrong place, beyond ties and near-ties"
        return f"{what}; {_who(found, platform)}"
    what = f"{found.location} is {found.candidate_value}, eager has {found.eager_value}"
    if found.right_value:
        what += f", float64 says {found.right_value}"
    if found.kind is Kind.INTEGER:
        return f"{what} ({_share(found)}); integers do not round, {_who(found, platform)}"
    ratio = max(found.ratio or 0.0, found.eager_ratio or 0.0)
    if math.isinf(ratio):
        return f"{what} ({_share(found)}): rounding never does that; {_who(found, platform)}"
    by = f"{times(ratio)} times what rounding explains over {runs} runs"
    return f"{what} ({_share(found)}): {by}; {_who(found, platform)}"


def _who(found: Comparison, platform: str) -> str:
    if found.blame is Blame.CANDIDATE:
        return f"eager is right there, so {platform} is wrong"
    if found.blame is Blame.EAGER:
        return f"{platform} is right there, so eager is wrong"
    if found.blame is Blame.BOTH:
        return "neither eager nor the candidate is right"
    return f"who is wrong is unclear{': ' + found.why if found.why else ''}"


def both_refuse(outcome: Outcome) -> str:
    return f"both refuse: {_first_line(outcome.message)}"


def accepts(eager: Outcome, candidate: Outcome) -> str:
    """The candidate runs what eager refuses or dies of."""
    if eager.status is Status.CRASH:
        died = _first_line(eager.message) or "the process died"
        return f"{candidate.platform} returns a result where eager crashes ({died}); a crash is never right"
    return (
        f"{candidate.platform} returns a result where eager refuses ({_first_line(eager.message)}); "
        "the check is lost on the way"
    )


def refuses(candidate: Outcome) -> str:
    return f"{candidate.platform} refuses what eager accepts: {_first_line(candidate.message)}"


def did_not_run(candidate: Outcome) -> str:
    words = _first_line(candidate.message)
    return f"did not run: {candidate.status.value} at {candidate.stage.value}{': ' + words if words else ''}"


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:200] if lines else ""
