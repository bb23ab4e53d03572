"""Monte-Carlo arithmetic: the same run with a random rounding error at every operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import torch

from mindgap.program import ops
from mindgap.program.graph import Node, map_leaves
from mindgap.program.operators import Rounding, Terms, traits
from mindgap.verdicts.elements import THRESHOLD
from mindgap.verdicts.factors import EPS, LARGEST_POOL, NoisePool
from mindgap.verdicts.runner import Call, tensors_in
from mindgap.verdicts.terms import accumulates, alone, cancels, length, transformed

LENGTH_PER_ULP: Final = 64
"""A sum of n terms gets max(1, sqrt(n / 64)) times the noise: sequential float32 sums err by sqrt(n / 3) units,
those of 16 lanes by a quarter of it (docs/decisions/0003)."""

SCAN_PER_ULP: Final = 4 * THRESHOLD
"""A running sum of n terms has one accumulator, and equal terms make it err the same way at every step: by half a unit
of a value that grows to the last one, n / 4 units at most. So much is allowed in all."""

AS_A_WHOLE: Final = frozenset(
    f"onnx.{kind}" for kind in ["DFT", "STFT", "GRU", "LSTM", "RNN", "BlackmanWindow", "HammingWindow", "HannWindow"]
)
"""Nodes of ONNX files whose inner sums and products nobody sees: transforms, whose elements are 0 by symmetry in one
algorithm and a rounding error in another; recurrences, which keep a part of a state (1 - z); windows."""

MANY: Final = 4096
"""Elements from which speed counts more than the sign of a zero."""

LOOKS: Final = 32
"""At how many of its degrees a polynomial is looked at, for the largest of them."""


def may_round(node: Node) -> bool:
    """Whether the call of a node may round; dropout in evaluation mode, for one, returns its argument."""
    known = traits(node.op)
    if known.drops and False in node.args[2:3]:
        return False
    return known.rounding is not Rounding.EXACT or ops.position_of(node.op, "accumulate") is not None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What noise a call gets: the same in every run."""

    kind: Rounding
    inplace: bool
    amplitude: int = 1
    positions: tuple[int, ...] = ()
    """Arguments that get noise before the call."""
    numbers: tuple[int, ...] = ()
    """Arguments that are numbers and get noise: all that an operator without tensors rounds from."""
    may_alias: bool = False
    """Whether the result may be an argument in disguise; what rounds inside works on copies with noise."""
    adds: bool = False
    """Whether it is a plain sum or mean."""
    converts: torch.dtype | None = None
    """What it makes of whole numbers before it rounds; noise needs the same."""
    as_a_whole: bool = False
    """Whether the error of an element follows the size of the whole result: sums that nobody sees cancel inside."""
    simple: bool = False
    """Whether noise on those arguments and on the result is all."""

    @classmethod
    def of(cls, call: Call) -> _Plan:
        known = traits(call.op)
        kind = known.rounding
        if kind is Rounding.EXACT and accumulates(call):
            kind = Rounding.INSIDE
        if kind is Rounding.ONCE and cancels(call):
            return cls(Rounding.INSIDE, call.inplace, positions=tuple(range(len(call.args))))
        if kind is Rounding.ONCE and not call.tensors():
            return cls(Rounding.INSIDE, False, numbers=_numbers(call))
        if kind is not Rounding.INSIDE:
            alias = call.is_operator and ops.may_alias(call.op)
            simple = kind is Rounding.ONCE and not (call.inplace or alias or known.casts)
            return cls(kind, call.inplace, known.ulps, may_alias=alias, simple=simple)
        positions = tuple(_noisy_positions(call))
        noisy = [call.args[position] for position in positions]
        simple = all(isinstance(a, torch.Tensor) and a.dtype in EPS and a.numel() <= LARGEST_POOL for a in noisy)
        simple = simple and not (call.inplace or known.distance or known.recurs or known.transforms or alone(call))
        converts = None if call.op in AS_A_WHOLE else _converts(call)
        counts = converts is None and not any(map(_is_floating, call.tensors()))  # as the length of a window does
        as_a_whole = call.op in AS_A_WHOLE or (counts and not call.inplace)
        return cls(
            kind, call.inplace, growth(call), positions, adds=known.adds, converts=converts,
            as_a_whole=as_a_whole, simple=simple and not as_a_whole,
        )  # fmt: skip


