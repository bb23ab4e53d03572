"""One sentence per verdict: what differs, by how much, who is wrong and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from mindgap.program.state import BUFFER
from mindgap.records.outcome import Outcome, Status
from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.verdicts.comparison import Comparison
from mindgap.verdicts.elements import THRESHOLD
from mindgap.verdicts.unspecified import RULES
from mindgap.verdicts.unspecified.chance import RANDOM_STREAM
from mindgap.verdicts.unspecified.precision import INTERMEDIATE_PRECISION, SIGNED_ZERO


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
    return _divergence(found, platform)


def _share(found: Comparison) -> str:
    if found.total == 1:
        return "its only element"
    return f"{found.wrong or found.differing} of {found.total} elements"


def _hazard(found: Comparison) -> str:
    if found.rule == INTERMEDIATE_PRECISION:
        return f"{found.location} is {found.candidate_value} where eager has {found.eager_value}: {found.why}"
    reason = RULES[found.rule].reason if found.rule in RULES else found.rule
    count = found.explained or found.differing
    if found.rule == SIGNED_ZERO:
        return f"{found.output} has {count} zero{'s' if count > 1 else ''} of the other sign ({found.rule}): {reason}"
    differs = f"differs in {count} of {found.total} elements" if count else f"is {found.why}"
    return f"{found.output} {differs}, where behaviour is unspecified ({found.rule}): {reason}"


def _rounding(found: Comparison, runs: int) -> str:
    if found.why:
        return f"{found.output} differs in {_share(found)}: {found.why}"
    if not found.ratio:
        return f"{found.output} differs from eager only in the last bits of {_share(found)}"
    allowed = f"{THRESHOLD:.0f} allowed {'noise floors' if runs else 'units in the last place'}"
    if found.far is not None:
        far = f"both are up to {times(found.far)} from float64"
        return f"within rounding of eager: {times(found.ratio)} of {allowed} ({far}), {found.location}"
    to = "" if found.right_value else " of eager"
    return f"within rounding{to}: {times(found.ratio)} of {allowed}, {found.location}"


def _divergence(found: Comparison, platform: str) -> str:
    if found.kind in (Kind.DTYPE, Kind.SHAPE) and found.blame is Blame.CANDIDATE:
        what = f"{found.output} is {found.candidate_value} where eager gives {found.eager_value}"
        return f"{what}; eager defines what an operator returns, so {platform} is wrong"
    if found.rule == RANDOM_STREAM:
        return f"{found.output} is random, but not as it is on eager: {found.why}; {platform} is wrong"
    if found.kind is Kind.ORDER:
        return f"{found.output} has {_share(found)} out of order, ties and near-ties apart; {_who(found, platform)}"
    what = f"{found.location} is {found.candidate_value}, eager has {found.eager_value}"
    if found.right_value:
        what += f", float64 says {found.right_value}"
    if found.kind is Kind.INTEGER:
        return f"{what} ({_share(found)}); integers do not round; {_who(found, platform)}"
    if found.kind in (Kind.DTYPE, Kind.SHAPE):
        return f"{what}; {_who(found, platform)}"
    return f"{what} ({_share(found)}): {_how_far(found, platform)}; {_who(found, platform)}"


def _how_far(found: Comparison, platform: str) -> str:
    """How far the side that is blamed is off."""
    ours, eagers = found.ratio or 0.0, found.eager_ratio or 0.0
    if found.blame is Blame.BOTH:
        if math.isinf(ours) and math.isinf(eagers):
            return "not rounding"
        return f"{platform} is {_floors(ours)}, eager {_floors(eagers)} ({THRESHOLD:.0f} allowed)"
    ratio = eagers if found.blame is Blame.EAGER else ours
    off = "from eager" if found.eager_ratio is None else "off"
    return "not rounding" if math.isinf(ratio) else f"{times(ratio)} noise floors {off} ({THRESHOLD:.0f} allowed)"


def _floors(ratio: float) -> str:
    return "far off" if math.isinf(ratio) else f"{times(ratio)} noise floors off"


def _who(found: Comparison, platform: str) -> str:
    """Who is wrong. The other side is called right only where it is within rounding."""
    because = f" ({found.why})" if found.why else ""
    if found.blame is Blame.CANDIDATE:
        return f"{_other_side('eager', found.eager_ratio, found.kind)}{platform} is wrong{because}"
    if found.blame is Blame.EAGER:
        return f"{_other_side(platform, found.ratio, found.kind)}eager is wrong{because}"
    if found.blame is Blame.BOTH:
        return f"both are wrong{because}"
    return f"who is wrong is unclear{': ' + found.why if found.why else ''}"


def _other_side(name: str, ratio: float | None, kind: Kind | None) -> str:
    """What is known of the side that is not blamed."""
    if ratio is None:  # the order of indices is right or wrong; nothing else is known without a reference
        return f"{name} has them in order, so " if kind is Kind.ORDER else ""
    return f"{name} is right there, so " if ratio <= THRESHOLD else f"{name} is {_floors(ratio)}, "


def unsteady(rule: str) -> str:
    """A second run gives something else, as it may."""
    return f"differs from itself on a second run, where behaviour is unspecified ({rule}): {RULES[rule].reason}"


def both_refuse(outcome: Outcome) -> str:
    return f"refuses it as eager does: {_first_line(outcome.message)}"


def accepts(eager: Outcome, candidate: Outcome) -> str:
    """The candidate runs what eager refuses or dies of."""
    if eager.status is Status.CRASH:
        died = _first_line(eager.message) or "the process died"
        return f"{candidate.platform} returns a result where eager crashes ({died}); a crash is never right"
    said = _first_line(eager.message)
    return f"{candidate.platform} returns a result where eager refuses ({said}); the check is missing"


def supports(eager: Outcome, candidate: Outcome) -> str:
    """The candidate runs what eager has no kernel for."""
    said = _first_line(eager.message)
    return f"{candidate.platform} returns a result where eager has no kernel ({said}): nothing to compare it with"


def nothing_to_compare(eager: Outcome, candidate: Outcome) -> str:
    left_out = list(dict.fromkeys((*eager.not_compared, *candidate.not_compared)))
    if not left_out:
        return "the model returns nothing and changes none of its inputs and buffers, so there is nothing to compare"
    return f"nothing was compared: {_listed(left_out)} holds no tensors that mindgap can find; {_RETURN_TENSORS}"


def partly_compared(sentence: str, left_out: Sequence[str]) -> str:
    """What was compared, and what was not."""
    names = list(dict.fromkeys(left_out))
    state = [name.partition(" (")[0] for name in names if name.startswith(BUFFER)]
    others = [name for name in names if not name.startswith(BUFFER)]
    parts = [f"{_listed(others)} cannot be compared"] if others else []
    parts += [f"it does not return {_listed(state)}, which the model changes"] if state else []
    return "; ".join([*parts, f"the rest: {sentence}", *([_RETURN_TENSORS] if others else [])])


_RETURN_TENSORS: Final = "return tensors, numbers, text, or dicts, tuples, dataclasses and objects that hold them"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def refuses(candidate: Outcome) -> str:
    return f"{candidate.platform} refuses what eager accepts: {_first_line(candidate.message)}"


def did_not_run(candidate: Outcome) -> str:
    words = _first_line(candidate.message)
    return f"did not run: {candidate.status.value} at {candidate.stage.value}{': ' + words if words else ''}"


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:200] if lines else ""
