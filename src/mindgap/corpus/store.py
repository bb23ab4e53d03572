"""Programs on disk, by what they compute, and a ledger of everything that was tried.

    DIR/programs/<fingerprint>.mgp        graph, seeds of its weights, inputs that fit
    DIR/weights/<digest>.safetensors      what no seed gives: trained weights, large tables; shared by hash
    DIR/ledger.sqlite                     one row for each attempt, never changed
    DIR/incoming/                         work in progress; emptied by the next build

A model is moved into place first and entered into the ledger second: a kill between the two repeats that model and
loses none. One build at a time writes; readers need no lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final

import torch

from mindgap.corpus.files import corpus_ledger
from mindgap.errors import UsageError
from mindgap.program import codec
from mindgap.program.graph import Program
from mindgap.records.files import claim


class Status(str, Enum):
    """What became of an offer."""

    BUILT = "built"
    DUPLICATE = "duplicate"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt to build one model."""

    spec: str
    library: str
    domain: str
    status: Status
    family: str = ""
    fingerprint: str = ""
    duplicate_of: str = ""
    """The spec of the model that was kept instead."""
    nodes: int = 0
    parameters: int = 0
    bytes: int = 0
    seconds: float = 0.0
    stage: str = ""
    """Where it failed: `load`, `export`, `run`, `compare`, ..., or how the worker died."""
    reason: str = ""
    """Why, in one line; for a duplicate what is the same: `structure` or `name`."""
    counted: int = 0
    """Operators whose results carry the model's numbers."""
    constant: int = 0
    nonfinite: int = 0
    dead_example: str = ""
    operators: tuple[str, ...] = ()
    versions: str = "{}"
    """JSON: torch and the package that defines the model."""
    seed: int = 0
    finished: float = 0.0
    """Seconds since 1970."""

    @property
    def alive(self) -> bool:
        """Whether every operator gives finite values that are not all the same."""
        return not self.constant and not self.nonfinite


_COLUMNS: Final = tuple(field.name for field in fields(Entry))
_NUMBERS: Final = {"nodes", "parameters", "bytes", "counted", "constant", "nonfinite", "seed"}
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS attempts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  {", ".join(f"{c} {'INTEGER' if c in _NUMBERS else 'REAL' if c in ('seconds', 'finished') else 'TEXT'}"
             for c in _COLUMNS)}
);
CREATE INDEX IF NOT EXISTS by_spec ON attempts (spec);
CREATE TABLE IF NOT EXISTS operators (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
"""  # fmt: skip


class Store:
    """A corpus in a directory. Use it as a context manager; `writing` makes the directory and locks it."""

    def __init__(self, directory: Path, writing: bool = False) -> None:
        self.directory = directory
        self.programs = directory / "programs"
        self.incoming = directory / "incoming"
        ledger = directory / "ledger.sqlite"
        if writing:
            self._lock: int | None = claim(directory, "build")
            shutil.rmtree(self.incoming, ignore_errors=True)
            for path in (self.programs, directory / "weights", self.incoming):
                path.mkdir(exist_ok=True)
        else:
            self._lock = None
            corpus_ledger(directory)
        try:
            self._ledger = sqlite3.connect(ledger, check_same_thread=False)  # callers hold a lock of their own
            if writing:
                self._ledger.execute("PRAGMA journal_mode=WAL")
                self._ledger.executescript(_SCHEMA)
            names = self._ledger.execute("SELECT id, name FROM operators").fetchall()
        except sqlite3.Error as error:
            self._unlock()
            raise UsageError(f"{ledger} is not a ledger of mindgap", cause=str(error)) from error
        self._operators: dict[str, int] = {name: number for number, name in names}

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the directory."""
        self._ledger.close()
        self._unlock()

    def entries(self) -> list[Entry]:
        """The last attempt at each offer, in the order of the attempts."""
        names = {number: name for name, number in self._operators.items()}
        query = f"SELECT {', '.join(_COLUMNS)} FROM attempts WHERE id IN (SELECT MAX(id) FROM attempts GROUP BY spec)"
        return [_entry(row, names) for row in self._ledger.execute(f"{query} ORDER BY id")]

    def attempts(self, spec: str) -> int:
        """How often a model was tried."""
        return int(self._ledger.execute("SELECT COUNT(*) FROM attempts WHERE spec = ?", (spec,)).fetchone()[0])

    def built_as(self, fingerprint: str) -> str | None:
        """The spec of the model with this structure that is kept, if there is one."""
        row = self._ledger.execute(
            "SELECT spec FROM attempts WHERE fingerprint = ? AND status = ? LIMIT 1",
            (fingerprint, Status.BUILT.value),
        ).fetchone()
        return str(row[0]) if row else None

    def record(self, entry: Entry) -> None:
        """Append to the ledger; when this returns, a kill no longer loses it."""
        with self._ledger:
            numbers = [self._number(name) for name in entry.operators]
            values = [getattr(entry, name) for name in _COLUMNS]
            values[_COLUMNS.index("operators")] = " ".join(map(str, numbers))
            values[_COLUMNS.index("status")] = entry.status.value
            values[_COLUMNS.index("finished")] = entry.finished or time.time()
            places = ", ".join("?" * len(values))
            self._ledger.execute(f"INSERT INTO attempts ({', '.join(_COLUMNS)}) VALUES ({places})", values)

    def keep(self, entry: Entry, folder: Path) -> None:
        """Move a built model from its folder into place, then record it."""
        for file in sorted((folder / "weights").glob("*.safetensors")):
            file.replace(self.directory / "weights" / file.name)
        (folder / "programs" / "model.mgp").replace(self.program_path(entry.fingerprint))
        self.record(entry)

    def program_path(self, fingerprint: str) -> Path:
        """Where a program lies."""
        return self.programs / f"{fingerprint}.mgp"

    def load(self, fingerprint: str) -> tuple[Program, dict[str, torch.Tensor]]:
        """A program with its weights, made again or read, all checked."""
        path = self.program_path(fingerprint)
        if not path.is_file():
            raise UsageError(f"the corpus has no program {fingerprint}", where=str(self.directory))
        return codec.load(path)

    def size_bytes(self) -> dict[str, int]:
        """Bytes of programs, of weights that no seed gives, and of the ledger."""
        return {
            "programs": _total(self.programs.glob("*.mgp")),
            "weights": _total((self.directory / "weights").glob("*.safetensors")),
            "ledger": _total(self.directory.glob("ledger.sqlite*")),
        }

    def _number(self, operator: str) -> int:
        if operator not in self._operators:
            cursor = self._ledger.execute("INSERT INTO operators (name) VALUES (?)", (operator,))
            self._operators[operator] = int(cursor.lastrowid or 0)
        return self._operators[operator]

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _entry(row: Sequence[object], names: dict[int, str]) -> Entry:
    values = dict(zip(_COLUMNS, row))
    values["status"] = Status(values["status"])
    values["operators"] = tuple(names[int(number)] for number in str(values["operators"]).split())
    return Entry(**values)  # type: ignore[arg-type]


def _total(files: Iterator[Path]) -> int:
    total = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # a build may go on meanwhile
            total += file.stat().st_size
    return total
