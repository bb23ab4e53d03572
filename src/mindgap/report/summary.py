"""Results as documents and rows; pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, Final

from mindgap.records.check import DEFECTS, CheckResult, Invariance, PlatformResult
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.verdict import Blame, Conclusion, Verdict, WrongElement

CHECK_SCHEMA: Final = "mindgap.check/1"
PLATFORMS_SCHEMA: Final = "mindgap.platforms/1"


def check_document(results: Sequence[CheckResult]) -> dict[str, Any]:
    """The JSON of `mindgap check`: documented in docs/json.md."""
    runs = [_run_document(result) for result in results]
    head = {
        "schema": CHECK_SCHEMA,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": dict(results[0].versions or {}),
    }
    # One run is the document itself; several dtypes are listed, since no platform has one verdict then.
    return {**head, **runs[0]} if len(runs) == 1 else {**head, "runs": runs}


def platforms_document(specs: Sequence[PlatformSpec], probes: Mapping[str, Probe]) -> dict[str, Any]:
    """The JSON of `mindgap platforms`."""
    return {
        "schema": PLATFORMS_SCHEMA,
        "platforms": {
            spec.name: {
                **{name: getattr(probes[spec.name], name) for name in ("available", "version", "device")},
                "dtypes": list(probes[spec.name].dtypes),
                "reason": probes[spec.name].reason,
                "standing": standing(spec, probes[spec.name]),
                "install": spec.install,
                "environment": spec.environment,
                "size_mb": spec.size_mb,
                "hardware": spec.hardware,
                "emulates": spec.emulates,
                "summary": spec.summary,
            }
            for spec in specs
        },
    }


READY, DAMAGED, INSTALLABLE, NEEDS_HARDWARE, MISSING = "ready", "damaged", "installable", "needs hardware", "missing"
EMULATED = "emulated"
STANDINGS = (READY, EMULATED, DAMAGED, INSTALLABLE, MISSING, NEEDS_HARDWARE)


def standing(spec: PlatformSpec, probe: Probe) -> str:
    """Whether a platform can be used, and if not what it lacks."""
    if probe.available:
        return EMULATED if spec.emulates else READY
    if spec.environment and not spec.hardware:
        return DAMAGED if spec.python is not None or "damaged" in probe.reason else INSTALLABLE
    return NEEDS_HARDWARE if spec.hardware else MISSING


def why_not(spec: PlatformSpec, probe: Probe) -> str:
    """What a platform that is not ready lacks, and how to get it."""
    kind = standing(spec, probe)
    if kind == INSTALLABLE:
        return f"{spec.size_mb:,} MB: {spec.install}"
    if kind == NEEDS_HARDWARE and spec.environment:
        return f"{spec.hardware}, which this machine has not; elsewhere get it with: {spec.install}"
    if kind == NEEDS_HARDWARE:
        return f"{spec.hardware}: {probe.reason}; get it with: {spec.install}"
    if kind == DAMAGED:
        return f"{probe.reason}; repair it with: {spec.install}"
    return probe.reason + (f"; get it with: {spec.install}" if spec.install else "")


def closing_line(result: CheckResult) -> str:
    """The check in one sentence."""
    observed = [item for item in result.platforms.values() if not item.outcome.emulates]
    counts = Counter(item.verdict.conclusion for item in observed)
    said = _CLOSING if result.eager.ok else {**_CLOSING, Conclusion.HAZARD: ("ran it", "ran it")}
    parts = [
        f"{many(counts[conclusion], 'platform')} {words[counts[conclusion] > 1]}."
        for conclusion, words in said.items()
        if counts[conclusion]
    ]
    if not result.eager.ok:
        parts.insert(
            0,
            f"{result.baseline.capitalize()} could not run the model."
            if _reached(result.eager)
            else "The model did not reach eager.",
        )
    elif not counts[Conclusion.DIVERGES]:
        parts.insert(bool(counts[Conclusion.FAILED]), "Nothing diverges.")
    return " ".join([*parts, *_invariance_part(result), *_emulated_part(result)])


def _invariance_part(result: CheckResult) -> list[str]:
    """Platforms that contradict themselves, which the verdicts on one batch do not show."""
    wrong = [name for name, items in result.invariance.items() if any(i.verdict.conclusion in DEFECTS for i in items)]
    said = "contradicts itself" if len(wrong) == 1 else "contradict themselves"
    return [f"{many(len(wrong), 'platform')} {said} in another batch."] if wrong else []


def _emulated_part(result: CheckResult) -> list[str]:
    """What emulated hardware would change, apart from what was observed."""
    emulated = [item for item in result.platforms.values() if item.outcome.emulates]
    changed = sum(item.verdict.rule == "emulated" for item in emulated)
    if not emulated:
        return []
    return [f"Emulated, not observed: {many(len(emulated), 'stand-in')}, of which {changed} would change it."]


def left_out_lines(result: CheckResult) -> list[str]:
    """Default platforms that did not take part, and how to get them."""
    return [f"left out: {name} ({reason})" for name, reason in result.left_out.items()]


def eager_failure(result: CheckResult) -> str:
    """Why there is nothing to compare with; empty when eager ran the model."""
    eager = result.eager
    if eager.ok:
        return ""
    if not _reached(eager):
        return f"your model did not reach eager: {eager.message}"
    at = f" at {eager.where}" if eager.where else ""
    said = f"{eager.exception}: {eager.message}" if eager.exception not in eager.message else eager.message
    did = {Status.CRASH: "crashed in", Status.TIMEOUT: "did not finish", Status.OOM: "ran out of memory in"}
    return f"{result.baseline} {did.get(eager.status, 'could not run')} your model{at}: {said}"


def _reached(outcome: Outcome) -> bool:
    """Whether a platform was handed the model at all."""
    return outcome.stage not in (Stage.LOAD, Stage.EXPORT)


_CLOSING: Final = {
    Conclusion.FAILED: ("could not run it", "could not run it"),
    Conclusion.DIVERGES: ("diverges", "diverge"),
    Conclusion.HAZARD: tuple(f"differ{s} only where the behaviour is unspecified" for s in ("s", "")),
    Conclusion.UNSTABLE: ("differs from itself on a second run", "differ from themselves on a second run"),
    Conclusion.UNJUDGED: ("could not be judged", "could not be judged"),
}
"""In this order, for one platform and for several."""

CHECK_TITLES: Final = ("platform", "outcome", "verdict", "error / rounding", "worst output", "ran", "time")


def check_row(name: str, item: PlatformResult) -> list[str]:
    """One platform of a check, under CHECK_TITLES."""
    outcome, verdict = item.outcome, item.verdict
    word = verdict.conclusion.value
    if verdict.conclusion is Conclusion.DIVERGES and verdict.kind is not None:
        word = f"{verdict.conclusion.value} ({verdict.kind.value})"
    return [
        f"{name} (emulated)" if outcome.emulates else name,
        outcome.status.value if outcome.ok else f"{outcome.status.value} at {outcome.stage.value}",
        word,
        _error(verdict),
        verdict.worst or "",
        outcome.ran.value if outcome.ran else "",
        f"{outcome.total_seconds:.1f} s" if outcome.seconds else "",
    ]


def _error(verdict: Verdict) -> str:
    """The error as a multiple of rounding; a platform that gives float64's numbers is exact, whatever eager does."""
    if verdict.error_over_bound == 0:
        return "exact" if verdict.blame is Blame.EAGER else ""
    return multiple(verdict.error_over_bound)


