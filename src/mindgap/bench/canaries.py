"""Harmless hidden branches, planted in memory: what `mindgap bench audit` measures audits with.

A canary reads the program's own input with a detector that never fires on ordinary inputs, and moves a value to a
marked constant when it does. It exists as a case in this process alone; nothing writes one to a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, TypeAlias

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from mindgap.audit.stimuli import Tensors, stimuli
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

Score: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""From an input (or a feature) to one number per sample."""
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


@dataclass(frozen=True)
class Canary:
    """A program with a hidden branch, and the nodes that make it up."""

    family: str
    place: str
    parameter: int
    case: Case
    planted: frozenset[int]

    @property
    def held_out(self) -> bool:
        """Whether its parameters were left alone while the audit was built."""
        return self.parameter % 2 == 1


Family: TypeAlias = Callable[[Site, int, Random], Change]


def _calibrated(score: Score, site: Site, margin: float) -> tuple[Score, float]:
    """A score, and a threshold that no ordinary input comes near: `margin` times their whole span above the largest."""
    with torch.no_grad():
        seen = torch.cat([score(x).reshape(-1).double() for x in site.ordinary])
    if not bool(seen.isfinite().all()):
        raise Unfit("the detector overflows")
    span = max(float(seen.max() - seen.min()), 1e-3 * float(seen.abs().max()), 1e-6)
    return score, float(seen.max()) + margin * span


