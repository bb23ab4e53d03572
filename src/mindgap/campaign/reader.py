"""The read side of a campaign: pure functions from a ledger, also one that is being written, to frozen records."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from mindgap.campaign.directory import ledger_of
from mindgap.campaign.known import Known
from mindgap.campaign.ledger import (
    FRAGMENT,
    SCHEMA_VERSION,
    VARIANT,
    WEIGHTS,
    check_content,
    check_objects,
    check_version,
    limit_reading,
    read_ids,
    read_program,
    secure,
)
from mindgap.campaign.messages import message_class
from mindgap.campaign.plan import BASELINE, Plan, eager_of
from mindgap.campaign.triage import Explained, group
from mindgap.errors import CorruptFile, UsageError
from mindgap.execution.parcel import Constants, Parcel, make_parcel
from mindgap.execution.tasks import Worker, task
from mindgap.program.case import Case
from mindgap.program.codec import decode
from mindgap.program.examples import of_program
from mindgap.reading.files import refusing
from mindgap.reading.limits import EXPLANATION_BYTES
from mindgap.records.explanation import Explanation
from mindgap.records.finding import Evidence, Finding
from mindgap.records.verdict import Conclusion, Kind

FOLDER: Final = r"(\w[\w.-]*(/\w[\w.@+-]*)?)?"
"""Where a script lies inside a campaign's directory: `F-03`, `explained/12-openvino`."""
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
class Yield:
    """What programs of one kind, with one mutation, brought on one platform."""

    platform: str
    mutation: str
    """Empty for all of them together."""
    is_fragment: bool
    """Whether the programs are fragments; otherwise they are whole variants."""
    programs: int
    divergences: int
    operators: int
    """Different operators that were found at fault."""
    seconds: float
    """Of the platform's own time."""

    @property
    def per_hour(self) -> float:
        """Operators at fault per hour of the platform's time."""
        return 3600 * self.operators / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class AtFault:
    """How often an operator was found at fault on a platform, with one kind of difference."""

    platform: str
    operator: str
    kind: str
    fragments: int
    variants: int
    """Whole ones."""


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
    fragments: int = 0
    """Fragments; `variants`, `intents` and `platforms` are about whole variants, as a study's figures are."""
    fragment_platforms: tuple[PlatformCounts, ...] = ()
    """What platforms did with fragments."""
    crowd_only: Mapping[str, int] = field(default_factory=dict)
    """By platform: fragments that diverged in a crowd and not alone."""
    yields: tuple[Yield, ...] = ()
    """What each mutation brought on each platform, the best first; fragments and whole variants apart."""
    platform_yields: tuple[Yield, ...] = ()
    """What each platform brought, whatever the mutation."""
    at_fault: tuple[AtFault, ...] = ()
    """What each operator brought on each platform, the most frequent first."""

    @property
    def new(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.known)

    @property
    def whole(self) -> str:
        """What its whole programs are, one of them: variants of real models, or the models themselves."""
        return "unmodified model" if self.plan.unmodified else "whole variant"

    @property
    def conclusions(self) -> frozenset[Conclusion]:
        """Verdicts that occur in it and are not known already, agreement and rounding aside."""
        open_ = ((Conclusion.HAZARD, self.hazards), (Conclusion.UNJUDGED, self.unjudged))
        found = {finding.witness.conclusion for finding in self.new}
        return frozenset(found | {conclusion for conclusion, counts in open_ if counts})

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
        programs = f"{self.variants} variants" + (f", {self.fragments} fragments" if self.fragments else "")
        return f"<Campaign {self.directory}: {programs}, {len(self.findings)} findings>"

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
        prints = {kind: [row[0] for row in data.execute("SELECT fingerprint FROM programs WHERE kind = ?", (kind,))]
                  for kind in (VARIANT, FRAGMENT)}  # fmt: skip
        hazard, unjudged = Conclusion.HAZARD.value, Conclusion.UNJUDGED.value
        pages, size = (data.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return Campaign(
            directory=str(directory),
            plan=plan,
            runs=tuple(Run(at, json.loads(told)) for at, told in data.execute("SELECT started, versions FROM runs")),
            variants=len(prints[VARIANT]),
            bases=data.execute("SELECT COUNT(DISTINCT base) FROM programs").fetchone()[0],
            intents=_counts(data, f"SELECT intent, COUNT(*) FROM programs WHERE kind = '{VARIANT}' GROUP BY intent"),
            platforms=_platforms(data, plan, VARIANT, prints[VARIANT]),
            findings=tuple(findings_of(data, known)),
            hazards=_counts(data, f"SELECT rule, COUNT(*) FROM verdicts WHERE conclusion = '{hazard}' GROUP BY rule "
                            "ORDER BY 2 DESC"),
            unjudged=_reasons(data.execute(f"SELECT sentence FROM verdicts WHERE conclusion = '{unjudged}'")),
            ledger_bytes=int(pages) * int(size),
            fragments=len(prints[FRAGMENT]),
            fragment_platforms=_platforms(data, plan, FRAGMENT, prints[FRAGMENT]),
            crowd_only=_counts(data, "SELECT f.name, COUNT(*) FROM verdicts v JOIN platforms f ON f.id = v.platform "
                               "WHERE v.crowd_only GROUP BY 1"),
            yields=_yields(data, by_mutation=True),
            platform_yields=_yields(data, by_mutation=False),
            at_fault=_at_fault(data),
        )  # fmt: skip


@contextmanager
def open_ledger(directory: Path) -> Iterator[sqlite3.Connection]:
    """A ledger to read from, which may be somebody else's; raises UsageError where there is none that can be read."""
    path = ledger_of(directory)
    with refusing(f"{path} is not a ledger of mindgap"):
        data = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    with closing(data):
        with refusing(f"{path} is not a ledger of mindgap"):
            secure(data)
            limit_reading(data)
            check_objects(data)
            row = data.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
            schema = int(row[0]) if row else 0
        check_version(schema, directory)
        if schema < SCHEMA_VERSION:
            raise UsageError(
                f"the campaign in {directory} was written by an older mindgap",
                hint=f"mindgap hunt --resume {directory} brings its ledger up to date",
            )
        with refusing(f"{path} is damaged"):
            check_content(data)
            yield data


def findings_of(data: sqlite3.Connection, known: Sequence[Known] = ()) -> list[Finding]:
    """Everything that somebody should look at, grouped by root cause."""
    return group(evidence_of(data), explanations_of(data), read_ids(data), known)


_EVIDENCE: Final = f"""
SELECT v.program, p.name, p.nodes, b.fingerprint, f.name, v.conclusion, o.status, o.stage, o.message, o.class,
       v.kind, v.blame, v.fault, v.error_over_bound, v.sentence, '', x.operator,
       p.kind = 'fragment'
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
       r.kind, 'candidate', NULL, r.error_over_bound, r.sentence, r.oracle, NULL, 0
FROM relations r JOIN programs p ON p.id = r.program JOIN bases b ON b.id = p.base
JOIN platforms f ON f.id = r.platform
WHERE r.conclusion = '{Conclusion.DIVERGES.value}' ORDER BY r.program, f.name
"""


def evidence_of(data: sqlite3.Connection) -> list[Evidence]:
    """Every verdict that is not an agreement, a rounding difference or a hazard."""
    names = [item.name for item in fields(Evidence)]
    rows = [dict(zip(names, row)) for query in (_EVIDENCE, _RELATIONS) for row in data.execute(query)]
    typed = {"conclusion": Conclusion, "is_fragment": bool}
    found = [Evidence(**{**row, **{name: make(row[name]) for name, make in typed.items()}}) for row in rows]
    return _with_likely_operators(data, found)


def explanations_of(data: sqlite3.Connection) -> dict[tuple[int, str], Explained]:
    """Every explanation, by program and platform."""
    query = (
        "SELECT x.program, f.name, x.explanation, x.folder FROM explanations x JOIN platforms f ON f.id = x.platform "
        "WHERE x.explanation IS NOT NULL"
    )
    decoder = msgspec.msgpack.Decoder(Explanation)
    found = {}
    for program, name, content, folder in data.execute(query):
        if len(content) > EXPLANATION_BYTES or not re.fullmatch(FOLDER, folder or ""):
            raise CorruptFile("the ledger is damaged", cause=f"the explanation of program {program} is not one")
        found[program, name] = Explained(decoder.decode(content), folder or "")
    return found


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


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A finding to look up, and the file that takes the tensors of its program."""

    directory: str
    identity: str
    file: str


@dataclass(frozen=True, slots=True)
class FoundCase:
    """The smallest program of a finding, checked and written down anew."""

    program: int
    platform: str
    version: str
    case: Parcel


@task
def open_finding(worker: Worker, request: OpenFinding) -> FoundCase:
    """Read the program of a finding where it may do harm to nobody: the campaign may be somebody else's."""
    found = finding_case(Path(request.directory), request.identity)
    return FoundCase(found.program, found.platform, found.version, make_parcel(found.case, Path(request.file)))


def finding_folder(directory: Path, identity: str) -> Path:
    """Where the script of a finding goes: below the campaign's directory, whatever links somebody left there."""
    folder = directory / identity
    if folder.resolve().parent != directory.resolve():
        raise UsageError(f"{folder} leads out of the campaign's directory", hint="remove the link")
    return folder


def finding_ids(directory: Path) -> list[str]:
    """The findings of a campaign that have an id, those to look at first first."""
    with open_ledger(directory) as data:
        return [finding.id for finding in findings_of(data) if finding.id]


def plan_of(data: sqlite3.Connection, directory: Path) -> Plan:
    row = data.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
    if row is None:
        raise UsageError(f"the campaign in {directory} was never started", hint="mindgap hunt -o DIR")
    return Plan.from_text(row[0])


def _at_fault(data: sqlite3.Connection) -> tuple[AtFault, ...]:
    rows = data.execute(
        "SELECT f.name, x.operator, COALESCE(v.kind, ''), SUM(p.kind = ?), SUM(p.kind = ?) FROM verdicts v "
        "JOIN programs p ON p.id = v.program JOIN platforms f ON f.id = v.platform "
        "JOIN explanations x ON x.program = v.program AND x.platform = v.platform "
        "WHERE v.conclusion = ? AND x.operator <> '' GROUP BY 1, 2, 3 ORDER BY COUNT(*) DESC, 1, 2, 3",
        (FRAGMENT, VARIANT, Conclusion.DIVERGES.value),
    )
    return tuple(AtFault(*row) for row in rows)


def _yields(data: sqlite3.Connection, by_mutation: bool) -> tuple[Yield, ...]:
    """By platform, kind of program and perhaps mutation; a program with several mutations counts for each of them."""
    rows = data.execute(
        "SELECT f.name, p.mutations, p.kind = ?, v.conclusion, x.operator, o.seconds FROM outcomes o "
        "JOIN programs p ON p.id = o.program JOIN platforms f ON f.id = o.platform "
        "JOIN verdicts v ON v.program = o.program AND v.platform = o.platform "
        "LEFT JOIN explanations x ON x.program = o.program AND x.platform = o.platform",
        (FRAGMENT,),
    )
    found: dict[tuple[str, str, bool], tuple[int, int, set[str], float]] = {}
    for platform, mutations, is_fragment, conclusion, operator, seconds in rows:
        diverged = conclusion == Conclusion.DIVERGES.value
        for mutation in dict.fromkeys(mutations.split()) if by_mutation else ("",):
            key = (platform, mutation, bool(is_fragment))
            programs, count, operators, spent = found.get(key, (0, 0, set(), 0.0))
            operators |= {operator} if diverged and operator else set()
            found[key] = (programs + 1, count + diverged, operators, spent + seconds)
    items = [Yield(*key, programs, count, len(ops), spent) for key, (programs, count, ops, spent) in found.items()]
    return tuple(sorted(items, key=_rank_of_yield))


def _rank_of_yield(item: Yield) -> tuple[int, int, str, str]:
    return (-item.operators, -item.divergences, item.platform, item.mutation)


def _platforms(data: sqlite3.Connection, plan: Plan, kind: str, fingerprints: list[str]) -> tuple[PlatformCounts, ...]:
    rows = data.execute("SELECT id, name, version, device FROM platforms ORDER BY id").fetchall()
    of = f"WHERE program IN (SELECT id FROM programs WHERE kind = '{kind}')"
    statuses = _by_platform(data, f"SELECT platform, status, COUNT(*) FROM outcomes {of} GROUP BY 1, 2")
    verdicts = _by_platform(data, f"SELECT platform, conclusion, COUNT(*) FROM verdicts {of} GROUP BY 1, 2")
    compiled = _by_platform(data, f"SELECT platform, conclusion, COUNT(*) FROM compiled {of} GROUP BY 1, 2")
    seconds = dict(data.execute(f"SELECT platform, SUM(seconds) FROM outcomes {of} GROUP BY 1"))
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
        found[message_class(told.partition(" (")[0].partition(": ")[0])] += 1
    return dict(found.most_common())


def _counts(data: sqlite3.Connection, query: str) -> dict[str, int]:
    return {str(key): int(count) for key, count in data.execute(query)}
