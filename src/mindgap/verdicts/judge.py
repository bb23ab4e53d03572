"""From what the platforms did to what we conclude: a pure function of records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mindgap.program.state import BUFFER
from mindgap.records.outcome import NO_OUTPUTS, Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict
from mindgap.verdicts import sentences
from mindgap.verdicts.compare import compare_output
from mindgap.verdicts.comparison import Comparison, gravest
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.unspecified import CALL_RULES
from mindgap.verdicts.unspecified.chance import RANDOM_STREAM
from mindgap.verdicts.unspecified.precision import MISSING_KERNEL

__all__ = ["Judgement", "judge", "refuses"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What we conclude about one candidate, and what each of its outputs shows."""

    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    """Empty where eager or the candidate did not run."""


def judge(
    eager: Outcome, candidates: Sequence[Outcome], survey: Survey | None, refusal_agrees: bool = False
) -> dict[str, Judgement]:
    """One judgement per candidate, by platform name.

    `refusal_agrees` is for cases that may be invalid on purpose: then a candidate that refuses what eager refuses does
    what it should. For anything else it has not shown that it can run it.
    """
    usable = survey if survey is not None and not survey.problem else None
    compared: dict[str, list[Comparison]] = {}
    verdicts: dict[str, Verdict] = {}
    prints: dict[str, str] = {}
    for candidate in candidates:
        name = candidate.platform
        if eager.ok and candidate.ok:
            compared[name] = _comparisons(eager, candidate, usable)
            verdicts[name], prints[name] = _judge_one(eager, candidate, usable, compared[name])
        else:
            verdicts[name], prints[name] = _judge_failure(eager, candidate, usable, refusal_agrees)
    witnesses = {c.platform: c.families for c in candidates if not c.emulates and not c.composed}
    grouped = _grouped(verdicts, {name: prints[name] for name in witnesses}, witnesses)
    return {name: Judgement(verdict, tuple(compared.get(name, ()))) for name, verdict in grouped.items()}


def _judge_one(
    eager: Outcome, candidate: Outcome, usable: Survey | None, comparisons: list[Comparison]
) -> tuple[Verdict, str]:
    """A verdict and the fingerprint of its fault."""
    if not comparisons and (not eager.digest or eager.digest == NO_OUTPUTS or eager.digest != candidate.digest):
        return Verdict(candidate.platform, Conclusion.UNJUDGED, sentences.nothing_to_compare(eager, candidate)), ""
    found = gravest(comparisons) if comparisons else Comparison("output", Conclusion.AGREES)
    random = usable is not None and RANDOM_STREAM in usable.rules
    unsteady = _unsteady(usable) if candidate.stable is False or eager.stable is False else ""
    if candidate.stable is False and not random:
        if not unsteady:
            return _unstable(candidate.platform, found), ""
        if found.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING):
            text = sentences.unsteady(unsteady)
            return Verdict(candidate.platform, Conclusion.HAZARD, text, found.kind, rule=unsteady), ""
    if eager.stable is False and not (random or unsteady) and found.conclusion is not Conclusion.AGREES:
        sentence = "eager differs from itself on a second run, so there is nothing to compare with"
        return Verdict(candidate.platform, Conclusion.UNJUDGED, sentence, found.kind), ""
    sentence = sentences.of_comparison(found, candidate.platform, usable.runs if usable else 0)
    alike = [c for c in comparisons if c.conclusion is found.conclusion]
    others = len(alike) - 1
    if others > 0 and found.conclusion is Conclusion.DIVERGES:
        sentence += f"; {others} more output{'s' if others > 1 else ''} too"
    sentence += _layouts(eager, candidate)
    if usable is None and found.conclusion not in (Conclusion.AGREES, Conclusion.ROUNDING):
        sentence += " (no survey of this program: compared with eager alone)"
    conclusion, left_out = found.conclusion, (*eager.not_compared, *candidate.not_compared)
    if left_out and conclusion is not Conclusion.DIVERGES:
        conclusion = conclusion if conclusion is Conclusion.HAZARD else Conclusion.UNJUDGED
        sentence = sentences.partly_compared(sentence, left_out)
    verdict = Verdict(
        candidate.platform,
        conclusion,
        sentence,
        kind=found.kind,
        blame=found.blame if found.conclusion is Conclusion.DIVERGES else None,
        error_over_bound=_largest(c.ratio for c in alike if c.wrong or c.conclusion is not Conclusion.HAZARD),
        eager_error_over_bound=_largest(c.eager_ratio for c in alike),
        worst=found.location if found.conclusion is not Conclusion.AGREES else None,
        rule=found.rule if conclusion is Conclusion.HAZARD else None,
        elements=found.elements if conclusion is Conclusion.DIVERGES else (),
    )
    wrong = sorted(c.fingerprint for c in comparisons if c.conclusion is Conclusion.DIVERGES)
    return verdict, " ".join(wrong)


