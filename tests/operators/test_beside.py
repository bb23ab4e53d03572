"""Declared and observed over the same operators: counted by code, contradictions named."""

from __future__ import annotations

from mindgap.operators.beside import beside
from mindgap.operators.declared import Declaration, Has
from mindgap.operators.document import Answer
from mindgap.operators.observed import COMPILED, DEFAULT_MODE, Cell, Grade, Observed, mode_of
from mindgap.records.variant import Sweep
from mindgap.report.operators import sections

OPS = ("aten.a.default", "aten.b.default", "aten.c.default", "aten.d.default", "aten.e.default")
GOOD, BAD = Cell(Grade.AGREES, {"agrees bitwise": 2}), Cell(Grade.NOT_CONVERTIBLE, {"not convertible": 2})


def observed(platform: str = "p") -> Observed:
    cells = dict(zip(OPS, (GOOD, GOOD, BAD, BAD)))
    return Observed(
        Sweep(OPS, ("float32",)), (platform,), {}, "", {(platform, op, "float32"): c for op, c in cells.items()},
        frozenset((op, "float32") for op in OPS), modes={platform: "default"},
    )  # fmt: skip


def declaration(is_complete: bool = True) -> Declaration:
    kinds = (Has.KERNEL, Has.MISSING, Has.KERNEL, Has.SOME, Has.KERNEL)
    return Declaration("p", "a list", dict(zip(OPS, kinds)), is_complete=is_complete)


def test_both_are_counted_over_the_same_operators() -> None:
    (row,) = beside([declaration()], observed(), {OPS[0]: 3, OPS[2]: 1}, OPS)
    assert (row.operators, row.declared, row.running) == (4, 2, 2)  # the fifth was never asked for
    assert (row.declared_fewer_percent, row.running_fewer_percent) == (50.0, 50.0)
    assert (row.declared_weighted_percent, row.running_weighted_percent) == (100.0, 75.0)
    assert row.missing_but_ran == (OPS[1],) and row.declared_but_nothing_ran == (OPS[2],)
    titles = [title for title, _, _ in sections(Answer(observed=observed(), beside=(row,)))]
    assert any("beside" in title for title in titles) and any("contradict" in title for title in titles)


def test_of_an_incomplete_list_nothing_is_concluded() -> None:
    for declared in ([declaration(is_complete=False)], []):
        (row,) = beside(declared, observed(), {}, OPS)
        assert row.declared is row.declared_fewer_percent is None and row.running == 2
        assert row.missing_but_ran == row.declared_but_nothing_ran == ()


def test_the_mode_is_that_of_torch_compile() -> None:
    assert mode_of("inductor") == COMPILED
    assert mode_of("eager@scalar") == mode_of("onnxruntime") == mode_of("somebody") == DEFAULT_MODE
