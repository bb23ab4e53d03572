"""Runs an ONNX file node by node with the standard's reference implementation: in float64, and with noise.

The file is run as it is. Nothing in it is executed: every operator is numpy code of the `onnx` package.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from mindgap.program.inputs import Inputs
from mindgap.records.tensors import DTYPES
from mindgap.verdicts.runner import Call, Hook, HookedRunner, ModelFile

_EXACT: Final = """
    Identity Reshape Transpose Squeeze Unsqueeze Flatten Expand Tile Slice Split Concat Gather GatherElements
    GatherND Scatter ScatterElements ScatterND Pad Where Shape Size Constant ConstantOfShape Range NonZero
    Compress OneHot DepthToSpace SpaceToDepth ReverseSequence Unique EyeLike Trilu CenterCropPad Max Min
    ReduceMax ReduceMin MaxPool GlobalMaxPool ArgMax ArgMin TopK Relu Clip Neg Abs Sign Floor Ceil Round Equal
    Greater GreaterOrEqual Less LessOrEqual And Or Not Xor IsNaN IsInf BitShift BitwiseAnd BitwiseOr BitwiseXor
    BitwiseNot Dropout QuantizeLinear ThresholdedRelu Bernoulli SequenceConstruct SequenceAt SequenceInsert
    SequenceErase SequenceLength SequenceEmpty SplitToSequence Optional OptionalGetElement OptionalHasElement
    NonMaxSuppression StringNormalizer
