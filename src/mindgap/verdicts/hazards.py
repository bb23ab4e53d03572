"""Which elements of the outputs a rule of unspecified behaviour reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from mindgap.verdicts.elements import signed
from mindgap.verdicts.runner import Call
from mindgap.verdicts.unspecified import RULES, Rule
from mindgap.verdicts.unspecified.precision import DENORMAL_FLUSH

Run: TypeAlias = Callable[[Callable[[Call], Any]], dict[str, torch.Tensor]]
"""Runs the subject with a hook."""


@dataclass
class _Scrambled:
    """A hook that gives other legal results at the calls that fell under a rule."""

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
) -> dict[str, dict[str, torch.Tensor]]:
    """By output and rule: the elements that change when the unspecified results do."""
    found: dict[str, dict[str, torch.Tensor]] = {name: {} for name in plain}
    for rule_id, calls in matched.items():
        rule = RULES[rule_id]
        for attempt in range(rule.attempts):
            generator = torch.Generator().manual_seed(seed * 1009 + attempt)
            _compare(run, _Scrambled(rule, frozenset(calls), attempt, generator), plain, rule_id, found)
    return found


def find_flushed(run: Run, plain: Mapping[str, torch.Tensor], found: dict[str, dict[str, torch.Tensor]]) -> bool:
    """Add the elements that change when the processor takes denormal numbers for zero."""

    def flushed(hook: Callable[[Call], Any]) -> dict[str, torch.Tensor]:
        with _flushing():
            return run(hook)

    _compare(flushed, Call.make, plain, DENORMAL_FLUSH, found)
    return any(DENORMAL_FLUSH in masks for masks in found.values())


def _compare(
    run: Run,
    hook: Callable[[Call], Any],
    plain: Mapping[str, torch.Tensor],
    rule_id: str,
    found: dict[str, dict[str, torch.Tensor]],
) -> None:
    try:
        outputs = run(hook)
    except Exception:  # a legal value that the rest of the program cannot take: it reaches everything
        outputs = {}
    for name, before in plain.items():
        changed = _changed(before, outputs.get(name))
        if bool(changed.any()):
            masks = found[name]
            masks[rule_id] = masks[rule_id] | changed if rule_id in masks else changed


def _changed(before: torch.Tensor, after: torch.Tensor | None) -> torch.Tensor:
    if after is None or after.shape != before.shape or after.dtype != before.dtype:
        return torch.ones(before.shape, dtype=torch.bool)
    changed = signed(before) != signed(after)
    if before.is_floating_point() or before.is_complex():
        changed &= ~(before.isnan() & after.isnan())
    return changed


@contextmanager
def _flushing() -> Iterator[None]:
    """Denormal numbers count as zero; where the processor cannot, nothing changes."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
