"""The tables of a study, each row from a ledger of its directory, and how each was counted."""

from __future__ import annotations

import math
import sqlite3
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.matrix import labels_of, pairs_of
from mindgap.campaign.plan import BASELINE, eager_of
from mindgap.campaign.reader import Campaign, open_ledger, read
from mindgap.operators.observed import read_sweep, shares
from mindgap.operators.universe import models_of
from mindgap.records.finding import Finding
from mindgap.records.verdict import Conclusion
from mindgap.study.budget import Turn
from mindgap.study.plan import FRAGMENTS, MODELS, OPERATORS, PHASES, VARIANTS

WHOLE: Final = (MODELS, VARIANTS)
"""Phases whose programs are whole models: the study's figures are about those."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A table, and how its numbers came about."""

    name: str
    title: str
    counted: str
    """In a sentence."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def campaigns_of(directory: Path) -> dict[str, Campaign]:
    """What each phase has by now; a phase that was not begun is not there."""
    return {phase: read(directory / phase) for phase in PHASES if (directory / phase / "ledger.sqlite").exists()}


def tables_of(directory: Path, turns: Sequence[Turn], campaigns: Mapping[str, Campaign]) -> list[Counted]:
    """Every table of the study as far as it has come."""
    return [
        _programs(campaigns),
        _failures(directory, campaigns),
        _consistency(campaigns),
        _pairs(directory, campaigns),
        _compiled(campaigns),
        _margins(directory, campaigns),
        _operators(directory, campaigns),
        _issues(campaigns),
        _findings(campaigns),
        _experiments(campaigns),
        _cost(turns),
        _whole(turns),
    ]


def _programs(campaigns: Mapping[str, Campaign]) -> Counted:
    rows = [
        (phase, item.name, item.version, item.done, item.due)
        for phase, campaign in campaigns.items()
        for item in (*campaign.platforms, *campaign.fragment_platforms)
    ]
    return Counted(
        "programs", "What ran", "programs with an outcome on a platform, of those that it is due to run so far",
        ("phase", "platform", "version", "ran", "due"), tuple(rows),
    )  # fmt: skip


_FAILURES: Final = (
    "SELECT f.name, f.version, o.stage, o.status, o.class, COUNT(*) FROM outcomes o JOIN platforms f "
    "ON f.id = o.platform WHERE o.status <> 'ok' GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC"
)


def _failures(directory: Path, campaigns: Mapping[str, Campaign]) -> Counted:
    """The study's figure 3."""
    rows: list[tuple[Any, ...]] = []
    for phase, data in _ledgers(directory, campaigns, WHOLE):
        rows += [(phase, *row) for row in data.execute(_FAILURES) if eager_of(row[0]) is None]
    return Counted(
        "failures", "Execution failures in default mode (figure 3)",
        "outcomes of whole programs that are not ok, by the stage they reached, their status and their message without "
        "what differs from program to program; torch.compile is in figure 5",
        ("phase", "platform", "version", "stage", "status", "cause", "programs"), tuple(rows),
    )  # fmt: skip


def _consistency(campaigns: Mapping[str, Campaign]) -> Counted:
    """The study's figure 4."""
    rows = [
        (phase, item.name, item.version, conclusion.value, item.conclusions[conclusion.value])
        for phase, campaign in campaigns.items()
        if phase in WHOLE
        for item in campaign.platforms
        if item.name != BASELINE
        for conclusion in Conclusion
        if item.conclusions.get(conclusion.value)
    ]
    return Counted(
        "consistency", "Output consistency (figure 4)",
        "verdicts on whole programs, each platform next to eager and float64; `diverges` is more than rounding "
        "explains",
        ("phase", "platform", "version", "verdict", "programs"), tuple(rows),
    )  # fmt: skip


def _pairs(directory: Path, campaigns: Mapping[str, Campaign]) -> Counted:
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for phase, data in _ledgers(directory, campaigns, WHOLE):
        for pair in pairs_of(data):
            counts[phase, pair.first, pair.second, pair.how] += pair.count
    return Counted(
        "pairs", "Platforms next to each other", "whole programs that both platforms ran",
        ("phase", "first", "second", "how", "programs"), tuple((*key, count) for key, count in counts.items()),
    )  # fmt: skip


