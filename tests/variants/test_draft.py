"""Edits over an unchanged base: evaluated only where needed, undone completely, assembled into a valid program."""

from __future__ import annotations

from random import Random

import pytest

from mindgap.program.graph import Ref, check_references, references
from mindgap.variants.base import Base
from mindgap.variants.draft import Draft
from mindgap.variants.order import END
from mindgap.variants.rules import Refused, RuleTable
from mindgap.variants.values import Value
from tests.program.validating import validate
from tests.variants.running import run


@pytest.fixture
def draft(base: Base) -> Draft:
    return Draft(base, RuleTable(), Random(0))


def first_edge(draft: Draft) -> tuple[int, Ref]:
    for node in draft.base.program.nodes:
        for reference in references(node):
            found = draft.known(reference)
            if isinstance(found, Value) and found.is_float and reference in draft.base.position:
                return node.id, Ref(reference)
    raise AssertionError


def test_without_an_edit_it_is_the_base(draft: Draft) -> None:
    assert draft.build(draft.base.program.name) == draft.base.program


def test_an_inserted_node_stands_between_and_is_read(draft: Draft) -> None:
    user, source = first_edge(draft)
    new = draft.insert(user, "aten.tanh.default", [source])
    draft.redirect(user, source, new)
    draft.settle()
    program = draft.build("p")
    validate(program)
    ids = [node.id for node in program.nodes]
    assert ids.index(source) < ids.index(new) < ids.index(user)
    assert user in draft.users(new) and user not in draft.users(source)
    assert len(run(program)) == len(run(draft.base.program))


def test_the_users_index_is_that_of_the_program(bases: list[Base]) -> None:
    """After many edits the incremental index is what a scan of the built program finds."""
    from mindgap.variants.registry import registered

    for seed in range(12):
        draft = Draft(bases[seed % len(bases)], RuleTable(), Random(seed), bases[(seed + 1) % len(bases)])
        for one in registered()[:40]:
            state = draft.checkpoint()
            try:
                one.change(draft)
                draft.settle()
            except Refused:
                draft.restore(state)
        program = draft.build("p")
        check_references(program)
        scanned: dict[int, list[int]] = {}
        for node in program.nodes:
            for reference in dict.fromkeys(references(node)):
                scanned.setdefault(reference, []).append(node.id)
        for item in (*program.given(), *program.nodes):
            assert sorted(draft.users(item.id)) == sorted(scanned.get(item.id, [])), (seed, item)


def test_settling_stops_where_nothing_changes(draft: Draft) -> None:
    user, source = first_edge(draft)
    draft.redirect(user, source, draft.insert(user, "aten.clone.default", [source]))
    assert draft.settle() == 1


def test_a_refused_edit_leaves_no_trace(draft: Draft) -> None:
    user, source = first_edge(draft)
    state = draft.checkpoint()
    cut = draft.insert(user, "aten.slice.Tensor", [source, -1, 0, 1])
    draft.redirect(user, source, cut)
    with pytest.raises(Refused):
        draft.insert(user, "aten.mm.default", [source, cut, 3])
    draft.restore(state)
    assert draft.build(draft.base.program.name) == draft.base.program


def test_what_nothing_reads_is_removed(draft: Draft) -> None:
    last = draft.base.program.nodes[-1]
    new = draft.insert(END, "aten.tanh.default", [Ref(references(last)[0])])
    draft.redirect_all(last.id, new)
    draft.replace_output(last.id, new)
    draft.sweep(last.id)
    program = draft.build("p")
    assert last.id not in {node.id for node in program.nodes}
    used = {reference for node in program.nodes for reference in references(node)}
    assert {c.id for c in program.constants} <= used
    validate(program)


def test_a_result_that_is_not_finite_is_refused(draft: Draft) -> None:
    user, source = first_edge(draft)
    zero = draft.insert(user, "aten.zeros_like.default", [source])
    with pytest.raises(Refused, match="finite"):
        draft.insert(user, "aten.log.default", [zero])
    draft.allow_poison = True
    draft.insert(user, "aten.log.default", [zero])


def test_there_is_room_for_many_nodes_in_front_of_one(draft: Draft) -> None:
    user, source = first_edge(draft)
    for _ in range(200):
        source = draft.insert(user, "aten.neg.default", [source])
    check_references(draft.build("p"))
