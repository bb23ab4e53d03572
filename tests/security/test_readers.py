"""Attacks on every reader, most of which worked once: a file is read, or refused with an error of mindgap."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from mindgap.campaign.archive import MANIFEST, Reading
from mindgap.campaign.ledger import STEPS, Ledger, limit_reading
from mindgap.campaign.plan import Plan
from mindgap.campaign.reader import (
    OpenFinding,
    finding_case,
    finding_folder,
    finding_ids,
    open_finding,
    open_ledger,
    read,
)
from mindgap.campaign.remote import READER, OpenPack, open_pack
from mindgap.campaign.results import Results
from mindgap.corpus.casing import BuildCase, build_case
from mindgap.corpus.load import load
from mindgap.errors import CorruptFile, CorruptProgram, MindgapError, Unreadable, Untrusted, UsageError
from mindgap.execution.parcel import Constants, open_parcel
from mindgap.execution.pool import HOST, Pool
from mindgap.explanation.spelling import spell
from mindgap.platforms.config import forget_config, load_config, trust_config
from mindgap.program import codec
from mindgap.program.graph import Node, Ref
from mindgap.reading.limits import DEPTH, FILE_BYTES, MANIFEST_BYTES
from mindgap.reading.packed import survey
from mindgap.records.source import Source
from mindgap.records.tensors import TensorMeta, same_bits
from tests.security import samples


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as made:
        yield made


@pytest.fixture(scope="module")
def archive() -> bytes:
    return samples.pt2()


# Programs


def content_of(data: bytes) -> dict[str, Any]:
    return msgpack.unpackb(zlib.decompress(msgpack.unpackb(data)["content"]), strict_map_key=False)  # type: ignore[no-any-return]


def program_with(**changes: Any) -> bytes:
    """The sample, with some of its content replaced by packed data of our choice."""
    content = {**content_of(samples.mgp()), **changes}
    kept = {key: value for key, value in content.items() if value is not Ellipsis}
    packed = msgpack.packb(kept, use_bin_type=True)
    return msgpack.packb({"magic": codec.MAGIC, "version": codec.VERSION, "content": zlib.compress(packed)})  # type: ignore[no-any-return]


def nested_tuples(depth: int) -> bytes:
    """Tuples in tuples as programs hold them: each level is a message in a message."""
    inner = msgpack.packb(1)
    for _ in range(depth):
        inner = msgpack.packb(msgpack.ExtType(2, b"\x91" + inner))
    return bytes(inner)


def meta(*shape: int, stride: tuple[int, ...] | None = None, dtype: str = "float32") -> msgpack.ExtType:
    return msgpack.ExtType(8, msgpack.packb([list(shape), dtype, list(stride or (1,) * len(shape))]))


BAD_PROGRAMS: dict[str, Callable[[], bytes]] = {
    "tuples in tuples": lambda: program_with(outputs=msgpack.unpackb(nested_tuples(300))),
    "lists in lists": lambda: program_with(outputs=msgpack.unpackb(b"\x91" * 500 + b"\x01")),
    "a million small lists": lambda: program_with(outputs=[[]] * (1 << 20)),
    "a negative shape": lambda: program_with(inputs=[[0, "x", meta(-5, 3)], [1, "y", meta(2, 3)]]),
    "a terabyte": lambda: program_with(inputs=[[0, "x", meta(1 << 20, 1 << 20)], [1, "y", meta(2, 3)]]),
    "a stride of an exabyte": lambda: program_with(inputs=[[0, "x", meta(2, stride=(1 << 60,))], [1, "y", meta(2, 3)]]),
    "more dimensions than strides": lambda: program_with(inputs=[[0, "x", meta(2, 3, stride=(1,))]]),
    "a hundred dimensions": lambda: program_with(inputs=[[0, "x", meta(*[1] * 100)]]),
    "an unknown dtype": lambda: program_with(inputs=[[0, "x", meta(2, dtype="float7")]]),
    "a missing field": lambda: program_with(nodes=...),
    "another type": lambda: program_with(nodes=7),
    "a name of 1 MB": lambda: program_with(name="x" * (1 << 20)),
    "a digest that is a path": lambda: program_with(
        constants=[msgpack.packb([2, "c", meta(2, 3), b"../../../etc/passwd", None])]
    ),
    "a recipe for another tensor": lambda: program_with(constants=[msgpack.packb([2, "c", meta(2, 3), b"x" * 12, 0])]),
    "text that is not UTF-8": lambda: samples.mgp().replace(b"mindgap.program", b"mindgap.pro\xff\xfe\xfd\xfc"),
    "a bomb": lambda: msgpack.packb(
        {"magic": codec.MAGIC, "version": 3, "content": zlib.compress(bytes(200 << 20), 9)}
    ),
    "cut off": lambda: samples.mgp()[:-20],
    "nothing": lambda: b"",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_PROGRAMS)
def test_a_program_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.mgp"
    path.write_bytes(BAD_PROGRAMS[name]())
    with pytest.raises(Unreadable):
        load(Source(str(path)))


def test_a_name_of_an_argument_is_a_name_and_no_code(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    name = f"alpha=__import__('pathlib').Path({str(marker)!r}).touch() or 1, other"
    shape = TensorMeta((2,), "float32", (1,))
    node = Node(2, "aten.add.Tensor", (Ref(0), Ref(1)), {name: 2}, shape)
    given = [[0, "x", shape], [1, "y", shape]]
    data = codec.pack({"name": "n", "inputs": given, "constants": [], "held": [], "example": [], "outputs": Ref(2),
                       "nodes": [codec.pack([2, node.op, node.args, dict(node.kwargs), shape, ""])]})  # fmt: skip
    whole = codec.pack({"magic": codec.MAGIC, "version": 3, "content": zlib.compress(data)})
    with pytest.raises(CorruptProgram, match="damaged"):
        codec.decode(whole)
    metas = {0: shape, 1: shape, 2: shape}
    with pytest.raises(CorruptProgram, match="an argument is called"):
        spell(node, {0: "x", 1: "y"}, metas, exact=False)
    assert not marker.exists()


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.mgp")
    with pytest.raises(Unreadable):
        codec.load(tmp_path / "model.mgp")


def test_what_bad_programs_do_they_do_to_a_worker_and_it_says_why(pool: Pool, tmp_path: Path) -> None:
    for name in ("tuples in tuples", "a terabyte", "a missing field"):
        path = tmp_path / "model.mgp"
        path.write_bytes(BAD_PROGRAMS[name]())
        request = BuildCase(Source(str(path)), str(pool.scratch.new_file("case")), None)
        with pytest.raises(Unreadable):
            pool.demand(HOST, build_case, request, "loading")


# Exported programs


def rezipped(data: bytes, edit: Callable[[str, bytes], bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(written, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, edit(name, old.read(name)))
    return written.getvalue()


def with_out_spec(data: bytes, spec: str) -> bytes:
    def edit(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        document = json.loads(content)
        for entry in document["graph_module"]["module_call_graph"]:
            if entry["signature"]:
                entry["signature"]["out_spec"] = spec
        return json.dumps(document).encode()

    return rezipped(data, edit)


def container(kind: str, context: str) -> str:
    leaf = '{"type": null, "context": null, "children_spec": []}'
    return f'[1, {{"type": "{kind}", "context": {context}, "children_spec": [{leaf}, {leaf}]}}]'


IMPORTING = {
    "an enumeration": container("builtins.dict", json.dumps('[{"__enum__": true, "fqn": "MODULE:A", "name": "B"}]')),
    "an escaped enumeration": container(
        "builtins.dict", json.dumps('[{"\\u005f_enum__": true, "fqn": "MODULE:A", "name": "B"}]')
    ),
    "an escaped factory": container(
        "collections.defaultdict",
        '{"default_factory_modul\\u0065": "MODULE", "default_factory_name": "x", "dict_context": ["a", "b"]}',
    ),
}


@pytest.mark.parametrize("trick", IMPORTING)
def test_a_call_spec_imports_nothing(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    module = f"hole_{hashlib.blake2b(trick.encode(), digest_size=4).hexdigest()}"
    (tmp_path / f"{module}.py").write_text("executed = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "model.pt2"
    path.write_bytes(with_out_spec(archive, IMPORTING[trick].replace("MODULE", module)))
    with pytest.raises(Untrusted, match="call spec"):
        load(Source(str(path)))
    assert module not in sys.modules
    with pytest.raises(MindgapError):  # whoever trusts the file runs what it names
        load(Source(str(path), trust=True))
    assert module in sys.modules


@pytest.mark.parametrize(
    "size", ["9**9**9**9", "Pow(10, Pow(10, 10))", "(2**64)**64", "1 << 99999999", "+".join("9" * 9999)]
)
def test_a_size_that_takes_for_ever_is_refused(archive: bytes, tmp_path: Path, size: str) -> None:
    def edit(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        document = json.loads(content)
        document["range_constraints"] = {size: {"min_val": 1, "max_val": 9}}
        return json.dumps(document).encode()

    (tmp_path / "model.pt2").write_bytes(rezipped(archive, edit))
    with pytest.raises(Untrusted, match="size that is code"):
        load(Source(str(tmp_path / "model.pt2")))


def test_a_damaged_archive_is_refused_and_a_sound_one_read(archive: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(archive)
    assert load(Source(str(path))).program is not None

    def without_nodes(name: str, content: bytes) -> bytes:
        return content.replace(b'"nodes"', b'"knots"') if name.endswith("model.json") else content

    def endless(name: str, content: bytes) -> bytes:
        return b"[" * 100_000 if name.endswith("model.json") else content

    bad = {
        "cut off": archive[:-300],
        "cut in the middle": archive[: len(archive) // 2],
        "compressed": rezipped(archive, lambda name, content: content, zipfile.ZIP_DEFLATED),
        "a missing field": rezipped(archive, without_nodes),
        "nested": rezipped(archive, endless),
        "not UTF-8": rezipped(archive, lambda n, c: b"\xff" + c if n.endswith("model.json") else c),
        "a negative shape": rezipped(archive, lambda n, c: c.replace(b'{"as_int": 3}', b'{"as_int": -3}')),
        "a terabyte": rezipped(archive, lambda n, c: c.replace(b'{"as_int": 3}', b'{"as_int": 1099511627776}')),
    }  # fmt: skip
    for name, data in bad.items():
        path.write_bytes(data)
        with pytest.raises(MindgapError):
            load(Source(str(path)))
            pytest.fail(name)


def test_a_second_part_of_one_name_hides_nothing(archive: bytes, tmp_path: Path) -> None:
    """torch's own reader does not tell capitals from small letters and may take the part that was not checked."""
    with zipfile.ZipFile(io.BytesIO(archive)) as old:
        name = next(name for name in old.namelist() if name.endswith("models/model.json"))
    written = io.BytesIO(archive)
    with zipfile.ZipFile(written, "a") as new:
        new.writestr(name.replace("models/model", "models/MODEL"), b"{}")
    (tmp_path / "model.pt2").write_bytes(written.getvalue())
    with pytest.raises(Unreadable, match="damaged"):
        load(Source(str(tmp_path / "model.pt2")))


