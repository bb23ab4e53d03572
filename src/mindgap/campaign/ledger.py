"""The ledger of a campaign: one SQLite file with a documented, versioned schema (docs/hunt.md). This module writes it.

DIR/ledger.sqlite      everything that is known
DIR/weights/           constants that no seed gives, by digest
DIR/lock               held by the one campaign that writes
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

import msgspec

from mindgap.campaign.directory import FILE, ledger_of
from mindgap.campaign.dossier import Dossier
from mindgap.campaign.messages import message_class
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.errors import CorruptFile, MindgapError, NoSpace, UsageError
from mindgap.reading.files import inflate, refusing
from mindgap.reading.limits import FILE_BYTES
from mindgap.records.explanation import Explanation
from mindgap.records.files import claim
from mindgap.records.finding import Ids, Place
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.variant import Provenance
from mindgap.records.verdict import Conclusion

STEPS: Final = 10_000_000
MOST_STEPS: Final = 20_000_000_000
"""Of SQLite's machine for one reading, some minutes: a campaign of 10,000 variants takes some millions."""
SCHEMA_VERSION: Final = 4
VARIANT, FRAGMENT = "variant", "fragment"
"""Kinds of programs."""
PLACES: Final = "finding_places"
"""The fact of `meta` that says which evidence each id of a finding was given out for."""
WEIGHTS: Final = "weights"
"""The folder with the constants that no seed gives."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, started TEXT NOT NULL, versions TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS platforms (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, device TEXT NOT NULL,
  UNIQUE (name, version, device));
CREATE TABLE IF NOT EXISTS bases (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE NOT NULL, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS programs (
  id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, name TEXT NOT NULL, base INTEGER NOT NULL REFERENCES bases (id),
  intent TEXT NOT NULL, mutations TEXT NOT NULL, nodes INTEGER NOT NULL, recipe TEXT NOT NULL, steps TEXT,
  program BLOB, kind TEXT NOT NULL DEFAULT 'variant');
CREATE TABLE IF NOT EXISTS outcomes (
  program INTEGER NOT NULL REFERENCES programs (id), platform INTEGER NOT NULL REFERENCES platforms (id),
  status TEXT NOT NULL, stage TEXT NOT NULL, message TEXT NOT NULL, class TEXT NOT NULL, digest BLOB, stable INTEGER,
  note TEXT NOT NULL, seconds REAL NOT NULL, fallback REAL, PRIMARY KEY (program, platform)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS verdicts (
  program INTEGER NOT NULL REFERENCES programs (id), platform INTEGER NOT NULL REFERENCES platforms (id),
  conclusion TEXT NOT NULL, kind TEXT, blame TEXT, error_over_bound REAL, eager_error_over_bound REAL, worst TEXT,
  rule TEXT, fault TEXT, sentence TEXT, crowd_only INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (program, platform)) WITHOUT ROWID;
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
CREATE TABLE IF NOT EXISTS explanations (
  program INTEGER NOT NULL REFERENCES programs (id), platform INTEGER NOT NULL REFERENCES platforms (id),
  operator TEXT NOT NULL, cause TEXT, remark TEXT, layer TEXT, folder TEXT, problem TEXT, explanation BLOB,
  PRIMARY KEY (program, platform)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS finding_ids (signature TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
"""

_KINDS: Final = {"TEXT": "'text'", "INTEGER": "'integer'", "REAL": "'real', 'integer'", "BLOB": "'blob'"}


def _columns() -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
    """By table: what SQLite may find in each column; and the names of tables and indices."""
    with contextlib.closing(sqlite3.connect(":memory:")) as data:
        data.executescript(SCHEMA)
        names = tuple(name for (name,) in data.execute("SELECT name FROM sqlite_master"))
        tables = [name for (name,) in data.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: data.execute(f"PRAGMA table_info({table})").fetchall() for table in tables}
    return {
        table: {row[1]: _KINDS[row[2]] + ("" if row[3] or row[5] else ", 'null'") for row in columns}
        for table, columns in rows.items()
    }, names


_COLUMNS, _NAMES = _columns()
_NAMES_1: Final = ("findings", "members")
"""Tables of schema 1."""

