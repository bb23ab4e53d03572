"""What platforms did with invocations, by operator and dtype: pure functions from the ledger of a sweep."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final

from mindgap.campaign.plan import BASELINE
from mindgap.campaign.reader import open_ledger, plan_of
from mindgap.errors import UsageError
from mindgap.execution.pulse import NO_ANSWER
from mindgap.records.outcome import Stage, Status
from mindgap.records.variant import EMPTY, ROLES, SPECIAL, Sweep
from mindgap.records.verdict import Blame, Conclusion, Kind

COMPILED: Final = "compiled"
DEFAULT_MODE: Final = "default"


class Grade(str, Enum):
    """What a platform did with an operator in a dtype, the worst first."""

    CRASH = "crash"
    HANG = "hang"
    OUT_OF_MEMORY = "out of memory"
    WRONG = "wrong"
    REJECTS_VALID = "rejects valid input"
    COMPILE_ERROR = "compile error"
    NOT_CONVERTIBLE = "not convertible"
    UNSUPPORTED = "unsupported"
    UNSTABLE = "unstable"
    ACCEPTS_INVALID = "accepts invalid input"
    UNJUDGED = "not judged"
    HAZARD = "hazard"
    ROUNDING = "rounding"
    AGREES = "agrees bitwise"
    NOT_EXERCISED = "not exercised"

    @property
    def is_supported(self) -> bool:
        """Whether every valid invocation ran, with a result that nobody can call wrong."""
        return self in (Grade.HAZARD, Grade.ROUNDING, Grade.AGREES, Grade.UNJUDGED, Grade.ACCEPTS_INVALID)

    @property
    def ran(self) -> bool:
        """Whether it gave a result."""
        return self.is_supported or self in (Grade.WRONG, Grade.UNSTABLE)


ORDER: Final = {grade: place for place, grade in enumerate(Grade)}


@dataclass(frozen=True, slots=True)
class Cell:
    """One operator in one dtype on one platform."""

    grade: Grade
    """Of the worst invocation."""
    invocations: Mapping[str, int] = field(default_factory=dict)
    """How many got each grade."""
    worst: int | None = None
    """The number of the worst invocation in the ledger."""
    message: str = ""
    """What the platform, or the verdict on it, said about that one."""
    runs_elsewhere: str = ""
    """Where it ran, when the runtime says that it did not run on its own device."""
    refused_like_eager: int = 0
    """Invocations that eager refuses as well; they count for nothing."""
    only_exceptional: bool = False
    """Whether every invocation that is not right has exceptional values or no element: numbers between bounds are
    right."""
    confirmed: bool = False
    """Whether the worst one was run again, alone and in a fresh process, and gave the same."""

    @property
    def ran(self) -> bool:
        """Whether some valid invocation gave a result."""
        grades = {Grade(name) for name in self.invocations} - {Grade.ACCEPTS_INVALID}
        return any(grade.ran for grade in grades)


@dataclass(frozen=True, slots=True)
class Observed:
    """A sweep, as it is now."""

    sweep: Sweep
    platforms: tuple[str, ...]
    versions: Mapping[str, str]
    """By platform."""
    started: str
    cells: Mapping[tuple[str, str, str], Cell]
    """By platform, operator and dtype; those that were never exercised are left out. Where one argument has another
    dtype than usual, that stands behind the dtype: `float32, index int32`."""
    exercised: frozenset[tuple[str, str]]
    """Operator and dtype of which eager ran an invocation: the others cannot be asked about."""
    programs: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Of each platform's own time."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Invocations by kind."""
    modes: Mapping[str, str] = field(default_factory=dict)
    """By platform: `compiled` for torch.compile, otherwise `default`."""

    def cell(self, platform: str, op: str, dtype: str) -> Cell:
        return self.cells.get((platform, op, dtype), Cell(Grade.NOT_EXERCISED))

    def only(self, operators: Collection[str]) -> Observed:
        """What is known about some operators."""
        wanted = tuple(op for op in self.sweep.operators if op in operators)
        cells = {key: cell for key, cell in self.cells.items() if key[1] in operators}
        return replace(self, sweep=replace(self.sweep, operators=wanted), cells=cells)

    def by_role(self, platform: str) -> dict[tuple[str, str], Cell]:
        """By operator and dtypes: calls in which the argument of one role has another dtype than usual."""
        found = {(op, dtype): cell for (name, op, dtype), cell in self.cells.items() if name == platform}
        return {key: cell for key, cell in sorted(found.items()) if key[1] not in self.sweep.dtypes}

    def worst_of(self, platform: str, op: str) -> Grade:
        """Over all dtypes that eager takes."""
        found = [self.cell(platform, op, dtype).grade for dtype in self.sweep.dtypes if (op, dtype) in self.exercised]
        ran = [grade for grade in found if grade is not Grade.NOT_EXERCISED]
        return min(ran, key=ORDER.__getitem__) if ran else Grade.NOT_EXERCISED