"""

ALIKE: Final = {
    **dict.fromkeys(_EXACT.split(), "aten.clone.default"),
    "Add": "aten.add.Tensor", "Sub": "aten.sub.Tensor", "Mul": "aten.mul.Tensor", "Div": "aten.div.Tensor",
    "Sqrt": "aten.sqrt.default", "Reciprocal": "aten.reciprocal.default", "Exp": "aten.exp.default",
    "Log": "aten.log.default", "Tanh": "aten.tanh.default", "Sigmoid": "aten.sigmoid.default",
    "Erf": "aten.erf.default", "Sin": "aten.sin.default", "Cos": "aten.cos.default",
    "Conv": "aten.convolution.default", "MatMul": "aten.matmul.default", "Gemm": "aten.matmul.default",
    "Cast": "aten._to_copy.default", "CastLike": "aten._to_copy.default",
}  # fmt: skip
"""The operator of torch that rounds like one of ONNX, with the same operands in the same places; what is not listed
rounds inside, which is safe and vague."""

_REDUCTIONS: Final = {"ReduceSum": "aten.sum.dim_IntList", "ReduceMean": "aten.mean.dim"}
_RESIZES: Final = {
    b"nearest": "aten.clone.default",
    b"linear": "aten.upsample_bilinear2d.default",
    b"cubic": "aten.upsample_bicubic2d.default",
}
_DATA_INPUTS: Final = {"Resize": 1, "Upsample": 1}
"""How many inputs of an operator are data; the others describe its shape, where no noise belongs."""
_TYPED: Final = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), "output_datatype"),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), "dtype"),
}
"""The attribute with the type of the result, of operators that make float32 without it."""
_NARROW: Final = (1, 10, 16)
"""float32, float16 and bfloat16 among the numbers of TensorProto.DataType."""
_WIDE: Final = 11


@dataclass(frozen=True, slots=True)
class OnnxFile(ModelFile):
    """A model file that is run as it is."""

    path: str

    def runner(self, inputs: Inputs, seed: int) -> HookedRunner:
        return OnnxRunner(self, inputs, seed)


class OnnxRunner(HookedRunner):
    """Runs the nodes of a file one after the other."""

    def __init__(self, file: OnnxFile, inputs: Inputs, seed: int) -> None:
        super().__init__(inputs, seed)
        self._path = file.path

    @functools.cached_property
    def _plain(self) -> Any:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(self._path)

    @functools.cached_property
    def _wide(self) -> Any:
        import onnx
        from onnx.reference import ReferenceEvaluator

        model = onnx.load(self._path)
        _widen_graph(model.graph)
        for function in model.functions:
            _widen_nodes(function.node)
        return ReferenceEvaluator(model)

    def writes(self, position: int, before: torch.Tensor, after: torch.Tensor) -> bool:
        return False

    def call(self, tensors: Sequence[torch.Tensor], hook: Hook, wide: bool) -> Any:
        evaluator = self._wide if wide else self._plain
        results: dict[str, Any] = {"": None, **evaluator.rt_inits_}
        results |= {item.name: to_array(tensor) for item, tensor in zip(self.inputs.tensors, tensors)}
        with np.errstate(all="ignore"):
            for key, node in enumerate(evaluator.rt_nodes_):
                values = [as_tensors(results[name]) for name in node.input]
                data = _DATA_INPUTS.get(node.onnx_node.op_type, len(values))
                function = _NodeFunction(node, results, values[data:])
                call = Call(_alike(node), function, values[:data], _reduced(node, results), key, node.onnx_node.name)
                made = hook(call)
                outputs = made if isinstance(made, tuple) else (made,)
                results |= {name: as_arrays(value) for name, value in zip(node.output, outputs)}
        return {name: as_tensors(results[name]) for name in evaluator.output_names}


class _NodeFunction:
    """One node as a function of tensors; what it returns shares no memory with what it was given."""

    def __init__(self, node: Any, context: dict[str, Any], fixed: Sequence[Any] = ()) -> None:
        self._node = node
        self._context = context
        self._fixed = fixed

    def __call__(self, *args: Any, **described: Any) -> Any:
        arrays = [as_arrays(value) for value in (*args, *self._fixed)]
        more = {"context": self._context} if self._node.need_context() else {}
        outputs = tuple(as_tensors(_own(value, arrays)) for value in self._node.run(*arrays, **more))
        return outputs[0] if len(outputs) == 1 else outputs


def _own(value: Any, given: Sequence[Any]) -> Any:
    """A copy where a result is an argument in disguise: noise is added in place."""
    if isinstance(value, list | tuple):
        return [_own(item, given) for item in value]
    array = np.asarray(value)
    shared = any(isinstance(other, np.ndarray) and np.may_share_memory(array, other) for other in given)
    return array.copy() if shared or not array.flags.writeable else array


@dataclass(frozen=True)
class SeenNode:
    """One node as the reference implementation ran it."""

    index: int
    kind: str
    name: str
    model: bytes
    """The node alone as a model; everything that it reads is an input."""
    inputs: dict[str, torch.Tensor]
    reads_context: bool
    """Whether it holds graphs that read values from outside: then it cannot stand alone."""


def seen_nodes(path: str, inputs: Inputs) -> Iterator[SeenNode]:
    """The nodes of a file, one after the other, each with the values that the reference implementation gives it."""
    runner = OnnxRunner(OnnxFile(path), inputs, 0)
    evaluator = runner._plain
    opsets = [(item.domain, item.version) for item in evaluator.proto_.opset_import]
    results: dict[str, Any] = {"": None, **evaluator.rt_inits_}
    results |= {item.name: to_array(item.tensor) for item in inputs.tensors}
    with np.errstate(all="ignore"):
        for index, node in enumerate(evaluator.rt_nodes_):
            given = {name: as_tensors(results[name]) for name in node.input if name}
            outputs = _NodeFunction(node, results)(*(as_tensors(results[name]) for name in node.input))
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            results |= {name: as_arrays(value) for name, value in zip(node.output, outputs)}
            tensors = [*given.values(), *outputs]
            if all(isinstance(value, torch.Tensor) for value in tensors):
                proto = node.onnx_node
                made = [(name, results[name]) for name in proto.output if name and name in results]
                model = _alone(proto, given, made, opsets)
                yield SeenNode(index, proto.op_type, proto.name, model, given, bool(node.need_context()))


def cut(path: str, inputs: Inputs, first: int, last: int) -> tuple[bytes, dict[str, torch.Tensor]]:
    """The nodes from one to another as a model, and what the reference implementation feeds them with; it returns what
    the last of them returns, and holds its own weights.

    Raises ValueError where a node reads values from outside by name, as those with graphs of their own do.
    """
    from onnx import numpy_helper

    runner = OnnxRunner(OnnxFile(path), inputs, 0)
    evaluator = runner._plain
    nodes = evaluator.rt_nodes_[first : last + 1]
    if any(node.need_context() for node in nodes):
        raise ValueError("a node holds a graph of its own")
    results: dict[str, Any] = {"": None, **evaluator.rt_inits_}
    results |= {item.name: to_array(item.tensor) for item in inputs.tensors}
    with np.errstate(all="ignore"):
        for node in evaluator.rt_nodes_[: last + 1]:
            outputs = _NodeFunction(node, results)(*(as_tensors(results[name]) for name in node.input))
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            results |= {name: as_arrays(value) for name, value in zip(node.output, outputs)}
    made = {name for node in nodes for name in node.output}
    read = sorted({name for node in nodes for name in node.input if name} - made)
    weights = [numpy_helper.from_array(results[name], name) for name in read if name in evaluator.rt_inits_]
    given = {name: as_tensors(results[name]) for name in read if name not in evaluator.rt_inits_}
    returned = [(name, results[name]) for name in nodes[-1].output if name]
    opsets = [(item.domain, item.version) for item in evaluator.proto_.opset_import]
    return _model([node.onnx_node for node in nodes], given, returned, opsets, weights), given


def _alone(proto: Any, given: dict[str, torch.Tensor], made: Sequence[tuple[str, Any]], opsets: Any) -> bytes:
    return _model([proto], given, made, opsets)


def _model(
    protos: Sequence[Any],
    given: dict[str, torch.Tensor],
    made: Sequence[tuple[str, Any]],
    opsets: Any,
    weights: Sequence[Any] = (),
) -> bytes:
    """Nodes as a model of their own."""
    from onnx import helper

    def described(name: str, array: Any) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    takes = [described(name, to_array(tensor)) for name, tensor in given.items()]
    gives = [described(name, np.asarray(array)) for name, array in made]
    graph = helper.make_graph(list(protos), "node", takes, gives, initializer=list(weights))
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString())


def _alike(node: Any) -> str:
    kind = node.onnx_node.op_type
    if node.onnx_node.domain not in ("", "ai.onnx"):
        return f"onnx.{kind}"
    if kind in ("Resize", "Upsample"):
        mode = next((item.s for item in node.onnx_node.attribute if item.name == "mode"), b"nearest")
        return _RESIZES.get(mode, f"onnx.{kind}")
    return _REDUCTIONS.get(kind) or ALIKE.get(kind) or f"onnx.{kind}"


def _reduced(node: Any, results: dict[str, Any]) -> dict[str, Any]:
    """The dimensions that a reduction folds, as torch's would be given; for the length of its sums."""
    if node.onnx_node.op_type not in _REDUCTIONS:
        return {}
    axes: Any = getattr(node, "axes", None)
    if axes is None and len(node.input) > 1 and results.get(node.input[1]) is not None:
        axes = np.asarray(results[node.input[1]]).tolist()
    return {"dim": [int(axis) for axis in axes]} if axes is not None and len(axes) else {}


