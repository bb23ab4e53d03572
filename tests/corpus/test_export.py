from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

from mindgap.corpus.export import as_module, export, prepare
from mindgap.corpus.loaded import Loaded
from mindgap.errors import ModelError, UnsupportedConstruct
from mindgap.program.interpret import Executable
from mindgap.records.tensors import TensorMeta


def nested(x: torch.Tensor, batch: dict[str, list[torch.Tensor]], *, scale: float, y: torch.Tensor) -> object:
    return {"sum": x + batch["mask"][0] * scale, "both": (y, batch["mask"][1] - y)}


def nested_inputs() -> Loaded:
    batch = {"mask": [torch.ones(2), torch.full((2,), 3.0)]}
    return Loaded("nested", (torch.zeros(2),), {"y": torch.ones(2), "scale": 0.5, "batch": batch}, nested)


def test_inputs_follow_the_signature_and_keep_their_nesting() -> None:
    inputs = prepare(nested_inputs())
    assert [item.name for item in inputs.tensors] == ["x", "batch.mask[0]", "batch.mask[1]", "y"]
    args, kwargs = inputs.call(inputs.copies())
    assert list(kwargs) == ["batch", "scale", "y"] and kwargs["scale"] == 0.5
    assert torch.equal(nested(*args, **kwargs)["sum"], torch.full((2,), 0.5))  # type: ignore[arg-type, index]


def test_the_program_takes_the_same_inputs_by_the_same_names() -> None:
    loaded = nested_inputs()
    inputs = prepare(loaded)
    program, constants = export(loaded)
    assert [item.name for item in program.inputs] == [item.name for item in inputs.tensors]
    assert [item.meta for item in program.inputs] == [TensorMeta.of(item.tensor) for item in inputs.tensors]
    result = Executable(program, constants).run(inputs.copies())
    assert torch.equal(result["both"][1], torch.full((2,), 2.0))


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_order_in_which_keywords_are_given_does_not_matter(order: tuple[str, str]) -> None:
    def subtract(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b

    values = {"a": torch.full((2,), 5.0), "b": torch.ones(3)[:2]}
    loaded = Loaded("subtract", (), {name: values[name] for name in order}, subtract)
    program, constants = export(loaded)
    assert [item.name for item in program.inputs] == ["a", "b"]
    assert Executable(program, constants).run(prepare(loaded).copies()).tolist() == [4.0, 4.0]


def test_variadic_and_extra_arguments_have_names() -> None:
    def everything(first: torch.Tensor, *rest: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return first + rest[0] + rest[1] + more["last"]

    one = torch.ones(1)
    loaded = Loaded("everything", (one, one, one), {"last": one}, everything)
    program, constants = export(loaded)
    assert [item.name for item in program.inputs] == ["first", "rest0", "rest1", "last"]
    assert Executable(program, constants).run(prepare(loaded).copies()).tolist() == [4.0]


def test_a_built_in_function_can_be_exported() -> None:
    loaded = Loaded("add", (torch.ones(2), torch.ones(2)), {}, torch.add)
    program, _ = export(loaded)
    assert [node.op for node in program.nodes] == ["aten.add.Tensor"]


def test_a_module_is_taken_as_it_is() -> None:
    module = torch.nn.ReLU()
    assert as_module(module) is module


def test_exporting_leaves_inputs_as_they_were() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    x = torch.zeros(2)
    export(Loaded("change", (x,), {}, change))
    assert x.tolist() == [0.0, 0.0]


def test_a_program_is_its_own_export() -> None:
    program, constants = export(nested_inputs())
    tensors = tuple(prepare(nested_inputs()).copies())
    loaded = Loaded("p", tensors, {}, program=program, constants=constants)
    assert export(loaded) == (program, constants)
    assert [item.name for item in prepare(loaded).tensors] == [item.name for item in program.inputs]


def test_inputs_that_do_not_fit_are_refused_before_export() -> None:
    with pytest.raises(ModelError, match="do not fit"):
        export(Loaded("nested", (torch.zeros(2),), {}, nested))


def test_what_a_program_cannot_express_is_named() -> None:
    def repeated(x: torch.Tensor) -> torch.Tensor:
        found: tuple[torch.Tensor, ...] = while_loop(lambda v: v.sum() < 9, lambda v: (v + 1,), (x,))
        return found[0]

    with pytest.raises(UnsupportedConstruct, match="while_loop"):
        export(Loaded("repeated", (torch.ones(2),), {}, repeated))