# Packs and results


def with_manifest(path: Path, edit: Callable[[dict[str, Any]], None], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(parts.pop(MANIFEST))
    edit(manifest)
    with zipfile.ZipFile(path, "w", method) as new:
        for name, content in {**parts, MANIFEST: json.dumps(manifest).encode()}.items():
            new.writestr(name, content)
    return path


def test_results_delete_nothing(pool: Pool, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    rows = [replace(row, outcome=replace(row.outcome, file=str(victim))) for row in samples.remote_outcomes()]
    rows.append(replace(rows[1], number=2, values=()))
    given = Results(samples.results(tmp_path / "r.mgz", rows), samples.PLAN, pool)
    assert given.numbers == {0, 1, 2}
    for number in given.numbers:
        variant: Any = _Variant(number)
        for outcome in given.outcomes(variant):
            assert outcome.file != str(victim)
            assert outcome.file == "" or Path(outcome.file).name.startswith("elsewhere-")
    assert victim.read_text() == "keep me"


class _Variant:
    """What results look at."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.fingerprint = f"{1 if number == 2 else number:032x}"


def altered(**changes: Any) -> list[Any]:
    first, second = samples.remote_outcomes()
    return [replace(first, outcome=replace(first.outcome, **changes)), second]


BAD_ROWS: dict[str, Callable[[], list[Any]]] = {
    "outcomes of eager": lambda: altered(platform="eager"),
    "outcomes of a platform that it does not list": lambda: altered(platform="openvino"),
    "the same variant twice": lambda: [samples.remote_outcomes()[0]] * 2,
    "a variant that does not exist": lambda: [replace(samples.remote_outcomes()[0], number=10**9)],
    "a negative variant": lambda: [replace(samples.remote_outcomes()[0], number=-1)],
    "a digest that is none": lambda: altered(digest="zz"),
    "a time that is none": lambda: altered(seconds={"run": float("nan")}),
    "a message without end": lambda: altered(message="x" * (2 << 20)),
}


@pytest.mark.parametrize("trick", BAD_ROWS)
def test_results_speak_for_their_own_platforms_and_within_limits(pool: Pool, tmp_path: Path, trick: str) -> None:
    with pytest.raises(CorruptFile):
        Results(samples.results(tmp_path / "r.mgz", BAD_ROWS[trick]()), samples.PLAN, pool)


@pytest.mark.parametrize("name", ["eager", "../../x", "", "a b", "x" * 300])
def test_results_name_platforms_that_can_be(pool: Pool, tmp_path: Path, name: str) -> None:
    path = samples.results(tmp_path / "r.mgz", [], platforms={name: ["1", "cpu"]})
    with pytest.raises(UsageError):
        Results(path, samples.PLAN, pool)


def test_outputs_that_are_not_those_described_are_refused(pool: Pool, tmp_path: Path) -> None:
    first, _ = samples.remote_outcomes()
    stored = first.outcome.stored[0]
    tricks = {
        "other values": replace(first, values=(bytes(24),)),
        "fewer values": replace(first, values=(bytes(4),)),
        "a terabyte": replace(first, outcome=replace(first.outcome, stored=(
            replace(stored, meta=TensorMeta((1 << 40,), "float32", (1,))),))),
        "a stride of a terabyte": replace(first, outcome=replace(first.outcome, stored=(
            replace(stored, meta=TensorMeta((2, 3), "float32", (1 << 40, 1))),))),
        "a negative shape": replace(first, outcome=replace(first.outcome, stored=(
            replace(stored, meta=TensorMeta((-2, 3), "float32", (3, 1))),))),
        "an unknown dtype": replace(first, outcome=replace(first.outcome, stored=(
            replace(stored, meta=TensorMeta((2, 3), "float7", (3, 1))),))),
        "more outputs than values": replace(first, outcome=replace(first.outcome, stored=(stored, stored))),
    }  # fmt: skip
    variant: Any = _Variant(0)
    for row in tricks.values():
        given = Results(samples.results(tmp_path / "r.mgz", [row]), samples.PLAN, pool)
        with pytest.raises(Unreadable):
            given.outcomes(variant)


def test_a_manifest_is_small(tmp_path: Path) -> None:
    """5 MB once became 6 GB."""
    path = tmp_path / "bomb.mgz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, b" " * (MANIFEST_BYTES + 1))
    assert path.stat().st_size < 100_000
    with pytest.raises(Unreadable, match="damaged"):
        Reading(path, "results")


def test_a_pack_that_lies_about_a_size(tmp_path: Path) -> None:
    """The directory of the archive says that a part is small; its data is not."""
    path = tmp_path / "lies.mgz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, b" " * (64 << 20))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.index(signature) + offset
        data[at : at + 4] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(Unreadable):
        Reading(path, "results")


BAD_PACKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "no parts": lambda m: m.pop("parts"),
    "parts that are a list": lambda m: m.update(parts=[]),
    "no version": lambda m: m.update(version="two"),
    "a foreign format": lambda m: m.update(format="somebody.else"),
    "a plan that is none": lambda m: m.update(plan="{}"),
    "a plan of another type": lambda m: m.update(plan=json.dumps({**json.loads(m["plan"]), "variants": "many"})),
    "a plan without time": lambda m: m.update(plan=json.dumps({**json.loads(m["plan"]), "timeout_s": -1})),
    "a part that is missing": lambda m: m["parts"].update({"weights/" + "0" * 24: {"bytes": 1, "blake2b": ""}}),
}


@pytest.mark.parametrize("trick", BAD_PACKS)
def test_a_pack_that_is_none_is_refused(tmp_path: Path, trick: str) -> None:
    path = with_manifest(samples.pack(tmp_path / "p.mgz"), BAD_PACKS[trick])
    worker: Any = None
    with pytest.raises(Unreadable):
        open_pack.function(worker, OpenPack(str(path), str(tmp_path / "weights")))


def test_a_pack_of_an_unknown_compression_or_encrypted_is_refused(tmp_path: Path) -> None:
    for offset, value in ((10, 99), (8, 1)):
        path = samples.pack(tmp_path / "p.mgz")
        data = bytearray(path.read_bytes())
        at = data.rindex(b"PK\x01\x02") + offset  # the manifest is the last part
        data[at : at + 2] = value.to_bytes(2, "little")
        path.write_bytes(data)
        with pytest.raises(Unreadable):
            Reading(path, "a campaign")


def test_a_pack_writes_its_weights_and_nothing_else(pool: Pool, tmp_path: Path) -> None:
    path = samples.pack(tmp_path / "p.mgz")
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(parts.pop(MANIFEST))
    for name in ("../hole", "weights/../../hole", "/tmp/mindgap-hole", "weights/" + "A" * 24):
        parts[name] = b"x"
        manifest["parts"][name] = {"bytes": 1, "blake2b": hashlib.blake2b(b"x", digest_size=16).hexdigest()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in {**parts, MANIFEST: json.dumps(manifest).encode()}.items():
            new.writestr(name, content)
    place = tmp_path / "inner" / "weights"
    place.parent.mkdir()
    pool.demand(READER, open_pack, OpenPack(str(path), str(place)), "reading")
    assert [len(item.name) for item in place.iterdir()] == [24]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["inner", "p.mgz"]


# Ledgers


def test_the_id_of_a_finding_is_no_path(tmp_path: Path) -> None:
    samples.ledger(tmp_path / "hunt")
    assert finding_ids(tmp_path / "hunt") == ["F-01"]
    with closing(sqlite3.connect(tmp_path / "hunt" / "ledger.sqlite", isolation_level=None)) as data:
        data.execute("UPDATE finding_ids SET id = '../../x'")
    with pytest.raises(CorruptFile, match="not the id of a finding"):
        finding_ids(tmp_path / "hunt")


@pytest.mark.parametrize("value", ["", "[]", '{"F-01": [0]}', '{"../x": [0, "wrong", ""]}', '{"F-01": [[[]]]}'])
def test_the_evidence_of_an_id_is_checked(tmp_path: Path, value: str) -> None:
    samples.ledger(tmp_path / "hunt")
    with closing(sqlite3.connect(tmp_path / "hunt" / "ledger.sqlite", isolation_level=None)) as data:
        data.execute("UPDATE meta SET value = ? WHERE key = 'finding_places'", (value,))
    with pytest.raises(CorruptFile, match="the ledger is damaged"):
        finding_ids(tmp_path / "hunt")


def test_a_folder_of_a_finding_is_no_link_to_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "hunt").mkdir()
    assert finding_folder(tmp_path / "hunt", "F-01") == tmp_path / "hunt" / "F-01"
    (tmp_path / "hunt" / "F-02").symlink_to(tmp_path)
    for identity in ("F-02", "..", "../../x"):
        with pytest.raises(UsageError, match="leads out"):
            finding_folder(tmp_path / "hunt", identity)


BAD_LEDGERS = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM programs; END",
    "a view": "DROP TABLE related; CREATE VIEW related AS SELECT 1 AS program",
    "a table of somebody else": "CREATE TABLE other (x)",
    "a search index": "DROP TABLE relations; CREATE VIRTUAL TABLE relations USING fts5(program)",
    "a missing column": "ALTER TABLE verdicts DROP COLUMN worst",
    "a computed column": "ALTER TABLE runs ADD COLUMN y AS (id + 1)",
    "no schema": "UPDATE meta SET value = 'x' WHERE key = 'schema'",
    "a plan that is none": "UPDATE meta SET value = '{}' WHERE key = 'plan'",
    "bytes for a name": "UPDATE programs SET name = x'00ff'",
    "text for a program": "UPDATE programs SET program = 'text'",
    "a verdict that does not exist": "UPDATE verdicts SET conclusion = 'diverges', kind = x'00'",
    "a version that is no JSON": "UPDATE runs SET versions = '{'",
    "an explanation that is none": "INSERT INTO explanations VALUES (0, 2, 'a', NULL, NULL, NULL, '', NULL, x'93')",
    "a folder elsewhere": "INSERT INTO explanations VALUES (0, 2, 'a', NULL, NULL, NULL, '../x', NULL, x'93')",
}


@pytest.mark.parametrize("trick", BAD_LEDGERS)
def test_a_ledger_that_is_none_is_refused(tmp_path: Path, trick: str) -> None:
    path = samples.ledger(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as data:
        data.executescript(BAD_LEDGERS[trick])
    with pytest.raises(MindgapError):
        read(tmp_path)
    with pytest.raises(MindgapError):  # one that is continued is checked as well
        with Ledger(tmp_path, new=False) as opened:
            opened.plan()
        read(tmp_path)


def test_a_program_in_a_ledger_may_be_a_bomb(tmp_path: Path) -> None:
    path = samples.ledger(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as data:
        data.execute("UPDATE programs SET program = ?", (zlib.compress(bytes(300 << 20), 9),))
    with Ledger(tmp_path, new=False) as opened, pytest.raises(CorruptFile, match="more than 256 MB"):
        opened.program(0)


def test_a_ledger_cannot_keep_its_reader_busy_or_hold_a_huge_value(tmp_path: Path) -> None:
    samples.ledger(tmp_path)
    with open_ledger(tmp_path) as data:
        limit_reading(data, most=2 * STEPS)
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            data.execute(endless).fetchone()
        with pytest.raises(sqlite3.Error, match="too big"):
            data.execute("SELECT zeroblob(?)", (FILE_BYTES + 1,)).fetchone()
        with pytest.raises(sqlite3.OperationalError, match="attached"):
            data.execute("ATTACH ? AS other", (str(tmp_path / "other"),))


def test_the_program_of_a_finding_is_read_in_a_worker(tmp_path: Path, pool: Pool) -> None:
    """One that ends the process that reads it ends a worker; the ledger is asked for there as well."""
    path = samples.ledger(tmp_path)
    file = str(tmp_path / "case")
    found = pool.demand(HOST, open_finding, OpenFinding(str(tmp_path), "F-01", file), "reading F-01")
    opened, filed = open_parcel(found.case, Constants(), mapped=False), finding_case(tmp_path, "F-01")
    assert (found.program, found.platform) == (filed.program, filed.platform)
    assert codec.encode(opened.program) == codec.encode(filed.case.program)
    assert opened.constants.keys() == filed.case.constants.keys()
    assert all(map(same_bits, opened.tensors, filed.case.tensors))
    with closing(sqlite3.connect(path, isolation_level=None)) as data:
        data.execute("UPDATE programs SET program = ?", (zlib.compress(b"\x91" * 5000),))
    with pytest.raises(Unreadable):
        pool.demand(HOST, open_finding, OpenFinding(str(tmp_path), "F-01", file), "reading F-01")


def test_a_database_of_somebody_else_is_no_ledger(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as data:
        data.execute("CREATE TABLE meta (a, b, c)")
    with pytest.raises(Unreadable):
        read(tmp_path)
    with pytest.raises(Unreadable):
        Ledger(tmp_path, new=False)
    (tmp_path / "ledger.sqlite").write_bytes(b"SQLite format 3\0" + bytes(5000))
    with pytest.raises(Unreadable):
        read(tmp_path)


def test_a_plan_is_typed() -> None:
    assert Plan.from_text(samples.PLAN.to_text()) == samples.PLAN
    for text in ("", "{}", "[1]", "{" * 5000, '{"platforms": [1], "variants": 1}'):
        with pytest.raises(Unreadable):
            Plan.from_text(text)


# Configurations


@pytest.fixture
def found_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes a mindgap.toml into the current directory of somebody who trusts nothing yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def write(text: str) -> Path:
        path = tmp_path / "here" / "mindgap.toml"
        path.write_text(text)
        return path

    return write


CODE = {
    "python": '[platform.eager]\npython = "./py.sh"',
    "env": '[platform.eager]\nenv = { LD_PRELOAD = "./evil.so" }',
    "adapter": '[platform.mine]\nadapter = "evil:Platform"',
    "options": '[platform.inductor]\noptions = { inductor = { "cpp.cxx" = ["./evil"] } }',
}


@pytest.mark.parametrize("key", CODE)
def test_a_configuration_that_is_found_runs_nothing_before_it_is_trusted(
    found_here: Callable[[str], Path], key: str
) -> None:
    path = found_here(CODE[key])
    with pytest.raises(Untrusted, match="mindgap trust") as error:
        load_config()
    assert key in str(error.value)
    assert load_config(path).platforms  # naming it is consent
    with pytest.raises(Untrusted):  # and is not remembered
        load_config()
    assert any(key in line for line in trust_config(Path("mindgap.toml")))
    assert load_config().platforms
    found_here(CODE[key] + "\ncpu_s = 5")
    with pytest.raises(Untrusted):  # as it was, not as it is
        load_config()
    trust_config(path)
    assert load_config().platforms and forget_config(path)
    with pytest.raises(Untrusted):
        load_config()


def test_trust_does_not_travel(found_here: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = found_here(CODE["python"])
    trust_config(path)
    other = path.parent / "other"
    other.mkdir()
    (other / "mindgap.toml").write_bytes(path.read_bytes())
    monkeypatch.chdir(other)
    with pytest.raises(Untrusted):
        load_config()


def test_limits_devices_and_switches_need_no_trust(found_here: Callable[[str], Path]) -> None:
    switches = "options = { threads = 2, inductor = { emulate_precision_casts = true } }"
    found_here(f'[defaults]\ncpu_s = 5\n[platform.second]\nruntime = "inductor"\ndevice = "cuda:1"\n{switches}')
    assert load_config().limits.cpu_s == 5


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"x = " + b"[" * 50_000, b"x = " + b"9" * 50_000, b"x = 9999-99-99", b"#" * (2 << 20), b"\0", b"x=1"],
    ids=["not UTF-8", "nested", "a number", "a date", "too large", "a zero", "a key"],
)  # fmt: skip
def test_a_configuration_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mindgap.toml").write_bytes(content)
    with pytest.raises(Unreadable):
        load_config(tmp_path / "mindgap.toml")


# The survey of packed data


def test_a_survey_knows_depth_counts_and_ends() -> None:
    survey(codec.pack({"a": [1, (2, (3.5, None)), b"x", "y" * 300, complex(1, 2)], "b": samples.META}), (2, 7, 8))
    for data, why in {
        b"\x91" * (DEPTH + 2) + b"\x01": "deeper",
        nested_tuples(DEPTH): "deeper",
        b"\xdd\xff\xff\xff\xff": "too many",
        b"\xdf\x7f\xff\xff\xff": "too many",
        b"\xc6\xff\xff\xff\xff": "cut off",
        b"\x92\x01": "cut off",
        b"\xc7\x05\x02\x91": "cut off",
        b"\xc7\x02\x02\x01\x01": "longer than its content",
        b"\x01\x01": "something follows",
        b"\xc1": "starts no value",
        b"": "cut off",
    }.items():
        with pytest.raises(ValueError, match=why):
            survey(data, (2, 7, 8))
