"""Fuzzing every reader of other people's files: `make fuzz`, or `python -m tests.security.fuzzing --minutes 30`.

A child process damages sound files and reads them, as a worker would; the parent watches it from outside. A case ends
well when the file is read or refused with an error of mindgap. Everything else is a hole: another exception, the death
of the process, more than 10 s of CPU time or 1 GB of memory, a file written or a program started outside the directory
of the case. Coverage guides the search: a case that takes a new way through mindgap's code, or gets a new answer, is
damaged further.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import resource
import select
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import mindgap

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus"
CPU_S = 10.0
"""A reader that computes longer hangs."""
WALL_S = 300.0
"""One that waits longer hangs too; the machine may be loaded."""
START_S = 900.0
MEMORY_BYTES = 1 << 30
SOURCES = str(Path(mindgap.__file__).parent)
KEPT = 60
"""Cases of a target that are kept for the tests: those that reached what no other did."""
KEPT_BYTES = 128 << 10


# What is read, and how


@dataclass(frozen=True)
class Target:
    """One reader."""

    name: str
    file: str
    """The name of the file that it is given."""
    sound: Callable[[Path], bytes]
    """A sound file, made in a directory."""
    read: Callable[[Path], object]
    layers: tuple[Callable[[bytes, random.Random], bytes], ...]
    """Ways to damage it: as bytes, or inside its envelope so that the damage arrives deeper."""


def targets() -> dict[str, Target]:
    """Every reader; imports what they need."""
    from mindgap.campaign.reader import finding_case, finding_ids, read
    from mindgap.corpus.load import load
    from mindgap.errors import Untrusted
    from mindgap.platforms.config import load_config
    from mindgap.program import codec
    from mindgap.program.examples import of_program
    from mindgap.records.source import Source
    from tests.security import samples

    def read_mgp(path: Path) -> object:
        program, constants = codec.load(path)
        return of_program(program, 1), constants

    def read_ledger(path: Path) -> object:
        return read(path.parent), finding_ids(path.parent), finding_case(path.parent, "F-01")

    def read_toml(path: Path) -> object:
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            with contextlib.suppress(Untrusted):
                load_config(None)
        finally:
            os.chdir(before)
        return load_config(path)

    found = (
        Target("mgp", "model.mgp", lambda at: samples.mgp(), read_mgp, (damaged, _in_program, _in_program)),
        Target("pt2", "model.pt2", lambda at: samples.pt2(), lambda path: load(Source(str(path))),
               (damaged, _in_zip(zipfile.ZIP_STORED), _in_json, _in_json)),
        Target("onnx", "model.onnx", lambda at: samples.onnx(), lambda path: load(Source(str(path))), (damaged,)),
        Target("pack", "pack.mgz", lambda at: samples.pack(at / "s.mgz").read_bytes(), _read_pack,
               (damaged, _in_pack, _in_pack)),
        Target("results", "results.mgz", lambda at: samples.results(at / "s.mgz").read_bytes(), _read_results,
               (damaged, _in_pack, _in_pack)),
        Target("ledger", "ledger.sqlite", lambda at: _closed(samples.ledger(at / "campaign")), read_ledger,
               (damaged, _in_tables, _in_tables)),
        Target("toml", "mindgap.toml", lambda at: samples.TOML, read_toml, (damaged,)),
    )  # fmt: skip
    return {target.name: target for target in found}


class _Worker:
    """What the tasks need of one."""

    def keep(self, kind: Callable[[], Any]) -> Any:
        return kind()


def _read_pack(path: Path) -> object:
    from mindgap.campaign import remote
    from mindgap.program.codec import decode

    worker: Any = _Worker()
    request = remote.OpenPack(str(path), str(path.parent / "weights"))
    remote.open_pack.function(worker, request)
    rows = list(remote.read_programs.function(worker, remote.ReadPrograms(request, "npu")))
    return [decode(row.program) for row in rows]


def _read_results(path: Path) -> object:
    from mindgap.campaign import results
    from mindgap.campaign.packing import identity_of
    from tests.security import samples

    worker: Any = _Worker()
    request = results.OpenResults(str(path), identity_of(samples.PLAN), ("eager",), 4)
    found = results.open_results.function(worker, request)
    files = tuple(str(path.parent / f"out-{n}") for n in range(3))
    return [results.lay_down.function(worker, results.LayDown(request, number, files)) for number in found.numbers]


def _closed(path: Path) -> bytes:
    """The ledger as one file."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as data:
        data.execute("PRAGMA journal_mode=DELETE")
    return path.read_bytes()


