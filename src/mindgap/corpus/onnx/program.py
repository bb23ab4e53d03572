"""From an ONNX file to a program: read once with real values, then traced as a module of torch.

The first reading computes whatever is known from the file and the sizes of the inputs (shapes, axes, folded constants),
with the standard's own reference implementation, and decides what each node becomes. An `If` whose condition depends on
an input becomes both of its sides and a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.corpus.library import import_library
from mindgap.corpus.onnx import layers
from mindgap.corpus.onnx.operators import HANDLERS, Handler, OnnxCall
from mindgap.errors import MindgapError, UnsupportedConstruct
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.platforms.exported import quiet
from mindgap.program.build import build
from mindgap.program.case import Case
from mindgap.program.graph import Program, leaves

_HINT: Final = "--inputs FILE gives it inputs of sizes that fit"
_OF_SHAPES: Final = frozenset({"Shape", "Size"})
_OLDER: Final = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""Operators whose older versions the reference implementation does not have."""
assert layers  # registers its operators


@dataclass
class _Step:
    """A node that depends on an input."""

    handler: Handler
    call: OnnxCall
    read: tuple[int | None, ...]
    """By operand: the value that it is, None for what is known."""
    made: tuple[int, ...]
    name: str
    """Of the node, without dots."""


@dataclass
class _Reading:
    """The first reading of a file."""

    version: int
    steps: list[_Step] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    """Numpy for what is known, tensors for what depends on an input."""
    weights: dict[int, tuple[np.ndarray, torch.Tensor]] = field(default_factory=dict)
    """By the identity of an array, which stays alive with it."""
    chosen: list[str] = field(default_factory=list)
    """Sides of an `If` that cannot run on these inputs."""

    def new(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def weight(self, array: np.ndarray) -> torch.Tensor:
        if id(array) not in self.weights:
            self.weights[id(array)] = (array, torch.from_numpy(np.array(array)))
        return self.weights[id(array)][1]

    def read(self, graph: Any, names: dict[str, int]) -> list[int]:
        """The values of a graph's outputs."""
        helper, numpy_helper = import_library("onnx.helper", "onnx"), import_library("onnx.numpy_helper", "onnx")
        for tensor in graph.initializer:
            names[tensor.name] = self.new(numpy_helper.to_array(tensor))
        for node in graph.node:
            attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
            attributes["outputs"] = len(node.output)
            operands = [names[name] if name else None for name in node.input]
            made = self._node(node, attributes, operands, names)
            names.update((name, value) for name, value in zip(node.output, made) if name)
        return [names[item.name] for item in graph.output]

    def _node(
        self, node: Any, attributes: dict[str, Any], operands: list[int | None], names: dict[str, int]
    ) -> list[int]:
        if node.op_type == "If":
            return self._choice(attributes, operands[0], names)
        given = [None if n is None else self.values[n] for n in operands]
        if node.op_type == "Identity":
            return [n for n in operands if n is not None]
        if node.op_type in _OF_SHAPES and isinstance(given[0], torch.Tensor):
            sizes = np.array(given[0].shape, dtype=np.int64)
            start, end = attributes.get("start", 0), attributes.get("end", len(sizes))
            return [self.new(sizes[start:end] if node.op_type == "Shape" else np.array(sizes.prod()))]
        if not any(isinstance(value, torch.Tensor) for value in given):
            return [self.new(value) for value in _folded(node, given, self.version)]
        if node.domain not in ("", "ai.onnx") or node.op_type not in HANDLERS:
            raise UnsupportedConstruct(f"the ONNX operator {'.'.join(filter(None, [node.domain, node.op_type]))}")
        kept = [value if isinstance(value, np.ndarray) else None for value in given]
        call = OnnxCall(node.op_type, attributes, kept, self.version, self.weight)
        read = tuple(n if isinstance(value, torch.Tensor) else None for n, value in zip(operands, given))
        return self._step(HANDLERS[node.op_type], call, read, node.name)

    def _step(self, handler: Handler, call: OnnxCall, read: tuple[int | None, ...], name: str) -> list[int]:
        result = handler(_with(call, [None if n is None else self.values[n] for n in read]))
        results = result if isinstance(result, tuple) else (result,)
        made = tuple(self.new(value) for value in results)
        plain = "".join(letter if letter.isalnum() else "_" for letter in name).strip("_")
        self.steps.append(_Step(handler, call, read, made, f"{plain or call.op}_{len(self.steps)}"))
        return list(made)

    def _choice(self, attributes: Mapping[str, Any], flag: int | None, names: dict[str, int]) -> list[int]:
        assert flag is not None
        value = self.values[flag]
        sides = [attributes["then_branch"], attributes["else_branch"]]
        taken = int(not bool(value.reshape(-1)[0].item()))
        if isinstance(value, np.ndarray):
            return self.read(sides[taken], dict(names))
        here = self.read(sides[taken], dict(names))
        before = len(self.steps)
        try:
            other = self.read(sides[1 - taken], dict(names))
        except UnsupportedConstruct:
            raise
        except Exception as error:  # sizes that fit the other side only
            del self.steps[before:]
            self.chosen.append(f"the side of an If that these inputs do not take: {error}".splitlines()[0])
            return here
        pairs = list(zip(here, other)) if taken == 0 else list(zip(other, here))
        if any(np.shape(self.values[a]) != np.shape(self.values[b]) for a, b in pairs):
            del self.steps[before:]
            self.chosen.append("the side of an If that gives another shape than the one these inputs take")
            return here
        return [self._where(flag, yes, no) for yes, no in pairs]

    def _where(self, flag: int, yes: int, no: int) -> int:
        known = [self.values[n] if isinstance(self.values[n], np.ndarray) else None for n in (flag, yes, no)]
        read = tuple(None if value is not None else n for n, value in zip((flag, yes, no), known))
        call = OnnxCall("Where", {}, known, self.version, self.weight)
        return self._step(lambda call: torch.where(call[0].reshape(()), call[1], call[2]), call, read, "If")[0]


def _with(call: OnnxCall, derived: Sequence[torch.Tensor | None]) -> OnnxCall:
    operands = [known if tensor is None else tensor for known, tensor in zip(call.operands, derived)]
    return OnnxCall(call.op, call.attributes, operands, call.version, call.weight)


def _folded(node: Any, given: Sequence[Any], version: int) -> list[np.ndarray]:
    """A node on what is known, by the standard's reference implementation."""
    helper = import_library("onnx.helper", "onnx")
    reference = import_library("onnx.reference", "onnx")
    if node.op_type in _OLDER:
        call = OnnxCall(node.op_type, {item.name: helper.get_attribute_value(item) for item in node.attribute}, given,
                        version, lambda array: torch.from_numpy(np.array(array)))  # fmt: skip
        return [HANDLERS[node.op_type](call).numpy()]
    inputs = [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in node.input if name]
    outputs = [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in node.output if name]
    graph = helper.make_graph([node], "folded", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    fed = {name: value for name, value in zip(node.input, given) if name}
    return [np.asarray(value) for value in reference.ReferenceEvaluator(model).run(None, fed)]


class _Node(torch.nn.Module):
    """One step as a module of its own, so that operators keep the name of the node that they come from."""

    def __init__(self, step: _Step, weight: Callable[[np.ndarray], torch.Tensor]) -> None:
        super().__init__()
        self._step, self._weight = step, weight

    def forward(self, *derived: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = iter(derived)
        call = _with(self._step.call, [None if n is None else next(given) for n in self._step.read])
        result = self._step.handler(replace(call, weight=self._weight))
        return tuple(result) if isinstance(result, tuple) else (result,)


class _Module(torch.nn.Module):
    """The steps of a file on its inputs."""

    def __init__(self, reading: _Reading, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        super().__init__()
        self._reading, self._inputs, self._outputs = reading, inputs, outputs
        self._names = {}
        for number, (key, (_, tensor)) in enumerate(reading.weights.items()):
            self._names[key] = f"w{number}"
            self.register_buffer(f"w{number}", tensor)
        for step in reading.steps:
            self.add_module(step.name, _Node(step, self._weight))

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values: dict[int, torch.Tensor] = dict(zip(self._inputs, tensors))
        for step in self._reading.steps:
            derived = [values[n] for n in step.read if n is not None]
            values.update(zip(step.made, self.get_submodule(step.name)(*derived)))
        return tuple(values[n] for n in self._outputs)

    def _weight(self, array: np.ndarray) -> torch.Tensor:
        return getattr(self, self._names[id(array)])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class FromOnnx:
    """A program that was made from a file, with its constants by digest."""

    program: Program
    constants: Mapping[str, torch.Tensor]
    left_out: tuple[str, ...]
    """What of the file is not in it."""


def program_of_onnx(model: Any, name: str, inputs: Mapping[str, torch.Tensor]) -> FromOnnx:
    """A parsed model as a program on inputs of these sizes; raises UnsupportedConstruct by name."""
    version = next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 1)
    reading = _Reading(version)
    initial = {tensor.name for tensor in model.graph.initializer}
    given = [item.name for item in model.graph.input if item.name not in initial]
    names = {name: reading.new(inputs[name]) for name in given}
    places = [names[name] for name in given]
    with torch.no_grad():
        made = reading.read(model.graph, names)
    outputs = {item.name: n for item, n in zip(model.graph.output, made) if isinstance(reading.values[n], torch.Tensor)}
    if not outputs:
        raise UnsupportedConstruct("an ONNX file whose outputs do not depend on its inputs")
    module = _Module(reading, places, list(outputs.values())).eval()
    with quiet(), torch.no_grad():
        exported = torch.export.export(module, tuple(inputs[name] for name in given), strict=False)
    program, constants = build(exported, name)
    described = tuple(replace(item, name=known) for item, known in zip(program.inputs, given))
    returned = dict(zip(outputs, (leaf for _, leaf in leaves(program.outputs))))
    program = replace(program, inputs=described, outputs=returned)
    return FromOnnx(program, constants, tuple(dict.fromkeys(reading.chosen)))


@dataclass(frozen=True, slots=True)
class ReadOnnx:
    """A case that is a file, to be made a program."""

    case: Parcel
    file: str
    """Takes the tensors."""


@dataclass(frozen=True, slots=True)
class OnnxParcel:
    """The same case with a program."""

    case: Parcel
    left_out: tuple[str, ...]


@hosting(MindgapError)
@task
def read_onnx(worker: Worker, request: ReadOnnx) -> OnnxParcel:
    """Read a file, operator by operator."""
    onnx = import_library("onnx", "onnx")
    case = open_parcel(request.case, Constants())
    with quiet():
        model = onnx.load(case.file)
    inputs = {item.name: item.tensor for item in case.inputs.tensors}
    try:
        found = program_of_onnx(model, case.name, inputs)
    except MindgapError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UnsupportedConstruct(f"{case.name} cannot be read on these inputs", cause=cause, hint=_HINT) from error
    made = Case.of(found.program, found.constants, [inputs[item.name] for item in found.program.inputs], case.seed)
    made = replace(made, parameters=case.parameters)
    return OnnxParcel(make_parcel(made, Path(request.file)), found.left_out)
