"""What a program should give, what rounding explains, and where behaviour is unspecified: made once per program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

import torch

from mindgap.program.inputs import Inputs
from mindgap.records.tensors import DTYPE_NAMES, same_bits
from mindgap.verdicts.amplifier import find_amplifier
from mindgap.verdicts.distribution import SEEDS, Likely
from mindgap.verdicts.elements import ILL, largest_deviation
from mindgap.verdicts.factors import pool_for
from mindgap.verdicts.floor import Floor
from mindgap.verdicts.hazards import Reach, find_flushed, find_hazards
from mindgap.verdicts.noise import Noise
from mindgap.verdicts.observer import CallObserver
from mindgap.verdicts.reference import Careful, Stepwise, Wide
from mindgap.verdicts.runner import Call, Capture, Hook, Runnable, runner_of
from mindgap.verdicts.steps import ALL_RUNS
from mindgap.verdicts.survey import RESHAPED, THOROUGH, Indices, Survey, Surveyed
from mindgap.verdicts.unspecified.chance import RANDOM_STREAM
from mindgap.verdicts.unspecified.precision import DENORMAL_FLUSH

SUSPICIOUS: Final = 4.0
"""Eager this many floors away from float64: worth asking what rounding after each step gives."""

FLUSH_ELEMENTS: Final = 1 << 16
"""Programs with fewer elements in all results are also run with denormals flushed; others only when they show
denormal numbers."""

Outputs = dict[str, torch.Tensor]


def survey(model: Runnable, inputs: Inputs, seed: int = 0, runs: int = ALL_RUNS) -> Survey:
    """The float64 reference, the noise floor and the hazards of a program on these inputs."""
    return Surveyor(model, inputs, seed).survey(runs)


class Surveyor:
    """One survey in progress: asked for more noise runs, it makes only those that are missing."""

    def __init__(self, model: Runnable, inputs: Inputs, seed: int = 0, plain: Outputs | None = None) -> None:
        """`plain` is what eager gave on this machine: then the first step needs no run without noise of its own."""
        self.runner = runner_of(model, inputs, seed)
        self.observer = CallObserver()
        self.problem = ""
        self.pool = pool_for(seed)
        self.runs = 0
        self.indices: dict[str, tuple[int, Indices]] = {}
        self.wanted: frozenset[int] = frozenset()
        self._watched = False
        self._begin(plain or {})
        if not all(tensor.is_floating_point() for tensor in self.plain.values()) or not plain:
            self._look()

    def _look(self) -> None:
        """The run without noise, observed; only once."""
        if self._watched:
            return
        self._watched = True
        try:
            plain = self.runner.run(self.observer)
        except Exception as error:  # the program itself refuses: there is nothing to survey
            self.problem = f"{type(error).__name__}: {error}"
            return
        self.indices = self.observer.indices(plain)
        self.wanted = frozenset(key for key, _ in self.indices.values())
        if self.wanted or not self._began_with(plain):
            self._begin(plain)

    def _began_with(self, plain: Outputs) -> bool:
        same_names = list(self.plain) == list(plain)
        return same_names and all(same_bits(self.plain[name], plain[name]) for name in plain)

    def _begin(self, plain: Outputs) -> None:
        self.outputs = list(plain)
        self.plain = self.run(Call.make) if self.wanted else plain
        self._loose = _Floors(self, Noise(self.pool), self.plain)

    def survey(self, runs: int, more: bool = False, reference: bool = True) -> Survey:
        """What is known after `runs` noise runs; with `more`, another call may ask for more of them.

        Without `reference`, float64 is left out. With few runs hazards and amplifiers are not looked for: they matter
        only where rounding does not explain it.
        """
        if reference or runs > 1:
            self._look()
        if self.problem:
            return Survey(problem=self.problem)
        self.runs = runs
        outputs, problem = self.reference if reference else ({}, "there was no float64 run")
        floors = self._loose.after(runs)
        if runs and any(floor.moved or floor.condition > ILL / 4 for floor in floors.values()):
            self._look()
            floors = self._strict.after(runs)
        found = {name: self.surveyed(name, floors[name], outputs.get(name), problem, more) for name in self.plain}
        if runs < THOROUGH:
            return self.concluded(found)
        if any(self.is_suspicious(item) for item in found.values()):
            rounded, _ = self.stepwise
            found = {name: _with_stepwise(item, rounded.get(name)) for name, item in found.items()}
        reach = self.hazards
        found = {
            name: replace(
                item,
                hazards=reach.masks[name],
                reshaped_by=reach.reshaped.get(name, ""),
                likely=self.likely.get(name) if RANDOM_STREAM in reach.masks[name] else None,
            )
            for name, item in found.items()
        }
        return self.concluded(self.with_amplifier(self.with_careful(found, runs), floors))

    def concluded(self, found: dict[str, Surveyed]) -> Survey:
        values = tuple(item for name, item in found.items() if name not in self.outputs)
        rules = {rule: next(iter(calls.values())) for rule, calls in self.observer.matched.items()}
        if any(DENORMAL_FLUSH in item.hazards for item in found.values()):
            rules[DENORMAL_FLUSH] = "denormal numbers"
        return Survey(tuple(found[name] for name in self.outputs), values, rules, self.runs)

    def run(self, hook: Hook, wide: bool = False) -> Outputs:
        capture = Capture(hook, self.wanted)
        outputs = self.runner.run(capture, wide)
        return outputs | {f"values:{key}": value.contiguous() for key, value in capture.values.items()}

    @cached_property
    def reference(self) -> tuple[Outputs, str]:
        try:
            return self.run(Wide(self.observer.drawn), wide=True), ""
        except Exception as error:  # not every operator has a float64 kernel
            return {}, f"the float64 run failed: {type(error).__name__}: {error}"

    @cached_property
    def stepwise(self) -> tuple[Outputs, Stepwise]:
        hook = Stepwise(self.observer.drawn)
        try:
            return self.run(hook), hook
        except Exception:  # then the reference stands alone
            return {}, hook

    @cached_property
    def _strict(self) -> _Floors:
        """Without noise where a result is known to be exact."""
        return _Floors(self, Noise(self.pool, self.stepwise[1].exact), self.plain)

    @cached_property
    def hazards(self) -> Reach:
        found = find_hazards(self.run, self.plain, self.observer.matched, self.runner.seed)
        elements = self.runner.elements()
        small = (self.observer.elements if elements is None else elements) < FLUSH_ELEMENTS
        if small or any(map(_has_denormals, self.plain.values())):
            find_flushed(self.run, self.plain, found)
        return found

    @cached_property
    def likely(self) -> dict[str, Likely]:
        """What each output shows with other seeds."""
        samples: list[Outputs] = []
        for number in range(SEEDS):
            try:
                samples.append(self.runner.run(Call.make, seed=self.runner.seed + number + 1))
            except Exception:  # other numbers led to a value that the program refuses: chance decides everything
                return {}
        alike = [name for name in self.outputs if all(name in sample for sample in samples)]
        return {name: Likely.of([sample[name] for sample in samples]) for name in alike}

    def surveyed(self, name: str, floor: Floor, reference: torch.Tensor | None, problem: str, more: bool) -> Surveyed:
        plain = self.plain[name]
        distrust = problem
        if reference is None and not problem:
            distrust = "the float64 run has no such output"
        elif reference is not None and reference.shape != plain.shape:
            distrust, reference = "the float64 run gives another shape", None
        elif floor.reshaped:
            distrust = RESHAPED
        condition = floor.condition  # before `smooth`, which may change the spread in place
        return Surveyed(
            name,
            DTYPE_NAMES[plain.dtype],
            reference=reference,
            spread=None if floor.reshaped else floor.smooth(keep=more),
            flips=floor.flips,
            indices=self.indices[name][1] if name in self.indices else None,
            distrust=distrust,
            condition=condition,
        )

    def is_suspicious(self, item: Surveyed) -> bool:
        """Whether the plain run is farther from float64 than rounding explains."""
        if item.reference is None or item.distrust:
            return False
        return largest_deviation(self.plain[item.name], item) > SUSPICIOUS

    def with_careful(self, found: dict[str, Surveyed], runs: int) -> dict[str, Surveyed]:
        """Where an output is ill-conditioned, ask whether the problem is, or only the way it is computed."""
        ill = [name for name, item in found.items() if item.condition > ILL and item.reference is not None]
        rounded, stepwise = self.stepwise if ill else ({}, None)
        plain = {name: rounded[name] for name in ill if name in rounded}
        if not plain or stepwise is None:
            return found
        # Its own record of what is exact: noise must not change the one that it is read from.
        hook = Careful(Noise(self.pool, stepwise.exact), Stepwise(self.observer.drawn))
        floors = _Floors(self, hook, plain).after(runs)
        calm = {name: floor for name, floor in floors.items() if floor.condition <= ILL and not floor.moved}
        return {
            name: replace(item, careful=calm[name].smooth()) if name in calm else item for name, item in found.items()
        }

    def with_amplifier(self, found: dict[str, Surveyed], floors: Mapping[str, Floor]) -> dict[str, Surveyed]:
        ill = {name for name, item in found.items() if item.condition > ILL or floors[name].moved}
        if not ill:
            return found
        self.pool.restart(self.runner.seed)
        name_of_worst = find_amplifier(self.run, Noise(self.pool))
        return {name: replace(item, amplifier=name_of_worst) if name in ill else item for name, item in found.items()}


class _Floors:
    """The noise floor of each output, one noise run after the other."""

    def __init__(self, surveyor: Surveyor, noise: Hook, plain: Outputs) -> None:
        self._surveyor = surveyor
        self._noise = noise
        self._floors = {name: Floor(tensor) for name, tensor in plain.items()}
        self._made = 0

    def after(self, runs: int) -> dict[str, Floor]:
        """The floors after `runs` runs; the n-th run always gets the same noise."""
        surveyor = self._surveyor
        for number in range(self._made, runs):
            surveyor.pool.restart(surveyor.runner.seed * 7919 + number)
            try:
                outputs = surveyor.run(self._noise)
            except Exception:  # noise led to a value that the program refuses
                outputs = {}
            for name, floor in self._floors.items():
                if name in outputs:
                    floor.add(outputs[name])
                else:
                    floor.reshaped = True
        self._made = max(self._made, runs)
        return self._floors


def _with_stepwise(item: Surveyed, stepwise: torch.Tensor | None) -> Surveyed:
    if stepwise is None or item.reference is None or stepwise.shape != item.reference.shape:
        return item
    return replace(item, stepwise=stepwise)


def _has_denormals(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    return bool(((tensor != 0) & (tensor.abs() < torch.finfo(tensor.dtype).tiny)).any())