def check_facts(result: CheckResult) -> str:
    """What was checked, in half a line."""
    nodes = f"{result.nodes} nodes  " if result.nodes is not None else ""
    facts = f"{nodes}{count(result.parameters)} parameters  {result.dtype}  seed {result.seed}"
    baseline = f"   baseline: {result.baseline}" if result.baseline != "eager" else ""
    return f"{facts}{baseline}   reference: {result.reference}"


def remarks(result: CheckResult) -> list[tuple[str, str, Conclusion]]:
    """Platforms, what a reader should know of them besides their rows, and the verdict; the same is said once."""
    found: dict[tuple[str, Conclusion], list[str]] = {}
    for name, item in result.platforms.items():
        said = _remark(item)
        if result.export_failure and not item.outcome.ok and item.outcome.stage is Stage.EXPORT:
            said = said.replace(result.export_failure, "the model cannot be exported")
        if said:
            found.setdefault((said, item.verdict.conclusion), []).append(name)
    return [(", ".join(names), said, conclusion) for (said, conclusion), names in found.items()]


def export_line(result: CheckResult) -> str:
    """Why there is no program, where that is not eager's own failure; empty when there is one."""
    if not result.export_failure or not result.eager.ok:
        return ""
    return f"not exportable, so only platforms of torch can run it: {result.export_failure}"


def _remark(item: PlatformResult) -> str:
    verdict, outcome = item.verdict, item.outcome
    if verdict.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING) and not outcome.note:
        return ""
    said = [verdict.sentence] if verdict.conclusion is not Conclusion.AGREES else []
    if not outcome.ok and outcome.message not in verdict.sentence:
        said.append(outcome.message)
    known = f"known as {item.known}" if item.known else ""
    return ". ".join(part.rstrip(".") for part in (known, *said, outcome.note) if part)


