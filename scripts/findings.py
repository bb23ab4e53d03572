"""Findings worth filing, one folder each: collected from campaigns, and run again.

python scripts/findings.py collect [--minutes N] CAMPAIGN...
    explains what campaigns found, and keeps what a short script shows
python scripts/findings.py calls [--minutes N] [--only PLATFORM,...]
    the same for the calls of scripts/calls.py, which were chosen by hand
python scripts/findings.py run [--jobs N] [NAME...]
    runs every script again, or those named, and writes findings/README.md
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from calls import CALLS

import mindgap
from mindgap.bench.rediscovery import known_defects, signs_of
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
RUN_S = 900.0
CALL_S = 900.0
"""For the explanation of one call."""


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
                signs = dict.fromkeys(signs_of(finding), 0.0)
                shown = {d.case for d in defects if d.is_shown_by(signs) is not None}
                cases = sorted({*_cases(found, finding.kind), *shown})
                kept = _keep(finding_folder(directory, finding.id), FOLDER / name, finding.kind, found, cases)
                print(f"{finding.id} {name}: {'kept' if kept else 'no short script shows it'}", flush=True)


def calls(minutes: float, only: set[str]) -> None:
    """Explain the calls that were chosen by hand, each on its platform."""
    deadline = time.monotonic() + 60 * minutes
    with mindgap.Session() as session:
        for platform, chosen in CALLS.items():
            for title, (called, *inputs) in chosen.items():
                if (only and platform not in only) or time.monotonic() > deadline:
                    continue
                if any(json.loads(path.read_text()).get("call") == [platform, title] for path in _all_facts()):
                    continue
                print(f"{platform}, {title}: {_called(session, platform, title, called, inputs)}", flush=True)


def _called(session: mindgap.Session, platform: str, title: str, called: Any, inputs: list[Any]) -> str:
    class Call(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return called(*args)

    model, given = (called, None) if isinstance(called, str) else (Call(), tuple(inputs))
    with tempfile.TemporaryDirectory(prefix="mindgap-call-") as place:
        folder = Path(place)
        try:
            found = session.explain(model, platform, folder, given, budget=Budget(seconds=CALL_S))
        except MindgapError as error:
            return f"{str(error).splitlines()[0]}: {error.cause}"
        kind = found.proof.verdict.kind.value if found.proof.verdict.kind is not None else "crash"
        name = _folder_name(platform, found.operator, kind)
        number = next(n for n in range(1, 100) if not (FOLDER / _numbered(name, n)).exists())
        kept = _keep(folder, FOLDER / _numbered(name, number), kind, found, _cases(found, kind), [platform, title])
        return f"{'kept' if kept else 'no short script shows it'}: {found.proof.verdict.sentence}"


def _numbered(name: str, number: int) -> str:
    """Two causes may name one operator and one kind."""
    return name if number == 1 else f"{name}-{number}"


def _cases(found: Explanation, kind: str) -> list[str]:
    """Cases whose text names the operator, and that differ on this platform in the same way."""
    word = re.compile(rf"\b{base_name(found.operator).removeprefix('aten.')}_?\b")
    observed = [json.loads(line) for line in (ROOT / "cases" / "observed.jsonl").read_text().splitlines()]
    same = {row["model"] for row in observed if row["platform"] == found.platform and row["kind"] == kind}
    return sorted(name for name in same if word.search((ROOT / "cases" / f"{name}.py").read_text()))


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
    return _folder_name(finding.witness.platform, finding.operator, finding.kind)


def _folder_name(platform: str, operators: str, kind: str) -> str:
    operator = "+".join(base_name(op).removeprefix("aten.") for op in operators.split(" + "))
    return re.sub(r"[^\w.+-]+", "-", f"{platform}-{operator}-{kind}")


def _known_cause(finding: Finding, found: Explanation) -> Path | None:
    """The folder of the same policy: one that holds for all operators of a platform is one cause."""
    if found.cause.kind is not CauseKind.PRECISION:
        return None
    mine = (found.platform, finding.kind, found.cause.kind.value, found.cause.remark)
    for path in _all_facts():
        facts = json.loads(path.read_text())
        if (facts["platform"], facts["kind"], facts["cause"], facts["remark"]) == mine:
            return path.parent
    return None


def _today() -> str:
    return str(datetime.datetime.now(datetime.timezone.utc).date())


def _all_facts() -> list[Path]:
    return sorted(FOLDER.glob(f"*/{FACTS}"))


def _add_operator(folder: Path, operator: str) -> None:
    facts = json.loads((folder / FACTS).read_text())
    facts["also"] = sorted({*facts["also"], operator} - {facts["operator"]})
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def _keep(
    source: Path, target: Path, kind: str, found: Explanation, cases: list[str], call: list[str] | None = None
) -> bool:
    """Whether a short script showed the difference in a fresh process, so that there is something to file."""
    if not (source / SHORT).exists() or not found.proof.survived:
        return False
    target.mkdir(parents=True)
    shutil.copy(source / SHORT, target / "repro.py")
    shutil.copy(source / ISSUE, target / ISSUE)
    script = (target / "repro.py").read_text()
    facts = {
        "platform": found.platform,
        "version": found.version,
        "operator": found.operator,
        "also": [],
        "kind": kind,
        "cause": found.cause.kind.value,
        "remark": found.cause.remark,
        "sentence": found.proof.verdict.sentence,
        "severity": severity(kind, found, script),
        "ordinary": _has_ordinary_inputs(script),
        "cures": list(found.layer.cures[:2]) if found.layer is not None else [],
        "versions": dict(found.versions),
        "found": _today(),
        "cases": cases,
    } | ({"call": call} if call else {})
    (target / FACTS).write_text(json.dumps(facts, indent=1) + "\n")
    return True


def severity(kind: str, found: Explanation, script: str) -> str:
    """How bad it is for somebody with an ordinary model."""
    if kind == "validation":
        return "validation"
    if kind == "crash" or not found.proof.verdict.kind:
        return "crash"
    if not _has_ordinary_inputs(script):
        return "exceptional values"
    if kind != "integer" and found.cause.kind in (CauseKind.SCHEDULING, CauseKind.PRECISION):
        return "accuracy loss"
    return "wrong numbers on ordinary values"


def _has_ordinary_inputs(script: str) -> bool:
    return _is_ordinary(next((line for line in script.splitlines() if line.startswith("model, inputs")), ""))


def _is_ordinary(text: str) -> bool:
    """Sizes are no values."""
    text = re.sub(r"(?<=full)\(\([\d, ]*\)", "(", text)
    if re.search(r"\b(nan|inf)\b|-0\.0\b(?!\d)", text):
        return False
    numbers = [abs(float(number)) for number in re.findall(r"\d+\.?\d*(?:e[+-]?\d+)?", text)]
    return all(number == 0 or ORDINARY[0] <= number <= ORDINARY[1] for number in numbers)


def run(jobs: int = 2, names: Sequence[str] = ()) -> int:
    """Every script once more in a fresh process, or those named; the index says which held when they ran last."""
    folders = [path.parent for path in _all_facts()]
    known = {folder: json.loads((folder / FACTS).read_text()) for folder in folders}
    again = [folder for folder in folders if not names or folder.name in names or "holds" not in known[folder]]
    with ThreadPoolExecutor(jobs) as workers:
        for folder, holds in zip(again, workers.map(_holds, again, [known[folder] for folder in again])):
            print(f"{_WORDS[holds]}  {folder.name}", flush=True)
            known[folder] |= {"holds": holds, "ran": _today()}
            (folder / FACTS).write_text(json.dumps(known[folder], indent=1) + "\n")
    rows = [(folder.name, facts, facts["holds"]) for folder, facts in known.items()]
    rows.sort(key=lambda row: (SEVERITIES.index(row[1]["severity"]), row[1]["platform"], row[0]))
    (FOLDER / "README.md").write_text(_index(rows))
    count = Counter(holds for *_, holds in rows)
    print(f"{count[True]} of {len(rows)} still hold; {count[None]} were not run")
    return int(any(known[folder]["holds"] is False for folder in again))


_WORDS = {True: "holds", False: "gone", None: "not run: its runtime is not installed"}


def _place(platform: str) -> tuple[str | None, dict[str, str]]:
    """The interpreter that has the runtime, None where it is not installed, and the variables that it needs."""
    try:
        spec = resolve(platform)
    except MindgapError:
        return sys.executable, {}  # a platform of the past, or of somebody else
    return (spec.python, dict(spec.env)) if spec.environment else (sys.executable, {})


def _holds(folder: Path, facts: dict[str, Any]) -> bool | None:
    """A comparison ends with an AssertionError of its own; a crash with a signal or the runtime's error.

    None where the runtime is not here. The script runs elsewhere: some write a model file next to them.
    """
    python, variables = _place(facts["platform"])
    if python is None:
        return None
    script = (folder / "repro.py").resolve()
    with tempfile.TemporaryDirectory(prefix="mindgap-finding-") as elsewhere:
        try:
            done = subprocess.run(
                [python, script], cwd=elsewhere, env={**os.environ, **variables}, capture_output=True, text=True,
                timeout=RUN_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
    compares = any(word in script.read_text() for word in ("assert_close", "AssertionError"))
    if facts["severity"] == "crash" or not compares:  # where the platform does not run it, its own error is the proof
        return done.returncode != 0 and "ModuleNotFoundError" not in done.stderr
    return done.returncode != 0 and "AssertionError" in done.stderr.strip().rpartition("Traceback")[2]


INDEX = """# Findings worth filing

