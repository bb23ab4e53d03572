"""An operator's name reaches an operator and nothing else."""

from __future__ import annotations

import pytest
import torch

from mindgap.errors import CorruptProgram
from mindgap.program import ops


@pytest.mark.parametrize("name", ["aten.add.Tensor", "aten.relu_.default", "operator.getitem", "math.floor"])
def test_names_go_back_and_forth(name: str) -> None:
    assert ops.name_of(ops.resolve(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "aten.from_file.default",
        "aten.from_file.out",
        "load_library.x.y",
        "aten.__class__.__init__",
        "aten.add",
        "builtins.eval.default",
        "aten.no_such_operator.default",
        "aten.add.no_such_overload",
        "operator.attrgetter",
        "operator.methodcaller",
        "",
    ],
)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(CorruptProgram):
        ops.resolve(name)


def test_file_operators_are_not_taken_into_a_program() -> None:
    assert ops.name_of(torch.ops.aten.from_file.default) is None


def test_schema_facts() -> None:
    assert ops.mutated_arguments("aten.add_.Tensor") == ((0, "self"),)
    assert ops.mutated_arguments("aten.add.Tensor") == ()
    assert [name for _, name in ops.mutated_arguments("aten.batch_norm.default")] == [
        "running_mean",
        "running_var",
    ]
    assert ops.may_alias("aten.view.default") and ops.may_alias("aten.dropout.default")
    assert not ops.may_alias("aten.add.Tensor")
