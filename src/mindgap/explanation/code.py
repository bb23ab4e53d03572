"""A witness as readable PyTorch source text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from mindgap.explanation.spelling import dtype_name, is_named, literal, number, spell
from mindgap.program.case import Case
from mindgap.program.convert import changed_inputs, returned
from mindgap.program.graph import Node, NodeMeta, Ref, leaves, references
from mindgap.program.inputs import copy_of
from mindgap.reduction.simplicity import has_plain_strides

MOST_LITERALS: Final = 64
"""Elements of a tensor that are written into the script; larger ones go to a file beside it."""

MOST_SPELT: Final = 60
"""Operators of a program that is written as a person would: each spelling is tried out, which takes its time."""

_NAMES: Final = ("x", "y", "z", "w")


@dataclass(frozen=True, slots=True)
class Code:
    """The parts of a script that come from the witness."""

    function: str
    """Source of a function `model(...)`, or of a module when there are constants."""
    is_module: bool
    inputs: tuple[str, ...]
    """Source of each input tensor."""
    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    """Parameters that hold a floating dtype."""
    changed: tuple[int, ...]
    """Positions of the inputs that the program writes to."""
    data: dict[str, torch.Tensor]
    """Tensors that are too large for literals, by name."""


def write_code(witness: Case, as_module: bool, returns_changed: bool, exact: bool = False) -> Code:
    """The witness as source; `returns_changed` works on copies and returns what was written, as exporters want.

    With `exact`, and in a program that nobody reads to its end, operators have their full names.
    """
    program = witness.graph
    exact = exact or len(program.nodes) > MOST_SPELT
    shown = _NAMES if len(program.inputs) <= len(_NAMES) else [f"x{i}" for i in range(len(program.inputs))]
    names = {item.id: name for item, name in zip(program.inputs, shown)}
    names |= {constant.id: f"self.c{i}" for i, constant in enumerate(program.constants)}
    changed = changed_inputs(program)
    dtypes = _dtype_parameters(program.nodes)
    metas: dict[int, NodeMeta] = {item.id: item.meta for item in program.given()}
    metas |= {node.id: node.meta for node in program.nodes}
    body = [f"{names[i]} = {names[i]}.clone()" for i in changed] if returns_changed else []
    read = {int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)}
    read |= {r for node in program.nodes for r in references(node)}
    for place, node in enumerate(program.nodes):
        text = spell(node, names, metas, exact)
        names[node.id] = f"t{place}"
        body.append(f"t{place} = {text}" if node.id in read else text)
    if returns_changed:
        results = [names[identity] for identity in dict.fromkeys(returned(program).values())]
    else:
        results = [literal(leaf, names) for _, leaf in leaves(program.outputs) if leaf is not None]
    listed = ", ".join(results)
    if len(results) == 1 and body and body[-1].startswith(f"{listed} = "):
        listed = body.pop().removeprefix(f"{listed} = ")
    body.append(f"return {listed}" if results else "return []")
    data: dict[str, torch.Tensor] = {}
    inputs = tuple(tensor_text(t, name, data) for t, name in zip(witness.tensors, shown))
    is_module = as_module or bool(program.constants)
    header = [*(names[item.id] for item in program.inputs), *(f"{name}=torch.{name}" for name in dtypes)]
    constants = [tensor_text(t, f"c{i}", data) for i, t in enumerate(witness.used_constants())]
    function = _module(header, body, constants) if is_module else _function(header, body)
    positions = tuple(i for i, item in enumerate(program.inputs) if item.id in changed)
    return Code(function, is_module, inputs, tuple(shown[: len(inputs)]), tuple(dtypes), positions, data)


def _dtype_parameters(nodes: Sequence[Node]) -> list[str]:
    """Floating dtypes in the code are parameters, so that the same code also runs in float64."""
    found = [leaf for node in nodes for _, leaf in leaves([*node.args, *node.kwargs.values()])]
    used = dict.fromkeys(leaf for leaf in found if isinstance(leaf, torch.dtype) and is_named(leaf))
    return [dtype_name(dtype) for dtype in used]


def _function(header: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([f"def model({', '.join(header)}):", *(f"    {line}" for line in body)])


def _module(header: Sequence[str], body: Sequence[str], constants: Sequence[str]) -> str:
    lines = ["class Model(torch.nn.Module):"]
    if constants:
        lines += ["    def __init__(self):", "        super().__init__()"]
        lines += [f'        self.register_buffer("c{i}", {text})' for i, text in enumerate(constants)]
        lines.append("")
    lines.append(f"    def forward(self, {', '.join(header)}):" if header else "    def forward(self):")
    return "\n".join([*lines, *(f"        {line}" for line in body)])


def tensor_text(tensor: torch.Tensor, name: str, data: dict[str, torch.Tensor]) -> str:
    """Source that makes a tensor, layout included; a large one is put into `data` and read from there."""
    tensor = copy_of(tensor)  # without what else lies in its memory, and with what the platform finds there
    if tensor.numel() > MOST_LITERALS:
        if _uniform(tensor) and tensor.is_contiguous():
            return f"torch.full({tuple(tensor.shape)}, {_value(tensor.reshape(-1)[0])}{_dtype_text(tensor)})"
        data[name] = tensor
        return f'DATA["{name}"]'
    if tensor.numel() and has_plain_strides(tensor):
        return f"torch.tensor({_nested(tensor)}{_dtype_text(tensor)})"
    if not tensor.numel():
        return f"torch.empty_strided({tuple(tensor.shape)}, {tuple(tensor.stride())}{_dtype_text(tensor)})"
    room = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    memory = tensor.as_strided((room,), (1,), tensor.storage_offset()) if room <= MOST_LITERALS else None
    if memory is None:
        data[name] = tensor
        return f'DATA["{name}"]'
    layout = f".as_strided({tuple(tensor.shape)}, {tuple(tensor.stride())})"
    return f"torch.tensor({_nested(memory)}{_dtype_text(tensor)}){layout}"


def _dtype_text(tensor: torch.Tensor) -> str:
    """The dtype, unless torch.tensor finds it from the literals."""
    plain = tensor.dtype in (torch.float32, torch.int64, torch.bool) and tensor.numel() > 0
    return "" if plain else f", dtype={tensor.dtype}"


def _nested(tensor: torch.Tensor) -> str:
    if tensor.dim() == 0:
        return _value(tensor)
    return f"[{', '.join(_nested(item) for item in tensor)}]"


def _value(tensor: torch.Tensor) -> str:
    value = tensor.item()
    if not isinstance(value, float):
        return repr(value)
    if tensor.dtype is torch.float32 and value - value == 0:
        return repr(float(str(tensor.numpy())))  # the shortest text that gives the same float32
    return number(value)


def _uniform(tensor: torch.Tensor) -> bool:
    first = tensor.reshape(-1)[:1]
    return bool(torch.equal(tensor.reshape(-1), first.expand(tensor.numel())))
