"""The ledger of a campaign: one SQLite file with a documented, versioned schema (docs/hunt.md).

DIR/ledger.sqlite      everything that is known
DIR/weights/           constants that no seed gives, by digest
DIR/lock               held by the one campaign that writes
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from mindgap.campaign.case import Case
from mindgap.campaign.messages import message_class
from mindgap.campaign.plan import Plan
from mindgap.errors import NoSpace, UsageError
from mindgap.execution.batch import Trial
from mindgap.records.files import claim
from mindgap.records.outcome import Stage, Status
from mindgap.records.variant import Provenance
from mindgap.records.verdict import Conclusion

SCHEMA_VERSION: Final = 1
FILE: Final = "ledger.sqlite"

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS platforms (
  id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, version TEXT NOT NULL, device TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS bases (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS programs (
  id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, name TEXT NOT NULL, base INTEGER NOT NULL REFERENCES bases (id),
  intent TEXT NOT NULL, mutations TEXT NOT NULL, nodes INTEGER NOT NULL, recipe TEXT NOT NULL, steps TEXT,
  program BLOB);
CREATE TABLE IF NOT EXISTS outcomes (
  program INTEGER NOT NULL REFERENCES programs (id), platform INTEGER NOT NULL REFERENCES platforms (id),
  status TEXT NOT NULL, stage TEXT NOT NULL, message TEXT NOT NULL, class TEXT NOT NULL, digest BLOB, stable INTEGER,
  note TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (program, platform)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS verdicts (
  program INTEGER NOT NULL REFERENCES programs (id), platform INTEGER NOT NULL REFERENCES platforms (id),
  conclusion TEXT NOT NULL, kind TEXT, blame TEXT, error_over_bound REAL, eager_error_over_bound REAL, worst TEXT,
  rule TEXT, fault TEXT, sentence TEXT, suspect TEXT, PRIMARY KEY (program, platform)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_conclusion ON verdicts (conclusion);
CREATE TABLE IF NOT EXISTS compiled (
  program INTEGER NOT NULL REFERENCES programs (id), platform INTEGER NOT NULL REFERENCES platforms (id),
  conclusion TEXT NOT NULL, kind TEXT, error_over_bound REAL, sentence TEXT,
  PRIMARY KEY (program, platform)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS related (program INTEGER PRIMARY KEY REFERENCES programs (id));
CREATE TABLE IF NOT EXISTS relations (
  program INTEGER NOT NULL REFERENCES programs (id), platform INTEGER NOT NULL REFERENCES platforms (id),
  oracle TEXT NOT NULL, conclusion TEXT NOT NULL, kind TEXT, error_over_bound REAL, worst TEXT, sentence TEXT,
  PRIMARY KEY (program, platform, oracle)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS findings (
  id TEXT PRIMARY KEY, signature TEXT UNIQUE NOT NULL, category TEXT NOT NULL, platforms TEXT NOT NULL, kind TEXT,
  blame TEXT, suspect TEXT, stage TEXT, message TEXT, witness INTEGER NOT NULL REFERENCES programs (id),
  witness_platform TEXT NOT NULL, variants INTEGER NOT NULL, bases INTEGER NOT NULL, error_over_bound REAL, known TEXT);
CREATE TABLE IF NOT EXISTS members (
  finding TEXT NOT NULL REFERENCES findings (id), program INTEGER NOT NULL, platform INTEGER NOT NULL,
  PRIMARY KEY (finding, program, platform)) WITHOUT ROWID;
"""

QUIET: Final = (Conclusion.AGREES, Conclusion.ROUNDING)
"""Verdicts whose sentence nobody will read: left out, they are most of the ledger."""


