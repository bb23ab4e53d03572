"""What composite operators are made of, recorded by calling them on tensors without storage.

`parts.json` beside this file holds what was recorded, with the torch that it was recorded with; `python -m
mindgap.operators.parts` (`make parts`) records it again. An operator may be taken apart in several ways, by its
arguments: each way is kept, and of an operator that real models call only the ways of their calls.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("parts.json")
_KINDS: Final = ("ordinary", "corpus", "ordinary", "samples")
_DTYPES: Final = ("float32", "int64", "bool", "complex64")
"""The first one that an operator takes: parts hardly depend on it."""

_MOST_CALLS: Final = 4
"""Calls of an operator that its decomposition is recorded for."""

Ways = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """What operators are made of, each in one or several ways."""

    torch: str
    """The version that it was recorded with."""
    implicit: Mapping[str, Ways]
    """Composite operators."""
    decompositions: Mapping[str, Ways]
    """Operators that have kernels, and that torch can also take apart: what could replace them."""


@functools.cache
def recorded() -> Parts:
    """What was recorded for this release of mindgap."""
    content = json.loads(FILE.read_text())
    return Parts(
        content["torch"],
        {op: tuple(map(frozenset, ways)) for op, ways in content["implicit"].items()},
        {op: tuple(map(frozenset, ways)) for op, ways in content["decompositions"].items()},
    )


class Recorder:
    """Notes which operators calls arrive at, and what torch's decompositions make of each of those."""

    def __init__(self) -> None:
        import torch
        from torch._decomp import decomposition_table

        self._table: Mapping[Any, Any] = decomposition_table
        self._torch = torch
        self.decompositions: dict[str, set[tuple[str, ...]]] = {}
        self._tried: Counter[str] = Counter()

    def called(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> frozenset[str]:
        """What a call arrives at, composite operators taken apart; on tensors without storage where that works."""
        from torch.utils._pytree import tree_map_only

        try:
            bare = tree_map_only(self._torch.Tensor, lambda tensor: tensor.to("meta"), (tuple(args), dict(kwargs)))
            return self._recording(function, *bare)
        except Exception:  # whatever reads numbers cannot do without them
            return self._recording(function, tuple(args), dict(kwargs))

    def decompose(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note what torch's own decomposition of an operator makes of a call, where it has one."""
        name = name_of_call(function)
        if function not in self._table or self._tried[name] >= _MOST_CALLS:
            return
        self._tried[name] += 1
        try:
            way = self.called(self._table[function], args, kwargs)
        except Exception:  # a decomposition need not take every argument
            return
        if way and name not in way:
            self.decompositions.setdefault(name, set()).add(tuple(sorted(way)))

    def _recording(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[str]:
        from torch.utils._python_dispatch import TorchDispatchMode

        seen: list[tuple[Any, Any, Any]] = []

        class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append((func, args, kwargs or {}))
                return func(*args, **(kwargs or {}))

        with self._torch.no_grad(), Recording():  # type: ignore[no-untyped-call]
            function(*args, **kwargs)
        for call in seen:
            self.decompose(*call)
        return frozenset(name_of_call(func) for func, _, _ in seen)


def name_of_call(function: Any) -> str:
    """`aten.add.Tensor` of a function of torch."""
    from mindgap.program.ops import name_of

    return name_of(function) or str(function)


def record(operators: Iterable[str], decomposed: Iterable[str]) -> dict[str, Any]:
    """Ways of taking apart composite operators, and those that torch has a decomposition of."""
    import torch

    from mindgap.program.examples import of_program
    from mindgap.program.graph import Ref, changed_leaves
    from mindgap.program.made import recreate
    from mindgap.program.ops import resolve
    from mindgap.records.variant import Sweep
    from mindgap.variants.base import load_bases
    from mindgap.variants.invocations import Invoking

    implicit, replaced = set(operators), list(decomposed)
    sweep = Sweep(tuple(dict.fromkeys((*sorted(implicit), *replaced))), _DTYPES, _KINDS)
    invoking = Invoking(sweep, load_bases(), 0)
    found: dict[str, dict[str, set[tuple[str, ...]]]] = {}
    recorder = Recorder()
    taken: dict[str, str] = {}
    for number in sorted(range(sweep.count), key=lambda n: _DTYPES.index(sweep.asked(n).dtype)):
        asked = sweep.asked(number)
        op, dtype, kind = asked.op, asked.dtype, asked.kind
        variant = invoking.make(number) if taken.get(op, dtype) == dtype else None
        if variant is None:
            continue
        taken[op] = dtype
        program = variant.program
        tensors = dict(zip((item.id for item in program.inputs), of_program(program, 0)))
        tensors |= {c.id: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
        node = changed_leaves(program.nodes[0], lambda leaf, own=tensors: own[int(leaf)] if type(leaf) is Ref else leaf)  # type: ignore[misc]
        if op in implicit:
            with contextlib.suppress(Exception):
                way = recorder.called(resolve(op), node.args, node.kwargs)
                if op not in way:  # none at all is a way too: dropout of a model that is not trained
                    found.setdefault(op, {}).setdefault(kind, set()).add(tuple(sorted(way)))
        recorder.decompose(resolve(op), node.args, node.kwargs)
    merged = {op: ways.get("corpus") or set().union(*ways.values()) for op, ways in found.items()}
    kinds = {"implicit": merged, "decompositions": recorder.decompositions}
    told = {kind: {op: sorted(map(list, ways)) for op, ways in sorted(ops.items())} for kind, ops in kinds.items()}
    return {"torch": str(torch.__version__).partition("+")[0], **told}


def main() -> None:
    """Record everything that can be invoked."""
    from mindgap.operators.native import native_operators
    from mindgap.operators.sweeping import universe
    from mindgap.operators.universe import models_of
    from mindgap.records.files import write_whole

    known = native_operators()
    asked = [op for op in universe(models_of()) if op in known]
    implicit = [op for op in asked if known[op].composite == "implicit"]
    content = record(implicit, [op for op in asked if op not in implicit])
    write_whole(FILE, json.dumps(content, indent=0, separators=(",", ":")) + "\n")
    sys.stdout.write(f"{len(content['implicit'])} of {len(implicit)} composite operators recorded\n")


if __name__ == "__main__":
    main()
