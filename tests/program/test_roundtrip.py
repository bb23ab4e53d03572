"""Source module, program and decoded program give identical bits."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mindgap.errors import CorruptProgram, UnsupportedConstruct
from mindgap.program import codec
from mindgap.program.build import build, plain
from mindgap.program.convert import returned, to_exported, to_graph_module
from mindgap.program.graph import Program, leaves
from mindgap.program.inputs import Inputs
from mindgap.program.interpret import Executable
from mindgap.program.precision import in_float64, widen
from mindgap.program.state import ModuleState
from mindgap.records.tensors import byte_view, same_bits
from tests.program.models import examples
from tests.program.validating import validate

NAMES = list(examples())


def export(model: nn.Module, inputs: Inputs) -> tuple[Program, dict[str, torch.Tensor]]:
    args, kwargs = inputs.call(inputs.copies())
    with torch.no_grad():
        return build(torch.export.export(copy.deepcopy(model), args, kwargs, strict=False), "model")


def run_source(model: nn.Module, inputs: Inputs) -> tuple[dict[str, Any], list[torch.Tensor]]:
    tensors = inputs.copies()
    args, kwargs = inputs.call(tensors)
    own = copy.deepcopy(model)
    state = ModuleState(own)
    with torch.no_grad():
        result = own(*args, **kwargs)
    outputs = {name or "output": value for name, value in leaves(plain(result))}
    return outputs | {f"buffer:{name}": tensor for name, tensor in sorted(state.changed().items())}, tensors


def assert_same(found: Any, expected: Any, name: str) -> None:
    if not isinstance(expected, torch.Tensor):
        assert found == expected, name
        return
    assert found.dtype == expected.dtype and found.shape == expected.shape, name
    assert found.stride() == expected.stride() or not expected.numel(), name
    assert torch.equal(byte_view(found), byte_view(expected)), name


@pytest.mark.parametrize("name", NAMES)
def test_program_and_decoded_program_give_the_sources_bits(name: str, tmp_path: Path) -> None:
    model, args, kwargs = examples()[name]
    inputs = Inputs.of(args, kwargs)
    expected, changed = run_source(model, inputs)
    program, constants = export(model, inputs)
    codec.save(tmp_path / "m.mgp", program, constants)
    decoded, loaded = codec.load(tmp_path / "m.mgp")
    assert decoded == program
    for one, weights in ((program, constants), (decoded, loaded)):
        executable = Executable(one, weights)
        for _ in range(2):  # the second run must not see what the first one wrote
            tensors = inputs.copies()
            with torch.no_grad():
                found = {path or "output": value for path, value in leaves(executable.run(tensors))}
            assert list(found) == list(expected)
            for path in expected:
                assert_same(found[path], expected[path], path)
            for got, want in zip(tensors, changed):
                assert_same(got, want, "input")


@pytest.mark.parametrize("name", NAMES)
def test_a_built_program_is_valid(name: str) -> None:
    model, args, kwargs = examples()[name]
    program, _ = export(model, Inputs.of(args, kwargs))
    validate(program)


@pytest.mark.parametrize("name", NAMES)
def test_graph_module_and_exported_program_give_the_sources_bits(name: str) -> None:
    model, args, kwargs = examples()[name]
    inputs = Inputs.of(args, kwargs)
    expected, changed = run_source(model, inputs)
    program, constants = export(model, inputs)
    with torch.no_grad():
        again = to_graph_module(program, constants)(*inputs.copies())
        exported = to_exported(program, constants, inputs.copies())
        functional = exported.module()(*inputs.copies())
    for (path, value), (_, want) in zip(leaves(again), leaves(list(expected.values()))):
        assert_same(value, want, path)
    names = returned(program)
    values = dict(zip(dict.fromkeys(names.values()), functional, strict=True))
    by_name = {path: values[identity] for path, identity in names.items()}
    inputs_after = {f"input:{item.name}": tensor for item, tensor in zip(inputs.tensors, changed)}
    for path, value in by_name.items():
        short = path.replace("input:x", "input:arg0")
        want = expected[path] if path in expected else inputs_after[short]
        assert torch.equal(value, want) or bool(want.isnan().any()), path


def test_float64_keeps_integers_and_widens_the_rest() -> None:
    model, args, kwargs = examples()["dtypes"]
    inputs = Inputs.of(args, kwargs)
    program, constants = export(model, inputs)
    wide, tensors = in_float64(program, constants)
    result = Executable(wide, tensors).run([widen(t) for t in inputs.copies()])
    assert [str(value.dtype).removeprefix("torch.") for value in result] == [
        "float64", "float64", "complex128", "int64", "bool", "uint8", "float64",
    ]  # fmt: skip


def test_an_enabled_autocast_region_is_named() -> None:
    class Autocast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=True):
                return x @ x

    with pytest.raises(UnsupportedConstruct, match="wrap_with_autocast"):
        export(Autocast(), Inputs.of((torch.randn(2, 2),), {}))


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_branch_on_data_becomes_a_choice_between_both_sides(shape: tuple[int, ...]) -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            flag = (x.sum() > 0).reshape(shape)
            return torch.cond(flag, lambda x: (x + 1, x.sum()), lambda x: (x * 2, x.mean()), (x,))  # type: ignore[no-any-return]

    for sign in (1, -1):
        given = sign * torch.rand(2, 2)
        program, constants = export(Branch(), Inputs.of((torch.rand(2, 2),), {}))
        found = Executable(program, constants).run([given])
        assert all(same_bits(a, b) for a, b in zip(found, Branch()(given)))


def test_operators_of_a_branch_tell_the_module_around_them() -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))  # type: ignore[no-any-return]

    program, _ = export(nn.Sequential(nn.ReLU(), Branch()), Inputs.of((torch.rand(2, 2),), {}))
    assert [node.where for node in program.nodes] == ["0", "1", "1", "1", "1", "1"]


def test_a_size_that_depends_on_data_is_named() -> None:
    class Selected(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0]

    with pytest.raises(UnsupportedConstruct, match="depends on data"):
        export(Selected(), Inputs.of((torch.randn(4),), {}))


def test_constants_that_do_not_match_their_digest_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model, args, kwargs = examples()["training"]
    program, constants = export(model, Inputs.of(args, kwargs))
    codec.save(tmp_path / "m.mgp", program, constants)
    tampered = {name: tensor + 1 for name, tensor in load_file(tmp_path / "m.safetensors").items()}
    save_file(tampered, tmp_path / "m.safetensors")
    with pytest.raises(CorruptProgram, match="digest"):
        codec.load(tmp_path / "m.mgp")
    (tmp_path / "m.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(CorruptProgram, match="cannot be read"):
        codec.load(tmp_path / "m.mgp")
    (tmp_path / "m.safetensors").unlink()
    with pytest.raises(CorruptProgram, match="missing"):
        codec.load(tmp_path / "m.mgp")
