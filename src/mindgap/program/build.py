"""From an exported model to a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.utils import _pytree as pytree

from mindgap.errors import UnsupportedConstruct
from mindgap.program import ops
from mindgap.program.graph import Argument, Constant, Input, Node, NodeMeta, Program, Ref, digest, leaves, references
from mindgap.program.interpret import written
from mindgap.program.lines import source_line
from mindgap.program.state import BUFFER
from mindgap.records.tensors import DTYPE_NAMES, TensorMeta

LITERALS = (bool, int, float, complex, str)
"""Outputs that are no tensors and can be compared all the same."""

_LIFTED = ("lifted_tensor", "_lifted_tensor")
"""How torch names constants that are written out in the model's code: no module holds them."""

_LITERALS = (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)


def build(exported: ExportedProgram, name: str) -> tuple[Program, dict[str, torch.Tensor]]:
    """A program and its constants by digest; raises UnsupportedConstruct with the construct's name."""
    builder = _Builder()
    builder.add_inputs(exported)
    placeholders = [n for n in exported.graph.nodes if n.op == "placeholder"]
    builder.add_body(exported.graph_module, {n: builder.values[n.name] for n in placeholders})
    program = Program(
        name=name,
        inputs=tuple(builder.inputs),
        constants=tuple(builder.constants),
        nodes=tuple(builder.nodes),
        outputs=builder.outputs_of(exported),
    )
    return without_unused(_with_buffers(program, builder.buffers, builder.replaced)), builder.tensors


def _with_buffers(program: Program, buffers: Mapping[int, str], replaced: Mapping[str, Argument]) -> Program:
    """The program with the buffers that it changes as further outputs."""
    changed = {buffers[identity]: Ref(identity) for identity in written(program, buffers)} | dict(replaced)
    if not changed:
        return program
    named = {f"{BUFFER}{name}": changed[name] for name in sorted(changed)}
    return replace(program, outputs={"": program.outputs, **named})  # the names of the others stay as they are


def without_buffers(program: Program) -> tuple[Program, tuple[str, ...]]:
    """The program that returns only what its source model returns, and the names of the buffers that it kept back."""
    names = tuple(name for name, _ in program.output_leaves() if name.startswith(BUFFER))
    return (replace(program, outputs=program.outputs[""]) if names else program), names


def without_unused(program: Program) -> Program:
    """The same program without constants that no node reads."""
    used = {r for node in program.nodes for r in references(node)}
    used |= {int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)}
    return replace(program, constants=tuple(c for c in program.constants if c.id in used))


