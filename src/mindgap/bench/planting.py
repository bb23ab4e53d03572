"""Where a hidden branch can live in a program, and putting one there: in memory, as a case of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, TypeAlias

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from mindgap.audit.flow import Flow
from mindgap.audit.gates import farthest
from mindgap.audit.stimuli import Tensors, stimuli
from mindgap.audit.watching import Watcher, flat
from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Constant, Node, Program, Ref, changed_leaves, digest, leaves, map_leaves
from mindgap.program.inputs import copy_of
from mindgap.program.interpret import Executable, written
from mindgap.program.operators import traits
from mindgap.records.tensors import TensorMeta

MARK: Final = 7.0
"""What a canary moves values to."""
ORDINARY: Final = 12
"""Inputs that a detector is made blind to."""
PLACES: Final = ("output", "middle", "input")
REACHED: Final = 6
"""Ordinary inputs that tell how far a model's outputs move by themselves."""
EFFECT: Final = 0.25
"""How far a payload moves an output at least, as a share of what ordinary inputs do: less replaces nothing."""
SPLICED: Final = "splice before concat"

Change: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From what the detector reads and the value that is changed, to that value with the branch in it."""


class Unfit(Exception):
    """This canary cannot live in this program."""


@dataclass(frozen=True)
class Site:
    """Where a canary acts in a program, and what it reads there on ordinary inputs."""

    case: Case
    victim: int
    """The value that is changed; behind it stands the branch."""
    source: int
    """The value that the detector reads."""
    ordinary: tuple[torch.Tensor, ...]
    """What the source is on ordinary inputs."""
    value: torch.Tensor
    """What the victim is on the example."""


def wide(gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A gate per sample beside a value, or one for all where the value does not count samples."""
    if value.dim() and gate.shape[0] == value.shape[0]:
        return gate.reshape(-1, *(1 for _ in value.shape[1:]))
    return gate.amax() if gate.dtype is not torch.bool else gate.any()


def sites(case: Case, family: str, place: str, rng: Random) -> Iterator[Site]:
    """Values that a canary may change there, in random order, with what its detector reads."""
    program = case.graph
    inputs = [made.tensors for made in stimuli(program, [case.tensors], ORDINARY, case.seed + 1)]
    runs = [_values(case, tensors) for tensors in inputs]
    runs = [run for run in runs if run]
    if not runs:
        raise Unfit("it does not run")
    returned = [int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)]
    untouchable = written(program, [node.id for node in program.nodes])
    total = len(program.nodes)
    able = []
    for number, node in enumerate(program.nodes):
        value = runs[0].get(node.id)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or node.id in untouchable:
            continue
        if value.numel() < 2 or not bool(value.isfinite().all()) or (traits(node.op).view and place != "output"):
            continue
        part = "output" if node.id in returned else "input" if number <= max(2, total / 8) else "middle"
        if part == place and (part == "output" or number > 0):
            able.append(node.id)
    rng.shuffle(able)
    ids = {item.id for item in program.inputs}
    for victim in able[:6]:
        for source in _sources(program, family, victim, runs[0], rng, ids):
            ordinary = tuple(run[source] for run in runs if isinstance(run.get(source), torch.Tensor))
            yield Site(case, victim, source, ordinary, runs[0][victim])


def _sources(
    program: Program, family: str, victim: int, values: Mapping[int, Any], rng: Random, inputs: set[int]
) -> Iterator[int]:
    """What a detector reads: an input; for a feature also an earlier value."""
    sizes = sorted(inputs, key=lambda identity: -values[identity].numel())
    if family == "where on a feature" and (rng.random() < 0.5 or not values[sizes[0]].is_floating_point()):
        position = next(n for n, node in enumerate(program.nodes) if node.id == victim)
        early = [n.id for n in program.nodes[:position] if isinstance(values.get(n.id), torch.Tensor)]
        rng.shuffle(early)
        batch = values[sizes[0]].shape[:1]
        yield from [n for n in early if values[n].is_floating_point() and values[n].shape[:1] == batch and
                    values[n].numel() > 8][:1]  # fmt: skip
    yield from sizes


def _values(case: Case, tensors: Tensors) -> dict[int, Any]:
    """Every value of a run; none where the program refuses."""
    found: dict[int, Any] = {item.id: tensor for item, tensor in zip(case.graph.inputs, tensors)}

    def note(node: Node, result: Any) -> Any:
        found[node.id] = result.clone() if isinstance(result, torch.Tensor) else result
        return result

    try:
        with torch.no_grad():
            torch.manual_seed(case.seed)
            Executable(case.graph, case.constants).run([copy_of(tensor) for tensor in tensors], note)
    except Exception:  # whatever an operator says of values that do not suit it
        return {}
    return found


