"""How the verdicts do on real divergences and controls whose truth is known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.bench.measurement import Measurement, Row, Tell, grouped, share
from mindgap.errors import MindgapError, UsageError
from mindgap.records.check import PlatformResult
from mindgap.records.outcome import Outcome
from mindgap.session.session import Session

PLATFORMS: Final = ("eager@scalar", "inductor", "onnxruntime", "openvino")

KINDS: Final = {
    "nan pattern": {"nonfinite"},
    "inf pattern": {"nonfinite"},
    "value": {"integer", "order", "value"},
    "dtype": {"dtype"},
    "shape": {"shape"},
    "count": {"shape"},
    "ok (eager failed)": {"validation"},
    "diverge": {"value", "nonfinite", "signed-zero", "order"},
}
"""What a verdict may call each kind of observation of truth.json."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One case on one platform: what is right, and what was said."""

    case: str
    group: str
    platform: str
    right: tuple[str, ...]
    observed: str
    fp64: str
    verdict: str
    kind: str | None
    blame: str | None
    sentence: str
    same_bits: bool = False
    """Whether the platform gave eager's bits on this machine."""

    @property
    def must_diverge(self) -> bool:
        return self.right == ("diverges",)

    @property
    def is_absent(self) -> bool:
        """A known difference that this machine does not show: kernels and generated code depend on its instructions."""
        return self.must_diverge and self.same_bits

    @property
    def accepted(self) -> bool:
        return self.verdict in self.right

    @property
    def kind_right(self) -> bool:
        allowed = next((kinds for words, kinds in KINDS.items() if self.observed.startswith(words)), None)
        return allowed is None or self.kind in allowed

    @property
    def blame_known(self) -> bool:
        """Eager gives float64's bits, so whoever differs is wrong; or eager itself crashed."""
        return self.must_diverge and (self.fp64 == "bits" or self.fp64.startswith("crash"))

    @property
    def blame_right(self) -> bool:
        return self.blame == ("eager" if self.fp64.startswith("crash") else "candidate")


def measure(tell: Tell, folder: Path = Path("cases"), only: Sequence[str] = ()) -> Measurement:
    """Check every case of a folder and compare with its truth.json."""
    all_judged = judge_cases(tell, folder, only)
    judged = [item for item in all_judged if not item.is_absent]
    absent = [
        f"  not shown on this machine: {i.case} on {i.platform} gives eager's bits" for i in all_judged if i.is_absent
    ]
    wrong = [
        f"  wrong: {i.case} on {i.platform}: {i.verdict}, right is {'/'.join(i.right)}"
        for i in judged
        if not i.accepted
    ]
    kinds = [
        f"  kind: {i.case} on {i.platform}: {i.kind} for '{i.observed[:40]}'"
        for i in judged
        if i.must_diverge and i.accepted and not i.kind_right
    ]
    blames = [
        f"  blame: {i.case} on {i.platform}: {i.blame}"
        for i in judged
        if i.blame_known and i.accepted and not i.blame_right
    ]
    right = f"{len(judged) - len(wrong)} of {len(judged)} verdicts are right"
    return Measurement(
        name="cases",
        what="verdicts against the known truth: `accepted` are right verdicts; recall over what must diverge; "
        "precision over what was called diverges",
        on=f"{len({item.case for item in judged})} cases x {', '.join(PLATFORMS)}",
        rows=grouped(sorted(judged, key=lambda item: item.group), lambda item: item.group, _row),
        conclusion="\n".join([right, *wrong, *kinds, *blames, *absent]),
    )  # fmt: skip


def judge_cases(tell: Tell, folder: Path, only: Sequence[str] = ()) -> list[Judged]:
    """Every case on every platform."""
    truth = read_truth(folder)
    names = [name for name in truth if not only or name in only]
    judged = []
    with Session() as session:
        for number, name in enumerate(names, start=1):
            tell("case", f"{number} of {len(names)}: {name}")
            judged += _judge_case(session, folder, name, truth[name])
    return judged


def read_truth(folder: Path) -> dict[str, Any]:
    """What is known of each case of a folder: its truth.json."""
    path = folder / "truth.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError("the cases cannot be read", where=str(path), cause=str(error)) from error
    return found


def _judge_case(session: Session, folder: Path, name: str, truth: Mapping[str, Any]) -> list[Judged]:
    found: dict[str, tuple[str, str | None, str | None, str, bool]]
    try:
        result = session.check(str((folder / f"{name}.py").absolute()), None, PLATFORMS)
        found = {platform: _said(item, result.eager) for platform, item in result.platforms.items()}
    except MindgapError as error:
        found = {platform: ("error", None, None, str(error), False) for platform in PLATFORMS}
    observed = {**truth["observed"], "eager@scalar": truth["observed"].get("scalar", "")}
    return [
        Judged(name, truth["class"], platform, tuple(truth["platforms"][platform]), observed.get(platform, ""),
               observed.get("fp64", ""), *said)
        for platform, said in found.items()
    ]  # fmt: skip


def _said(found: PlatformResult, eager: Outcome) -> tuple[str, str | None, str | None, str, bool]:
    verdict = found.verdict
    kind, blame = verdict.kind and verdict.kind.value, verdict.blame and verdict.blame.value
    same_bits = eager.ok and found.outcome.digest == eager.digest
    return verdict.conclusion.value, kind, blame, verdict.sentence, same_bits


def _row(group: str, items: Sequence[Judged]) -> Row:
    counts = Counter(item.verdict for item in items)
    must = [item for item in items if item.must_diverge]
    said = [item for item in items if item.verdict == "diverges"]
    found = [item for item in must if item.accepted]
    blamed = [item for item in found if item.blame_known]
    return {
        "class": group,
        "verdicts": len(items),
        "accepted": sum(item.accepted for item in items),
        "recall": share(len(found), len(must)),
        "precision": share(sum("diverges" in item.right for item in said), len(said)),
        "kind": share(sum(item.kind_right for item in found), len(found)),
        "blame": share(sum(item.blame_right for item in blamed), len(blamed)),
        "said": ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()),
    }
