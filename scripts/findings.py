"""Findings worth filing, one folder each: collected from campaigns, and run again.

python scripts/findings.py collect [--minutes N] CAMPAIGN...
    explains what campaigns found, and keeps what a short script shows
python scripts/findings.py run
    runs every script again and writes findings/README.md
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindgap
from mindgap.bench.rediscovery import Defect, known_defects, signs_of
from mindgap.campaign.reader import finding_folder
from mindgap.errors import MindgapError
from mindgap.explanation.explain import ISSUE, SHORT
from mindgap.platforms.registry import resolve
from mindgap.program.operators import base_name
from mindgap.records.explanation import CauseKind, Explanation
from mindgap.records.finding import Finding
from mindgap.reduction.reducer import Budget

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "findings"
FACTS = "finding.json"
SEVERITIES = ("wrong numbers on ordinary values", "crash", "exceptional values", "validation", "accuracy loss")
"""The worst first."""
ORDINARY = (1e-4, 1e4)
"""Sizes of numbers that anybody may meet; 0 is ordinary too."""
RUN_S = 300.0


def collect(campaigns: list[Path], minutes: float) -> None:
    """Explain findings until the time is over; those that a short script shows get a folder."""
    defects = known_defects(lambda who, what: None, [ROOT / "cases"])
    deadline = time.monotonic() + 60 * minutes
    with mindgap.Session() as session:
        for directory in campaigns:
            for finding in _promising(directory):
                name = _name(finding)
                if (FOLDER / name).exists() or time.monotonic() > deadline:
                    continue
                try:
                    found = session.explain_finding(directory, finding.id, Budget(seconds=240))
                except MindgapError as error:
                    print(f"{finding.id} {name}: {str(error).splitlines()[0]}", flush=True)
                    continue
                same = _known_cause(finding, found)
                if same is not None:
                    _add_operator(same, found.operator or finding.operator)
                    print(f"{finding.id} {name}: the cause of {same.name}", flush=True)
                    continue
                kept = _keep(finding_folder(directory, finding.id), FOLDER / name, finding, found, defects)
                print(f"{finding.id} {name}: {'kept' if kept else 'no short script shows it'}", flush=True)


def _promising(directory: Path) -> Iterator[Finding]:
    """Divergences that name an operator, and crashes; ordinary kinds first, one operator after the other."""
    order = ("value", "crash", "dtype", "shape", "order", "nonfinite", "validation", "integer")
    campaign = mindgap.read(directory)
    chosen = [
        f for f in campaign.findings
        if f.id and f.operator and (f.category == "divergence" or (f.category == "failure" and f.kind == "crash"))
    ]  # fmt: skip
    chosen.sort(key=lambda f: (order.index(f.kind) if f.kind in order else len(order), -len(f.evidence), f.id))
    return iter(chosen)


def _name(finding: Finding) -> str:
    """The same root cause in two campaigns has one folder."""
    operator = "+".join(base_name(op).removeprefix("aten.") for op in finding.operator.split(" + "))
    return re.sub(r"[^\w.+-]+", "-", f"{finding.witness.platform}-{operator}-{finding.kind}")


def _known_cause(finding: Finding, found: Explanation) -> Path | None:
    """The folder of the same policy: one that holds for all operators of a platform is one cause."""
    if found.cause.kind is not CauseKind.PRECISION:
        return None
    mine = (found.platform, finding.kind, found.cause.kind.value, found.cause.remark)
    for path in sorted(FOLDER.glob(f"*/{FACTS}")):
        facts = json.loads(path.read_text())
        if (facts["platform"], facts["kind"], facts["cause"], facts["remark"]) == mine:
            return path.parent
    return None


def _add_operator(folder: Path, operator: str) -> None:
    facts = json.loads((folder / FACTS).read_text())
    facts["also"] = sorted({*facts["also"], operator} - {facts["operator"]})
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def _keep(source: Path, target: Path, finding: Finding, found: Explanation, defects: list[Defect]) -> bool:
    """Whether a short script showed the difference in a fresh process, so that there is something to file."""
    if not (source / SHORT).exists() or not found.proof.survived:
        return False
    target.mkdir(parents=True)
    shutil.copy(source / SHORT, target / "repro.py")
    shutil.copy(source / ISSUE, target / ISSUE)
    signs = dict.fromkeys(signs_of(finding), 0.0)
    facts = {
        "platform": found.platform,
        "version": found.version,
        "operator": found.operator or finding.operator,
        "also": [],
        "kind": finding.kind,
        "cause": found.cause.kind.value,
        "remark": found.cause.remark,
        "sentence": found.proof.verdict.sentence,
        "severity": severity(finding.kind, found, (target / "repro.py").read_text()),
        "cures": list(found.layer.cures[:2]) if found.layer is not None else [],
        "versions": dict(found.versions),
        "found": str(datetime.datetime.now(datetime.timezone.utc).date()),
        "cases": sorted({d.case for d in defects if d.is_shown_by(signs) is not None}),
    }
    (target / FACTS).write_text(json.dumps(facts, indent=1) + "\n")
    return True


def severity(kind: str, found: Explanation, script: str) -> str:
    """How bad it is for somebody with an ordinary model."""
    if kind == "validation":
        return "validation"
    if kind == "crash" or not found.proof.verdict.kind:
        return "crash"
    if kind in ("nonfinite", "signed-zero") or found.cause.kind is CauseKind.EXCEPTIONAL:
        return "exceptional values"
    if kind != "integer" and found.cause.kind in (CauseKind.SCHEDULING, CauseKind.PRECISION):
        return "accuracy loss"
    given = next((line for line in script.splitlines() if line.startswith("model, inputs")), "")
    return "wrong numbers on ordinary values" if _is_ordinary(given) else "exceptional values"


def _is_ordinary(text: str) -> bool:
    if re.search(r"\b(nan|inf)\b", text):
        return False
    numbers = [abs(float(number)) for number in re.findall(r"\d+\.?\d*(?:e[+-]?\d+)?", text)]
    return all(number == 0 or ORDINARY[0] <= number <= ORDINARY[1] for number in numbers)


def run() -> int:
    """Every script once more in a fresh process; the index says which still hold."""
    rows = []
    for folder in sorted(path.parent for path in FOLDER.glob(f"*/{FACTS}")):
        facts = json.loads((folder / FACTS).read_text())
        holds = _holds(folder, facts)
        print(f"{_WORDS[holds]}  {folder.name}", flush=True)
        rows.append((folder.name, facts, holds))
    rows.sort(key=lambda row: (SEVERITIES.index(row[1]["severity"]), row[1]["platform"], row[0]))
    (FOLDER / "README.md").write_text(_index(rows))
    count = Counter(holds for *_, holds in rows)
    print(f"{count[True]} of {len(rows)} still hold; {count[None]} were not run")
    return int(count[False] > 0)


_WORDS = {True: "holds", False: "gone", None: "not run: its runtime is not installed"}


def _python(platform: str) -> str | None:
    """The interpreter that has the runtime; None where `mindgap platforms install` has yet to make it."""
    try:
        spec = resolve(platform)
    except MindgapError:
        return sys.executable  # a platform of the past, or of somebody else
    return spec.python if spec.environment else sys.executable


def _holds(folder: Path, facts: dict[str, Any]) -> bool | None:
    """A comparison ends with an AssertionError of its own; a crash with a signal or the runtime's error.

    None where the runtime is not here. The script runs elsewhere: some write a model file next to them.
    """
    python = _python(facts["platform"])
    if python is None:
        return None
    script = (folder / "repro.py").resolve()
    with tempfile.TemporaryDirectory(prefix="mindgap-finding-") as elsewhere:
        try:
            done = subprocess.run(
                [python, script], cwd=elsewhere, capture_output=True, text=True, timeout=RUN_S, check=False
            )
        except subprocess.TimeoutExpired:
            return False
    if facts["severity"] == "crash":
        return done.returncode != 0 and "ModuleNotFoundError" not in done.stderr
    return done.returncode != 0 and "AssertionError" in done.stderr.strip().rpartition("Traceback")[2]


INDEX = """# Findings worth filing