_FROM_1: Final = """
ALTER TABLE platforms RENAME TO platforms_1;
CREATE TABLE platforms (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, device TEXT NOT NULL,
  UNIQUE (name, version, device));
INSERT INTO platforms SELECT id, name, version, device FROM platforms_1;
DROP TABLE platforms_1;
INSERT INTO finding_ids SELECT signature, id FROM findings;
DROP TABLE findings;
DROP TABLE members;
ALTER TABLE verdicts DROP COLUMN suspect;
UPDATE meta SET value = '2' WHERE key = 'schema';
"""
"""From schema 1, which knew one version per platform and kept findings as tables."""

_FROM_2: Final = """
ALTER TABLE programs ADD COLUMN kind TEXT NOT NULL DEFAULT 'variant';
ALTER TABLE verdicts ADD COLUMN crowd_only INTEGER NOT NULL DEFAULT 0;
UPDATE meta SET value = '3' WHERE key = 'schema';
"""
"""From schema 2, which knew no fragments."""

_FROM_3: Final = """
ALTER TABLE outcomes ADD COLUMN fallback REAL;
UPDATE meta SET value = '4' WHERE key = 'schema';
"""
"""From schema 3, which did not know what ran elsewhere."""

QUIET: Final = (Conclusion.AGREES, Conclusion.ROUNDING)
"""Verdicts whose sentence nobody will read: left out, they are most of the ledger."""


