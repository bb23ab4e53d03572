"""Running a program again and again: what its small values are on ordinary inputs, and what forcing one does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.audit.flow import Flow
from mindgap.audit.stimuli import Stimulus, Tensors, fields_of
from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Node, leaves
from mindgap.program.inputs import copy_of
from mindgap.program.interpret import Executable
from mindgap.verdicts.floor import sample
from mindgap.verdicts.runner import named
from mindgap.verdicts.surveyor import Surveyor

NOISE_RUNS: Final = 2
"""Runs with rounding noise: their spread is within 3x of that of many, and a gate that counts is orders above it."""
ROUNDING: Final = 1e4
"""Units in the last place, of the root of its mean square, that rounding moves an output at most: hundreds of layers
move it by some hundred."""
ADVERSARIAL: Final = (0.05, 0.2)
"""Steps along the sign of a gradient, in shares of an input's range."""

Outputs = dict[str, torch.Tensor]
"""By name: numbers of each output, in float64, a sample where there are very many."""


class Clock:
    """A budget of seconds, of CPU time: what an audit finds must not depend on who else uses the machine."""

    def __init__(self, seconds: float) -> None:
        self._start = time.process_time()
        self._seconds = seconds

    def is_over(self, share: float = 1.0) -> bool:
        """Whether this share of the budget is spent."""
        return time.process_time() > self._start + share * self._seconds


