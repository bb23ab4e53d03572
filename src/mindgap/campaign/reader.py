"""The read side of a campaign: pure functions from a ledger, also one that is being written, to frozen records."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from mindgap.campaign.known import Known
from mindgap.campaign.ledger import FILE, WEIGHTS, check_version
from mindgap.campaign.messages import message_class
from mindgap.campaign.plan import BASELINE, Plan, eager_of
from mindgap.campaign.triage import Explained, Place, group
from mindgap.errors import UsageError
from mindgap.execution.parcel import Constants
from mindgap.program.case import Case
from mindgap.program.codec import decode
from mindgap.program.examples import of_program
from mindgap.records.explanation import Explanation
from mindgap.records.finding import Evidence, Finding
from mindgap.records.verdict import Conclusion, Kind

FLAGGED: Final = (Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.FAILED)


@dataclass(frozen=True, slots=True)
class PlatformCounts:
    """One platform of a campaign, in one version."""

    name: str
    version: str
    device: str
    due: int
    """Variants of its sample that are not left to another version."""
    statuses: Mapping[str, int]
    conclusions: Mapping[str, int]
    seconds: float
    """In its own stages."""
    against_eager: Mapping[str, int] = field(default_factory=dict)
    """For torch.compile: conclusions about it next to eager of the same device."""

    @property
    def done(self) -> int:
        return sum(self.statuses.values())

    @property
    def compiles(self) -> bool:
        """Whether it is torch.compile: compared with eager of the same device."""
        return eager_of(self.name) is not None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command on a campaign."""

    started: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Campaign:
    """Everything that a report shows."""

    directory: str
    plan: Plan
    runs: tuple[Run, ...]
    variants: int
    bases: int
    intents: Mapping[str, int]
    platforms: tuple[PlatformCounts, ...]
    """A platform that changed its version between two runs is here once for each."""
    findings: tuple[Finding, ...]
    hazards: Mapping[str, int] = field(default_factory=dict)
    """By rule of unspecified behaviour: verdicts that it explains."""
    unjudged: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    ledger_bytes: int = 0

    @property
    def new(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.known)

    @property
    def versions(self) -> Mapping[str, str]:
        """Of the last run."""
        return self.runs[-1].versions if self.runs else {}

    @property
    def changed_versions(self) -> tuple[str, ...]:
        """Platforms that ran in more than one version, which are kept apart."""
        counts = Counter(item.name for item in self.platforms)
        return tuple(name for name, count in counts.items() if count > 1)

    def __repr__(self) -> str:
        return f"<Campaign {self.directory}: {self.variants} variants, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        return str(import_module("mindgap.report.html").campaign_html(self))


@dataclass(frozen=True, slots=True)
class FiledCase:
    """The smallest program of a finding, its weights and inputs made again."""

    program: int
    platform: str
    version: str
    """Of the platform at that time."""
    case: Case