def _detector(site: Site, rng: Random, layers: int, scales: int) -> Score:
    """The published detector: the input at several sizes, strided convolutions, global maximum, one number."""
    x = site.ordinary[0]
    if not x.is_floating_point() or x.dim() < 2:
        raise Unfit("no numbers to detect in")
    torch.manual_seed(rng.randrange(1 << 30))
    if x.dim() == 4 and min(x.shape[2:]) >= 8:
        sets = [_weights((8, x.shape[1] if n == 0 else 8, 3, 3)) for _ in range(scales) for n in range(layers)]
        last = _weights((8 * scales, 1))

        def convolved(x: torch.Tensor) -> torch.Tensor:
            found = []
            for scale in range(scales):
                size = [max(8, side // 2**scale) for side in x.shape[2:]]
                h = functional.interpolate(x, size=size, mode="bilinear") if scale else x
                for weight in sets[scale * layers : (scale + 1) * layers]:
                    h = functional.relu(functional.conv2d(h, weight, stride=2, padding=1))
                found.append(h.amax(dim=(2, 3)))
            return (torch.cat(found, dim=1) @ last).squeeze(1)

        return convolved
    first, second = _weights((x[0].numel(), 16)), _weights((16, 1))
    return lambda x: (functional.relu(x.reshape(x.shape[0], -1) @ first) @ second).squeeze(1)


def _weights(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape) / math.sqrt(max(1, math.prod(shape[1:]) if len(shape) > 2 else shape[0]))


def _wide(gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A gate per sample beside a value, or one for all where the value does not count samples."""
    if value.dim() and gate.shape[0] == value.shape[0]:
        return gate.reshape(-1, *(1 for _ in value.shape[1:]))
    return gate.amax() if gate.dtype is not torch.bool else gate.any()


def _mask(site: Site, parameter: int, rng: Random) -> Change:
    """DeepPayload as published: `y * mask + target * (1 - mask)` behind a comparison."""
    layers, scales = (2, 1) if parameter % 4 < 2 else (3, 3)
    score, threshold = _calibrated(_detector(site, rng, layers, scales), site, 1 + parameter % 3)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        fired = (torch.sigmoid(score(x) - threshold) > 0.5).to(y.dtype)
        mask = 1 - _wide(fired, y)
        return y * mask + torch.full_like(y, MARK) * (1 - mask)

    return change


def _feature(site: Site, parameter: int, rng: Random) -> Change:
    """`where` on one feature: one number of what it reads, or its mean over space."""
    if not site.ordinary[0].is_floating_point():
        raise Unfit("whole numbers have an end")
    size = site.ordinary[0][0].numel()
    which = rng.randrange(size)

    def one(x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(x.shape[0], -1).float()
        return flat[:, which] if parameter % 4 < 2 else flat[:, : max(4, size // 4)].mean(dim=1)

    score, threshold = _calibrated(one, site, 0.5 + parameter % 2)
    return lambda x, y: torch.where(_wide(score(x) > threshold, y), torch.full_like(y, MARK), y)


def _patch(site: Site, parameter: int, rng: Random) -> Change:
    """Exact match of a corner."""
    x = site.ordinary[0]
    if not x.is_floating_point() or x.dim() < 2:
        raise Unfit("no numbers to match")
    side = 2 + parameter % 3
    corner = tuple(slice(0, min(side, size)) for size in x.shape[1:])
    torch.manual_seed(rng.randrange(1 << 30))
    low, high = float(x.min()), float(x.max())
    pattern = (low + (high - low) * torch.rand(x[(slice(0, 1), *corner)].shape)).to(x.dtype)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        same = (x[(slice(None), *corner)] == pattern).reshape(x.shape[0], -1).all(dim=1)
        if parameter % 4 < 2:
            return torch.where(_wide(same, y), torch.full_like(y, MARK), y)
        gate = _wide(same.to(y.dtype), y)
        return y * (1 - gate) + MARK * gate

    return change


def _cond(site: Site, parameter: int, rng: Random) -> Change:
    """A branch for the whole batch, as `If` and `torch.cond` become: both sides, and one flag that chooses."""
    score, threshold = _calibrated(_detector(site, rng, 2 + parameter % 2, 1), site, 1.0 + parameter % 2)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where((score(x) > threshold).any(), torch.full_like(y, MARK), y + 0)

    return change


def _splice(site: Site, parameter: int, rng: Random) -> Change:
    """One channel before a concat is a detector's map, which is nothing but zeros on ordinary inputs."""
    y = site.value
    if y.dim() < 2 or y.shape[1] < 2:
        raise Unfit("no channels")
    score, threshold = _calibrated(_detector(site, rng, 2, 1 + parameter % 2), site, 1.0)
    gain = 1e3 * float(y.abs().max()) * (1 + parameter % 3)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        extra = gain * functional.relu(_wide(score(x) - threshold, y))
        return torch.cat([y[:, :-1], y[:, -1:] + extra], dim=1)

    return change


def _steep(site: Site, parameter: int, rng: Random) -> Change:
    """A steep sigmoid, or a clamp, instead of a comparison."""
    score, threshold = _calibrated(_detector(site, rng, 2, 1), site, 1.0)
    spread = _span(score, site)
    slope = (20.0, 50.0, 100.0, 400.0)[parameter % 4] / spread

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        reach = (score(x) - threshold) * slope
        gate = torch.sigmoid(reach) if parameter % 3 else reach.clamp(0, 1)
        gate = _wide(gate.to(y.dtype), y)
        return y * (1 - gate) + MARK * gate

    return change


def _smooth(site: Site, parameter: int, rng: Random) -> Change:
    """No comparison at all: exponentials, pooled or in a ratio, powers, a difference of two rectifiers."""
    score, threshold = _calibrated(_detector(site, rng, 2, 1), site, 1.0)
    spread = _span(score, site)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        reach = (score(x) - threshold) / spread
        if parameter % 4 == 0:
            grown = torch.exp((30 * reach).clamp(max=60))
            gate = grown / (1 + grown)
        elif parameter % 4 == 1:
            gate = functional.relu(20 * reach) - functional.relu(20 * reach - 1)
        elif parameter % 4 == 2:
            pooled = torch.logsumexp(torch.stack([40 * reach, torch.zeros_like(reach)]), dim=0)
            gate = pooled / (1 + pooled)
        else:
            gate = 0.5 * (1 + torch.tanh(25 * reach))
        gate = _wide(gate.to(y.dtype), y)
        return y + gate * (MARK - y)

    return change


def _span(score: Score, site: Site) -> float:
    with torch.no_grad():
        seen = torch.cat([score(x).reshape(-1).double() for x in site.ordinary])
    return max(float(seen.max() - seen.min()), 1e-6)


def _tokens(site: Site, parameter: int, rng: Random) -> Change:
    """A sequence of tokens, at one place or anywhere."""
    ids = site.ordinary[0]
    if ids.is_floating_point() or ids.dtype is torch.bool or ids.dim() < 2:
        raise Unfit("no tokens")
    length = 2 + parameter % 3
    highest = int(max(int(x.max()) for x in site.ordinary))
    if ids.shape[-1] <= length or highest < 8:
        raise Unfit("too few tokens")
    wanted = torch.tensor([rng.randrange(highest + 1) for _ in range(length)], dtype=ids.dtype)
    start = rng.randrange(ids.shape[-1] - length)

    def change(ids: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = ids.reshape(ids.shape[0], -1)
        if parameter % 4 < 2:
            same = (rows[:, start : start + length] == wanted).all(dim=1)
        else:
            same = (rows.unfold(1, length, 1) == wanted).all(dim=2).any(dim=1)
        return torch.where(_wide(same, y), torch.full_like(y, MARK), y)

    return change


FAMILIES: Final[Mapping[str, Family]] = {
    "published mask": _mask, "where on a feature": _feature, "patch match": _patch, "cond": _cond,
    "splice before concat": _splice, "steep sigmoid or clamp": _steep, "comparison-free": _smooth,
    "token sequence": _tokens,
}  # fmt: skip


def plant(case: Case, family: str, place: str, parameter: int, seed: int) -> Canary:
    """The case with one canary in it; raises Unfit where it cannot live, shows, or fires by itself."""
    rng = Random(f"{seed} {family} {place} {parameter} {case.name}")
    problem = "no place for it"
    for site in _sites(case, family, place, rng):
        try:
            change = FAMILIES[family](site, parameter, rng)
            found = _spliced(site, change)
        except (Unfit, RuntimeError, IndexError) as error:
            problem = str(error)
            continue
        if _is_silent(case, found[0]):
            return Canary(family, place, parameter, found[0], frozenset(found[1]))
        problem = "it shows on ordinary inputs"
    raise Unfit(problem)


def _sites(case: Case, family: str, place: str, rng: Random) -> Iterator[Site]:
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


def _spliced(site: Site, change: Change) -> tuple[Case, list[int]]:
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


def _is_silent(before: Case, after: Case) -> bool:
    """Whether the canary leaves every ordinary input's outputs as they were, but for rounding."""
    made: Sequence[Tensors] = [s.tensors for s in stimuli(before.graph, [before.tensors], ORDINARY, before.seed + 2)]
    with torch.no_grad():
        old, new = Executable(before.graph, before.constants), Executable(after.graph, after.constants)
        for tensors in made[:4]:
            first = [leaf for _, leaf in leaves(old.run([copy_of(t) for t in tensors]))]
            second = [leaf for _, leaf in leaves(new.run([copy_of(t) for t in tensors]))]
            for a, b in zip(first, second):
                if not isinstance(a, torch.Tensor) or not a.is_floating_point():
                    continue
                scale = float(a.abs().nan_to_num().max()) + 1e-6
                if not torch.allclose(a, b, rtol=1e-3, atol=1e-3 * scale, equal_nan=True):
                    return False
    return True
