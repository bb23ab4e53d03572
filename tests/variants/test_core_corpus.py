"""Choosing the core corpus of a store, and the one that comes with mindgap."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.corpus.sources.shipped import domain_of
from mindgap.corpus.spelling import SHIPPED, SMOKE
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import UsageError
from mindgap.program import codec
from mindgap.program.fingerprint import fingerprint
from mindgap.records.tensors import TensorMeta
from mindgap.report.core_corpus import core_lines, core_markdown
from mindgap.variants.base import load_bases
from mindgap.variants.core_corpus import (
    AT_MOST,
    LICENCES,
    MANIFEST,
    choose_core,
    file_names,
    licence_of,
    why_not,
    write_core,
)
from mindgap.variants.origin import again
from mindgap.variants.synthesis import Synthesis

CORE = SHIPPED["core"]
SPECS = {
    "rl-actor-critic": "timm:actor",
    "graph-gcn": "torch_geometric:GCN",
    "tabular-resnet": "small:kornia.Net",
    "time-series-tcn": "ultralytics:tcn",
}


def entry_of(spec: str, path: Path) -> Entry:
    program = codec.decode(path.read_bytes())
    return Entry(
        spec, spec.partition(":")[0], domain_of(path.stem), Status.BUILT, fingerprint=fingerprint(program),
        nodes=len(program.nodes), operators=tuple({node.op for node in program.nodes}),
        versions='{"torch": "2", "x": "1"}',
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store(tmp_path / "store", writing=True) as opened:
        for name, spec in SPECS.items():
            entry = entry_of(spec, SMOKE / f"{name}.mgp")
            opened.program_path(entry.fingerprint).write_bytes((SMOKE / f"{name}.mgp").read_bytes())
            opened.record(entry)
        opened.record(Entry("timm:bad", "timm", "vision", Status.FAILED))
    return tmp_path / "store"


def test_a_store_becomes_a_folder_of_programs_that_says_where_each_comes_from(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "core"
    with Store(store) as opened:
        core = choose_core(opened, 150, lambda done, total: None)
        write_core(opened, core, folder)
        names = {"rl-actor.mgp", "graph-gcn.mgp", "tabular-kornia-net.mgp"}
        assert set(core.chosen) == names == {path.name for path in folder.glob("*.mgp")}
        assert core.left_out == {"licence": 1}
        assert all("ultralytics:tcn: licence" in why for why in core.missing.values())
        one = choose_core(opened, 1, lambda done, total: None)
        assert any("no room" in why for why in one.missing.values())
        write_core(opened, one, folder)
        assert len(list(folder.glob("*.mgp"))) == 1, "an earlier choice is replaced"
    rows = [line.split("\t") for line in (folder / MANIFEST).read_text().splitlines()]
    assert rows[0] == ["program", "fingerprint", "nodes", "model", "version", "licence"]
    assert rows[1][3] == next(iter(one.chosen.values())).spec and rows[1][4] == "x 1"
    assert f"operators: {core.curve[-1][1]} of {len(core.operators)} " in "\n".join(core_lines(core))
    page = core_markdown(core)
    assert "| torch\\_geometric | 1 |" in page and "| graph-gcn | torch\\_geometric:GCN |" in page


def test_programs_of_others_are_not_overwritten(store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.mgp").write_bytes(b"mine")
    with Store(store) as opened, pytest.raises(UsageError, match="did not write"):
        write_core(opened, choose_core(opened, 1, lambda done, total: None), tmp_path)
    assert (tmp_path / "mine.mgp").read_bytes() == b"mine"


def test_a_store_without_anything_to_ship_is_an_error(tmp_path: Path) -> None:
    Store(tmp_path, writing=True).close()
    with Store(tmp_path) as opened, pytest.raises(UsageError, match="can be shipped"):
        choose_core(opened, 1, lambda done, total: None)


def test_what_is_too_large_or_needs_weights_is_left_out() -> None:
    path = SMOKE / "rl-actor-critic.mgp"
    program, entry = codec.decode(path.read_bytes()), entry_of("timm:actor", path)
    assert why_not(entry, program) == ""
    assert why_not(replace(entry, spec="/home/me/model.py"), program) == "licence"
    assert "30,000,000 parameters" in why_not(replace(entry, parameters=AT_MOST.parameters + 1), program)
    kept = replace(program, constants=tuple(replace(constant, made=None) for constant in program.constants))
    assert "weights" in why_not(entry, kept)
    wide = replace(program.nodes[0], meta=TensorMeta((1 << 26,), "float32", (1,)))
    assert "elements" in why_not(entry, replace(program, nodes=(wide,)))


@given(
    st.lists(
        st.tuples(st.sampled_from(("a", "b")), st.sampled_from(("n", "N", "n.m")), st.sampled_from(("", ":n", ":m"))),
        unique=True,
    )
)
def test_no_two_programs_share_a_file(parts: list[tuple[str, str, str]]) -> None:
    entries = [
        Entry(f"{library}:{name}{head}", library, "rl", Status.BUILT, fingerprint=f"{number:08x}")
        for number, (library, name, head) in enumerate(parts)
    ]
    names = file_names(entries)
    assert sorted(entry.spec for entry in names.values()) == sorted(entry.spec for entry in entries)
    assert all(name.startswith("rl-") and name == name.lower() for name in names)


def test_the_licence_of_a_package_is_what_it_says_itself() -> None:
    names = importlib.metadata.packages_distributions()
    for package, licence in LICENCES.items():
        module = package.partition(":")[2] or {"smp": "segmentation_models_pytorch"}.get(package, package)
        for distribution in names.get(module, [])[:1]:
            assert licence.split("-")[0] in _licence_text(distribution), package


def _licence_text(distribution: str) -> str:
    """All that the metadata and the licence files of a package say."""
    found = importlib.metadata.distribution(distribution)
    said = [value for key, value in found.metadata.items() if key in ("License", "License-Expression", "Classifier")]
    said += [file.read_text() for file in found.files or () if file.name.upper().startswith("LICEN")]
    return " ".join(said)


def manifest() -> dict[str, list[str]]:
    lines = (CORE / MANIFEST).read_text().splitlines()[1:]
    return {name: rest for name, *rest in (line.split("\t") for line in lines)}


def test_every_shipped_program_is_small_licensed_and_what_the_list_says() -> None:
    listed = manifest()
    assert {path.stem for path in CORE.glob("*.mgp")} == set(listed)
    assert sum(path.stat().st_size for path in CORE.iterdir()) < 4_000_000
    assert len({domain_of(name) for name in listed}) >= 9
    for name, (identity, nodes, spec, version, licence) in listed.items():
        program = codec.decode((CORE / f"{name}.mgp").read_bytes())
        assert fingerprint(program) == identity and len(program.nodes) == int(nodes) <= AT_MOST.nodes
        assert licence_of(spec) == licence and version
        assert all(constant.made is not None for constant in program.constants), "no weights are stored"
        assert program.parameter_count() <= AT_MOST.parameters


def test_shipped_programs_run_and_can_be_varied() -> None:
    names = sorted(manifest())[::10]  # all of them take ten seconds
    bases = load_bases([f"core:{name}" for name in names])
    listed = manifest()
    assert [base.fingerprint for base in bases] == [listed[name][0] for name in names]
    for variant in islice(Synthesis(bases, 0), 3):
        assert fingerprint(again(variant.provenance).program) == fingerprint(variant.program), "found by its name"