@dataclass
class _Builder:
    inputs: list[Input] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    values: dict[str, Argument] = field(default_factory=dict)
    """What each placeholder of the graph stands for, by its name."""
    returned: list[Argument] = field(default_factory=list)
    buffers: dict[int, str] = field(default_factory=dict)
    """Constants that are buffers or attributes of a module, with their names there."""
    replaced: dict[str, Argument] = field(default_factory=dict)
    """Buffers that the model assigns to, with what they hold in the end."""
    around: str = ""
    """Where the higher-order node comes from whose body is being added."""
    next_id: int = 0

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def add_inputs(self, exported: ExportedProgram) -> None:
        fakes = {n.name: n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"}
        names = _input_names(exported)
        for spec in exported.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                shown = next(names)
                if isinstance(spec.arg, ConstantArgument):
                    self.values[spec.arg.name] = spec.arg.value
                    continue
                value = fakes[spec.arg.name]
                if not isinstance(value, torch.Tensor):
                    raise UnsupportedConstruct(f"input {shown} is a {type(value).__name__}, not a tensor")
                item = Input(self.new_id(), shown, _tensor_meta(value, shown))
                self.inputs.append(item)
                self.values[spec.arg.name] = Ref(item.id)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                target = str(spec.target)
                tensor = exported.state_dict.get(target)
                if tensor is None:
                    tensor = exported.constants[target]
                constant = self.add_constant(target, tensor)
                self.values[spec.arg.name] = constant
                if spec.kind is not InputKind.PARAMETER and not target.startswith(_LIFTED):
                    self.buffers[int(constant)] = target
            else:
                raise UnsupportedConstruct(f"input {spec.arg} is of kind {spec.kind.name.lower()}")

    def add_constant(self, name: str, tensor: Any) -> Ref:
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedConstruct(f"constant {name} is a {type(tensor).__name__}, not a tensor")
        tensor = tensor.detach()
        meta = _tensor_meta(tensor, name)
        constant = Constant(self.new_id(), name, meta, digest(tensor))
        self.constants.append(constant)
        self.tensors[constant.digest] = tensor
        return Ref(constant.id)

    def add_body(self, module: GraphModule, known: dict[FxNode, Argument]) -> list[Argument]:
        """Append a graph's nodes; returns what it returns."""
        values = dict(known)
        for fx_node in module.graph.nodes:
            if fx_node.op == "call_function":
                values[fx_node] = self.add_call(module, fx_node, values)
            elif fx_node.op == "get_attr":
                values[fx_node] = self.add_attribute(module, fx_node)
            elif fx_node.op == "output":
                self.returned = [_argument(item, values) for item in fx_node.args[0]]
                return self.returned
            elif fx_node.op != "placeholder":
                raise UnsupportedConstruct(f"the graph has a {fx_node.op} node: {fx_node.target}")
        return []

    def add_attribute(self, module: GraphModule, fx_node: FxNode) -> Argument:
        owner: Any = module
        for part in str(fx_node.target).split("."):
            owner = getattr(owner, part)
        if isinstance(owner, GraphModule):
            return owner  # the body of a higher-order node; consumed by add_call
        return self.add_constant(str(fx_node.target), owner)

    def add_call(self, module: GraphModule, fx_node: FxNode, values: dict[FxNode, Argument]) -> Argument:
        inlined = self.inline(fx_node, values)
        if inlined is not None:
            return inlined
        args = tuple(_argument(item, values) for item in fx_node.args)
        if _is_getitem_of_inlined(fx_node, args):
            return args[0][args[1]]
        name = ops.name_of(fx_node.target)
        if name is None:
            raise UnsupportedConstruct(
                f"unsupported construct: {_target_name(fx_node.target)}",
                where=self.where(fx_node) or None,
                hint="check the model with --on eager,inductor: torch platforms run the source itself",
            )
        kwargs = {key: _argument(item, values) for key, item in fx_node.kwargs.items()}
        node = Node(self.new_id(), name, args, kwargs, _node_meta(fx_node.meta.get("val")), self.where(fx_node),
                    source_line(fx_node.meta.get("stack_trace")))  # fmt: skip
        self.nodes.append(node)
        return Ref(node.id)

    def inline(self, fx_node: FxNode, values: dict[FxNode, Argument]) -> list[Argument] | None:
        """Bodies of grad-mode and disabled-autocast regions, which change nothing without gradients, and of `cond`."""
        target = _target_name(fx_node.target)
        if target == "cond":
            return self.choose(fx_node, values)
        if target == "wrap_with_set_grad_enabled":
            body, *operands = fx_node.args[1:]
        elif target == "wrap_with_autocast" and fx_node.args[2] is False:
            body, *operands = fx_node.args[4:]
        else:
            return None
        return self.add_graph(fx_node, values[body], operands, values)  # type: ignore[index]

    def add_graph(
        self, fx_node: FxNode, graph: GraphModule, operands: Sequence[Any], values: dict[FxNode, Argument]
    ) -> list[Argument]:
        """Append a body of a higher-order node; returns what it returns."""
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        around, self.around = self.around, self.where(fx_node)
        returned = self.add_body(graph, dict(zip(placeholders, (_argument(item, values) for item in operands))))
        self.around = around
        return returned

    def where(self, fx_node: FxNode) -> str:
        """The innermost submodule that a node came from; in a body that does not tell, that of the node around it."""
        return _where(fx_node) or self.around

    def choose(self, fx_node: FxNode, values: dict[FxNode, Argument]) -> list[Argument]:
        """Both bodies of a `cond`, which have no effect but their results, and for each result a `where`."""
        flag, *bodies = fx_node.args[:3]
        operands: Any = fx_node.args[3] if len(fx_node.args) > 3 else ()
        predicate = _argument(flag, values)
        if isinstance(predicate, bool):
            return self.add_graph(fx_node, values[bodies[0 if predicate else 1]], operands, values)  # type: ignore[index]
        results = [self.add_graph(fx_node, values[body], operands, values) for body in bodies]  # type: ignore[index]
        if isinstance(flag, FxNode) and flag.meta["val"].dim():
            predicate = self.add_node(fx_node, "aten.view.default", (predicate, []), flag.meta["val"].reshape(()))
        shown = fx_node.meta["val"]
        metas = shown if isinstance(shown, list | tuple) else [shown]
        return [
            first if first == second and not isinstance(first, Ref)
            else self.add_node(fx_node, "aten.where.self", (predicate, first, second), meta)
            for first, second, meta in zip(*results, metas)
        ]  # fmt: skip

    def add_node(self, fx_node: FxNode, op: str, args: tuple[Argument, ...], value: Any) -> Ref:
        """A call that stands for a part of a higher-order node."""
        node = Node(self.new_id(), op, args, {}, _node_meta(value), self.where(fx_node),
                    source_line(fx_node.meta.get("stack_trace")))  # fmt: skip
        self.nodes.append(node)
        return Ref(node.id)

    def outputs_of(self, exported: ExportedProgram) -> Argument:
        specs = exported.graph_signature.output_specs
        user = [value for value, spec in zip(self.returned, specs) if spec.kind is OutputKind.USER_OUTPUT]
        for value, given in zip(self.returned, specs):
            if given.kind is OutputKind.BUFFER_MUTATION:
                self.replaced[str(given.target)] = value
        spec = exported.call_spec.out_spec
        return plain(pytree.tree_unflatten(user, spec)) if spec is not None else tuple(user)


def plain(structure: Any) -> Any:
    """What a model returned as plain dicts, lists and tuples: containers, dataclasses and objects of any class.

    Whatever is no tensor and no number becomes text, where it can: torch.export knows nothing else.
    """
    return _plain(structure, ())


def _plain(structure: Any, around: tuple[int, ...]) -> Any:
    """`around` are the objects that it lies in: one that holds itself is left as it is."""
    if isinstance(structure, Enum):
        return f"{type(structure).__name__}.{structure.name}"
    if isinstance(structure, torch.dtype | torch.device) or (
        isinstance(structure, int) and structure.bit_length() > 63
    ):
        return str(structure)
    if isinstance(structure, bytes):
        return structure.decode("latin-1")
    if isinstance(structure, Ref | str | type(None)) or id(structure) in around:
        return structure
    inside = (*around, id(structure))
    if isinstance(structure, torch.Tensor):
        return _parts_of(structure)
    if isinstance(structure, Mapping):
        return {key: _plain(value, inside) for key, value in structure.items()}
    if isinstance(structure, list):
        return [_plain(value, inside) for value in structure]
    if isinstance(structure, tuple):
        names = getattr(structure, "_fields", None)
        if names is not None:
            return {name: _plain(value, inside) for name, value in zip(names, structure)}
        return tuple(_plain(value, inside) for value in structure)
    children, spec = pytree.tree_flatten_with_path(structure)
    if not spec.is_leaf():
        return {pytree.keystr(path).strip("."): _plain(value, inside) for path, value in children}
    return _attributes_of(structure, inside)


def _parts_of(tensor: torch.Tensor) -> Any:
    """A sparse, nested or quantised tensor as the plain ones that it is made of; any other as it is."""
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.layout is torch.sparse_coo:
        whole = tensor.detach().coalesce()
        return {"indices": whole.indices(), "values": whole.values()}
    if tensor.layout is torch.sparse_csr:
        return {
            "crow_indices": tensor.crow_indices(), "col_indices": tensor.col_indices(), "values": tensor.values()
        }  # fmt: skip
    if tensor.is_quantized:
        return {"int_repr": tensor.int_repr(), "dequantized": tensor.dequantize()}
    return tensor


def _attributes_of(value: Any, inside: tuple[int, ...]) -> Any:
    """An object that holds tensors as a dict of its public attributes; any other as it is."""
    if isinstance(value, type | torch.nn.Module | np.ndarray | np.generic) or callable(value):
        return value
    names = list(getattr(value, "__dict__", {})) + [
        name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)
    ]
    found = {name: _plain(getattr(value, name), inside) for name in names if not name.startswith("_")}
    holds = any(isinstance(leaf, torch.Tensor | np.ndarray | Ref) for _, leaf in leaves(found))
    return found if holds or (is_dataclass(value) and found) else value


