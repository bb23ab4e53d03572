"""What torch_xla leaves to torch's kernels on the CPU: its counters know, and it says nothing by itself.

An operator without a lowering is computed by ATen on copies of its operands. The counter `aten::lgamma` counts such
calls, `xla::add` calls of an operator that was lowered.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import torch

from mindgap.platforms.base import Fallback

LEFT, LOWERED = "aten::", "xla::"
"""How the names of counters begin."""

_NO_WORK: Final = {
    "_copy_from", "_copy_from_and_resize", "_local_scalar_dense", "_propagate_xla_data", "_to_copy", "_to_cpu",
    "empty_strided_symint", "empty_symint",
}  # fmt: skip
"""Copies, allocations and numbers that the host reads: nothing is computed."""

_GRAPHS: Final[Counter[str]] = Counter()
"""Of this worker: the operators of the graphs that torch.compile handed over since it was cleared."""


def watch(compiled: bool = False) -> Callable[[], Fallback]:
    """Count from now on; the result tells what was left to the CPU since.

    Of compiled code the operators of its graphs count, each once: a compiled graph runs without counting them.
    """
    if compiled:
        _count_graphs()
        _GRAPHS.clear()
        return lambda: told(_GRAPHS)
    before = _calls()
    return lambda: told(_calls() - before)


def told(calls: Counter[str]) -> Fallback:
    """The share of calls that were left to the CPU, and of which operators."""
    left = Counter({name.removeprefix(LEFT): count for name, count in calls.items() if name.startswith(LEFT)})
    total = calls.total()
    return Fallback(left.total() / max(total, 1), "torch's CPU kernels", tuple(name for name, _ in left.most_common()))


def _calls() -> Counter[str]:
    """Calls of operators in this process so far, by the counter's name."""
    metrics: Any = import_module("torch_xla.debug.metrics")
    names = [name for name in metrics.counter_names() if name.startswith((LEFT, LOWERED))]
    return Counter({name: metrics.counter_value(name) for name in names if name.split("::")[1] not in _NO_WORK})


@functools.cache
def _count_graphs() -> None:
    """Once per process: torch_xla's bridge tries each operator of a graph and notes those that it cannot lower."""
    collector: Any = import_module("torch_xla._dynamo.dynamo_bridge").UnsupportedNodesCollector
    unsupported = collector.get_unsupported_nodes

    def counted(self: Any) -> Any:
        nodes = unsupported(self)
        for node in self.module.graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload):
                _GRAPHS[f"{LEFT if node in nodes else LOWERED}{node.target._opname}"] += 1
        return nodes

    collector.get_unsupported_nodes = counted