class Ledger:
    """A campaign's directory; `writing` locks it, and makes it when it is `new`."""

    def __init__(self, directory: Path, writing: bool = False, new: bool = True) -> None:
        self.directory = directory
        path = directory / FILE
        self._lock: int | None = None
        if not (writing and new) and not path.is_file():
            raise UsageError(f"there is no campaign in {directory}", hint="mindgap hunt -o DIR starts one")
        if writing:
            self._lock = claim(directory, "campaign")
        try:
            self._data = sqlite3.connect(path, check_same_thread=False)  # one writer, guarded by the caller
            if writing:
                self._data.execute("PRAGMA journal_mode=WAL")
                self._data.execute("PRAGMA synchronous=NORMAL")  # a killed process loses nothing that was committed
                self._create()
            self._check_version()
            self._platforms: dict[str, int] = dict(self._data.execute("SELECT name, id FROM platforms"))
            self._bases: dict[str, int] = dict(self._data.execute("SELECT fingerprint, id FROM bases"))
        except sqlite3.Error as error:
            self.close()
            raise UsageError(f"{path} is not a ledger of mindgap", cause=str(error)) from error

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(AttributeError):
            self._data.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def data(self) -> sqlite3.Connection:
        """For queries; everything is written by the methods here."""
        return self._data

    def _create(self) -> None:
        with self._data:
            self._data.executescript(SCHEMA)
            self._data.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))

    def _check_version(self) -> None:
        found = int(self.meta("schema") or 0)
        if found > SCHEMA_VERSION:
            raise UsageError(
                f"the campaign in {self.directory} was written by a newer mindgap",
                cause=f"its ledger has schema {found}; this mindgap knows {SCHEMA_VERSION}",
                hint="install a newer mindgap",
            )

    def meta(self, key: str) -> str | None:
        row = self._data.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, **values: str) -> None:
        with self._data:
            self._data.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def plan(self) -> Plan:
        text = self.meta("plan")
        if text is None:
            raise UsageError(f"the campaign in {self.directory} was never started", hint="mindgap hunt -o DIR")
        return Plan.from_text(text)

    def add_platforms(self, probes: Mapping[str, tuple[str, str]]) -> None:
        """Name, version and device of each platform; a version that changed since is said in the meta table."""
        with self._data:
            for name, (version, device) in probes.items():
                self._data.execute(
                    "INSERT INTO platforms (name, version, device) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
                    (name, version, device),
                )
        self._platforms = dict(self._data.execute("SELECT name, id FROM platforms"))

    def done(self) -> dict[int, set[str]]:
        """By program: the platforms whose outcome is known."""
        names = {number: name for name, number in self._platforms.items()}
        found: dict[int, set[str]] = {}
        for program, platform in self._data.execute("SELECT program, platform FROM outcomes"):
            found.setdefault(program, set()).add(names[platform])
        return found

    def count(self) -> int:
        """Programs that are in the ledger."""
        return int(self._data.execute("SELECT COUNT(*) FROM programs").fetchone()[0])

    def trials(self, program: int) -> dict[str, Trial]:
        """What platforms did with a program, without the outputs."""
        names = {number: name for name, number in self._platforms.items()}
        query = "SELECT platform, status, stage, message, digest, stable, note, seconds FROM outcomes WHERE program = ?"
        found = {}
        for platform, status, stage, message, digest, stable, note, seconds in self._data.execute(query, (program,)):
            found[names[platform]] = Trial(
                names[platform],
                Status(status),
                Stage(stage),
                message,
                digest.hex() if digest else "",
                None if stable is None else bool(stable),
                note,
                seconds,
            )
        return found

    def write(self, cases: Sequence[Case]) -> None:
        """Enter what became of these cases, all or none; raises NoSpace when the disk is full."""
        try:
            with self._data:
                for case in cases:
                    self._write(case)
        except sqlite3.OperationalError as error:
            if "full" not in str(error) and "disk I/O" not in str(error):
                raise
            raise NoSpace(
                "no space left for the ledger",
                where=str(self.directory),
                cause=str(error),
                hint="free some space: the campaign goes on by itself",
            ) from error

    def write_related(self, programs: Sequence[int], rows: Sequence[tuple[Any, ...]]) -> None:
        """What one platform alone showed for these programs: number, platform, oracle and its verdict."""
        with self._data:
            self._data.executemany("INSERT OR IGNORE INTO related VALUES (?)", [(number,) for number in programs])
            self._data.executemany(
                "INSERT OR REPLACE INTO relations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(row[0], self._platforms[row[1]], *row[2:]) for row in rows],
            )

    def _write(self, case: Case) -> None:
        variant, provenance = case.variant, case.variant.provenance
        self._data.execute(
            "INSERT OR IGNORE INTO programs VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)",
            (variant.number, variant.fingerprint, variant.name, self._base(provenance.base, provenance.base_name),
             provenance.intent.value, " ".join(provenance.mutations), variant.nodes, _recipe(provenance)),
        )  # fmt: skip
        self._data.executemany(
            "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [self._outcome(variant.number, case.trials[name]) for name in sorted(case.fresh)],
        )
        self._data.executemany(
            "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            [self._verdict(variant.number, name, case) for name in sorted(case.verdicts)],
        )
        self._data.executemany(
            "INSERT OR REPLACE INTO compiled VALUES (?, ?, ?, ?, ?, ?)",
            [
                (variant.number, self._platforms[name], v.conclusion.value, v.kind.value if v.kind else None,
                 v.error_over_bound, None if v.conclusion in QUIET else v.sentence)
                for name, v in sorted(case.compiled.items())
            ],
        )  # fmt: skip
        loud = any(verdict.conclusion not in QUIET for verdict in case.verdicts.values())
        if loud or case.related or not case.baseline.ok:
            self._data.execute(
                "UPDATE programs SET steps = ?, program = ? WHERE id = ?",
                (json.dumps(provenance.steps), zlib.compress(variant.job.program), variant.number),
            )

    def _outcome(self, program: int, trial: Trial) -> tuple[Any, ...]:
        stable = None if trial.stable is None else int(trial.stable)
        return (
            program, self._platforms[trial.platform], trial.status.value, trial.stage.value, trial.message,
            message_class(trial.message), bytes.fromhex(trial.digest) or None, stable, trial.note,
            round(trial.seconds, 6),
        )  # fmt: skip

    def _verdict(self, program: int, platform: str, case: Case) -> tuple[Any, ...]:
        v = case.verdicts[platform]
        return (
            program, self._platforms[platform], v.conclusion.value, v.kind.value if v.kind else None,
            v.blame.value if v.blame else None, v.error_over_bound, v.eager_error_over_bound, v.worst, v.rule, v.group,
            None if v.conclusion in QUIET else v.sentence,
        )  # fmt: skip

    def _base(self, fingerprint: str, name: str) -> int:
        if fingerprint not in self._bases:
            cursor = self._data.execute("INSERT INTO bases (fingerprint, name) VALUES (?, ?)", (fingerprint, name))
            self._bases[fingerprint] = int(cursor.lastrowid or 0)
        return self._bases[fingerprint]

    def size_bytes(self) -> int:
        """What the ledger takes on disk, apart from what was written a moment ago."""
        pages, size = (self._data.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages) * int(size)


def _recipe(provenance: Provenance) -> str:
    """What, with the bases, makes the variant again."""
    told = ("base_name", "steps", "mutations", "intent", "base")
    return json.dumps({key: value for key, value in provenance.to_message().items() if key not in told})


def now() -> str:
    """The time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