def read(directory: Path | str, known: Sequence[Known] = ()) -> Campaign:
    """A campaign as it is now."""
    with open_ledger(Path(directory)) as data:
        plan = plan_of(data, Path(directory))
        fingerprints = [row[0] for row in data.execute("SELECT fingerprint FROM programs")]
        hazard, unjudged = Conclusion.HAZARD.value, Conclusion.UNJUDGED.value
        pages, size = (data.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return Campaign(
            directory=str(directory),
            plan=plan,
            runs=tuple(Run(at, json.loads(told)) for at, told in data.execute("SELECT started, versions FROM runs")),
            variants=len(fingerprints),
            bases=data.execute("SELECT COUNT(DISTINCT base) FROM programs").fetchone()[0],
            intents=_counts(data, "SELECT intent, COUNT(*) FROM programs GROUP BY intent"),
            platforms=_platforms(data, plan, fingerprints),
            findings=tuple(findings_of(data, known)),
            hazards=_counts(data, f"SELECT rule, COUNT(*) FROM verdicts WHERE conclusion = '{hazard}' GROUP BY rule "
                            "ORDER BY 2 DESC"),
            unjudged=_reasons(data.execute(f"SELECT sentence FROM verdicts WHERE conclusion = '{unjudged}'")),
            ledger_bytes=int(pages) * int(size),
        )  # fmt: skip


@contextmanager
def open_ledger(directory: Path) -> Iterator[sqlite3.Connection]:
    """A ledger to read from; raises UsageError where there is none, or none that this mindgap knows."""
    path = directory / FILE
    if not path.is_file():
        raise UsageError(f"there is no campaign in {directory}", hint="mindgap hunt -o DIR starts one")
    try:
        data = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        row = data.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        schema = int(row[0]) if row else 0
    except (sqlite3.Error, ValueError) as error:
        raise UsageError(f"{path} is not a ledger of mindgap", cause=str(error)) from error
    try:
        check_version(schema, directory)
        if schema < 2:
            raise UsageError(
                f"the campaign in {directory} was written by an older mindgap",
                hint=f"mindgap hunt --resume {directory} brings its ledger up to date",
            )
        yield data
    finally:
        data.close()


def findings_of(data: sqlite3.Connection, known: Sequence[Known] = ()) -> list[Finding]:
    """Everything that somebody should look at, grouped by root cause."""
    ids = dict(data.execute("SELECT signature, id FROM finding_ids").fetchall())
    return group(evidence_of(data), explanations_of(data), ids, known)


_EVIDENCE: Final = f"""
SELECT v.program, p.name, p.nodes, b.fingerprint, f.name, v.conclusion, o.status, o.stage, o.message, o.class,
       v.kind, v.blame, v.fault, v.error_over_bound, v.sentence, '', x.operator
FROM verdicts v JOIN programs p ON p.id = v.program JOIN bases b ON b.id = p.base
JOIN platforms f ON f.id = v.platform JOIN outcomes o ON o.program = v.program AND o.platform = v.platform
LEFT JOIN explanations x ON x.program = v.program AND x.platform = v.platform
WHERE v.conclusion IN ({", ".join(f"'{conclusion.value}'" for conclusion in FLAGGED)})
AND NOT EXISTS ( -- both say no, in the same words
  SELECT 1 FROM outcomes e JOIN platforms g ON g.id = e.platform AND g.name = '{BASELINE}'
  WHERE e.program = v.program AND e.status <> 'ok' AND e.status = o.status AND e.class = o.class)
ORDER BY v.program, f.name
"""

_RELATIONS: Final = f"""
SELECT r.program, p.name, p.nodes, b.fingerprint, f.name, r.conclusion, 'ok', 'run', '', '',
       r.kind, 'candidate', NULL, r.error_over_bound, r.sentence, r.oracle, NULL
FROM relations r JOIN programs p ON p.id = r.program JOIN bases b ON b.id = p.base
JOIN platforms f ON f.id = r.platform
WHERE r.conclusion = '{Conclusion.DIVERGES.value}' ORDER BY r.program, f.name
"""


def evidence_of(data: sqlite3.Connection) -> list[Evidence]:
    """Every verdict that is not an agreement, a rounding difference or a hazard."""
    names = [item.name for item in fields(Evidence)]
    rows = [dict(zip(names, row)) for query in (_EVIDENCE, _RELATIONS) for row in data.execute(query)]
    found = [Evidence(**{**row, "conclusion": Conclusion(row["conclusion"])}) for row in rows]
    return _with_likely_operators(data, found)


def explanations_of(data: sqlite3.Connection) -> dict[Place, Explained]:
    """Every explanation, by program and platform."""
    query = (
        "SELECT x.program, f.name, x.explanation, x.folder FROM explanations x JOIN platforms f ON f.id = x.platform "
        "WHERE x.explanation IS NOT NULL"
    )
    decoder = msgspec.msgpack.Decoder(Explanation)
    return {(program, name): Explained(decoder.decode(content), folder or "")
            for program, name, content, folder in data.execute(query)}  # fmt: skip


def traceable(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Divergences that tracing can take apart: what is refused as a whole has its message."""
    return [
        item
        for item in evidence
        if item.conclusion is Conclusion.DIVERGES and item.kind != Kind.VALIDATION.value and not item.oracle
    ]


def _with_likely_operators(data: sqlite3.Connection, evidence: Sequence[Evidence]) -> list[Evidence]:
    """Divergences that were not traced join the commonest operator of their kind, if their program holds it."""
    common: dict[tuple[str, str | None, str | None], Counter[str]] = {}
    for item in evidence:
        if item.operator and item.conclusion is Conclusion.DIVERGES:
            common.setdefault((item.platform, item.kind, item.blame), Counter())[item.operator] += 1
    open_ = {id(item) for item in traceable(evidence) if item.operator is None}
    found = []
    for item in evidence:
        counts = common.get((item.platform, item.kind, item.blame))
        if counts and id(item) in open_:
            content = read_program(data, item.program)
            held = {node.op for node in decode(content).nodes} if content else set()
            ranked = sorted(counts, key=lambda name: (-counts[name], name))
            item = replace(item, operator=next((name for name in ranked if set(name.split(" + ")) <= held), None))
        found.append(item)
    return found


def read_program(data: sqlite3.Connection, number: int) -> bytes | None:
    """A program that was kept, encoded."""
    row = data.execute("SELECT program FROM programs WHERE id = ?", (number,)).fetchone()
    return zlib.decompress(row[0]) if row and row[0] is not None else None


def read_case(data: sqlite3.Connection, directory: Path, number: int) -> Case | None:
    """A program that was kept, with its weights and inputs made again."""
    content = read_program(data, number)
    if content is None:
        return None
    program = decode(content, where=f"{directory}: program {number}")
    return Case.of(program, Constants().of(program, str(directory / WEIGHTS)), of_program(program, 0))


def finding_case(directory: Path, identity: str) -> FiledCase:
    """The smallest program of a finding."""
    with open_ledger(directory) as data:
        found = next((item for item in findings_of(data) if item.id == identity), None)
        if found is None:
            raise UsageError(f"the campaign in {directory} has no finding {identity}", hint="summary.md lists them")
        witness = found.witness
        case = read_case(data, directory, witness.program)
        if case is None:
            raise UsageError(f"the program of {identity} was not kept", where=str(directory))
        query = (
            "SELECT f.version FROM verdicts v JOIN platforms f ON f.id = v.platform "
            "WHERE v.program = ? AND f.name = ? ORDER BY f.id DESC"
        )
        row = data.execute(query, (witness.program, witness.platform)).fetchone()
    return FiledCase(witness.program, witness.platform, row[0] if row else "", case)


def finding_ids(directory: Path) -> list[str]:
    """The findings of a campaign that have an id, those to look at first first."""
    with open_ledger(directory) as data:
        return [finding.id for finding in findings_of(data) if finding.id]


def plan_of(data: sqlite3.Connection, directory: Path) -> Plan:
    row = data.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
    if row is None:
        raise UsageError(f"the campaign in {directory} was never started", hint="mindgap hunt -o DIR")
    return Plan.from_text(row[0])


def _platforms(data: sqlite3.Connection, plan: Plan, fingerprints: list[str]) -> tuple[PlatformCounts, ...]:
    rows = data.execute("SELECT id, name, version, device FROM platforms ORDER BY id").fetchall()
    statuses = _by_platform(data, "SELECT platform, status, COUNT(*) FROM outcomes GROUP BY 1, 2")
    verdicts = _by_platform(data, "SELECT platform, conclusion, COUNT(*) FROM verdicts GROUP BY 1, 2")
    compiled = _by_platform(data, "SELECT platform, conclusion, COUNT(*) FROM compiled GROUP BY 1, 2")
    seconds = dict(data.execute("SELECT platform, SUM(seconds) FROM outcomes GROUP BY 1"))
    last = {name: number for number, name, _, _ in rows}
    found = []
    for number, name, version, device in rows:
        done = sum(statuses.get(number, {}).values())
        elsewhere = sum(sum(statuses.get(n, {}).values()) for n, other, _, _ in rows if other == name and n != number)
        due = sum(plan.is_due(name, item) for item in fingerprints) - elsewhere if last[name] == number else done
        eager = eager_of(name)
        against = {} if eager is None else (verdicts if eager == BASELINE else compiled).get(number, {})
        found.append(PlatformCounts(name, version, device, max(due, done), statuses.get(number, {}),
                                    verdicts.get(number, {}), float(seconds.get(number) or 0.0), against))  # fmt: skip
    return tuple(item for item in found if item.done or item.due)


def _by_platform(data: sqlite3.Connection, query: str) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for platform, word, count in data.execute(query):
        found.setdefault(platform, {})[word] = count
    return found


def _reasons(rows: Iterator[tuple[str | None]]) -> dict[str, int]:
    """Why verdicts could not be made; the output and the numbers of a sentence do not make another reason."""
    found: Counter[str] = Counter()
    for (sentence,) in rows:
        _, _, told = str(sentence or "").rpartition("not judged: ")
        found[message_class(told.partition(": ")[0])] += 1
    return dict(found.most_common())


def _counts(data: sqlite3.Connection, query: str) -> dict[str, int]:
    return {str(key): int(count) for key, count in data.execute(query)}