One folder per platform, operator and kind of difference; a policy that holds for many operators has one. In it: a
script of at most 15 lines that needs only torch and the runtime, the text of an issue, and the facts. Each was found by
a campaign that knows nothing of `cases/`, or tried by hand (`scripts/calls.py`), explained, and run again alone in a
fresh process of the runtime's own environment.

`make findings` runs every script again and writes this page. Last run {date}: {versions}.

**{holding} of {all} hold**: {counts}.

With finite numbers that anybody meets (0, or {low:g} to {high:g} in size), lost checks apart,
**{ordinary} hold**: {by_platform}. {new} of them are of no operator that a case in `cases/` shows on that platform.

| severity | platform | operator | what happens | cause | numbers | holds | also in cases/ |
|---|---|---|---|---|---|---|---|
"""


def _index(rows: list[tuple[str, dict[str, Any], bool | None]]) -> str:
    versions: dict[str, str] = {}
    for _, facts, _ in rows:
        versions |= {name: text for name, text in facts["versions"].items() if name != "system"}
        versions.setdefault(facts["platform"], facts["version"])
    counts = {word: sum(facts["severity"] == word for _, facts, _ in rows) for word in SEVERITIES}
    ran = [facts["ran"] for _, facts, _ in rows]
    usual = [facts for _, facts, holds in rows if holds and _is_ordinary_finding(facts)]
    ordinary = Counter(facts["platform"] for facts in usual)
    text = INDEX.format(
        low=ORDINARY[0],
        high=ORDINARY[1],
        ordinary=len(usual),
        new=sum(not facts["cases"] for facts in usual),
        by_platform=", ".join(f"{count} on {name}" for name, count in ordinary.most_common()) or "none",
        date=" to ".join(sorted({min(ran), max(ran)})),
        versions=", ".join(f"{name} {number}" for name, number in sorted(versions.items())),
        holding=sum(holds is True for *_, holds in rows),
        all=len(rows),
        counts=", ".join(f"{count} {word}" for word, count in counts.items() if count),
    )
    return text + "".join(_row(*row) for row in rows)


def _is_ordinary_finding(facts: dict[str, Any]) -> bool:
    return bool(facts["ordinary"]) and facts["kind"] != "validation"


_HOLDS = {True: "yes", False: "**no**", None: "not run"}


def _row(name: str, facts: dict[str, Any], holds: bool | None) -> str:
    told = facts["remark"] or facts["sentence"]
    told = (told if len(told) <= 110 else f"{told[:106]} ...").replace("|", "\\|").replace("\n", " ")
    more = f" and {len(facts['also'])} more" if facts["also"] else ""
    operator = f"[{facts['operator']}]({name}/issue.md){more}"
    ordinary = "ordinary" if _is_ordinary_finding(facts) else ""
    cells = (facts["severity"], facts["platform"], operator, told, facts["cause"], ordinary, _HOLDS[holds])
    return f"| {' | '.join(cells)} | {', '.join(facts['cases'])} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("campaigns", nargs="+", type=Path)
    collecting.add_argument("--minutes", type=float, default=60.0)
    calling = commands.add_parser("calls")
    calling.add_argument("--minutes", type=float, default=60.0)
    calling.add_argument("--only", default="")
    running = commands.add_parser("run")
    running.add_argument("names", nargs="*")
    running.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.command == "run":
        return run(given.jobs, given.names)
    if given.command == "calls":
        calls(given.minutes, set(filter(None, given.only.split(","))))
        return 0
    collect(given.campaigns, given.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