# How it is damaged

_NUMBERS = [0, 1, 2, 7, 31, 32, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]
_TEXTS = [
    b"../../../../tmp/hole", b"__import__('os').abort()", b"\\u005f_enum__", b"\x00", b"\xff\xfe", b"{", b"[" * 300,
    b"(" * 300, b"NaN", b"1e999", b"-1", b"null", b"eager", b"9" * 400, b"\xc7\x05\x02\x91",
]  # fmt: skip


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A few of the usual accidents and tricks."""
    content = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        size = len(content)
        at = draw.randrange(size + 1)
        kind = draw.randrange(9)
        if kind == 0 and at < size:
            content[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and at < size:
            content[at] = draw.randrange(256)
        elif kind == 2:
            del content[at : at + draw.choice((1, 2, 8, 64))]
        elif kind == 3:
            content[at:at] = content[at : at + draw.choice((1, 8, 64, 512))]
        elif kind == 4:
            number = draw.choice(_NUMBERS).to_bytes(8, draw.choice(("big", "little")))
            width = draw.choice((1, 2, 4, 8))
            content[at : at + width] = number[-width:]
        elif kind == 5:
            text = draw.choice(_TEXTS)
            content[at : at + draw.choice((0, len(text)))] = text
        elif kind == 6:
            other = draw.randrange(size + 1)
            content[at : at + 16] = content[other : other + 16]
        elif kind == 7:
            content[at:at] = bytes([draw.choice((0, 0x91, 0x81, 0xC0, 0xDD, 0xFF))]) * draw.choice((1, 70, 700))
        elif draw.random() < 0.3:
            del content[at:]
    return bytes(content)


def _in_program(data: bytes, draw: random.Random) -> bytes:
    """Damage below the compression of a program file."""
    import msgpack

    try:
        envelope = msgpack.unpackb(data)
        content = damaged(zlib.decompress(envelope["content"]), draw)
        return msgpack.packb({**envelope, "content": zlib.compress(content)})
    except Exception:  # it is too far from a program
        return damaged(data, draw)


def _in_zip(method: int) -> Callable[[bytes, random.Random], bytes]:
    """Damage one part of an archive, which stays one."""

    def damage(data: bytes, draw: random.Random) -> bytes:
        return _rezipped(data, draw, method, damaged)

    return damage


def _in_json(data: bytes, draw: random.Random) -> bytes:
    """Another value somewhere in a JSON part of an archive."""
    return _rezipped(data, draw, zipfile.ZIP_STORED, _other_json, ".json")


def _rezipped(
    data: bytes, draw: random.Random, method: int, change: Callable[[bytes, random.Random], bytes], suffix: str = ""
) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            parts = {name: old.read(name) for name in old.namelist()}
        chosen = draw.choice([name for name in parts if name.endswith(suffix)])
        parts[chosen] = change(parts[chosen], draw)
    except Exception:
        return damaged(data, draw)
    return _zipped(parts, method)


def _zipped(parts: dict[str, bytes], method: int) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as new:
        for name, content in parts.items():
            new.writestr(name, content)
    return written.getvalue()


def _other_json(data: bytes, draw: random.Random) -> bytes:
    document = json.loads(data)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            places.append((value, key))
            walk(item)

    walk(document)
    for _ in range(draw.choice((1, 1, 2, 5))):
        holder, key = draw.choice(places)
        with contextlib.suppress(KeyError, IndexError):
            before = holder[key]
            text = damaged(before.encode(), draw).decode(errors="replace") if isinstance(before, str) else "x"
            number = draw.choice((1, -1)) * draw.choice(_NUMBERS)
            holder[key] = draw.choice((None, number, text, [], {}, [before], {"as_int": number}, 0.5, True, before))
            if draw.random() < 0.1:
                del holder[key]
    return json.dumps(document).encode()


def _in_pack(data: bytes, draw: random.Random) -> bytes:
    """Damage a part of a pack or results and write its right size and hash into the manifest, or damage that."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            parts = {name: old.read(name) for name in old.namelist()}
        manifest = json.loads(parts.pop("manifest.json"))
        if draw.random() < 0.3 or not parts:
            manifest = json.loads(_other_json(json.dumps(manifest).encode(), draw))
        else:
            name = draw.choice(list(parts))
            parts[name] = _in_rows(parts[name], draw) if name.endswith(".msgpack") else damaged(parts[name], draw)
            digest = hashlib.blake2b(parts[name], digest_size=16).hexdigest()
            manifest["parts"][name] = {"bytes": len(parts[name]), "blake2b": digest}
        return _zipped({**parts, "manifest.json": json.dumps(manifest).encode()}, zipfile.ZIP_DEFLATED)
    except Exception:
        return damaged(data, draw)


