"""JSON documents of checks, operator sweeps and audits, read back: they may be somebody else's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from mindgap.errors import CorruptFile, UsageError
from mindgap.operators.document import SCHEMA as OPERATORS_SCHEMA
from mindgap.operators.observed import Grade
from mindgap.reading.files import read_file, refusing
from mindgap.records.audit import AuditResult, Difference, Excused, Found, Gate
from mindgap.report.audit import AUDIT_SCHEMA
from mindgap.report.summary import CHECK_SCHEMA

NOT_EXERCISED: Final = Grade.NOT_EXERCISED.value
ANY_DTYPE: Final = "any"

DOCUMENT_BYTES: Final = 64 << 20
"""A sweep over 2,000 operators, 6 dtypes and 8 platforms has 15 MB."""


@dataclass(frozen=True, slots=True)
class ElementRow:
    """One of the worst elements of a divergence."""

    place: str
    candidate: str
    eager: str
    float64: str = ""
    error_over_bound: float | str | None = None


@dataclass(frozen=True, slots=True)
class PlatformRow:
    """One of `platforms` of a check."""

    outcome: str
    stage: str
    verdict: str
    message: str = ""
    exception: str = ""
    kind: str | None = None
    blame: str | None = None
    error_over_bound: float | str | None = None
    worst: str | None = None
    sentence: str = ""
    rule: str | None = None
    ran: str | None = None
    note: str = ""
    known: str = ""
    seconds: float = 0.0
    version: str = ""
    device: str = ""
    log_tail: str = ""
    elements: tuple[ElementRow, ...] = ()

    @property
    def error(self) -> float | None:
        return number(self.error_over_bound)


@dataclass(frozen=True, slots=True)
class EagerRow:
    """The baseline of a check."""

    outcome: str
    stage: str
    message: str = ""
    where: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One model in one dtype."""

    model: str
    dtype: str
    seed: int
    eager: EagerRow
    platforms: Mapping[str, PlatformRow]
    parameters: int = 0
    nodes: int | None = None
    reference: str = ""
    summary: str = ""
    export_failure: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def subject(self) -> str:
        return f"{self.model} {self.dtype}"


@dataclass(frozen=True, slots=True)
class CheckDocument:
    """A check, or several of one command."""

    created: str
    versions: Mapping[str, str]
    runs: tuple[CheckRun, ...]


@dataclass(frozen=True, slots=True)
class OperatorCell:
    """One operator in one dtype on one platform: what its package declares, and what was seen here."""

    operator: str
    dtype: str
    platform: str
    declared: str | None = None
    """`yes`, `no`, `composite`, ...: what the package registers; None where nothing is known of it."""
    observed: str | None = None
    """The grade of its worst invocation (`agrees bitwise`, `wrong`, `unsupported`, ...) or None: not exercised."""
    said: str = ""
    """One sentence or message about what was observed."""
    invocations: Mapping[str, int] = field(default_factory=dict)
    """By grade: how often it was called so."""


@dataclass(frozen=True, slots=True)
class OperatorsDocument:
    """A sweep over operators."""

    created: str
    versions: Mapping[str, str]
    platforms: tuple[str, ...]
    cells: tuple[OperatorCell, ...]


@dataclass(frozen=True, slots=True)
class _Declared:
    platform: str
    operators: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _ObservedCell:
    platform: str
    operator: str
    dtype: str
    grade: Grade
    message: str = ""
    invocations: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Observed:
    cells: tuple[_ObservedCell, ...]


@dataclass(frozen=True, slots=True)
class _Sweep:
    """What is read of the JSON of `mindgap ops`."""

    made: str
    versions: Mapping[str, str]
    declared: tuple[_Declared, ...] = ()
    observed: _Observed | None = None


@dataclass(frozen=True, slots=True)
class AuditDocument:
    """An audit of one model."""

    created: str
    result: AuditResult