@dataclass(frozen=True, slots=True)
class Share:
    """How much of what eager runs a platform supports, in one dtype."""

    platform: str
    dtype: str
    exercised: int
    """Operators that eager ran and that the platform was asked for."""
    running: int
    """Of those, operators of which some call gave a result there."""
    supported: int
    """Of those, operators of which every valid call gave a right one."""
    grades: Mapping[str, int]
    only_exceptional: int = 0
    """Of those that run and are not fully supported, operators whose calls on numbers between bounds are all right."""
    needed: int = 0
    """Operators, counted once for each real model that needs them."""
    needed_supported: int = 0

    @property
    def fewer_percent(self) -> float:
        """How many percent fewer operators run than on the reference, which is eager: the study's number."""
        return 100 * (1 - self.running / self.exercised) if self.exercised else 0.0

    @property
    def supported_percent(self) -> float:
        return 100 * self.supported / self.exercised if self.exercised else 0.0

    @property
    def weighted_percent(self) -> float:
        return 100 * self.needed_supported / self.needed if self.needed else 0.0


_QUERY: Final = """
SELECT p.id, p.recipe, f.name, o.status, o.stage, o.message, o.note, v.conclusion, v.kind, v.blame, v.sentence,
       o.stable IS NOT NULL, COALESCE(o.fallback, 0), e.status
FROM programs p JOIN outcomes o ON o.program = p.id JOIN platforms f ON f.id = o.platform
LEFT JOIN verdicts v ON v.program = p.id AND v.platform = o.platform
LEFT JOIN (SELECT x.program, x.status FROM outcomes x JOIN platforms g ON g.id = x.platform AND g.name = ?) e
  ON e.program = p.id
WHERE p.kind = 'fragment' ORDER BY p.id
"""


def read_sweep(directory: Path) -> Observed:
    """The sweep in a directory, also one that is being written."""
    with open_ledger(directory) as data:
        plan = plan_of(data, directory)
        if plan.sweep is None:
            raise UsageError(f"{directory} holds a campaign of `mindgap hunt`", hint="name a directory of mindgap ops")
        versions = dict(data.execute("SELECT name, version FROM platforms ORDER BY id"))
        started = data.execute("SELECT MIN(started) FROM runs").fetchone()[0] or ""
        seconds = dict(
            data.execute(
                "SELECT f.name, SUM(o.seconds) FROM outcomes o JOIN platforms f ON f.id = o.platform GROUP BY 1"
            )
        )
        return _observed(plan.sweep, plan.platforms, versions, started, seconds, data)


def _observed(
    sweep: Sweep,
    platforms: Sequence[str],
    versions: Mapping[str, str],
    started: str,
    seconds: Mapping[str, float],
    data: sqlite3.Connection,
) -> Observed:
    rows: dict[tuple[str, str, str], list[_Invocation]] = {}
    exercised: set[tuple[str, str]] = set()
    programs: dict[int, str] = {}
    for number, recipe, platform, *rest, eager in data.execute(_QUERY, (BASELINE,)):
        focus = [str(item) for item in json.loads(recipe).get("focus", [])]
        if len(focus) != 3:
            continue
        op, dtype, kind = focus
        programs[number] = kind
        if kind in ROLES:
            dtype = f"{dtype}, {kind}"
        if eager == Status.OK.value:
            exercised.add((op, dtype))
        if platform != BASELINE:
            made = _Invocation(number, eager == Status.OK.value, *rest)
            rows.setdefault((platform, op, dtype), []).append(replace(made, is_special=kind in (SPECIAL, EMPTY)))
    return Observed(
        sweep=sweep,
        platforms=tuple(name for name in platforms if name != BASELINE),
        versions=versions,
        started=started,
        cells={key: _cell(found) for key, found in rows.items()},
        exercised=frozenset(exercised),
        programs=len(programs),
        seconds={name: float(spent or 0.0) for name, spent in seconds.items()},
        kinds=Counter(programs.values()),
        modes={name: mode_of(name) for name in platforms if name != BASELINE},
    )


def mode_of(platform: str) -> str:
    """The study's two modes: whether torch.compile made what ran."""
    from mindgap.platforms.registry import eager_of, resolve

    try:
        return COMPILED if eager_of(resolve(platform)) is not None else DEFAULT_MODE
    except UsageError:  # a platform of somebody's mindgap.toml
        return COMPILED if platform.startswith("inductor") else DEFAULT_MODE