def _compiled(campaigns: Mapping[str, Campaign]) -> Counted:
    """The study's figure 5."""
    rows = [
        (phase, item.name, eager_of(item.name) or "", conclusion.value, item.against_eager[conclusion.value])
        for phase, campaign in campaigns.items()
        if phase in WHOLE
        for item in campaign.platforms
        if item.compiles
        for conclusion in Conclusion
        if item.against_eager.get(conclusion.value)
    ]
    return Counted(
        "compiled", "Compiled against eager (figure 5)",
        "verdicts on whole programs by torch.compile next to eager of the same device; `failed` did not compile or run",
        ("phase", "compiled", "against", "verdict", "programs"), tuple(rows),
    )  # fmt: skip


_MARGINS: Final = (
    "SELECT v.platform, b.name, v.error_over_bound FROM verdicts v JOIN programs p ON p.id = v.program "
    "JOIN bases b ON b.id = p.base WHERE v.conclusion IN ('agrees', 'rounding', 'diverges')"
)


_OWN_MARGINS: Final = (
    "SELECT b.name, MAX(v.eager_error_over_bound) FROM verdicts v JOIN programs p ON p.id = v.program "
    "JOIN bases b ON b.id = p.base WHERE v.conclusion IN ('rounding', 'diverges') GROUP BY p.id"
)


def _margins(directory: Path, campaigns: Mapping[str, Campaign]) -> Counted:
    errors: dict[tuple[str, str], list[float]] = {}

    def note(platform: str, name: str, error: float | None) -> None:
        for family in ("all", family_of(name)):
            errors.setdefault((platform, family), []).append(error or 0.0)

    for _, data in _ledgers(directory, campaigns, (MODELS,)):
        labels = labels_of(data)
        for platform, name, error in data.execute(_MARGINS):
            note(labels[platform], name, error)
        for name, error in data.execute(_OWN_MARGINS):
            note(BASELINE, name, error)
    rows = [
        (platform, family, len(found), _quantile(found, 0.5), _quantile(found, 0.9), max(found))
        for (platform, family), found in errors.items()
    ]
    return Counted(
        "margins", "Unmodified models: error over what rounding explains",
        "the worst output of each judged model; identical bits count as 0, and above 12 a verdict is `diverges`; "
        "eager's own row is its distance from float64, where some platform gave other bits",
        ("platform", "family", "models", "median", "90%", "worst"), tuple(rows),
    )  # fmt: skip


def _operators(directory: Path, campaigns: Mapping[str, Campaign]) -> Counted:
    """The study's count of operators, as far as the sweep has come."""
    rows: list[tuple[Any, ...]] = []
    if OPERATORS in campaigns:
        weights = models_of().counts
        rows = [
            (item.platform, item.dtype, item.exercised, item.running, item.fewer_percent, item.supported,
             item.supported_percent, item.weighted_percent)
            for item in shares(read_sweep(directory / OPERATORS), weights)
        ]  # fmt: skip
    return Counted(
        "operators", "Operators that run, next to eager",
        "operators that eager runs in that dtype and of which some call was tried there; `run` gave a result for some "
        "call, `right` a right one for every valid call, weighted by the real models that need them",
        ("platform", "dtype", "operators", "run", "% fewer than eager", "right", "% right", "% weighted"), tuple(rows),
    )  # fmt: skip


def family_of(name: str) -> str:
    """Where a model comes from: `timm` of `timm:resnet18`, `vision` of `vision-resnet`."""
    return name.partition(":")[0] if ":" in name else name.partition("-")[0]


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return statistics.median(ordered) if share == 0.5 else ordered[math.ceil(share * len(ordered)) - 1]


def _issues(campaigns: Mapping[str, Campaign]) -> Counted:
    """The study's table 1."""
    counts: Counter[tuple[str, str]] = Counter()
    for _, finding in distinct_findings(campaigns):
        counts.update((platform, finding.cause_word) for platform in finding.platforms)
    return Counted(
        "issues", "Issues by platform and cause (table 1)",
        "findings of all phases, one per root cause (signature); one that several platforms share counts for each",
        ("platform", "cause", "findings"), tuple((*key, count) for key, count in sorted(counts.items())),
    )  # fmt: skip


def distinct_findings(campaigns: Mapping[str, Campaign]) -> list[tuple[str, Finding]]:
    """Each root cause once, with the phase that found it first; an explained one goes before the same unexplained."""
    found: dict[str, tuple[str, Finding]] = {}
    for phase, campaign in campaigns.items():
        for finding in campaign.findings:
            known = found.get(finding.signature)
            if known is None or (known[1].explanation is None and finding.explanation is not None):
                found[finding.signature] = (phase, finding)
    return list(found.values())