class _Data(sqlite3.Connection):
    """Says that the disk is full when that is why something could not be written; what was begun is undone."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        try:
            super().__exit__(kind, error, trace)
        except sqlite3.OperationalError as failed:
            error = failed
        if isinstance(error, sqlite3.OperationalError) and re.search("full|disk I/O", str(error)):
            raise NoSpace(
                "no space left for the ledger",
                where=str(self.execute("PRAGMA database_list").fetchone()[2]),
                cause=str(error),
                hint="free some space: a campaign that is running continues by itself, with --resume otherwise",
            ) from error
        if error is not None:
            raise error
        return False


class Ledger:
    """The writing side of a campaign's directory; a new one is made where `new` says so."""

    def __init__(self, directory: Path, new: bool = True) -> None:
        self.directory = directory
        path = directory / FILE if new else ledger_of(directory)
        self._lock: int | None = None
        self._lock = claim(directory, "campaign")
        try:
            self._data = sqlite3.connect(
                path, check_same_thread=False, factory=_Data
            )  # one writer, guarded by the caller
            secure(self._data)
            with self._data:
                self._data.execute("PRAGMA journal_mode=WAL")
            self._data.execute("PRAGMA synchronous=NORMAL")  # a killed process loses nothing that was committed
            self._create()
            self._current: dict[str, int] = {}
            """The platforms of this run of the command, in the versions that they have now."""
            self._bases: dict[str, int] = dict(self._data.execute("SELECT fingerprint, id FROM bases"))
        except (sqlite3.Error, ValueError) as error:
            self.close()
            raise CorruptFile(f"{path} is not a ledger of mindgap", cause=str(error)) from error
        except MindgapError:
            self.close()
            raise

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
        old = self._data.execute("SELECT name FROM sqlite_master WHERE name = 'meta'").fetchone()
        found = int(self.meta("schema") or 0) if old else SCHEMA_VERSION
        check_version(found, self.directory)
        check_objects(self._data)
        with self._data:
            version = f"INSERT OR IGNORE INTO meta VALUES ('schema', '{SCHEMA_VERSION}')"
            self._data.executescript(f"BEGIN; {SCHEMA} {version}; COMMIT;")
        for older, script in ((1, _FROM_1), (2, _FROM_2), (3, _FROM_3)):
            if 0 < found <= older:
                self._data.executescript(f"BEGIN; {script} COMMIT;")
        check_content(self._data)

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

    def begin_run(self, versions: Mapping[str, str]) -> None:
        """One more run of the command, with the versions of its packages."""
        with self._data:
            row = (now(), json.dumps(dict(versions)))
            self._data.execute("INSERT INTO runs (started, versions) VALUES (?, ?)", row)

    def add_platforms(self, probes: Mapping[str, tuple[str, str]]) -> list[str]:
        """Version and device of each platform from now on; says which changed since an earlier run."""
        changed = []
        with self._data:
            for name, (version, device) in probes.items():
                row = "SELECT version FROM platforms WHERE name = ? ORDER BY id DESC LIMIT 1"
                before = self._data.execute(row, (name,)).fetchone()
                if before is not None and before[0] != version:
                    changed.append(f"{name} was {before[0]} in an earlier run and is {version} now")
                self._data.execute("INSERT OR IGNORE INTO platforms (name, version, device) VALUES (?, ?, ?)",
                                   (name, version, device))  # fmt: skip
                here = "SELECT id FROM platforms WHERE name = ? AND version = ? AND device = ?"
                self._current[name] = self._data.execute(here, (name, version, device)).fetchone()[0]
        return changed

    def current(self, name: str) -> int:
        """The number of a platform in the version that it has now."""
        return self._current[name]

    def done(self) -> dict[int, set[str]]:
        """By program: the platforms whose outcome is known, in whatever version."""
        names = dict(self._data.execute("SELECT id, name FROM platforms"))
        found: dict[int, set[str]] = {}
        for program, platform in self._data.execute("SELECT program, platform FROM outcomes"):
            found.setdefault(program, set()).add(names[platform])
        return found

    def has_current_baseline(self, program: int) -> bool:
        """Whether the baseline ran a program in the version that it has now: nothing is compared with another."""
        query = "SELECT 1 FROM outcomes WHERE program = ? AND platform = ?"
        return self._data.execute(query, (program, self._current.get(BASELINE))).fetchone() is not None

    def count(self) -> int:
        """Programs that are in the ledger."""
        return int(self._data.execute("SELECT COUNT(*) FROM programs").fetchone()[0])

    def program(self, number: int) -> bytes | None:
        """A program that was kept, encoded."""
        return read_program(self._data, number)

    def outcomes(self, program: int) -> dict[str, Outcome]:
        """What platforms did with a program in the versions that they have now, without the outputs."""
        names = {number: name for name, number in self._current.items()}
        columns = "platform, status, stage, message, digest, stable, note, seconds, fallback"
        query = f"SELECT {columns} FROM outcomes WHERE program = ?"
        return {
            names[platform]: Outcome(
                names[platform],
                Status(status),
                Stage(stage),
                message,
                note=note,
                fallback=fallback,
                stable=None if stable is None else bool(stable),
                seconds={"all": seconds} if seconds else {},
                digest=digest.hex() if digest else "",
            )
            for platform, status, stage, message, digest, stable, note, seconds, fallback in self._data.execute(
                query, (program,)
            )
            if platform in names
        }

    def write(self, dossiers: Sequence[Dossier]) -> int:
        """Enter what became of these programs, all or none; how many are new. Raises NoSpace when the disk is full."""
        with self._data:
            return sum([self._write(dossier) for dossier in dossiers])

    def write_related(self, programs: Sequence[int], rows: Sequence[tuple[Any, ...]]) -> None:
        """What one platform alone showed for these programs: number, platform, oracle and its verdict."""
        with self._data:
            self._data.executemany("INSERT OR IGNORE INTO related VALUES (?)", [(number,) for number in programs])
            self._data.executemany(
                "INSERT OR REPLACE INTO relations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(row[0], self._current[row[1]], *row[2:]) for row in rows],
            )

    def write_operator(self, program: int, platform: str, operator: str, problem: str = "") -> None:
        """The operator that a trace blames; empty where no operator is wrong alone, with what stood in the way."""
        with self._data:
            self._data.execute(
                "INSERT OR IGNORE INTO explanations VALUES (?, ?, ?, NULL, NULL, NULL, NULL, ?, NULL)",
                (program, self._platform(program, platform), operator, problem or None),
            )

    def write_explanation(self, program: int, found: Explanation, folder: str) -> None:
        """All that was learnt about a program on a platform; `folder`, inside the campaign's, holds the script."""
        layer = found.layer.name if found.layer else None
        with self._data:
            self._data.execute(
                "INSERT OR REPLACE INTO explanations VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?)",
                (program, self._platform(program, found.platform), found.operator, found.cause.kind.value,
                 found.cause.remark, layer, folder, msgspec.msgpack.encode(found)),
            )  # fmt: skip

    def write_ids(self, ids: Ids) -> None:
        """All ids that were given out."""
        with self._data:
            self._data.executemany("INSERT OR REPLACE INTO finding_ids VALUES (?, ?)", ids.by_signature.items())
            row = (PLACES, json.dumps(dict(ids.places)))
            self._data.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)

    def _platform(self, program: int, name: str) -> int:
        """The version of a platform that a program's verdict is about."""
        row = self._data.execute(
            "SELECT v.platform FROM verdicts v JOIN platforms p ON p.id = v.platform "
            "WHERE v.program = ? AND p.name = ? ORDER BY v.platform DESC LIMIT 1",
            (program, name),
        ).fetchone()
        return int(row[0]) if row else self._current[name]

    def _write(self, dossier: Dossier) -> int:
        """Whether the program is new; a fragment comes once for each platform."""
        variant, provenance = dossier.variant, dossier.variant.provenance
        added = self._data.execute(
            "INSERT OR IGNORE INTO programs VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?)",
            (variant.number, variant.fingerprint, variant.name, self._base(provenance.base, provenance.base_name),
             provenance.intent.value, " ".join(provenance.mutations), variant.nodes, _recipe(provenance),
             FRAGMENT if variant.is_fragment else VARIANT),
        ).rowcount  # fmt: skip
        self._data.executemany(
            # Fragments are entered platform by platform, each time with the baseline: what is known of it adds up.
            "INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "status = excluded.status, stage = excluded.stage, message = excluded.message, class = excluded.class, "
            "digest = excluded.digest, note = excluded.note, seconds = excluded.seconds, fallback = excluded.fallback, "
            "stable = MIN(COALESCE(stable, excluded.stable), COALESCE(excluded.stable, stable))",
            [self._outcome(variant.number, dossier.outcomes[name]) for name in sorted(dossier.fresh)],
        )
        self._data.executemany(
            "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [self._verdict(variant.number, name, dossier) for name in sorted(dossier.verdicts)],
        )
        self._data.executemany(
            "INSERT OR REPLACE INTO compiled VALUES (?, ?, ?, ?, ?, ?)",
            [
                (variant.number, self._current[name], v.conclusion.value, v.kind.value if v.kind else None,
                 v.error_over_bound, None if v.conclusion in QUIET else v.sentence)
                for name, v in sorted(dossier.compiled.items())
            ],
        )  # fmt: skip
        for name, operator in sorted(dossier.operators.items()):
            self._data.execute(
                "INSERT OR IGNORE INTO explanations VALUES (?, ?, ?, NULL, NULL, NULL, NULL, NULL, NULL)",
                (variant.number, self._current[name], operator),
            )
        loud = any(verdict.conclusion not in QUIET for verdict in dossier.verdicts.values())
        if loud or dossier.related or not dossier.baseline.ok:
            self._data.execute(
                "UPDATE programs SET steps = ?, program = ? WHERE id = ?",
                (json.dumps(provenance.steps), zlib.compress(variant.parcel.program), variant.number),
            )
        return max(0, added)

    def _outcome(self, program: int, outcome: Outcome) -> tuple[Any, ...]:
        stable = None if outcome.stable is None else int(outcome.stable)
        return (
            program, self._current[outcome.platform], outcome.status.value, outcome.stage.value, outcome.message,
            message_class(outcome.message), bytes.fromhex(outcome.digest) or None, stable, outcome.note,
            round(outcome.total_seconds, 6), outcome.fallback,
        )  # fmt: skip

    def _verdict(self, program: int, platform: str, dossier: Dossier) -> tuple[Any, ...]:
        v = dossier.verdicts[platform]
        return (
            program, self._current[platform], v.conclusion.value, v.kind.value if v.kind else None,
            v.blame.value if v.blame else None, v.error_over_bound, v.eager_error_over_bound, v.worst, v.rule, v.group,
            None if v.conclusion in QUIET else v.sentence, int(platform in dossier.crowd_only),
        )  # fmt: skip

    def _base(self, fingerprint: str, name: str) -> int:
        if fingerprint not in self._bases:
            cursor = self._data.execute("INSERT INTO bases (fingerprint, name) VALUES (?, ?)", (fingerprint, name))
            self._bases[fingerprint] = int(cursor.lastrowid or 0)
        return self._bases[fingerprint]