_PLANS: Final[dict[Any, _Plan]] = {}
_MOST_PLANS: Final = 1 << 16


def _plan_of(call: Call) -> _Plan:
    """The plan of a call; variants of one model make the same calls again and again."""
    if traits(call.op).terms is Terms.COUNTED or accumulates(call):
        return _Plan.of(call)  # it depends on values: how many of them land on one index
    key = (call.op, _signature(call.args), _signature(tuple(call.kwargs.items())) if call.kwargs else ())
    plan = _PLANS.get(key)
    if plan is None:
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        plan = _PLANS[key] = _Plan.of(call)
    return plan


def _signature(values: Sequence[Any]) -> tuple[Any, ...]:
    """What a plan depends on: kinds of tensors, and plain arguments as they are."""
    return tuple(
        (value.dtype, value.shape)
        if isinstance(value, torch.Tensor)
        else _signature(value)
        if isinstance(value, list | tuple)
        else value
        for value in values
    )


@dataclass
class Noise:
    """A hook that adds one random rounding error per floating operator, and one before those that round inside."""

    pool: NoisePool
    exact: dict[int, list[torch.Tensor | None]] = field(default_factory=dict)
    """By call: where its results are known to be exact, and so get no noise."""
    plans: dict[int, _Plan] = field(default_factory=dict)
    wants: ClassVar = staticmethod(may_round)

    def __call__(self, call: Call) -> Any:
        plan = self.plans.get(call.key)
        if plan is None:
            plan = self.plans[call.key] = _plan_of(call)
            if plan.simple and not self.exact:
                return self._simply(plan, call.function, call.args, call.kwargs)
        if plan.kind is Rounding.EXACT:
            return call.make()
        if plan.kind is Rounding.INSIDE:
            return self._inside(call, plan)
        result = call.make()
        if plan.kind is Rounding.ABSOLUTE:
            self._disturb_by_argument(call, result)
        elif traits(call.op).casts and not _narrows(call, result):
            return result
        self._disturb(call, result, plan)
        return result

    def careful(self, call: Call, make: Callable[[Call], Any]) -> Any:
        """The call from arguments and to a result that are a rounding away from their values; `make` adds no error.

        So the noise of how common formulas compute an activation is left out: its argument gets noise instead.
        """
        plan = self.plans.get(call.key)
        if plan is None:
            plan = self.plans[call.key] = _plan_of(call)
        if plan.kind is Rounding.EXACT:
            return call.make()
        exact = self._is_exact(call)
        if not exact and plan.kind is not Rounding.ONCE:
            noisy = replace(plan, positions=(0,)) if plan.kind is Rounding.ABSOLUTE else plan
            call = replace(call, args=self._noisy_arguments(call, noisy))
        result = make(call)
        if not exact and not (traits(call.op).casts and not _narrows(call, result)):
            self._disturb(call, result, plan)
        return result

    def quick(self, key: int, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result with noise where that takes few steps; NotImplemented elsewhere, and in the first run.

        Small operators cost less than the Python around them: this is half of what noise costs.
        """
        plan = self.plans.get(key)
        if plan is None or not plan.simple or self.exact:
            return NotImplemented
        return self._simply(plan, function, args, kwargs)

    def _simply(self, plan: _Plan, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        pool, amplitude = self.pool, plan.amplitude
        for position in plan.positions:
            args[position] = pool.perturbed(args[position], amplitude)
        result = function(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            pool.perturb_(result, amplitude)
        else:
            for tensor in tensors_in(result):
                pool.perturb_(tensor, amplitude)
        return result

    def _inside(self, call: Call, plan: _Plan) -> Any:
        if self._is_exact(call):
            return call.make()
        if plan.adds and isinstance(call.args[0], torch.Tensor) and call.args[0].numel() > LARGEST_POOL:
            result = call.make()
            self._disturb_sum(call, result, plan.amplitude)
        else:
            result = call.function(*self._noisy_arguments(call, plan), **call.kwargs)
        if traits(call.op).distance and _takes_products(call):
            self._disturb_distance(call, result)
        if traits(call.op).recurs:
            self._disturb_recurrence(call, result)
        if traits(call.op).transforms and not call.inplace and result.numel():
            self._disturb_transform(call, result)
        if alone(call):
            self._disturb_alone(call, result[0] if isinstance(result, tuple) else result)
        if plan.as_a_whole:
            self._disturb_whole(call, result)
        self._disturb(call, result, plan)
        return result

    def _is_exact(self, call: Call) -> bool:
        """Whether all results of the call are known to be exact."""
        masks = self.exact.get(call.key)
        return bool(masks) and all(mask is not None and bool(mask.all()) for mask in masks or ())

    def _noisy_arguments(self, call: Call, plan: _Plan) -> list[Any]:
        written = call.mutated() if plan.inplace else []
        if plan.inplace and any(tensor is call.args[0] for tensor in written):
            self.pool.perturb_(call.args[0], plan.amplitude)

        def change(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and plan.converts is not None:
                leaf = leaf.to(plan.converts)
            if not isinstance(leaf, torch.Tensor) or not (leaf.dtype in EPS or leaf.is_complex()):
                return leaf
            if any(leaf is tensor for tensor in written):
                return leaf
            return self.pool.perturbed(leaf, plan.amplitude)

        args = call.args.copy()
        for position in plan.positions:
            argument = args[position]
            if isinstance(argument, torch.Tensor) and not written and argument.dtype in EPS:
                args[position] = self.pool.perturbed(argument, plan.amplitude)
            else:
                args[position] = map_leaves(argument, change)
        if plan.numbers:
            dtype = call.kwargs.get("dtype") or torch.get_default_dtype()
            factors = self.pool.perturbed(torch.ones(len(plan.numbers), dtype=dtype)).tolist()
            for position, factor in zip(plan.numbers, factors):
                args[position] *= factor
        return args

    def _disturb(self, call: Call, result: Any, plan: _Plan) -> None:
        masks = self.exact.get(call.key)
        if masks is None and isinstance(result, torch.Tensor):
            if plan.inplace or not (plan.may_alias and _is_argument(result, call)):
                self.pool.perturb_(result, plan.amplitude)
            return
        for position, tensor in enumerate(tensors_in(result) or (call.mutated() if plan.inplace else [])):
            if not plan.inplace and _is_argument(tensor, call):
                continue
            mask = masks[position] if masks is not None and position < len(masks) else None
            if mask is None:
                self.pool.perturb_(tensor, plan.amplitude)
            elif not bool(mask.all()):
                tensor.copy_(torch.where(mask, tensor, self.pool.perturbed(tensor, plan.amplitude)))

    def _disturb_sum(self, call: Call, result: torch.Tensor, amplitude: int) -> None:
        """What noise on every term of a very long sum comes to, without copying the terms."""
        terms = call.args[0]
        size = torch.linalg.vector_norm(terms, dtype=torch.float64 if terms.dtype is torch.float64 else None)
        if call.name == "mean":
            size = size / (terms.numel() / max(1, result.numel()))
        if bool(torch.isfinite(size)):
            noise = torch.empty_like(result).fill_(size.item())
            result.add_(self.pool.perturbed(noise, amplitude) - noise)

    def _disturb_by_argument(self, call: Call, result: Any) -> None:
        """Noise in proportion to |x|, or to 1 where the formula subtracts 1 (`exp(x) - 1`, `log(1 + exp(x))`)."""
        value = result[0] if isinstance(result, tuple) else result
        source = call.args[0].to(value.dtype)  # of whole numbers as well
        if value.dtype not in EPS or value.numel() > LARGEST_POOL:
            return
        masks = self.exact.get(call.key)
        by_size = traits(call.op).follows_argument
        if masks is None and value.numel() >= MANY and bool(torch.isfinite(source.sum())):
            steps = self.pool.factors(value, 1) - 1
            value.addcmul_(source, steps) if by_size else value.add_(steps)
            return
        scale = source if by_size else torch.ones_like(source)
        finite = torch.nan_to_num(scale, 0.0, 0.0, 0.0).masked_fill_((source == 0) | ~value.isfinite(), 0.0)
        self._add(call, value, self.pool.perturbed(finite) - finite)

    def _disturb_distance(self, call: Call, result: torch.Tensor) -> None:
        """The error of |x|^2 + |y|^2 - 2xy follows the norms, not the distance; where it is negative eager gives 0, so
        that noise on the arguments often does not show."""
        first, second = call.args[0].to(torch.float64), call.args[1].to(torch.float64)
        norms = first.square().sum(-1).unsqueeze(-1) + second.square().sum(-1).unsqueeze(-2)
        noise = self.pool.perturbed(norms.to(result.dtype)).to(torch.float64) - norms
        result.copy_((result.to(torch.float64).square() + noise).abs().sqrt())

    def _disturb_recurrence(self, call: Call, result: torch.Tensor) -> None:
        """Each degree of a polynomial rounds anew: the error follows their number and the largest value on the way."""
        first, degree = (torch.as_tensor(argument, dtype=torch.float64) for argument in call.args[:2])
        degree = torch.nan_to_num(degree).clamp(0, MANY)
        polynomial = getattr(torch.ops.aten, call.name).default
        steps = min(LOOKS, max(1, int(degree.max()))) if degree.numel() else 1
        passed = [polynomial(first, (degree * step / steps).floor()).abs() for step in range(steps + 1)]
        size = (torch.stack(passed).amax(0) * degree.clamp_min(1)).to(result.dtype)
        self._add(call, result, (self.pool.perturbed(size) - size).nan_to_num(0.0, 0.0, 0.0))

    def _disturb_transform(self, call: Call, result: torch.Tensor) -> None:
        """The error of a Fourier transform follows the norm of its whole result, not the element: by symmetry some
        elements are exactly 0 in one algorithm and a rounding error in another. Each of its log2(n) stages rounds
        (Higham, Accuracy and Stability of Numerical Algorithms, theorem 24.2). The largest is taken out: squares may
        overflow."""
        parts = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
        along = [dim % result.dim() for dim in transformed(call)]
        dims = along + [result.dim()] * result.is_complex()
        count = max(math.prod(tensor.shape[dim] for dim in along) for tensor in (call.args[0], result))
        peak = parts.abs().amax(dims, keepdim=True).clamp_min(torch.finfo(parts.dtype).tiny)
        size = ((parts / peak).square().mean(dims, keepdim=True).sqrt() * peak).expand(parts.shape).contiguous()
        stages = _power_of_two(math.log2(max(2, count)))
        noise = (self.pool.perturbed(size, stages) - size).nan_to_num(0.0, 0.0, 0.0)
        self._add(call, result, torch.view_as_complex(noise) if result.is_complex() else noise)

    def _disturb_alone(self, call: Call, result: torch.Tensor) -> None:
        """An element that is normalised by itself: x * scale - x * scale is 0, or a rounding error of the product."""
        given = {item.name: call.argument(at, item.name, item.default_value)
                 for at, item in enumerate(ops.arguments_of(call.op))}  # fmt: skip
        weight, eps = given["weight"], float(given.get("eps", given.get("epsilon")) or 0.0)
        if eps <= 0 or given.get("training", given.get("use_input_stats")) is False:
            return
        size = call.args[0].abs() * (eps**-0.5 * (1.0 if weight is None else float(weight.abs().max())))
        size = size.to(result.dtype).reshape(result.shape)
        self._add(call, result, (self.pool.perturbed(size) - size).nan_to_num(0.0, 0.0, 0.0))

    def _disturb_whole(self, call: Call, result: Any) -> None:
        """The terms of a window or transform are as large as its largest element; a gate of a GRU is at most 1."""
        least = 1.0 if call.op == "onnx.GRU" else 0.0
        for tensor in tensors_in(result):
            if tensor.dtype in EPS and 0 < tensor.numel() <= LARGEST_POOL:
                size = torch.nan_to_num(tensor, 0.0, 0.0, 0.0).abs().amax().clamp_min(least)
                size = size.expand(tensor.shape).contiguous()
                self._add(call, tensor, self.pool.perturbed(size) - size)

    def _add(self, call: Call, result: torch.Tensor, noise: torch.Tensor) -> None:
        """Noise where the result is not known to be exact."""
        masks = self.exact.get(call.key)
        if masks is not None and masks[0] is not None:
            noise = noise.masked_fill(masks[0], 0.0)
        result.copy_(torch.where(noise == 0, result, result + noise))  # adding 0.0 would lose the sign of -0.0


def _is_floating(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _takes_products(call: Call) -> bool:
    """Whether eager computes distances as |x|^2 + |y|^2 - 2xy; torch.cdist documents `compute_mode` and the 25."""
    if call.name == "_euclidean_dist":
        return True
    if call.argument(2, "p", 2.0) != 2:
        return False
    mode = call.argument(3, "compute_mode") or 0
    return mode == 1 or (mode == 0 and max(call.args[0].shape[-2], call.args[1].shape[-2]) > 25)


def growth(call: Call) -> int:
    """How much more noise a long accumulation gets: a power of two near sqrt(n / 64), at least 1.

    Interpolation computes indices into the argument: an error of eps * size there moves the result by as much.
    """
    known = traits(call.op)
    if known.interpolates and isinstance(call.args[0], torch.Tensor):
        return 1 << max(0, math.ceil(math.log2(max(1, *call.args[0].shape[2:]) / 2)))
    if any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in call.tensors()):
        return 1  # half precision is accumulated in float32: its sums round once
    if known.scans or accumulates(call):
        return _power_of_two(length(call) / SCAN_PER_ULP)
    return _power_of_two(math.sqrt(length(call) / LENGTH_PER_ULP))


def _power_of_two(factor: float) -> int:
    return 1 << max(0, round(math.log2(max(1.0, factor))))


def _converts(call: Call) -> torch.dtype | None:
    """The precision that an operator computes in when it is given whole numbers alone and does not return such."""
    given = call.tensors()
    if call.inplace or not given or any(map(_is_floating, given)):
        return None
    with torch.random.fork_rng(devices=[]):
        found = [tensor.real.dtype if tensor.is_complex() else tensor.dtype for tensor in tensors_in(call.make())]
        dtype = found[0] if found and found[0] in EPS else None
        if dtype is not None:
            args = map_leaves(call.args, lambda leaf: leaf.to(dtype) if isinstance(leaf, torch.Tensor) else leaf)
            try:
                call.function(*args, **call.kwargs)
            except (RuntimeError, TypeError, ValueError):  # it wants whole numbers: they count something
                return None
    return dtype


def _narrows(call: Call, result: Any) -> bool:
    """Whether a cast rounds: only to a narrower floating type."""
    if not isinstance(result, torch.Tensor) or not isinstance(call.args[0], torch.Tensor):
        return False
    return EPS.get(result.dtype, 0.0) > EPS.get(call.args[0].dtype, 1.0)


def _noisy_positions(call: Call) -> frozenset[int]:
    operands = traits(call.op).operands
    if not operands or operands[-1] >= len(call.args):
        return frozenset(range(len(call.args)))
    return frozenset([min(operands, key=lambda position: call.args[position].numel())])


def _numbers(call: Call) -> tuple[int, ...]:
    """Where the schema has a number that may be a fraction: the ends of `linspace`, not how many steps it takes."""
    schema = call.function._schema.arguments if isinstance(call.function, torch._ops.OpOverload) else ()
    given = zip(range(len(call.args)), schema)
    return tuple(position for position, argument in given if isinstance(argument.type, torch.NumberType))


def _is_argument(tensor: torch.Tensor, call: Call) -> bool:
    """Whether a result is an argument in disguise (dropout in evaluation mode returns its input)."""
    pointer = tensor.data_ptr()
    return any(isinstance(other, torch.Tensor) and other.data_ptr() == pointer for other in call.args)
