"""Shapes and element types of a program whose inputs or arguments were changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from mindgap.program.case import Case
from mindgap.program.graph import Node, NodeMeta
from mindgap.program.interpret import Executable
from mindgap.records.tensors import DTYPE_NAMES, TensorMeta


def with_metas(witness: Case) -> Case | None:
    """The witness with the metas that its nodes really have; None when a node does not accept its arguments.

    Nothing is computed: tensors without values go through the program. Where that cannot work, because a shape
    depends on values, the metas stay as they are.
    """
    found: dict[int, NodeMeta] = {}

    def note(node: Node, result: Any) -> Any:
        found[node.id] = _meta_of(result)
        return result

    executable = Executable(witness.graph, witness.constants, torch.device("meta"))
    try:
        with torch.no_grad():
            executable.run([tensor.to("meta") for tensor in witness.tensors], observer=note)
    except NotImplementedError:
        return witness
    except Exception:  # every operator refuses in its own way
        return None
    nodes = tuple(replace(node, meta=found[node.id]) for node in witness.graph.nodes)
    return witness.with_program(replace(witness.graph, nodes=nodes))


def _meta_of(result: Any) -> NodeMeta:
    if isinstance(result, torch.Tensor) and result.dtype in DTYPE_NAMES:
        return TensorMeta.of(result)
    return tuple(map(_meta_of, result)) if isinstance(result, list | tuple) else None
