"""Behaviour that nobody promised: each rule says which operators and values, why, and what else would be legal.

In: an operator call with its real arguments. Out: whether a rule matches, and another result that is as legal.
Guarantee: a rule matches values, not names alone, and changes a result only where it is unspecified.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from mindgap.program.operators import traits
from mindgap.verdicts.runner import Call
from mindgap.verdicts.terms import may_add
from mindgap.verdicts.unspecified import chance, indices, integers, memory, order, precision, special
from mindgap.verdicts.unspecified.rule import Practice, Rule

CALL_RULES: Final[dict[str, Rule]] = {
    rule.id: rule for family in (integers, special, indices, chance, memory, order) for rule in family.RULES
}
"""Rules that a single call falls under, by id."""

RULES: Final[dict[str, Rule | Practice]] = {**CALL_RULES, **{rule.id: rule for rule in precision.RULES}}
"""Every rule by its id."""

_ANY: Final = [rule for rule in CALL_RULES.values() if not rule.operators]


def matching(call: Call) -> list[Rule]:
    """The rules that a call with these arguments falls under."""
    if not call.is_operator:
        return []
    candidates = (*map(CALL_RULES.__getitem__, traits(call.op).unspecified), *_ANY)
    return [rule for rule in candidates if rule.matches(call)]


@cache
def may_match(op: str) -> bool:
    """Whether a rule could match a call of this operator, whatever its arguments are."""
    return bool(traits(op).unspecified) or chance.may_draw(op) or memory.may_overlap(op) or may_add(op)


__all__ = ["CALL_RULES", "RULES", "Practice", "Rule", "matching", "may_match"]
