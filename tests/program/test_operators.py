"""Every row of the operator table says something that torch's schemas allow."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mindgap.program import ops
from mindgap.program.operators import TABLE, Rounding, Terms, Traits, base_name, traits
from mindgap.verdicts.unspecified import RULES

NAMED = [(name, row) for row, names in TABLE for name in names.split()]
OPERATORS = [(name, row) for name, row in NAMED if not name.startswith("operator.")]
OF_TORCHVISION = {"roi_align", "roi_pool"}
"""Operators of a package that need not be installed."""
FOR_ANY_OPERATOR = {
    "random-stream", "overlapping-memory", "accumulation-order", "cancelled-sum", "denormal-flush",
    "intermediate-precision", "missing-kernel", "signed-zero",
}  # fmt: skip
"""Rules that match by tags and values, or that no single call shows."""


@functools.cache
def schemas_of(name: str) -> list[Any]:
    """The schemas of all overloads that a row's name stands for, in place or not."""
    base, _, overload = name.partition(".")
    found = [s for plain in (base, f"{base}_") for s in torch._C._jit_get_schemas_for_operator(f"aten::{plain}")]
    return [s for s in found if s.overload_name == overload] if overload else found


def types_at(name: str, position: int) -> set[str]:
    """What the overloads take at a position."""
    return {str(s.arguments[position].type) for s in schemas_of(name) if position < len(s.arguments)}


def arguments_of(name: str) -> list[Any]:
    return [argument for schema in schemas_of(name) for argument in schema.arguments]


def tags_of(name: str) -> set[torch.Tag]:
    names = [f"{s.name.replace('::', '.')}.{s.overload_name or 'default'}" for s in schemas_of(name)]
    return {tag for full in names for tag in getattr(ops.resolve(full), "tags", ())}


def wrong(holds: Callable[[str, Traits], Any]) -> list[str]:
    """The operators for which something does not hold."""
    return [name for name, row in OPERATORS if not holds(name, row)]


def test_an_operator_has_one_row() -> None:
    assert [name for name, count in Counter(name for name, _ in NAMED).items() if count > 1] == []


def test_every_operator_exists() -> None:
    real = {full.partition("::")[2].partition(".")[0] for full in torch._C._dispatch_get_all_op_names()}

    def exists(name: str, row: Traits) -> bool:
        base = name.partition(".")[0]
        return name in OF_TORCHVISION or (bool({base, f"{base}_"} & real) and bool(schemas_of(name)))

    assert wrong(exists) == []


def test_operands_are_tensors_of_what_rounds_inside() -> None:
    assert wrong(lambda name, row: all("Tensor" in types_at(name, position) for position in row.operands)) == []
    assert wrong(lambda name, row: not row.operands or row.rounding is Rounding.INSIDE) == []


def test_what_is_added_up_can_be_counted() -> None:
    second = {Terms.NORMALISED: "List[int]", Terms.DIM: "int"}
    assert wrong(lambda name, row: row.terms not in second or second[row.terms] in types_at(name, 1)) == []
    assert wrong(lambda name, row: (len(row.operands) == 2) == (row.terms in (Terms.INNER, Terms.KERNEL))) == []
    assert wrong(lambda name, row: row.terms is Terms.ONE or row.rounding is Rounding.INSIDE) == []


def test_sums_can_be_made_of_sizes() -> None:
    """What adds up rounds inside, and every average says how many terms it has."""
    assert wrong(lambda name, row: not (row.sums or row.transforms) or row.rounding is Rounding.INSIDE) == []
    assert wrong(lambda name, row: not row.averages or (row.sums and row.terms in (Terms.DIMS, Terms.WINDOW))) == []
    assert wrong(lambda name, row: row.terms is not Terms.COUNTED or row.sums) == []
    assert wrong(lambda name, row: row.terms is not Terms.WINDOW or traits(f"aten.{name}.default").spatial) == []
    assert wrong(lambda name, row: not row.transforms or "dim" in {a.name for a in arguments_of(name)}) == []


def test_codes_and_ordered_arguments_are_in_the_schema() -> None:
    def named(name: str, row: Traits) -> bool:
        return {*dict(row.codes), *row.ascending} <= {argument.name for argument in arguments_of(name)}

    assert wrong(named) == []