def _findings(campaigns: Mapping[str, Campaign]) -> Counted:
    rows = [
        (
            phase, item.id, item.category, " ".join(item.platforms), item.operator or "", item.kind or "",
            item.cause_word, item.bases, item.variants + item.fragments, item.error_over_bound, item.message or "",
        )
        for phase, item in distinct_findings(campaigns)
    ]  # fmt: skip
    return Counted(
        "findings", "Findings", "one per root cause; `mindgap explain ID -o DIR/PHASE` looks closer at one",
        ("phase", "id", "category", "platforms", "operator", "what differs", "cause", "models", "programs",
         "error / rounding", "message"), tuple(rows),
    )  # fmt: skip


def _experiments(campaigns: Mapping[str, Campaign]) -> Counted:
    """What the study found out by hand: why, and what was tried to know it."""
    rows = []
    for phase, item in distinct_findings(campaigns):
        if (found := item.explanation) is None:
            continue
        cause = found.cause
        layer = found.layer.sentence if found.layer is not None else ""
        tried = "; ".join((*cause.evidence, *cause.conditions, *(f"vanishes {way}" for way in cause.vanishes)))
        rows.append((phase, item.id, found.platform, found.operator, cause.kind.value, cause.remark, layer, tried))
    return Counted(
        "experiments", "Causes, and the experiments behind them",
        "explained findings; what was varied on the smallest witness, and the layer of the compiler or exporter that "
        "brings the difference in",
        ("phase", "id", "platform", "operator", "cause", "what it looks like", "layer", "experiments"),
        tuple(sorted(rows, key=lambda row: (row[4], row[2], row[3]))),
    )  # fmt: skip


def _cost(turns: Sequence[Turn]) -> Counted:
    rows = []
    for phase, mine in _by_phase(turns):
        seconds, ran = sum(turn.seconds for turn in mine), sum(mine[-1].done.values())
        core_hours = sum(turn.cpu_s for turn in mine) / 3600
        rows.append((phase, len(mine), seconds / 3600, core_hours or None, ran, 3600 * ran / seconds))
    return Counted(
        "cost", "What each phase took",
        "turns that came to their end, by the clock and in CPU time of all their processes; explanations at the end "
        "left out",
        ("phase", "turns", "hours", "core hours", "programs on platforms", "per hour"), tuple(rows),
    )  # fmt: skip


WHOLE_STUDY: Final = {MODELS: 4_000, VARIANTS: 100_000, FRAGMENTS: 100_000}
"""Programs of the published study's size."""
CLUSTER: Final = 100
"""Machines with as many cores as this one."""


def _whole(turns: Sequence[Turn]) -> Counted:
    """What a study of the published size would take at the pace of this one."""
    rows = []
    for phase, mine in _by_phase(turns):
        done = [count for count in mine[-1].done.values() if count]
        if phase in WHOLE_STUDY and done:
            hours = sum(turn.seconds for turn in mine) / 3600 * WHOLE_STUDY[phase] * len(done) / sum(done)
            core_hours = sum(turn.cpu_s for turn in mine) / 3600 * WHOLE_STUDY[phase] * len(done) / sum(done)
            rows.append((phase, WHOLE_STUDY[phase], len(done), core_hours or None, hours, hours / CLUSTER))
    return Counted(
        "whole", f"What {WHOLE_STUDY[MODELS]:,} models and {WHOLE_STUDY[VARIANTS]:,} variants would take",
        f"every program on every platform of this study, at its pace so far, on this machine and on {CLUSTER} like it; "
        "a program on one platform costs as much as the mean of those that ran",
        ("phase", "programs", "platforms", "core hours", "hours here", f"hours on {CLUSTER} machines"), tuple(rows),
    )  # fmt: skip


def _by_phase(turns: Sequence[Turn]) -> Iterator[tuple[str, list[Turn]]]:
    for phase in PHASES:
        mine = [turn for turn in turns if turn.phase == phase]
        if sum(turn.seconds for turn in mine):
            yield phase, mine


def _ledgers(
    directory: Path, campaigns: Mapping[str, Campaign], phases: Sequence[str]
) -> Iterator[tuple[str, sqlite3.Connection]]:
    for phase in phases:
        if phase in campaigns:
            with open_ledger(directory / phase) as data:
                yield phase, data