def _in_rows(data: bytes, draw: random.Random) -> bytes:
    import msgpack

    if draw.random() < 0.3:
        return damaged(data, draw)
    rows = msgpack.unpackb(data, strict_map_key=False)
    at = draw.randrange(len(rows))
    if isinstance(rows[at], bytes):
        rows[at] = damaged(rows[at], draw)
    else:
        inner = draw.randrange(len(rows[at]))
        value = rows[at][inner]
        rows[at][inner] = (
            _in_program(value, draw) if isinstance(value, bytes) else draw.choice((None, -1, "x", [], 2**63))
        )
    return bytes(msgpack.packb(rows))


def _in_tables(data: bytes, draw: random.Random) -> bytes:
    """Another value in a row of a ledger."""
    import sqlite3

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        path.write_bytes(data)
        try:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as base:
                tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                for _ in range(draw.choice((1, 1, 3))):
                    table = draw.choice(tables)
                    columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
                    column = draw.choice(columns)
                    row = base.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()
                    before = row[0] if row else b"x"
                    as_bytes = before if isinstance(before, bytes) else str(before).encode()
                    other = damaged(as_bytes, draw)
                    value = draw.choice((other, other.decode(errors="replace"), -1, 2**62, 0.5, "../../x"))
                    base.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except Exception:  # it is too far from a ledger
            return damaged(data, draw)
        return path.read_bytes()


# The child: damages and reads


class Watched:
    """What the reader does to the system, as Python tells; writing to the directory of the case is allowed."""

    _PROCESSES = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect")
    _PATHS = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate",
              "shutil.rmtree", "shutil.move", "shutil.copyfile")  # fmt: skip

    def __init__(self) -> None:
        self.allowed = ""
        self.touched: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.allowed:
            return
        if event in self._PROCESSES:
            self.touched.append(f"{event} {args!r:.100}")
        elif event == "open":
            path, mode, flags = args
            writes = (isinstance(mode, str) and any(c in mode for c in "wax+")) or (
                mode is None and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            )
            if writes and isinstance(path, str | bytes | os.PathLike):
                self._check(event, os.fsdecode(path))
        elif event in self._PATHS:
            for path in args[:2]:
                if isinstance(path, str | bytes | os.PathLike):
                    self._check(event, os.fsdecode(path))

    def _check(self, event: str, path: str) -> None:
        if path != os.devnull and not str(Path(path).absolute()).startswith(self.allowed):
            self.touched.append(f"{event} {path}")


Step = tuple[CodeType, int, int]
"""From one line of a function to the next that ran."""