One folder per platform, operator and kind of difference; a policy that holds for many operators has one. In it: a
script of at most 15 lines that needs only torch and the runtime, the text of an issue, and the facts. Each was found by
a campaign that knows nothing of `cases/`, explained and run again alone in a fresh process.

`make findings` runs every script again and writes this page. Last run {date}: {versions}.

**{holding} of {all} hold**: {counts}.

| severity | platform | operator | what happens | cause | holds | also in cases/ |
|---|---|---|---|---|---|---|
"""


def _index(rows: list[tuple[str, dict[str, Any], bool | None]]) -> str:
    versions: dict[str, str] = {}
    for _, facts, _ in rows:
        versions |= {name: text for name, text in facts["versions"].items() if name != "system"}
    counts = {word: sum(facts["severity"] == word for _, facts, _ in rows) for word in SEVERITIES}
    text = INDEX.format(
        date=datetime.datetime.now(datetime.timezone.utc).date(),
        versions=", ".join(f"{name} {number}" for name, number in sorted(versions.items())),
        holding=sum(holds is True for *_, holds in rows),
        all=len(rows),
        counts=", ".join(f"{count} {word}" for word, count in counts.items() if count),
    )
    return text + "".join(_row(*row) for row in rows)


_HOLDS = {True: "yes", False: "**no**", None: "not run"}


def _row(name: str, facts: dict[str, Any], holds: bool | None) -> str:
    told = facts["remark"] or facts["sentence"]
    told = (told if len(told) <= 110 else f"{told[:106]} ...").replace("|", "\\|").replace("\n", " ")
    more = f" and {len(facts['also'])} more" if facts["also"] else ""
    operator = f"[{facts['operator']}]({name}/issue.md){more}"
    cells = (facts["severity"], facts["platform"], operator, told, facts["cause"], _HOLDS[holds])
    return f"| {' | '.join(cells)} | {', '.join(facts['cases'])} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("campaigns", nargs="+", type=Path)
    collecting.add_argument("--minutes", type=float, default=60.0)
    commands.add_parser("run")
    given = parser.parse_args()
    if given.command == "run":
        return run()
    collect(given.campaigns, given.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