@dataclass(frozen=True, slots=True)
class _Audit:
    """What is read of the JSON of `mindgap audit`."""

    created: str
    versions: Mapping[str, str]
    model: str
    seed: int
    nodes: int
    gates: tuple[Gate, ...]
    parameters: int = 0
    inputs: Mapping[str, str] = field(default_factory=dict)
    candidates: int = 0
    stimuli: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    excused: tuple[Excused, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    difference: Difference | None = None
    seconds: float = 0.0


Document = CheckDocument | OperatorsDocument | AuditDocument

_NUMBERS: Final = frozenset({"rest", "forced", "before", "after", "over_inputs", "over_noise", "gate", "eager", "value",
                             "far"})  # fmt: skip
"""Fields of an audit that hold numbers, also such that JSON has no word for."""


def read_document(path: Path) -> Document:
    """What a JSON file holds; raises CorruptFile where that is no document of ours."""
    content = read_file(path, DOCUMENT_BYTES)
    with refusing(f"{path.name} is not a document of mindgap", path):
        found = json.loads(content, parse_constant=lambda word: str(float(word)))  # NaN and Infinity, as we write them
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema == CHECK_SCHEMA:
            return as_document(found)
        if schema == OPERATORS_SCHEMA:
            return as_operators(found)
        if schema == AUDIT_SCHEMA:
            return as_audit(found)
        raise CorruptFile(
            f"{path.name} is neither a check, an operator sweep nor an audit",
            where=str(path),
            cause=f"its schema is {str(schema)[:60]!r}",
            hint="mindgap check MODEL --json FILE writes one",
        )


def as_document(found: Mapping[str, Any]) -> CheckDocument:
    """What `check_document` made."""
    runs = found.get("runs", [found])
    return CheckDocument(
        msgspec.convert(found["created"], str),
        msgspec.convert(found["versions"], dict[str, str]),
        tuple(msgspec.convert(run, CheckRun) for run in runs),
    )


def as_operators(found: Mapping[str, Any]) -> OperatorsDocument:
    """What `mindgap ops` found: every operator and dtype of the sweep on every platform, declared next to observed.

    Where nothing ran, what is declared is all there is, and holds for no dtype in particular.
    """
    sweep = msgspec.convert(found, _Sweep)
    declared = {item.platform: item.operators for item in sweep.declared}
    ran = sweep.observed.cells if sweep.observed is not None else ()
    seen = {(cell.operator, cell.dtype, cell.platform): cell for cell in ran if cell.grade is not Grade.NOT_EXERCISED}
    platforms = tuple(dict.fromkeys([*(cell.platform for cell in ran), *declared]))
    asked = dict.fromkeys((cell.operator, cell.dtype) for cell in ran)
    if sweep.observed is None:
        asked = dict.fromkeys((operator, ANY_DTYPE) for item in declared.values() for operator in item)
    cells = []
    for operator, dtype in sorted(asked):
        for platform in platforms:
            cell = seen.get((operator, dtype, platform))
            told = declared.get(platform, {}).get(operator)
            if cell is None:
                cells.append(OperatorCell(operator, dtype, platform, told))
            else:
                seen_as = (told, cell.grade.value, cell.message, cell.invocations)
                cells.append(OperatorCell(operator, dtype, platform, *seen_as))
    return OperatorsDocument(sweep.made, sweep.versions, platforms, tuple(cells))


def as_audit(found: Mapping[str, Any]) -> AuditDocument:
    """What `audit_document` made."""
    read = msgspec.convert(_with_numbers(found), _Audit)
    inside = Found(read.gates, read.excused, read.nodes, read.candidates, read.stimuli, read.refused,
                   read.not_looked_at)  # fmt: skip
    result = AuditResult(read.model, read.seed, inside, read.parameters, read.inputs, read.difference, read.versions,
                         read.seconds)  # fmt: skip
    return AuditDocument(read.created, result)


def _with_numbers(value: Any, numeric: bool = False) -> Any:
    """The same with infinity and NaN as numbers again, where numbers belong."""
    if isinstance(value, Mapping):
        return {key: _with_numbers(item, key in _NUMBERS) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item, numeric) for item in value]
    return float(value) if numeric and value in ("inf", "-inf", "nan") else value


def read_checks(path: Path) -> list[CheckDocument]:
    """The checks in a file, or in all JSON files of a directory; what is something else there is left out."""
    documents = []
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            found = read_document(file)
        except CorruptFile:
            if not path.is_dir():
                raise
        else:
            documents += [found] if isinstance(found, CheckDocument) else []
    if not documents:
        raise UsageError(
            f"there is nothing to report in {path}",
            cause="it holds neither a campaign nor the JSON of a check or an operator sweep",
            hint="mindgap hunt -o DIR, or mindgap check MODEL --json FILE",
        )
    return documents


def number(value: float | str | None) -> float | None:
    """A number that JSON could not hold was written as text."""
    return float(value) if value in ("inf", "-inf", "nan") or isinstance(value, float | int) else None
