"""Results as documents and rows; pure functions."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from mindgap.records.check import CheckResult, PlatformResult
from mindgap.records.outcome import Outcome, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.verdict import Conclusion

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
                "install": spec.install,
                "summary": spec.summary,
            }
            for spec in specs
        },
    }


def closing_line(result: CheckResult) -> str:
    """The check in one sentence."""
    counts = Counter(item.verdict.conclusion for item in result.platforms.values())
    parts = [
        f"{many(counts[conclusion], 'platform')} {words[counts[conclusion] > 1]}."
        for conclusion, words in _CLOSING.items()
        if counts[conclusion]
    ]
    if not counts[Conclusion.DIVERGES]:
        parts.insert(bool(counts[Conclusion.FAILED]), "Nothing diverges.")
    return " ".join(parts)


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
    word = verdict.conclusion.value if outcome.ok else outcome.stage.value
    if verdict.conclusion is Conclusion.DIVERGES and verdict.kind is not None:
        word = f"{verdict.conclusion.value} ({verdict.kind.value})"
    return [
        name,
        "failed" if outcome.status is Status.ERROR else outcome.status.value,
        word,
        multiple(verdict.error_over_bound),
        verdict.worst or "",
        outcome.ran.value if outcome.ran else "",
        f"{outcome.total_seconds:.1f} s" if outcome.seconds else "",
    ]


def check_facts(result: CheckResult) -> str:
    """What was checked, in half a line."""
    nodes = f"{result.nodes} nodes  " if result.nodes is not None else ""
    facts = f"{nodes}{count(result.parameters)} parameters  {result.dtype}  seed {result.seed}"
    return f"{facts}   reference: {result.reference}"


def remark(item: PlatformResult) -> str:
    """What a reader should know of a platform besides its row; empty when there is nothing."""
    verdict, outcome = item.verdict, item.outcome
    if verdict.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING) and not outcome.note:
        return ""
    said = [verdict.sentence] if verdict.conclusion is not Conclusion.AGREES else []
    if not outcome.ok and outcome.message not in verdict.sentence:
        said.append(outcome.message)
    return ". ".join(part.rstrip(".") for part in (*said, outcome.note) if part)


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


def plain_text(text: str) -> str:
    """Text from a model or a runtime without control characters, so that a terminal shows it as it is."""
    return "".join(c if c == "\n" or unicodedata.category(c)[0] != "C" else "�" for c in text)


def _run_document(result: CheckResult) -> dict[str, Any]:
    facts = ("model", "dtype", "seed", "nodes", "parameters", "reference", "program_exact", "export_failure", "differs")
    return {
        **{name: getattr(result, name) for name in facts},
        "inputs": dict(result.inputs),
        "eager": _outcome_document(result.eager),
        "platforms": {name: _platform_document(item) for name, item in result.platforms.items()},
        "summary": closing_line(result),
        "seconds": round(result.seconds, 3),
    }


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "outcome": outcome.status.value,
        "stage": outcome.stage.value,
        "message": outcome.message,
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
        **{name: getattr(outcome, name) for name in ("stable", "note", "log_tail")},
        "stage_seconds": {stage: round(spent, 4) for stage, spent in outcome.seconds.items()},
        "version": item.probe.version,
        "device": item.probe.device,
    }


def finite(value: float | None) -> float | str | None:
    """JSON has no infinity: it is written as a string."""
    return value if value is None or math.isfinite(value) else str(value)


def many(number: int, noun: str) -> str:
    """`1 platform`, `2,000 platforms`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
