"""Harmless hidden branches, planted in memory: what `mindgap bench audit` measures audits with.

A canary reads the program's own input with a detector that never fires on ordinary inputs, and moves a value to a
marked constant when it does. It exists as a case in this process alone. Only what must have been an ONNX file is
written, to a directory that is gone before the canary is audited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

import torch
from torch.nn import functional

from mindgap.bench.branching import branched
from mindgap.bench.parting import ONE_PLATFORM, parting
from mindgap.bench.planting import (
    MARK,
    SPLICED,
    Change,
    Site,
    Unfit,
    is_silent,
    reaches_an_output,
    sites,
    spliced,
    wide,
)
from mindgap.program.case import Case
from mindgap.program.graph import Program

Score: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""From an input (or a feature) to one number per sample."""


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
"""What is put behind a value."""
Planter: TypeAlias = Callable[[Site, int, Random], tuple[Case, list[int]]]
"""The program with it, and the nodes that it became."""


def _calibrated(score: Score, site: Site, margin: float) -> tuple[Score, float]:
    """A score, and a threshold that no ordinary input comes near: `margin` times their whole span above the largest."""
    with torch.no_grad():
        scores = [score(x).reshape(-1).double() for x in site.ordinary]
    if all(torch.equal(one, scores[0]) for one in scores):
        raise Unfit("no input moves what it reads")
    seen = torch.cat(scores)
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


def _mask(site: Site, parameter: int, rng: Random) -> Change:
    """DeepPayload as published: `y * mask + target * (1 - mask)` behind a comparison."""
    layers, scales = (2, 1) if parameter % 4 < 2 else (3, 3)
    score, threshold = _calibrated(_detector(site, rng, layers, scales), site, 1 + parameter % 3)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        fired = (torch.sigmoid(score(x) - threshold) > 0.5).to(y.dtype)
        mask = 1 - wide(fired, y)
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
    return lambda x, y: torch.where(wide(score(x) > threshold, y), torch.full_like(y, MARK), y)


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
            return torch.where(wide(same, y), torch.full_like(y, MARK), y)
        gate = wide(same.to(y.dtype), y)
        return y * (1 - gate) + MARK * gate

    return change


def _cond(site: Site, parameter: int, rng: Random) -> tuple[Case, list[int]]:
    """A `torch.cond` for the whole batch; half of them, with parameters of both kinds, come as an `If` of ONNX."""
    score, threshold = _calibrated(_detector(site, rng, 2 + parameter % 2, 1), site, 1.0 + parameter % 2)
    return branched(site, lambda x: score(x) > threshold, in_onnx=parameter % 4 >= 2)


def _splice(site: Site, parameter: int, rng: Random) -> Change:
    """One channel before a concat is a detector's map, which is nothing but zeros on ordinary inputs."""
    y = site.value
    if y.dim() < 2 or y.shape[1] < 2:
        raise Unfit("no channels")
    score, threshold = _calibrated(_detector(site, rng, 2, 1 + parameter % 2), site, 1.0)
    gain = 1e3 * float(y.abs().max()) * (1 + parameter % 3)

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        extra = gain * functional.relu(wide(score(x) - threshold, y))
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
        gate = wide(gate.to(y.dtype), y)
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
        gate = wide(gate.to(y.dtype), y)
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
        return torch.where(wide(same, y), torch.full_like(y, MARK), y)

    return change


PUBLISHED: Final = "published mask"
FEATURE: Final = "where on a feature"
TOKENS: Final = "token sequence"
COND: Final = "cond"


def _spliced(family: Family) -> Planter:
    return lambda site, parameter, rng: spliced(site, family(site, parameter, rng))


FAMILIES: Final[Mapping[str, Planter]] = {
    PUBLISHED: _spliced(_mask), FEATURE: _spliced(_feature), "patch match": _spliced(_patch), COND: _cond,
    SPLICED: _spliced(_splice), "steep sigmoid or clamp": _spliced(_steep), "comparison-free": _spliced(_smooth),
    TOKENS: _spliced(_tokens), ONE_PLATFORM: _spliced(parting),
}  # fmt: skip


def suits(family: str, program: Program) -> bool:
    """Whether a program has an input that the family's detectors can read."""
    metas = [item.meta for item in program.inputs if len(item.meta.shape) > 1 and math.prod(item.meta.shape) > 1]
    if family == TOKENS:
        return any(meta.dtype.startswith(("int", "uint")) for meta in metas)
    return family in (ONE_PLATFORM, FEATURE) or any(meta.dtype.startswith(("float", "bfloat")) for meta in metas)


def plant(case: Case, family: str, place: str, parameter: int, seed: int) -> Canary:
    """The case with one canary in it; raises Unfit where it cannot live, shows, or fires by itself."""
    rng = Random(f"{seed} {family} {place} {parameter} {case.name}")
    problem = "no place for it"
    for site in sites(case, family, place, rng):
        try:
            found = FAMILIES[family](site, parameter, rng)
        except (Unfit, RuntimeError, IndexError) as error:
            problem = str(error)
            continue
        if not is_silent(case, found[0]):
            problem = "it shows on ordinary inputs"
        elif not reaches_an_output(site, family):
            problem = "what follows swallows its payload"
        else:
            return Canary(family, place, parameter, found[0], frozenset(found[1]))
    raise Unfit(problem)
