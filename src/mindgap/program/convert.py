"""From a program back to what other runtimes read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule

from mindgap.program import ops
from mindgap.program.graph import Program, Ref, Tensors, map_leaves
from mindgap.program.interpret import written


def to_graph_module(program: Program, constants: Tensors, functional: bool = False) -> GraphModule:
    """The program as an fx GraphModule whose forward takes the inputs in order.

    `functional` hides every write to an input or a constant from the outside: it works on copies, and the
    changed inputs are returned after the outputs. Exporters of other runtimes want that.
    """
    owner = torch.nn.Module()
    graph = Graph()
    values: dict[int, Any] = {}
    changed = changed_inputs(program) if functional else []
    for item in program.inputs:
        values[item.id] = graph.placeholder(f"input_{item.id}")
    for item in program.inputs:
        if item.id in changed:
            values[item.id] = graph.call_function(torch.ops.aten.clone.default, (values[item.id],))
    owned = written(program, [constant.id for constant in program.constants])
    for constant in program.constants:
        name = f"constant_{constant.id}"
        owner.register_buffer(name, constants[constant.digest])
        values[constant.id] = graph.get_attr(name)
        if constant.id in owned:
            values[constant.id] = graph.call_function(torch.ops.aten.clone.default, (values[constant.id],))

    def look_up(leaf: Any) -> Any:
        return values[leaf] if isinstance(leaf, Ref) else leaf

    for node in program.nodes:
        args, kwargs = map_leaves(node.args, look_up), map_leaves(node.kwargs, look_up)
        values[node.id] = graph.call_function(ops.resolve(node.op), args, kwargs)
    if functional:
        graph.output(tuple(values[identity] for identity in dict.fromkeys(returned(program).values())))
    else:
        graph.output(map_leaves(program.outputs, look_up))
    return GraphModule(owner, graph)


def to_exported(program: Program, constants: Tensors, inputs: Sequence[torch.Tensor]) -> ExportedProgram:
    """The program as an ExportedProgram: its tensor outputs in flat order, then the inputs it changed."""
    module = to_graph_module(program, constants, functional=True)
    copies = tuple(tensor.clone() for tensor in inputs)
    with torch.no_grad():
        return torch.export.export(module, copies, strict=False)


def returned(program: Program) -> dict[str, int]:
    """What `to_exported` returns: the name of each output and changed input with the value that it is.

    One value may have several names (an output that is the changed input itself); it is returned once, in the
    order of first appearance, because some converters cannot return a value twice.
    """
    same = {node.id: int(node.args[0]) for node in program.nodes if ops.returns_first_argument(node.op)}

    def origin(identity: int) -> int:
        while identity in same:
            identity = same[identity]
        return identity

    names = {name: origin(int(value)) for name, value in program.output_leaves() if isinstance(value, Ref)}
    by_id = {item.id: item.name for item in program.inputs}
    return {**names, **{f"input:{by_id[identity]}": identity for identity in changed_inputs(program)}}


def changed_inputs(program: Program) -> list[int]:
    """Inputs that an in-place operator may write to, directly or through a view."""
    found = written(program, [item.id for item in program.inputs])
    return [item.id for item in program.inputs if item.id in found]