def _unsteady(survey: Survey | None) -> str:
    """The rule that lets an output be another one on a second run."""
    reached = [rule for output in (survey.outputs if survey is not None else ()) for rule in output.hazards]
    return next((rule for rule in reached if rule in CALL_RULES and CALL_RULES[rule].unsteady), "")


def _largest(ratios: Iterable[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return max(known) if known else None


def _comparisons(eager: Outcome, candidate: Outcome, survey: Survey | None) -> list[Comparison]:
    """Every output of both sides, by name."""
    given = {item.name: item for item in candidate.outputs}
    comparisons = []
    for item in eager.outputs:
        other = given.pop(item.name, None)
        if other is None and any(name.startswith(f"{item.name} (") for name in candidate.not_compared):
            continue
        if other is None:
            comparisons.append(_missing(item))
            continue
        comparisons.append(compare_output(item.name, item.tensor, other.tensor, survey))
    comparisons.extend(_extra(item, survey) for item in given.values())
    return comparisons


def _layouts(eager: Outcome, candidate: Outcome) -> str:
    """Other strides are worth a word, but a layout is the platform's choice and no defect."""
    strides = {item.name: item.stride for item in candidate.outputs if item.stride is not None}
    other = [i.name for i in eager.outputs if i.stride is not None and strides.get(i.name, i.stride) != i.stride]
    return f" (other strides: {', '.join(other[:3])})" if other else ""


def _missing(item: NamedTensor) -> Comparison:
    changed = item.name.startswith(("input:", BUFFER))
    what = "does not write it back" if changed else "does not return it"
    return Comparison(
        item.name,
        Conclusion.DIVERGES,
        Kind.SHAPE,
        Blame.CANDIDATE,
        candidate_value="missing",
        eager_value=f"a tensor{list(item.tensor.shape)}",
        why=what,
        fingerprint=f"{item.name} missing",
    )


def _extra(item: NamedTensor, survey: Survey | None) -> Comparison:
    """An output that eager does not have; an unchanged input that a platform lists does not count."""
    known = survey.output(item.name) if survey else None
    reference = known.reference if known is not None and item.name.startswith("input:") else None
    if reference is not None and reference.shape == item.tensor.shape:
        return compare_output(item.name, reference.to(item.tensor.dtype), item.tensor, survey)
    if item.name.startswith("input:") and survey is None:
        return Comparison(item.name, Conclusion.AGREES)
    return Comparison(
        item.name,
        Conclusion.DIVERGES,
        Kind.SHAPE,
        Blame.CANDIDATE,
        candidate_value=f"a tensor{list(item.tensor.shape)}",
        eager_value="no such output",
        fingerprint=f"{item.name} extra",
    )


def _judge_failure(
    eager: Outcome, candidate: Outcome, usable: Survey | None, refusal_agrees: bool
) -> tuple[Verdict, str]:
    """Eager or the candidate did not run the program."""
    name = candidate.platform
    if candidate.ok:
        by = Blame.EAGER if eager.status is Status.CRASH else Blame.CANDIDATE
        if eager.status in (Status.REJECTED, Status.CRASH, Status.ERROR):
            text = sentences.accepts(eager, candidate)
            return Verdict(name, Conclusion.DIVERGES, text, Kind.VALIDATION, by), "accepts"
        if eager.status is Status.UNSUPPORTED:
            text = sentences.supports(eager, candidate)
            return Verdict(name, Conclusion.HAZARD, text, Kind.VALIDATION, rule=MISSING_KERNEL), ""
        text = f"eager did not run it ({eager.status.value} at {eager.stage.value}), so nothing can be compared"
        return Verdict(name, Conclusion.UNJUDGED, text), ""
    if not eager.ok and _same_refusal(eager, candidate):
        text = sentences.both_refuse(candidate)
        return Verdict(name, Conclusion.AGREES if refusal_agrees else Conclusion.FAILED, text), ""
    if refuses(eager, candidate):
        text = sentences.refuses(candidate)
        rule = next((rule for rule in (usable.rules if usable else ()) if _is_invalid(rule)), None)
        if rule is not None:
            text += f"; nobody need accept it ({rule}): {CALL_RULES[rule].reason}"
            return Verdict(name, Conclusion.HAZARD, text, Kind.VALIDATION, rule=rule), ""
        return Verdict(name, Conclusion.DIVERGES, text, Kind.VALIDATION, Blame.CANDIDATE), "refuses"
    return Verdict(name, Conclusion.FAILED, sentences.did_not_run(candidate)), ""


def refuses(eager: Outcome, candidate: Outcome) -> bool:
    """Whether a candidate refuses at run time what eager accepts."""
    return eager.ok and candidate.status is Status.REJECTED and candidate.stage is Stage.RUN


def _is_invalid(rule: str) -> bool:
    return rule in CALL_RULES and CALL_RULES[rule].invalid


def _same_refusal(eager: Outcome, candidate: Outcome) -> bool:
    """Whether both refuse the program: at run time, or at compile time with eager's own words."""
    if eager.status is not Status.REJECTED:
        return False
    if candidate.status is Status.REJECTED and candidate.stage is Stage.RUN:
        return True
    words = _words(eager.message)
    return bool(words) and words in candidate.message


def _words(message: str) -> str:
    """The message without the name of its exception."""
    line = message.strip().splitlines()[0] if message.strip() else ""
    head, separator, rest = line.partition(": ")
    return rest if separator and " " not in head else line


def _unstable(platform: str, found: Comparison) -> Verdict:
    sentence = "differs from itself on a second run with the same inputs and seed"
    if found.conclusion is Conclusion.DIVERGES:
        sentence += f"; the first run also diverges at {found.location}"
    return Verdict(platform, Conclusion.UNSTABLE, sentence, found.kind, worst=found.location if found.worst else None)


def fault_of(judged: Judgement) -> str | None:
    """The name of a candidate's fault, the same for every platform that shows it on the same case; None without one."""
    wrong = sorted(c.fingerprint for c in judged.comparisons if c.conclusion is Conclusion.DIVERGES)
    is_fault = judged.verdict.conclusion is Conclusion.DIVERGES and wrong
    return _fault_name(judged.verdict.kind, " ".join(wrong)) if is_fault else None


def _fault_name(kind: Kind | None, fault: str) -> str:
    return f"{kind.value if kind else 'fault'}-{hashlib.blake2b(fault.encode(), digest_size=4).hexdigest()}"


def _grouped(
    verdicts: dict[str, Verdict], prints: dict[str, str], families: Mapping[str, Sequence[str]]
) -> dict[str, Verdict]:
    """Name the faults that several platforms share: those that share a family count as one witness.

    Who is emulated, or composed by mindgap itself, has no print: its difference may be mindgap's own.
    """
    sharing: dict[str, list[str]] = {}
    for platform in sorted(prints):
        if prints[platform]:
            sharing.setdefault(prints[platform], []).append(platform)
    for fault, platforms in sharing.items():
        if len(platforms) < 2:
            continue
        group = _fault_name(verdicts[platforms[0]].kind, fault)
        for platform in platforms:
            others = ", ".join(other for other in platforms if other != platform)
            old = verdicts[platform]
            verb = "shows" if len(platforms) == 2 else "show"
            note = f"; {others} {verb} the same"
            note += (
                _witnesses(_unrelated([families[name] for name in platforms])) if old.blame is not Blame.EAGER else ""
            )
            verdicts[platform] = replace(old, group=group, sentence=old.sentence + note)
    return verdicts


def _unrelated(families: Iterable[Sequence[str]]) -> int:
    """How many groups of platforms share nothing, also not by way of a third; what is known of nobody is one."""
    groups: list[set[str]] = []
    for one in families:
        related = [group for group in groups if group & set(one or ("",))]
        groups = [group for group in groups if group not in related] + [set(one or ("",)).union(*related)]
    return len(groups)


def _witnesses(unrelated: int) -> str:
    """What it counts for that several platforms show one thing against eager."""
    if unrelated == 1:
        return ", which counts as one witness"
    return f": {unrelated} independent witnesses, so the fault may be in eager and its float64 reference"
