"""What composite operators are made of, recorded by calling them on tensors without storage.

`parts.json` beside this file holds what was recorded, with the torch that it was recorded with; `python -m
mindgap.operators.parts` (in `make reference`) records it again. An operator may be taken apart in several ways, by its
arguments: each way is kept.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("parts.json")
_KINDS: Final = ("ordinary", "corpus", "special", "ordinary", "samples", "samples")
_DTYPES: Final = ("float32", "int64", "bool", "complex64")

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


def called(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> frozenset[str]:
    """The operators that a call arrives at, composite ones taken apart; on tensors without storage where that works."""
    import torch
    from torch.utils._pytree import tree_map_only

    try:
        bare = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (tuple(args), dict(kwargs)))
        return _recording(function, *bare)
    except Exception:  # whatever reads numbers cannot do without them
        return _recording(function, tuple(args), dict(kwargs))


def _recording(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[str]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from mindgap.program.ops import name_of

    names: dict[str, None] = {}

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names[name_of(func) or str(func)] = None
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Recording():
        function(*args, **kwargs)
    return frozenset(names)


def record(operators: Iterable[str], decomposed: Iterable[str]) -> dict[str, Any]:
    """Ways of taking apart composite operators, and those that torch has a decomposition of."""
    import torch
    from torch._decomp import decomposition_table

    from mindgap.program.examples import of_program
    from mindgap.program.graph import Ref, changed_leaves
    from mindgap.program.made import recreate
    from mindgap.program.ops import resolve
    from mindgap.records.variant import Sweep
    from mindgap.variants.base import load_bases
    from mindgap.variants.invocations import Invoking

    implicit, replaced = list(operators), list(decomposed)
    sweep = Sweep(tuple(dict.fromkeys((*implicit, *replaced))), _DTYPES, _KINDS)
    invoking = Invoking(sweep, load_bases(), 0)
    found: dict[str, dict[str, set[tuple[str, ...]]]] = {"implicit": {}, "decompositions": {}}
    for number in range(sweep.count):
        op, _, _ = sweep.asked(number)
        variant = invoking.make(number)
        if variant is None:
            continue
        program = variant.program
        tensors = dict(zip((item.id for item in program.inputs), of_program(program, 0)))
        tensors |= {c.id: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
        node = changed_leaves(
            program.nodes[0], lambda leaf, own=tensors: own[int(leaf)] if type(leaf) is Ref else leaf
        )  # type: ignore[misc]
        for kind, wanted, function in (
            ("implicit", implicit, resolve(op)),
            ("decompositions", replaced, decomposition_table.get(resolve(op))),  # type: ignore[call-overload]
        ):
            if op in wanted and function is not None:
                try:
                    way = called(function, node.args, node.kwargs)
                except Exception:  # a decomposition need not take every argument
                    continue
                if way and op not in way:
                    found[kind].setdefault(op, set()).add(tuple(sorted(way)))
    told = {kind: {op: sorted(map(list, ways)) for op, ways in sorted(ops.items())} for kind, ops in found.items()}
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