def test_indices_are_a_result() -> None:
    def fits(name: str, row: Traits) -> bool:
        results = [s.returns for s in schemas_of(name)]
        at = row.indices
        return at is None or {str(found[at].type) for found in results if len(found) > at} == {"Tensor"}

    assert wrong(fits) == []


def test_arguments_that_a_row_relies_on_exist() -> None:
    assert wrong(lambda name, row: not row.drops or {s.arguments[2].name for s in schemas_of(name)} == {"train"}) == []
    assert wrong(lambda name, row: not row.drops or types_at(name, 2) <= {"bool", "Optional[bool]"}) == []
    assert wrong(lambda name, row: not row.lends or types_at(name, 1) == {"Tensor"}) == []
    lists = ("List[int]", "List[SymInt]")
    assert wrong(lambda name, row: not row.sized or any(str(a.type) in lists for a in arguments_of(name))) == []
    assert wrong(lambda name, row: not row.reshapes or types_at(name, 1) & {*lists}) == []
    indices = {"index", "indices"}
    assert wrong(lambda name, row: not row.indexed or indices & {a.name for a in arguments_of(name)}) == []


def test_no_row_contradicts_a_schema_or_repeats_it() -> None:
    def writes_in_silence(name: str, row: Traits) -> bool:
        plain = {a.name: a.alias_info for s in schemas_of(name) if not s.overload_name for a in s.arguments}
        return all(argument in plain and plain[argument] is None for argument in row.writes)

    assert wrong(writes_in_silence) == []
    assert wrong(lambda name, row: not row.drops or torch.Tag.nondeterministic_seeded in tags_of(name)) == []
    assert wrong(lambda name, row: not row.operands or row.recurs or torch.Tag.pointwise not in tags_of(name)) == []
    assert wrong(lambda name, row: not row.view or any(r.alias_info for s in schemas_of(name) for r in s.returns)) == []


def test_facts_of_a_row_go_together() -> None:
    assert wrong(lambda name, row: row.ulps == 1 or row.rounding is Rounding.ONCE) == []
    assert wrong(lambda name, row: not row.follows_argument or row.rounding is Rounding.ABSOLUTE) == []
    assert wrong(lambda name, row: not (row.casts or row.drops) or row.rounding is Rounding.ONCE) == []
    exact = ("view", "selects", "blanks", "borrows", "asserts", "traps", "indices")
    assert wrong(lambda name, row: not any(getattr(row, f) for f in exact) or row.rounding is Rounding.EXACT) == []
    assert wrong(lambda name, row: not row.distinct or row.indices is not None) == []
    assert wrong(lambda name, row: not (row.reshapes and row.sized) and not row.spatial) == []


def test_rows_and_rules_name_each_other() -> None:
    assert {rule for _, row in NAMED for rule in row.unspecified} == set(RULES) - FOR_ANY_OPERATOR


def test_an_overload_may_have_a_row_of_its_own() -> None:
    assert traits("aten.div.Tensor").rounding is Rounding.ONCE
    for name in ("aten.div.Tensor_mode", "aten.div_.Scalar_mode", "aten.divide_.Tensor_mode"):
        assert traits(name).rounding is Rounding.EXACT and traits(name).traps
    assert traits("aten.view.default").view and not traits("aten.view.dtype").view


def test_what_no_row_names_is_taken_to_round_inside() -> None:
    assert traits("aten.no_such_operator.default") == Traits()


def test_plain_functions_are_exact_whatever_operator_has_their_name() -> None:
    assert traits("operator.add").rounding is Rounding.EXACT and traits("operator.getitem").selects
    assert {name for name, _ in NAMED if name.startswith("operator.")} <= set(ops.SCALAR_FUNCTIONS)


def test_spatial_dimensions_are_read_from_the_name() -> None:
    assert (traits("aten.conv2d.default").spatial, traits("aten.conv2d.default").rank) == (2, 4)
    assert traits("aten.max_pool3d_with_indices.default").spatial == 3
    assert not any(traits(f"aten.{name}.default").spatial for name in ("atleast_1d", "rad2deg", "relu"))


@pytest.mark.parametrize(
    ("op", "name"), [("aten.add_.Tensor", "add"), ("aten.__lshift__.Scalar", "__lshift__"), ("add", "add")]
)
def test_base_names(op: str, name: str) -> None:
    assert base_name(op) == name
