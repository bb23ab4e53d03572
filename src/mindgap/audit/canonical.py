"""A program in forms in which two exports of one model are alike: as written, and in few elementary operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.func import functionalize
from torch.fx import Node as FxNode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Constant, Node, NodeMeta, Program, Ref, Tensors, digest, leaves, map_leaves
from mindgap.program.inputs import copy_of
from mindgap.program.interpret import Executable
from mindgap.records.tensors import DTYPE_NAMES, TensorMeta

_ALSO_DECOMPOSED: Final = ("addmm", "native_layer_norm", "native_group_norm", "_softmax", "_log_softmax", "gelu")
"""Operators that torch counts among the elementary ones and exporters write in parts all the same."""


@dataclass(frozen=True)
class Form:
    """A program with its constants, and the node of the model's own program that each of its nodes comes from."""

    program: Program
    constants: Tensors
    source: Mapping[int, int]


def as_written(case: Case) -> Form:
    """The program as it is."""
    return Form(case.graph, case.constants, {node.id: node.id for node in case.graph.nodes})


def decomposed(case: Case) -> Form:
    """The same computation without writes in place, in elementary operators; raises what torch raises.

    It is traced on the case's own inputs, so a program whose operators depend on values is refused by torch.
    """
    program = case.graph
    made_by: dict[str, int] = {}

    def call(node: Node, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = function(*args, **kwargs)
        _note(made_by, node.id)
        return result

    def flat(*given: torch.Tensor) -> list[torch.Tensor]:
        _note(made_by, -1)
        count = len(program.inputs)
        placed = {constant.digest: tensor for constant, tensor in zip(program.constants, given[count:])}
        outputs = Executable(program, placed).run(list(given[:count]), caller=call)
        return [leaf for _, leaf in leaves(outputs) if isinstance(leaf, torch.Tensor)]

    given = [copy_of(tensor) for tensor in (*case.tensors, *case.used_constants())]
    with torch.no_grad():
        torch.manual_seed(case.seed)
        traced = make_fx(functionalize(flat), decomposition_table=_table())(*given)
    return _Reader(case, made_by).read(traced)


def _table() -> dict[Any, Callable[..., Any]]:
    packets = [getattr(torch.ops.aten, name) for name in _ALSO_DECOMPOSED]
    core: Any = core_aten_decompositions()
    return dict(core.items()) | dict(get_decompositions(packets))


def _note(made_by: dict[str, int], node: int) -> None:
    """Everything that was traced since the last time comes from this node."""
    mode = get_proxy_mode()
    assert mode is not None
    for item in reversed(mode.tracer.graph.nodes):
        if item.name in made_by:
            return
        made_by[item.name] = node


class _Reader:
    """Makes a program from what was traced."""

    def __init__(self, case: Case, made_by: Mapping[str, int]) -> None:
        self.case, self.made_by = case, made_by
        self.given = iter(case.graph.given())
        self.known: dict[FxNode, Any] = {}
        self.nodes: list[Node] = []
        self.constants = list(case.graph.constants)
        self.tensors = dict(case.constants)
        self.next_id = 1 + max([item.id for item in (*case.graph.given(), *case.graph.nodes)], default=0)
        self.outputs: list[Any] = []

    def read(self, traced: torch.fx.GraphModule) -> Form:
        source: dict[int, int] = {}
        last = self.case.graph.nodes[-1].id if self.case.graph.nodes else 0
        for item in traced.graph.nodes:
            if item.op == "placeholder":
                self.known[item] = Ref(next(self.given).id)
            elif item.op == "get_attr":
                self._hold(item, getattr(traced, item.target))
            elif item.op == "call_function":
                identity = self._call(item)
                # What functionalization adds after the last operator belongs to nobody else.
                source[identity] = self.made_by.get(item.name, last)
            else:
                self.outputs = list(self._known(item.args[0]))
        program = Program(self.case.graph.name, self.case.graph.inputs, tuple(self.constants), tuple(self.nodes),
                          self._nested())  # fmt: skip
        return Form(program, self.tensors, source)

    def _hold(self, item: FxNode, tensor: torch.Tensor) -> None:
        tensor = tensor.detach()
        constant = Constant(self._new_id(), str(item.target), TensorMeta.of(tensor), digest(tensor))
        self.constants.append(constant)
        self.tensors[constant.digest] = tensor
        self.known[item] = Ref(constant.id)

    def _call(self, item: FxNode) -> int:
        identity = self._new_id()
        name = ops.name_of(item.target) or str(item.target)
        args, kwargs = self._known(item.args), self._known(dict(item.kwargs))
        self.nodes.append(Node(identity, name, tuple(args), kwargs, _meta(item.meta.get("val"))))
        self.known[item] = Ref(identity)
        return identity

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def _known(self, structure: Any) -> Any:
        return map_leaves(structure, lambda leaf: self.known[leaf] if isinstance(leaf, FxNode) else leaf)

    def _nested(self) -> Any:
        """The outputs in the nesting of the program; literals are not traced."""
        returned = [leaf for _, leaf in leaves(self.case.graph.outputs) if isinstance(leaf, Ref)]
        if len(returned) != len(self.outputs):
            raise ValueError("an output is a number that depends on values")
        tensors = iter(self.outputs)
        return map_leaves(self.case.graph.outputs, lambda leaf: next(tensors) if isinstance(leaf, Ref) else leaf)


def _meta(value: Any) -> NodeMeta:
    if isinstance(value, torch.Tensor):
        return TensorMeta(tuple(map(int, value.shape)), DTYPE_NAMES[value.dtype], ())
    return tuple(map(_meta, value)) if isinstance(value, list | tuple) else None
