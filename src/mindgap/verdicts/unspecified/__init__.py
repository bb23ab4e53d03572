"""Behaviour that nobody promised: each rule says which operators and values, why, and what else would be legal.

In: an operator call with its real arguments. Out: whether a rule matches, and another result that is as legal.
Guarantee: a rule matches values, not names alone, and changes a result only where it is unspecified.
"""

from __future__ import annotations

from mindgap.verdicts.unspecified.rules import CALL_RULES, RULES, Practice, Rule, matching, may_match

__all__ = ["CALL_RULES", "RULES", "Practice", "Rule", "matching", "may_match"]
