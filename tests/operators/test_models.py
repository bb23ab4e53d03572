"""Which real models could run by what is declared, and what would unlock more."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.corpus.operator_table import SHIPPED, table_file
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import CorruptFile, UsageError
from mindgap.operators.declared import Has
from mindgap.operators.models import MOST_UNLOCKING, Need, Prospect, prospect, reach
from mindgap.operators.native import native_operators
from mindgap.operators.universe import Models, chosen, models_of

OPS = st.frozensets(st.sampled_from("abcdefgh"), max_size=5)


def lacking(ops: Collection[str]) -> Callable[[str], Has]:
    return lambda op: Has.MISSING if op in ops else Has.KERNEL


def models(**operators: str) -> Models:
    return Models("three models", {name: frozenset(text) for name, text in operators.items()})


def test_the_smoke_corpus_counts_models_per_operator() -> None:
    found = models_of(Path("smoke"))
    assert len(found.operators) == 41
    counts = list(found.counts.values())
    assert counts == sorted(counts, reverse=True) and found.counts["aten.linear.default"] > 10


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ([Has.KERNEL, Has.UNTRACED], Prospect.YES),
        ([Has.KERNEL, Has.SOME], Prospect.PERHAPS),
        ([Has.SOME, Has.MISSING], Prospect.NO),
        ([Has.UNKNOWN, Has.KERNEL], Prospect.UNKNOWN),
    ],
)
def test_a_model_and_many_models_are_asked_the_same(needs: list[Has], told: Prospect) -> None:
    assert prospect([Need(f"op{place}", has) for place, has in enumerate(needs)]) is told
    kinds = {f"op{place}": has for place, has in enumerate(needs)}
    found = reach(Models("one", {"m": frozenset(kinds)}), "p", kinds.__getitem__)
    assert (found.runnable, found.perhaps) == (told is Prospect.YES, told is Prospect.PERHAPS)


def test_a_missing_operator_may_be_replaced() -> None:
    assert prospect([Need("a", Has.MISSING, ("b",)), Need("b", Has.KERNEL)]) is Prospect.REPLACED


def test_an_empty_directory_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        models_of(tmp_path)


def test_a_table_of_a_corpus_counts_like_the_corpus(tmp_path: Path) -> None:
    entries = [
        Entry("timm:a", "timm", "vision", Status.BUILT, operators=("aten.add.Tensor", "aten._assert_async.msg")),
        Entry("timm:b", "timm", "vision", Status.BUILT, operators=("aten.add.Tensor", "aten.mul.Tensor")),
    ]
    with Store(tmp_path / "store", writing=True) as store:
        for entry in entries:
            store.record(entry)
    for name in ("table.json", "table.json.z"):
        (tmp_path / name).write_bytes(table_file(entries, tmp_path / name))
        found = models_of(tmp_path / name)
        assert found.operators == models_of(tmp_path / "store").operators
    assert found.counts == {"aten.add.Tensor": 2, "aten.mul.Tensor": 1}


def test_the_table_that_comes_with_mindgap_is_what_counts_by_default() -> None:
    assert SHIPPED.stat().st_size < 1 << 20
    found = models_of()
    assert len(found.operators) > 500 and found.where == "the table that comes with mindgap"
    assert found.counts["aten.linear.default"] > models_of(Path("smoke")).counts["aten.linear.default"]
    known = native_operators()
    assert {op for op in found.counts if op not in known} == set(), "all of them are operators of torch"


@pytest.mark.parametrize("content", [b"", b"{}", zlib.compress(b"{}"), zlib.compress(b"[" * 1000)[:-3]])
def test_a_packed_table_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.json.z"
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match="table of operators"):
        models_of(path)


def test_what_unlocks_most_comes_first_and_counts_what_came_before() -> None:
    found = reach(models(one="ab", two="a", three="abc", four="d"), "x", lacking("abc"))
    assert found.runnable == 1 and dict(found.blocking) == {"a": 3, "b": 2, "c": 1}
    assert [(u.op, u.models) for u in found.unlocking] == [("a", 1), ("b", 1), ("c", 1)]


def test_a_model_may_run_where_only_some_calls_of_an_operator_do() -> None:
    found = reach(
        models(one="ab", two="a", three="c"), "x", {"a": Has.SOME, "b": Has.MISSING, "c": Has.PARTS}.__getitem__
    )
    assert (found.runnable, found.perhaps) == (1, 1) and [u.op for u in found.unlocking] == ["b"]


@given(st.dictionaries(st.text(min_size=1, max_size=3), OPS, max_size=8), OPS)
def test_all_that_unlocks_together_unlocks_everything(
    operators: dict[str, frozenset[str]], missing: frozenset[str]
) -> None:
    found = reach(Models("some", operators), "x", lacking(missing))
    assert found.runnable + sum(u.models for u in found.unlocking) == len(operators)
    assert len(found.unlocking) <= MOST_UNLOCKING


def test_operators_are_chosen_by_name_or_whole() -> None:
    known = ["aten.add.Tensor", "aten.add.Scalar", "aten.softmax.int"]
    assert chosen(["add"], known) == known[:2]
    assert chosen(["aten.softmax.int", "aten::add"], known) == ["aten.softmax.int", *known[:2]]


def test_an_unknown_operator_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no operator sofmax") as error:
        chosen(["sofmax"], ["aten.softmax.int", "aten.add.Tensor"])
    assert "softmax" in str(error.value.hint)
