"""How many known defects a campaign finds that knows nothing of them."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mindgap.bench.cases import KINDS, read_truth
from mindgap.bench.measurement import Measurement, Row, Tell, cpu_s, share
from mindgap.campaign.directory import FILE
from mindgap.campaign.hunt import hunt
from mindgap.campaign.plan import Plan, with_baseline
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import findings_of, open_ledger
from mindgap.errors import MindgapError
from mindgap.execution.parcel import Constants, open_parcel
from mindgap.program.operators import base_name
from mindgap.records.finding import Finding
from mindgap.session.session import Session

PLATFORMS: Final = ("inductor", "onnxruntime", "openvino")
MOST: Final = 400_000
"""Programs: time ends the campaign, not their number."""
EXPLAIN_S: Final = 120.0
"""For whole variants: a fragment names its operator by itself."""
LOOK_S: Final = 30.0
"""How often the ledger is read for the curve."""
MARKS: Final = 6
"""Points of the curve that are printed."""

Sign = tuple[str, str, str]
"""Platform, operator without its overload, and kind of difference."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A case on a platform where it is known to diverge."""

    case: str
    platform: str
    category: str
    operators: frozenset[str]
    """Of its exported program, without overloads."""
    kinds: frozenset[str]

    def is_shown_by(self, signs: Mapping[Sign, float]) -> float | None:
        """After how many seconds a finding showed it; None when none did."""
        times = [at for (where, operator, kind), at in signs.items()
                 if where == self.platform and operator in self.operators and kind in self.kinds]  # fmt: skip
        return min(times, default=None)


@dataclass
class Hunted:
    """What one campaign found, and when."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    programs: int = 0
    signs: dict[Sign, float] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    called: str = "fragments"


def measure(
    tell: Tell,
    cases: Sequence[Path] = (Path("cases"),),
    hours: float = 1.0,
    seed: int = 0,
    fragments: float = 1.0,
    against: bool = True,
    keep: Path | None = None,
) -> Measurement:
    """Hunt for some time, then look which of the known defects are among the findings.

    `against` also hunts for the same time with whole variants alone. `keep` keeps the campaigns in a directory.
    """
    defects = known_defects(tell, cases)
    with tempfile.TemporaryDirectory() as place:
        root = keep or Path(place)
        found = hunted(tell, root / "fragments", hours, seed, fragments)
        whole = hunted(tell, root / "whole", hours, seed, 0.0) if against else None
    rows = rows_of(defects, found, whole)
    return Measurement(
        name="rediscovery",
        what=f"known defects that a campaign of {hours:g} h found again: a confirmed finding on the same platform "
        "whose culprit is an operator of the case (in any overload, in-place or not), with the same kind of difference",
        on=f"{len(defects)} pairs of case and platform from {', '.join(map(str, cases))}; smoke corpus, seed {seed}, "
        f"{fragments:.0%} fragments",
        rows=rows,
        conclusion="\n".join(lines_of(defects, found, whole)),
    )


def known_defects(tell: Tell, folders: Sequence[Path]) -> list[Defect]:
    """Every pair whose truth is `diverges`, with the operators of the case's exported program."""
    found = []
    with Session() as session:
        for folder in folders:
            truth = read_truth(folder)
            for name, known in truth.items():
                platforms = [p for p in PLATFORMS if known["platforms"].get(p) == ["diverges"]]
                if not platforms:
                    continue
                tell("case", name)
                operators = _operators(session, folder / f"{name}.py")
                for platform in platforms:
                    kinds = _kinds(known["observed"].get(platform, ""))
                    found.append(Defect(name, platform, known.get("category", ""), operators, kinds))
    return found


def _operators(session: Session, path: Path) -> frozenset[str]:
    """Of the exported program; none where the model cannot be exported, so that nothing can find it."""
    try:
        parcel = session.build(str(path.absolute()), None)
        case = open_parcel(parcel.without_source(), Constants()) if parcel.program else None
    except MindgapError:
        case = None
    return frozenset(base_name(node.op) for node in case.graph.nodes) if case is not None else frozenset()


def _kinds(observed: str) -> frozenset[str]:
    every = frozenset(kind for kinds in KINDS.values() for kind in kinds)
    return next((frozenset(kinds) for words, kinds in KINDS.items() if observed.startswith(words)), every)