def as_tensors(value: Any) -> Any:
    """Arrays as tensors of the same memory; what is no array stays."""
    if isinstance(value, list | tuple):
        return [as_tensors(item) for item in value]
    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.ascontiguousarray(value)
    if array.shape != np.shape(value):
        array = array.reshape(np.shape(value))
    if array.dtype.kind in "OSU":
        return value
    name = array.dtype.name
    if name == "bfloat16" or name.startswith("float8"):
        if name not in DTYPES:
            raise TypeError(f"mindgap has no tensors of {name}")
        bits = array.view(np.uint16 if name == "bfloat16" else np.uint8)
        return torch.from_numpy(bits).view(DTYPES[name])
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def as_arrays(value: Any) -> Any:
    """Tensors as arrays; what is no tensor stays."""
    if isinstance(value, list | tuple):
        return [as_arrays(item) for item in value]
    return to_array(value) if isinstance(value, torch.Tensor) else value


def to_array(tensor: torch.Tensor) -> Any:
    """A tensor as an array, with the types of ml_dtypes where numpy has none."""
    name = str(tensor.dtype).removeprefix("torch.")
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if name == "bfloat16" or name.startswith("float8"):
        import ml_dtypes

        bits = torch.uint16 if name == "bfloat16" else torch.uint8
        return plain.view(bits).numpy().view(getattr(ml_dtypes, name))
    return plain.numpy()


def _widen_graph(graph: Any) -> None:
    """Every floating constant and cast of a graph in float64; integers stay."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        if kind.elem_type in _NARROW:
            kind.elem_type = _WIDE
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Any) -> None:
    from onnx import helper, numpy_helper

    for node in nodes:
        named = {attribute.name for attribute in node.attribute}
        if _TYPED.get(node.op_type, "") not in ("", *named):
            node.attribute.append(helper.make_attribute(_TYPED[node.op_type], _WIDE))
        if node.op_type == "ConstantOfShape" and "value" not in named:
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_datatype") and attribute.i in _NARROW:
                attribute.i = _WIDE
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            if attribute.HasField("g"):
                _widen_graph(attribute.g)
            for graph in attribute.graphs:
                _widen_graph(graph)
        if node.op_type == "Constant" and any(a.name in ("value_float", "value_floats") for a in node.attribute):
            _widen_constant(node)


def _widen_constant(node: Any) -> None:
    """A constant that is written as a number: as a tensor of float64."""
    from onnx import helper, numpy_helper

    attribute = node.attribute[0]
    numbers = np.asarray(attribute.f if attribute.name == "value_float" else list(attribute.floats), dtype=np.float64)
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(numbers)))


def _widen_tensor(tensor: Any) -> None:
    if tensor.data_type not in _NARROW:
        return
    from onnx import numpy_helper

    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), name))