def multiple(value: float | None) -> str:
    """An error as a multiple of rounding: `0.6x`."""
    if value is None:
        return ""
    if math.isinf(value):
        return "not rounding"
    return f"{value:.2g}x" if value < 1000 else f"{value:.1e}x"


def count(number: int) -> str:
    """A count of parameters: `11.7 M`."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return str(number)


def _run_document(result: CheckResult) -> dict[str, Any]:
    facts = ("model", "dtype", "seed", "nodes", "parameters", "baseline", "reference")
    told = ("program_exact", "export_failure", "differs")
    return {
        **{name: getattr(result, name) for name in (*facts, *told)},
        "inputs": dict(result.inputs),
        "eager": _outcome_document(result.eager),
        "platforms": {name: _platform_document(item) for name, item in result.platforms.items()},
        "left_out": dict(result.left_out),
        "tolerances": [{**asdict(item), "line": item.line} for item in result.tolerances],
        "invariance": {name: [_invariance(item) for item in found] for name, found in result.invariance.items()},
        "summary": closing_line(result),
        "seconds": round(result.seconds, 3),
    }


def _invariance(item: Invariance) -> dict[str, Any]:
    verdict = item.verdict
    return {
        "relation": item.relation,
        "verdict": verdict.conclusion.value,
        "error_over_bound": finite(verdict.error_over_bound),
        "sentence": verdict.sentence,
    }


def tolerance_lines(result: CheckResult) -> list[str]:
    """What a test of each output should allow; the same is said once."""
    lines = []
    for item in result.tolerances:
        if item.reason:
            lines.append(f"tolerance for {item.output} ({item.dtype}): none, {item.reason}")
            continue
        lines.append(f"tolerance for {item.output} ({item.dtype}, {item.safety:g} noise floors): {item.line}")
    missed = sorted({name for item in result.tolerances for name in item.catches} - _caught(result))
    if missed:
        lines.append(f"such a test would not have caught: {', '.join(missed)}")
    return lines


def _caught(result: CheckResult) -> set[str]:
    return {name for item in result.tolerances for name, caught in item.catches.items() if caught}


def invariance_lines(result: CheckResult) -> list[str]:
    """What each platform does with the same sample in other company."""
    lines = []
    for name, found in result.invariance.items():
        told = "; ".join(f"{item.relation} {_of_relation(item.verdict)}" for item in found)
        lines.append(f"invariance on {name}: {told or 'it did not run'}")
    return lines


def _of_relation(verdict: Verdict) -> str:
    if verdict.conclusion is Conclusion.AGREES:
        return "same bits"
    if verdict.conclusion is Conclusion.ROUNDING:
        return f"rounding ({multiple(verdict.error_over_bound) or 'last bits'})"
    return f"{verdict.conclusion.value}: {verdict.sentence}"


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "outcome": outcome.status.value,
        "stage": outcome.stage.value,
        "message": outcome.message,
        "exception": outcome.exception,
        "where": outcome.where,
        "ran": outcome.ran.value if outcome.ran else None,
        "seconds": round(outcome.total_seconds, 4),
    }


def _platform_document(item: PlatformResult) -> dict[str, Any]:
    outcome, verdict = item.outcome, item.verdict
    return {
        **_outcome_document(outcome),
        "verdict": verdict.conclusion.value,
        "kind": verdict.kind.value if verdict.kind else None,
        "error_over_bound": finite(verdict.error_over_bound),
        "eager_error_over_bound": finite(verdict.eager_error_over_bound),
        "blame": verdict.blame.value if verdict.blame else None,
        **{name: getattr(verdict, name) for name in ("worst", "sentence", "rule", "group")},
        "elements": [element_document(element) for element in verdict.elements],
        **{name: getattr(outcome, name) for name in ("stable", "note", "log_tail", "emulates")},
        "not_compared": list(outcome.not_compared),
        "fallback": outcome.fallback,
        "stage_seconds": {stage: round(spent, 4) for stage, spent in outcome.seconds.items()},
        "known": item.known,
        "version": item.probe.version,
        "device": item.probe.device,
    }


def element_document(element: WrongElement) -> dict[str, Any]:
    """One wrong element: where, what everybody says, and how far off."""
    return {**asdict(element), "error_over_bound": finite(element.error_over_bound)}


def finite(value: float | None) -> float | str | None:
    """JSON has no infinity: it is written as a string."""
    return value if value is None or math.isfinite(value) else str(value)


MOST_NAMED: Final = 4
"""Names in a sentence; more are counted."""


def joined(items: Sequence[str]) -> str:
    """`a, b and c`; of many the first."""
    shown = list(items[:MOST_NAMED]) + ([f"{len(items) - MOST_NAMED} more"] if len(items) > MOST_NAMED else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def many(number: int, noun: str) -> str:
    """`1 platform`, `2,000 platforms`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