def check_version(found: int, directory: Path) -> None:
    """Raise when a ledger was written by a newer mindgap."""
    if found > SCHEMA_VERSION:
        raise UsageError(
            f"the campaign in {directory} was written by a newer mindgap",
            cause=f"its ledger has schema {found}; this mindgap knows {SCHEMA_VERSION}",
            hint="install a newer mindgap",
        )


def secure(data: sqlite3.Connection) -> None:
    """A ledger may be somebody else's: its schema is not trusted, and damage is noticed before it is followed."""
    data.execute("PRAGMA trusted_schema=OFF")
    data.execute("PRAGMA cell_size_check=ON")


def limit_reading(data: sqlite3.Connection, most: int = MOST_STEPS) -> None:
    """No value larger than a program, no other file, and so many steps of SQLite on this connection."""
    if sys.version_info >= (3, 11):
        data.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, FILE_BYTES)
        data.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    left = most // STEPS

    def count() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    data.set_progress_handler(count, STEPS)


def check_objects(data: sqlite3.Connection) -> None:
    """Raise ValueError when there is more than tables and indices of ours: triggers and views would run."""
    for kind, name, text in data.execute("SELECT type, name, sql FROM sqlite_master"):
        known = kind in ("table", "index") and name in (*_NAMES, *_NAMES_1)
        plain = text is None or not re.match(r"\s*CREATE\s+VIRTUAL", str(text), re.IGNORECASE)
        if not ((known and plain) or str(name).startswith(("sqlite_autoindex_", "sqlite_stat"))):
            raise ValueError(f"it holds the {kind} {str(name)[:40]!r}, which mindgap did not make")