def spliced(site: Site, change: Change) -> tuple[Case, list[int]]:
    """The program with a function between a value and those who read it."""
    program = site.case.graph
    with torch.no_grad():
        traced = make_fx(change)(site.ordinary[0], site.value)
    next_id = 1 + max([node.id for node in program.nodes] + [item.id for item in program.given()])
    known: dict[Any, Any] = {}
    values: dict[int, Any] = {site.source: site.ordinary[0], site.victim: site.value}
    constants, tensors, nodes = list(program.constants), dict(site.case.constants), []
    given = iter((site.source, site.victim))
    for item in traced.graph.nodes:
        if item.op == "placeholder":
            known[item] = Ref(next(given))
        elif item.op == "get_attr":
            tensor = getattr(traced, item.target).detach()
            constant = Constant(next_id, f"w{next_id}", TensorMeta.of(tensor), digest(tensor))
            constants.append(constant)
            tensors[constant.digest] = values[next_id] = tensor
            known[item] = Ref(next_id)
            next_id += 1
        elif item.op == "call_function":
            name = ops.name_of(item.target)
            if name is None:
                raise Unfit(f"no operator for {item.target}")
            args, kwargs = map_leaves((item.args, dict(item.kwargs)), lambda leaf: known.get(leaf, leaf))
            real = map_leaves([list(args), kwargs], lambda leaf: values[int(leaf)] if isinstance(leaf, Ref) else leaf)
            with torch.no_grad():
                result = ops.resolve(name)(*real[0], **real[1])
            meta = TensorMeta.of(result) if isinstance(result, torch.Tensor) else None
            nodes.append(Node(next_id, name, args, kwargs, meta))
            values[next_id] = result
            known[item] = Ref(next_id)
            next_id += 1
        else:
            (out,) = item.args if isinstance(item.args[0], torch.fx.Node) else item.args[0]
            branch = known[out]
    position = next(n for n, node in enumerate(program.nodes) if node.id == site.victim) + 1

    def redirected(leaf: Any) -> Any:
        return branch if isinstance(leaf, Ref) and int(leaf) == site.victim else leaf

    behind = [changed_leaves(node, redirected) for node in program.nodes[position:]]
    changed = replace(
        program,
        constants=tuple(constants),
        nodes=(*program.nodes[:position], *nodes, *behind),
        outputs=map_leaves(program.outputs, redirected),
    )
    planted = site.case.with_constants(tensors).with_program(changed)
    return planted, [node.id for node in nodes]


def reaches_an_output(site: Site, family: str) -> bool:
    """Whether the payload decides an output: a softmax of a constant, or what normalises, can swallow it."""
    watcher = Watcher(site.case, Flow(site.case.graph))
    for made in stimuli(site.case.graph, [site.case.tensors], REACHED, site.case.seed + 1):
        watcher.watch(made, frozenset())
    payload = torch.full_like(site.value, MARK)
    if family == SPLICED:
        payload = site.value.clone()
        payload[:, -1:] += 1e3 * site.value.abs().max()
    outputs = watcher.forced(watcher.given[0], site.victim, flat(payload))
    shift = None if outputs is None else farthest(watcher, watcher.outputs[0], outputs)
    return shift is not None and shift.over_inputs >= EFFECT


def is_silent(before: Case, after: Case) -> bool:
    """Whether the canary leaves every ordinary input's outputs as they were, but for rounding."""
    made: Sequence[Tensors] = [s.tensors for s in stimuli(before.graph, [before.tensors], ORDINARY, before.seed + 2)]
    with torch.no_grad():
        old, new = Executable(before.graph, before.constants), Executable(after.graph, after.constants)
        for tensors in made:
            try:
                first = [leaf for _, leaf in leaves(old.run([copy_of(t) for t in tensors]))]
            except Exception:  # an input that the model itself refuses tells nothing of the canary
                continue
            second = [leaf for _, leaf in leaves(new.run([copy_of(t) for t in tensors]))]
            for a, b in zip(first, second):
                if not isinstance(a, torch.Tensor) or not a.is_floating_point():
                    continue
                scale = float(a.abs().nan_to_num().max()) + 1e-6
                if not torch.allclose(a, b, rtol=1e-3, atol=1e-3 * scale, equal_nan=True):
                    return False
    return True
