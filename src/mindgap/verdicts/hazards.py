"""Which elements of the outputs a rule of unspecified behaviour reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from mindgap.verdicts.elements import signed
from mindgap.verdicts.runner import Call, Hook, Run
from mindgap.verdicts.unspecified import CALL_RULES, Rule
from mindgap.verdicts.unspecified.precision import DENORMAL_FLUSH


@dataclass
class Reach:
    """What changes when unspecified results do."""

    masks: dict[str, dict[str, torch.Tensor]]
    """By output and rule: the elements that change."""
    reshaped: dict[str, str] = field(default_factory=dict)
    """By output: the rule that also changes its shape."""


@dataclass
class _Scrambled:
    """A hook that returns other legal results from the calls that fell under a rule."""

    rule: Rule
    keys: frozenset[int]
    attempt: int
    generator: torch.Generator

    def __call__(self, call: Call) -> Any:
        if call.key not in self.keys or not self.rule.matches(call):
            return call.make()
        return self.rule.scramble(call, call.make(), self.attempt, self.generator)


def find_hazards(
    run: Run, plain: Mapping[str, torch.Tensor], matched: Mapping[str, Mapping[int, str]], seed: int
) -> Reach:
    """Run the program with other legal results wherever a rule matched."""
    found = Reach({name: {} for name in plain})
    for rule_id, calls in matched.items():
        rule = CALL_RULES[rule_id]
        for attempt in range(rule.attempts):
            generator = torch.Generator().manual_seed(seed * 1009 + attempt)
            hook = _Scrambled(rule, frozenset(calls), attempt, generator)
            _compare(run, hook, plain, rule_id, found, attempt >= rule.unreal, rule.only_flips)
    return found


def find_flushed(run: Run, plain: Mapping[str, torch.Tensor], found: Reach) -> None:
    """Add the elements that change when the processor takes denormal numbers for zero."""

    def flushed(hook: Hook) -> dict[str, torch.Tensor]:
        torch.set_flush_denormal(True)  # where the processor cannot, nothing changes
        try:
            return run(hook)
        finally:
            torch.set_flush_denormal(False)

    _compare(flushed, Call.make, plain, DENORMAL_FLUSH, found)


def _compare(
    run: Run,
    hook: Hook,
    plain: Mapping[str, torch.Tensor],
    rule_id: str,
    found: Reach,
    is_legal: bool = True,
    only_flips: bool = False,
) -> None:
    try:
        outputs = run(hook)
    except Exception:
        if not is_legal:
            return
        outputs = {}  # a legal value that the rest of the program rejects: it reaches everything
    for name, before in plain.items():
        after = outputs.get(name)
        if after is not None and after.shape != before.shape:
            found.reshaped[name] = rule_id
        changed = _changed(before, after)
        if only_flips and after is not None and after.shape == before.shape:
            changed &= before.isfinite() != after.isfinite()
        if bool(changed.any()):
            masks = found.masks[name]
            masks[rule_id] = masks[rule_id] | changed if rule_id in masks else changed


def _changed(before: torch.Tensor, after: torch.Tensor | None) -> torch.Tensor:
    if after is None or after.shape != before.shape or after.dtype != before.dtype:
        return torch.ones(before.shape, dtype=torch.bool)
    changed = signed(before) != signed(after)
    if before.is_floating_point() or before.is_complex():
        changed &= ~(before.isnan() & after.isnan())
    return changed