class Coverage:
    """The steps that mindgap's code takes while this is entered; code of others is not looked at."""

    def __init__(self) -> None:
        self.steps: set[Step] = set()
        self._ours: dict[CodeType, bool] = {}

    def __enter__(self) -> set[Step]:
        self.steps = set()
        sys.settrace(self._call)
        return self.steps

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, value: object) -> Callable[..., Any] | None:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(SOURCES)
        if not ours:
            return None
        steps, before = self.steps, 0

        def line(frame: FrameType, event: str, value: object) -> Callable[..., Any]:
            nonlocal before
            if event == "line":
                steps.add((code, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line


@dataclass
class Pond:
    """Cases worth damaging further: each took a way, or said something, that no other did."""

    cases: list[bytes]
    said: set[str] = field(default_factory=set)
    steps: set[Step] = field(default_factory=set)

    def learn(self, told: str, steps: set[Step]) -> int:
        """How much is new: steps, and an answer."""
        new = len(steps - self.steps) + (told not in self.said)
        self.steps |= steps
        self.said.add(told)
        return new


def child(directory: Path, seed: int, chosen: list[str]) -> None:
    """Damage and read for ever; one line per case on standard output, the case itself in a file."""
    from mindgap.errors import MindgapError

    found = {name: target for name, target in targets().items() if name in chosen}
    ponds: dict[str, Pond] = {}
    for name, target in found.items():
        place = directory / "sound" / name
        place.mkdir(parents=True, exist_ok=True)
        ponds[name] = Pond([target.sound(place), *kept(name)])
        _read(target, ponds[name].cases[0], directory)  # imports what it needs, before anything is watched
    coverage = Coverage()
    for name, target in found.items():
        for data in ponds[name].cases:
            with coverage as steps:
                told = _answer(target, data, directory)
            ponds[name].learn(told, steps)
    _limit_memory()
    watched = Watched()
    draw = random.Random(seed)
    number = 0
    while True:
        for name, target in found.items():
            pond = ponds[name]
            base = pond.cases[0] if draw.random() < 0.3 else draw.choice(pond.cases)
            data = draw.choice(target.layers)(base, draw)
            number += 1
            (directory / "now").write_bytes(data)
            _say(begin=name, number=number, bytes=len(data))
            watched.allowed = str(directory)
            watched.touched.clear()
            used = time.process_time()
            told, hole = "read", ""
            try:
                with coverage as steps:
                    _read(target, data, directory)
            except MindgapError as error:
                told = _class_of(error)
                hole = "an allocation of more than 1 GB" if _ran_out_of_memory(error) else ""
            except Exception as error:
                hole = f"{type(error).__name__}: {error}"[:200]
                told = f"hole {type(error).__name__}"
            watched.allowed = ""
            if watched.touched:
                hole = f"touched {watched.touched[:3]}"
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            new = pond.learn(told, steps)
            if new:
                pond.cases.append(data)
            _say(told=told, hole=hole, new=new, steps=len(pond.steps), answers=len(pond.said),
                 cpu_s=time.process_time() - used, peak_mb=peak)  # fmt: skip


def _read(target: Target, data: bytes, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = Path(folder) / target.file
        path.write_bytes(data)
        target.read(path)


def _answer(target: Target, data: bytes, directory: Path) -> str:
    """What a reader says about a case that is no hole."""
    from mindgap.errors import MindgapError

    try:
        _read(target, data, directory)
        return "read"
    except MindgapError as error:
        return _class_of(error)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether a refusal only hides that the kernel gave no more memory."""
    while error is not None:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return True
        error = error.__cause__
    return False


def _class_of(error: Exception) -> str:
    """What an error says, without numbers and names of files."""
    text = f"{type(error).__name__}: {error}"
    text = re.sub(r"/\S+|'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|\d+", "#", text)
    return " ".join(text.split())[:160]


def _limit_memory() -> None:
    """1 GB more than what the imports took: what a hole would take, the kernel refuses."""
    status = Path("/proc/self/status").read_text()
    data_kb = int(re.search(r"VmData:\s+(\d+)", status)[1])  # type: ignore[index]
    limit = (data_kb << 10) + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _say(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def kept(name: str) -> list[bytes]:
    """The cases of a target that earlier runs found worth keeping."""
    path = CORPUS / f"{name}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(item) for item in archive.namelist()]


# The parent: watches and counts


@dataclass
class Tally:
    """What a run of the fuzzer saw."""

    cases: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    """Cases that reached something new."""
    steps: dict[str, int] = field(default_factory=dict)
    """Of mindgap's code, taken by all cases of a target."""
    answers: dict[str, int] = field(default_factory=dict)
    """Different ones."""
    holes: list[dict[str, Any]] = field(default_factory=list)
    slowest_cpu_s: float = 0.0
    peak_mb: int = 0
    worth_keeping: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    """With how much each reached that was new."""

    def report(self, seconds: float, seed: int) -> dict[str, Any]:
        return {
            "minutes": round(seconds / 60, 1),
            "seed": seed,
            "cases": dict(self.cases),
            "read": dict(self.read),
            "reached": dict(self.reached),
            "steps": self.steps,
            "answers": self.answers,
            "slowest_cpu_s": round(self.slowest_cpu_s, 2),
            "peak_mb": self.peak_mb,
            "holes": self.holes,
        }


@dataclass
class Clock:
    """Time that is spent on cases; starting takes its own."""

    seconds: float
    began: float | None = None

    def begin(self) -> None:
        self.began = self.began or time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.began is not None and time.monotonic() - self.began > self.seconds


def fuzz(seconds: float, seed: int, chosen: list[str], watch: Callable[[Tally], None] = lambda tally: None) -> Tally:
    """Run children until the time is over; one that dies or hangs is replaced, and its case is a hole."""
    tally = Tally()
    clock = Clock(seconds)
    starts = 0
    while not clock.is_over:
        with tempfile.TemporaryDirectory(prefix="mindgap-fuzz-") as folder:
            directory = Path(folder)
            (directory / "neighbour").mkdir()
            for event in _watched_child(directory, seed + starts, chosen, clock):
                _count(tally, event, directory)
                watch(tally)
        starts += 1
    return tally


def _count(tally: Tally, event: dict[str, Any], directory: Path) -> None:
    name = event["target"]
    tally.cases[name] += 1
    tally.read[name] += event["told"] == "read"
    tally.reached[name] += bool(event["new"])
    tally.steps[name] = max(event["steps"], tally.steps.get(name, 0))
    tally.answers[name] = max(event["answers"], tally.answers.get(name, 0))
    tally.slowest_cpu_s = max(tally.slowest_cpu_s, event["cpu_s"])
    tally.peak_mb = max(tally.peak_mb, event["peak_mb"])
    case = (directory / "now").read_bytes() if event["hole"] or event["new"] else b""
    if event["hole"]:
        file = f"hole-{name}-{len(tally.holes)}"
        tally.holes.append({"target": name, "hole": event["hole"], "file": file})
        (Path(tempfile.gettempdir()) / file).write_bytes(case)
    if event["new"] and len(case) <= KEPT_BYTES:
        tally.worth_keeping.setdefault(name, []).append((event["new"], case))


def _watched_child(directory: Path, seed: int, chosen: list[str], clock: Clock) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.security.fuzzing", "--child", str(directory), "--seed", str(seed),
               "--targets", ",".join(chosen)]  # fmt: skip
    path = f"{Path(SOURCES).parent}{os.pathsep}{ROOT}"
    home = {"HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    environment = {**os.environ, **home, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory, env=environment)
    assert process.stdout is not None
    lines = process.stdout
    target, pending, since = "", b"", (time.monotonic(), 0.0)
    try:
        while not clock.is_over:
            ready, _, _ = select.select([lines], [], [], 1.0)
            if ready:
                part = os.read(lines.fileno(), 1 << 16)
                if not part:
                    process.wait()
                    tail = process.stderr.read()[-500:].decode(errors="replace") if process.stderr else ""
                    if not target:
                        raise SystemExit(f"the child cannot start: {tail}")
                    yield _hole(target, f"died with {process.returncode}: {tail}")
                    return
                *complete, pending = (pending + part).split(b"\n")
                for line in complete:
                    event = json.loads(line)
                    if "begin" in event:
                        clock.begin()
                        target, since = event["begin"], (time.monotonic(), _cpu_s(process.pid))
                    else:
                        yield {**event, "target": target}
            elif target and _cpu_s(process.pid) - since[1] > CPU_S:
                yield _hole(target, f"more than {CPU_S:g} s of CPU time")
                return
            elif target and time.monotonic() - since[0] > WALL_S:
                yield _hole(target, f"more than {WALL_S:g} s")
                return
            elif time.monotonic() - since[0] > START_S:
                raise SystemExit(f"the child does not start within {START_S:g} s")
    finally:
        process.kill()
        process.wait()


def _hole(target: str, what: str) -> dict[str, Any]:
    return {"target": target, "told": "hole", "hole": what, "new": 1, "steps": 0, "answers": 0, "cpu_s": 0.0,
            "peak_mb": 0}  # fmt: skip


def _cpu_s(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def keep(tally: Tally) -> None:
    """Write the cases that reached most to the corpus of the tests, beside those that are there."""
    CORPUS.mkdir(exist_ok=True)
    for name, cases in tally.worth_keeping.items():
        before = kept(name)
        fresh = [case for _, case in sorted(cases, key=lambda item: (-item[0], len(item[1]))) if case not in before]
        with zipfile.ZipFile(CORPUS / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for number, case in enumerate([*before, *fresh][:KEPT]):
                archive.writestr(f"{number:03d}", case)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default="mgp,pt2,onnx,pack,results,ledger,toml")
    parser.add_argument("--keep", action="store_true", help="add what is new to the corpus of the tests")
    parser.add_argument("-o", "--output", type=Path, help="write what was seen as JSON, also while it runs")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    chosen = given.targets.split(",")
    if given.child:
        child(given.child, given.seed, chosen)
    start, shown = time.monotonic(), 0.0

    def watch(tally: Tally) -> None:
        nonlocal shown
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            if given.output:
                given.output.write_text(json.dumps(tally.report(shown - start, given.seed), indent=1))

    tally = fuzz(60 * given.minutes, given.seed, chosen, watch)
    report = tally.report(time.monotonic() - start, given.seed)
    text = json.dumps(report, indent=1)
    if given.output:
        given.output.write_text(text)
    if given.keep:
        keep(tally)
    sys.stdout.write(text + "\n")
    return 1 if tally.holes else 0


if __name__ == "__main__":
    sys.exit(main())