def check_content(data: sqlite3.Connection) -> None:
    """Raise ValueError when a table lacks a column or holds what its schema does not say: SQLite would let it."""
    for table, columns in _COLUMNS.items():
        found = {row[1]: row[6] for row in data.execute(f"PRAGMA table_xinfo({table})")}
        if set(found) != set(columns) or any(found.values()):  # the last is of columns that are computed
            raise ValueError(f"its table {table} has other columns")
        wrong = " OR ".join(f"typeof({name}) NOT IN ({kinds})" for name, kinds in columns.items())
        if data.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone() is not None:
            raise ValueError(f"its table {table} holds values of another type")


def read_program(data: sqlite3.Connection, number: int) -> bytes | None:
    """A program that was kept, encoded."""
    row = data.execute("SELECT program FROM programs WHERE id = ?", (number,)).fetchone()
    with refusing("the ledger is damaged", f"program {number}"):
        return inflate(row[0], FILE_BYTES) if row and row[0] is not None else None


def read_ids(data: sqlite3.Connection) -> Ids:
    """The ids of findings; an id is also the name of a folder."""
    row = data.execute("SELECT value FROM meta WHERE key = ?", (PLACES,)).fetchone()
    with refusing("the ledger is damaged", "the evidence of findings"):
        places = msgspec.json.decode(row[0], type=dict[str, Place]) if row is not None else {}
    ids = Ids(dict(data.execute("SELECT signature, id FROM finding_ids").fetchall()), places)
    for identity in (*ids.by_signature.values(), *ids.places):
        if not re.fullmatch(r"F-\d{1,9}", identity):
            raise CorruptFile("the ledger is damaged", cause=f"{identity[:40]!r} is not the id of a finding")
    return ids


def _recipe(provenance: Provenance) -> str:
    """What, with the bases, makes the variant again."""
    told = ("base_name", "steps", "mutations", "intent", "base")
    content = msgspec.to_builtins(provenance)
    return json.dumps({key: value for key, value in content.items() if key not in told})


def now() -> str:
    """The time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