@dataclass
class Watcher:
    """A program that can be run, looked into and forced."""

    case: Case
    flow: Flow
    kinds: list[str] = field(default_factory=list)
    """What each run was fed with."""
    named: list[bool] = field(default_factory=list)
    """Whether each run was fed with numbers that the program itself compares with."""
    given: list[Tensors] = field(default_factory=list)
    values: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    """By candidate: its value in each run, flat, in float64."""
    outputs: list[Outputs] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    noise: Mapping[str, float] = field(default_factory=dict)
    """By output: how far rounding moves it."""
    precision: dict[str, float] = field(default_factory=dict)
    """By output: the distance of 1 from the next number of its type; 0 where there is no rounding."""

    def __post_init__(self) -> None:
        self._executable = Executable(self.case.graph, self.case.constants)

    def run(
        self, tensors: Tensors, observer: Callable[[Node, Any], Any] | None = None,
        caller: Callable[..., Any] | None = None, called: frozenset[int] | None = None,
    ) -> Outputs:  # fmt: skip
        """One run without gradients; the inputs are left as they are."""
        with torch.no_grad():
            return self._run(tensors, observer, caller, called)

    def _run(self, tensors: Tensors, *hooks: Any) -> Outputs:
        torch.manual_seed(self.case.seed)
        result = self._executable.run([copy_of(tensor) for tensor in tensors], *hooks)
        made = list(named(result))
        for name, tensor in made:
            self.precision[name] = torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0
        return {name: vector(tensor) for name, tensor in made}

    def watch(self, stimulus: Stimulus, candidates: frozenset[int]) -> bool:
        """Note what the candidates and the outputs are; False when the program refuses the input."""
        seen: dict[int, torch.Tensor] = {}

        def note(node: Node, result: Any) -> Any:
            if node.id in candidates and isinstance(result, torch.Tensor):
                seen[node.id] = flat(result)
            return result

        try:
            outputs = self.run(stimulus.tensors, note)
        except Exception as error:  # whatever an operator says of values that do not suit it
            self.refused[f"{type(error).__name__}: {error}".splitlines()[0]] += 1
            return False
        for identity, value in seen.items():
            self.values.setdefault(identity, []).append(value)
        self.kinds.append(stimulus.kind)
        self.named.append(stimulus.named)
        self.given.append(stimulus.tensors)
        self.outputs.append(outputs)
        return True

    def forced(self, tensors: Tensors, gate: int, value: torch.Tensor) -> Outputs | None:
        """The outputs with a node's result replaced; None when the program cannot run with it."""

        def force(node: Node, result: Any) -> Any:
            return held_at(node, result, value) if node.id == gate else result

        try:
            return self.run(tensors, force)
        except Exception:  # an index out of range, a size that does not fit
            return None

    def measure_noise(self) -> None:
        """How far rounding moves each output on the example."""
        surveyor = Surveyor((self.case.graph, self.case.constants), self.case.inputs, self.case.seed)
        found = surveyor.survey(NOISE_RUNS, reference=False)
        self.noise = {
            item.name: float(item.spread.max()) if item.spread is not None and item.spread.numel() else 0.0
            for item in found.outputs
        }

    def floor(self, name: str, output: torch.Tensor) -> float:
        """How far rounding moves an output. A noise run that opens an exact comparison moves it as far as what the
        comparison controls: that is no rounding, and must not excuse it."""
        most = ROUNDING * self.precision.get(name, 0.0) * float(output.nan_to_num().square().mean().sqrt())
        return min(self.noise.get(name, 0.0), most or float("inf"))

    def spread(self, name: str) -> float:
        """How far ordinary inputs move an output: the root of its mean square distance from its mean."""
        rows = [outputs[name] for outputs in self.outputs if name in outputs]
        alike = [row for row in rows if row.shape == rows[0].shape]
        return deviation(torch.stack(alike)) if len(alike) > 1 else 0.0

    def adversarial(self, tensors: Tensors, number: int) -> Iterator[Stimulus]:
        """Inputs a step along the gradient of the output: with, and against a random direction of it."""
        places = [n for n, tensor in enumerate(tensors) if tensor.is_floating_point() and tensor.numel()]
        fields = fields_of(self.case.graph, [tensors])
        rng = torch.Generator().manual_seed(number)
        try:
            gradients = self._gradients(tensors, places, rng)
        except Exception:  # an operator without a gradient, or one that writes to an input
            return
        for step in ADVERSARIAL:
            for sign in (1, -1):
                moved = list(tensors)
                for place, gradient in zip(places, gradients):
                    low, high = fields[place].low, fields[place].high
                    changed = tensors[place] + sign * step * (high - low) * gradient.sign()
                    moved[place] = changed.clamp(low, high).to(tensors[place].dtype)
                yield Stimulus("adversarial", tuple(moved))

    def sensitive(self, tensors: Tensors) -> dict[int, torch.Tensor]:
        """By input of floats: whether each element moves an output by its gradient."""
        places = [n for n, tensor in enumerate(tensors) if tensor.is_floating_point() and tensor.numel()]
        try:
            gradients = self._gradients(tensors, places, torch.Generator().manual_seed(0))
        except Exception:  # an operator without a gradient
            return {}
        return {place: gradient != 0 for place, gradient in zip(places, gradients)}

    def _gradients(self, tensors: Tensors, places: Sequence[int], rng: torch.Generator) -> list[torch.Tensor]:
        given = list(tensors)
        for place in places:
            given[place] = tensors[place].detach().clone().requires_grad_(True)
        torch.manual_seed(self.case.seed)
        with torch.enable_grad():
            result = self._executable.run([copied(tensor) for tensor in given])
            parts = [t.reshape(-1) for _, t in leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
            total = torch.stack([(p * torch.randn(p.shape, generator=rng)).sum() for p in parts]).sum()
            found = torch.autograd.grad(total, [given[place] for place in places], allow_unused=True)
        return [torch.zeros_like(given[p]) if g is None else g.nan_to_num() for p, g in zip(places, found)]


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that a program may write to; gradients find the way back through it."""
    return tensor * 1 if tensor.requires_grad else copy_of(tensor)


def held_at(node: Node, result: Any, value: torch.Tensor) -> Any:
    """A node's result with another value; one that writes in place changes its memory too."""
    if not isinstance(result, torch.Tensor):
        return result
    given = value.reshape(result.shape).to(result.dtype)
    if ops.mutated_arguments(node.op) and ops.returns_first_argument(node.op):
        return result.copy_(given)
    return given


def held_by(values: Sequence[float]) -> torch.Tensor:
    """A value as it travels, flat and in float64."""
    return torch.tensor(values, dtype=torch.float64)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a small tensor in one row."""
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.detach().reshape(-1).to(torch.float64, copy=True)


def vector(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of an output; of very many a sample, the same of every run."""
    return flat(sample(tensor.detach()))


def deviation(rows: torch.Tensor) -> float:
    """Root of the mean square distance of rows from their mean, without what is not finite."""
    finite = rows[:, rows.isfinite().all(dim=0)]
    return float((finite - finite.mean(dim=0)).square().mean().sqrt()) if finite.numel() else 0.0