def hunted(tell: Tell, directory: Path, hours: float, seed: int, fragments: float) -> Hunted:
    """A campaign that ends after some time; what it shows is noted while it runs."""
    found, looked = Hunted(), [0.0]
    start, cpu = time.monotonic(), cpu_s()
    found.called = called = "fragments" if fragments else "whole variants"

    def watch(now: Snapshot) -> None:
        found.programs = now.finished
        tell(called, f"{now.seconds / 60:.0f} of {60 * hours:.0f} min, {now.finished:,} programs, "
             f"{len(found.signs)} operators with a kind of difference")  # fmt: skip
        if time.monotonic() - looked[0] >= LOOK_S:
            looked[0] = time.monotonic()
            _note(directory, found, looked[0] - start)

    plan = Plan(with_baseline(PLATFORMS), MOST, seed, fragments=fragments)
    given = None if (directory / FILE).exists() else plan
    ending = hunt(directory, given, hours=hours, explain_s=EXPLAIN_S, watch=watch).unless_interrupted()
    found.seconds, found.cpu_s = ending.seconds, cpu_s() - cpu
    _note(directory, found, found.seconds)
    return found


def _note(directory: Path, found: Hunted, at: float) -> None:
    try:
        with open_ledger(directory) as data:
            found.findings = [f for f in findings_of(data) if f.category == "divergence"]
    except (MindgapError, sqlite3.Error):  # it has not begun, or is being written
        return
    for finding in found.findings:
        for sign in signs_of(finding):
            found.signs.setdefault(sign, at)


def signs_of(finding: Finding) -> set[Sign]:
    """What a finding accuses: each platform, the operator, and each kind of difference that was seen."""
    named = finding.operator or (finding.explanation.operator if finding.explanation is not None else "")
    return {
        (item.platform, base_name(operator), item.kind or "value")
        for operator in named.split(" + ")
        if operator
        for item in finding.evidence
    }


def rows_of(defects: Sequence[Defect], found: Hunted, whole: Hunted | None) -> list[Row]:
    """By platform, by category, and all."""
    groups: dict[str, list[Defect]] = {platform: [] for platform in PLATFORMS}
    for defect in defects:
        groups[defect.platform].append(defect)
    for category in sorted({defect.category for defect in defects}):
        groups[f"category {category}"] = [defect for defect in defects if defect.category == category]
    groups["all"] = list(defects)
    return [
        {
            "pairs of": name,
            "known": len(items),
            "found": share(_count(items, found.signs), len(items)),
            "minutes to the first": _first(items, found.signs),
            **({} if whole is None else {"by whole variants": share(_count(items, whole.signs), len(items))}),
        }
        for name, items in groups.items()
    ]


def _count(defects: Sequence[Defect], signs: Mapping[Sign, float]) -> int:
    return sum(defect.is_shown_by(signs) is not None for defect in defects)


def _first(defects: Sequence[Defect], signs: Mapping[Sign, float]) -> str:
    times = [at for defect in defects if (at := defect.is_shown_by(signs)) is not None]
    return f"{min(times) / 60:.0f}" if times else "-"


def lines_of(defects: Sequence[Defect], found: Hunted, whole: Hunted | None) -> list[str]:
    """The shares against their aims, the curve over time, and what was missed."""
    lines = []
    for item in (found, whole):
        if item is None:
            continue
        further = [f for f in item.findings if not any(d.is_shown_by(dict.fromkeys(signs_of(f), 0.0)) is not None
                                                       for d in defects)]  # fmt: skip
        count = _count(defects, item.signs)
        lines.append(
            f"{item.called}: {count} of {len(defects)} pairs found "
            f"({100 * count / max(1, len(defects)):.0f}%, aim 50%) and {len(further)} further findings (aim 40) in "
            f"{item.programs:,} programs, {item.seconds / 60:.0f} minutes, "
            f"{item.cpu_s / 60:.0f} minutes of CPU time"
        )
        marks = [item.seconds * number / MARKS for number in range(1, MARKS + 1)]
        early = [{sign: at for sign, at in item.signs.items() if at <= mark} for mark in marks]
        curve = ", ".join(f"{_count(defects, part)} after {mark / 60:.0f} min" for mark, part in zip(marks, early))
        lines.append(f"  over time: {curve}")
    missed = [defect for defect in defects if defect.is_shown_by(found.signs) is None]
    lines += [f"  missed: {defect.case} on {defect.platform} ({', '.join(sorted(defect.kinds))})" for defect in missed]
    return lines
