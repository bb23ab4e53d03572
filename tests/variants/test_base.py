"""Bases: what is known of real programs, and what cannot be one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.corpus.spelling import SHIPPED, SMOKE
from mindgap.errors import MindgapError, ModelError, UsageError
from mindgap.program import codec
from mindgap.program.fingerprint import fingerprint
from mindgap.program.graph import Node, Ref, references
from mindgap.variants.base import AT_ONCE, Base, base_files, in_portions, load_bases, prepare
from mindgap.variants.values import Value


def test_every_value_is_known(bases: list[Base]) -> None:
    for base in bases:
        for item in (*base.program.given(), *base.program.nodes):
            found = base.values[item.id]
            if isinstance(found, Value) and not isinstance(item, Node):
                assert found.meta == item.meta
        for node in base.program.nodes:
            for reference in references(node):
                assert node.id in base.users[reference]


def test_a_base_goes_by_the_fingerprint_of_its_program() -> None:
    path = SMOKE / "rl-dueling-dqn.mgp"
    (base,) = load_bases([str(path)])
    program = codec.decode(path.read_bytes())
    assert base.fingerprint == fingerprint(program)
    assert any(node.op.startswith("aten._assert") for node in program.nodes)
    assert not any(node.op.startswith("aten._assert") for node in base.program.nodes)


def test_without_an_example_inputs_are_made(base: Base) -> None:
    constants = codec.load(SMOKE / f"{base.name}.mgp")[1]
    again = prepare("again", replace(base.program, example=()), constants)
    assert len(again.program.example) == len(again.program.inputs)


def test_a_program_that_does_not_run_cannot_be_varied(base: Base) -> None:
    constants = codec.load(SMOKE / f"{base.name}.mgp")[1]
    broken = Node(base.next_id, "aten.view.default", (Ref(base.program.nodes[-1].id), [7, 7, 7]))
    with pytest.raises(ModelError, match="cannot be varied"):
        prepare("broken", replace(base.program, nodes=(*base.program.nodes, broken)), constants)


def test_a_corpus_without_programs_is_an_error(tmp_path: Path) -> None:
    from mindgap.corpus.store import Store

    with pytest.raises(UsageError, match="no corpus"):
        load_bases(None, tmp_path)
    Store(tmp_path / "store", writing=True).close()
    with pytest.raises(UsageError, match="no programs to make variants from"):
        load_bases(None, tmp_path / "store")


def test_a_corpus_that_comes_with_mindgap_is_held_whole_and_any_other_in_portions() -> None:
    files = base_files(["core"], None)
    assert sorted(name for name, _ in files) == sorted(path.stem for path in SHIPPED["core"].glob("*.mgp"))
    assert len(files) > AT_ONCE and not in_portions(["core"], files)
    assert in_portions([str(path) for _, path in files], files) and not in_portions(None, files[:AT_ONCE])


def test_a_file_that_is_not_a_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.mgp"
    path.write_bytes(b"damaged")
    with pytest.raises(MindgapError):
        load_bases([str(path)])