def _slots(kind: type) -> tuple[str, ...]:
    slots = getattr(kind, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def named_results(result: Any) -> Iterator[tuple[str, Any]]:
    """What a model returned, leaf by leaf with its path; arrays, numbers and text become tensors that lose nothing."""
    for path, leaf in leaves(plain(result)):
        if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufc":
            leaf = torch.from_numpy(np.array(leaf))
        yield path or "output", literal_tensor(leaf) if isinstance(leaf, LITERALS) else leaf


def literal_tensor(value: Any) -> torch.Tensor:
    """A Python number as a 0-dim tensor that loses nothing; text as its bytes."""
    exact = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
    for kind, dtype in exact.items():
        if isinstance(value, kind):
            return torch.tensor(value, dtype=dtype)
    return torch.tensor(list(str(value).encode()), dtype=torch.uint8)


def _input_names(exported: ExportedProgram) -> Any:
    """Names of the user's inputs in flat order, as a caller would write them."""
    in_spec = exported.call_spec.in_spec
    if in_spec is None:
        return (spec.arg.name for spec in exported.graph_signature.input_specs)
    placeholders = [s.arg.name for s in exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    tree = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    paths = [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    return (_shown(path, name) for path, name in zip(paths, placeholders))


def _shown(path: tuple[Any, ...], placeholder: str) -> str:
    """`x` for a plain argument, `batch.mask` for one inside a keyword argument."""
    keys = [getattr(step, "key", getattr(step, "idx", step)) for step in path]
    if keys[0] == 1:
        return ".".join(str(key) for key in keys[1:])
    return placeholder


def _argument(item: Any, values: dict[FxNode, Argument]) -> Argument:
    if isinstance(item, FxNode):
        return values[item]
    if isinstance(item, list):
        return [_argument(value, values) for value in item]
    if isinstance(item, tuple):
        return tuple(_argument(value, values) for value in item)
    if isinstance(item, Mapping):
        return {key: _argument(value, values) for key, value in item.items()}
    if item is None or isinstance(item, _LITERALS):
        return item
    raise UnsupportedConstruct(f"an argument is a {type(item).__name__}: {str(item)[:60]}")


def _is_getitem_of_inlined(fx_node: FxNode, args: tuple[Argument, ...]) -> bool:
    return _target_name(fx_node.target) == "getitem" and isinstance(args[0], list)


def _target_name(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return str(getattr(target, "__name__", target)).split(".")[-1] if callable(target) else str(target)


def _where(fx_node: FxNode) -> str:
    """The innermost submodule that a node came from."""
    stack = fx_node.meta.get("nn_module_stack") or {}
    return str(next(reversed(stack.values()))[0]) if stack else ""


def _node_meta(value: Any) -> NodeMeta:
    if isinstance(value, torch.Tensor):
        return _tensor_meta(value, "a result")
    if isinstance(value, list | tuple):
        return tuple(_node_meta(item) for item in value)
    return None


def _tensor_meta(tensor: torch.Tensor, what: str) -> TensorMeta:
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPE_NAMES:
        raise UnsupportedConstruct(f"{what} is a {tensor.layout} tensor of {tensor.dtype}")
    try:
        shape = tuple(int(size) for size in tensor.shape)
        stride = tuple(int(step) for step in tensor.stride())
    except Exception as error:  # unbacked symbolic sizes cannot become numbers
        raise UnsupportedConstruct(f"{what} has a size that depends on data: {list(tensor.shape)}") from error
    return TensorMeta(shape, DTYPE_NAMES[tensor.dtype], stride)