@dataclass(frozen=True, slots=True)
class _Invocation:
    """One row of the ledger."""

    number: int
    eager_ran: bool
    status: str
    stage: str
    message: str
    note: str
    conclusion: str | None
    kind: str | None
    blame: str | None
    sentence: str | None
    again: int
    """Whether it ran twice, alone."""
    fallback: float = 0.0
    """The share of its operators that ran elsewhere than the platform says."""
    is_special: bool = False
    """Whether it was made of exceptional values, or its first tensor has no element."""

    @property
    def is_late(self) -> bool:
        """Whether its time by the clock was over, which a busy machine does to anybody: that says nothing."""
        return self.status == Status.TIMEOUT.value and self.message.startswith(NO_ANSWER)


def _cell(rows: Iterable[_Invocation]) -> Cell:
    found = list(rows)
    graded = [(row, grade_of(row)) for row in found if not row.is_late]
    counted = [(row, grade) for row, grade in graded if grade is not None]
    if not counted:
        late = next((row.message for row in found if row.is_late), "")
        return Cell(Grade.NOT_EXERCISED, message=late, refused_like_eager=len(graded))
    row, grade = min(counted, key=lambda pair: (ORDER[pair[1]], not pair[0].again, pair[0].number))
    elsewhere = next((r.note for r, _ in counted if r.fallback), "")
    return Cell(
        grade,
        dict(Counter(g.value for _, g in counted)),
        row.number,
        row.sentence if row.status == Status.OK.value and row.sentence else row.message,
        elsewhere,
        len(graded) - len(counted),
        not grade.is_supported and all(r.is_special for r, g in counted if not g.is_supported),
        bool(row.again),
    )


def grade_of(row: _Invocation) -> Grade | None:
    """The grade of one invocation; None where eager refuses it and so does the platform."""
    status = Status(row.status)
    if status is Status.OK:
        return _grade_of_values(row)
    if status is Status.CRASH:
        return Grade.CRASH
    if status is Status.TIMEOUT:
        return Grade.HANG
    if not row.eager_ran:
        return None
    if status is Status.OOM:
        return Grade.OUT_OF_MEMORY
    early = Stage(row.stage) in (Stage.LOAD, Stage.EXPORT, Stage.CONVERT)
    if status is Status.UNSUPPORTED:
        return Grade.NOT_CONVERTIBLE if early else Grade.UNSUPPORTED
    if early or Stage(row.stage) is Stage.COMPILE:
        return Grade.COMPILE_ERROR
    return Grade.REJECTS_VALID


def _grade_of_values(row: _Invocation) -> Grade:
    if not row.eager_ran:
        return Grade.ACCEPTS_INVALID if row.conclusion == Conclusion.DIVERGES.value else Grade.HAZARD
    if row.conclusion == Conclusion.DIVERGES.value:
        if row.kind == Kind.VALIDATION.value:
            return Grade.ACCEPTS_INVALID
        return Grade.HAZARD if row.blame == Blame.EAGER.value else Grade.WRONG  # eager is the one that is wrong
    found = {
        Conclusion.AGREES.value: Grade.AGREES,
        Conclusion.ROUNDING.value: Grade.ROUNDING,
        Conclusion.HAZARD.value: Grade.HAZARD,
        Conclusion.UNSTABLE.value: Grade.UNSTABLE,
    }
    return found.get(row.conclusion or "", Grade.UNJUDGED)


def shares(found: Observed, weights: Mapping[str, int]) -> list[Share]:
    """Platform by platform and dtype by dtype; `weights` are the models that need each operator."""
    result = []
    for platform in found.platforms:
        for dtype in found.sweep.dtypes:
            cells = {
                op: found.cell(platform, op, dtype) for op in found.sweep.operators if (op, dtype) in found.exercised
            }
            asked = {op: cell for op, cell in cells.items() if cell.grade is not Grade.NOT_EXERCISED}
            good = [op for op, cell in asked.items() if cell.grade.is_supported]
            result.append(
                Share(
                    platform, dtype, len(asked), sum(cell.ran for cell in asked.values()), len(good),
                    dict(Counter(cell.grade.value for cell in asked.values())),
                    sum(cell.ran and cell.only_exceptional for cell in asked.values()),
                    sum(weights.get(op, 0) for op in asked), sum(weights.get(op, 0) for op in good),
                )
            )  # fmt: skip
    return result


def blocking(found: Observed, platform: str, weights: Mapping[str, int]) -> list[tuple[str, Grade, int]]:
    """Operators that do not work in some dtype, those that most real models need first."""
    worst = {op: found.worst_of(platform, op) for op in found.sweep.operators}
    bad = [
        (op, grade, weights.get(op, 0))
        for op, grade in worst.items()
        if grade is not Grade.NOT_EXERCISED and not grade.is_supported
    ]
    return sorted(bad, key=lambda item: (-item[2], ORDER[item[1]], item[0]))
