"""Which real models a platform could run by what it declares, and what would unlock more. Predicted, never observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mindgap.operators.declared import Declaration, Has, made_of, replacement
from mindgap.operators.universe import Models

MOST_UNLOCKING: Final = 10


@dataclass(frozen=True, slots=True)
class Need:
    """One operator that a model needs, on one platform."""

    op: str
    has: Has
    replacement: tuple[str, ...] = ()
    """What it could be made of there."""
    missing_parts: tuple[str, ...] = ()
    made_of: tuple[str, ...] = ()
    """What it is made of, whether the platform has that or not."""


class Prospect(str, Enum):
    """Whether a platform could run a model by what it declares."""

    YES = "yes"
    REPLACED = "with decompositions"
    """It lacks operators, and has what torch's decompositions make of each of them."""
    PERHAPS = "perhaps"
    """It lacks nothing, but has the parts of some calls only of an operator."""
    NO = "no"
    UNKNOWN = "not known"
    """Its list is known to be incomplete."""


@dataclass(frozen=True, slots=True)
class Unlock:
    """An operator that would let more models run, given those before it in the list."""

    op: str
    models: int
    """More models that run with it."""
    blocked: int
    """Models that need it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How many real models a platform can run by what it declares."""

    platform: str
    models: int
    runnable: int
    perhaps: int
    """Models that need nothing it lacks, but an operator of which it has the parts of some calls only."""
    blocking: Mapping[str, int]
    """By operator that it lacks: models that need it, the most first."""
    unlocking: tuple[Unlock, ...]
    """The operators that would unlock most models, one after the other."""


def needs(operators: Collection[str], declaration: Declaration) -> list[Need]:
    """What a model needs of a platform; what is missing first."""
    found = []
    for op in sorted(operators):
        has = declaration.has(op)
        lacks = not has.runs
        parts = made_of(op, declaration) if lacks else ()
        absent = declaration.missing_parts.get(op, ()) or tuple(p for p in parts if not declaration.has(p).runs)
        found.append(Need(op, has, replacement(op, declaration) if lacks else (), absent if lacks else (), parts))
    return sorted(found, key=lambda need: (need.has.runs, need.has is Has.SOME))


def lacking(found: Sequence[Need]) -> list[Need]:
    """What a platform does not have, as far as it tells."""
    return [need for need in found if not need.has.runs and need.has is not Has.SOME]


def prospect(found: Sequence[Need]) -> Prospect:
    """Whether a model with these needs could run; the same question as `reach` asks of many."""
    missing = lacking(found)
    if any(need.has is not Has.UNKNOWN and not need.replacement for need in missing):
        return Prospect.NO
    if any(need.has is Has.UNKNOWN for need in missing):
        return Prospect.UNKNOWN
    if any(need.has is Has.SOME for need in found):
        return Prospect.PERHAPS
    return Prospect.REPLACED if missing else Prospect.YES


def reach(models: Models, platform: str, has: Callable[[str], Has]) -> Reach:
    """Models of which a platform lacks no operator, and what blocks the others."""
    kinds = {op: has(op) for op in models.counts}
    doubtful = {op for op, kind in kinds.items() if kind is Has.SOME}
    missing = {
        name: frozenset(op for op in ops if not kinds[op].runs and op not in doubtful)
        for name, ops in models.operators.items()
    }
    blocking = Counter(op for ops in missing.values() for op in ops)
    ranked = sorted(blocking.items(), key=lambda item: (-item[1], item[0]))
    free = [name for name, ops in missing.items() if not ops]
    perhaps = sum(not doubtful.isdisjoint(models.operators[name]) for name in free)
    return Reach(
        platform, len(missing), len(free) - perhaps, perhaps, dict(ranked), tuple(_unlocking(missing, blocking))
    )


def _unlocking(missing: Mapping[str, frozenset[str]], blocking: Mapping[str, int]) -> list[Unlock]:
    """One operator after the other, each time the one that lets most further models run."""
    left = [ops for ops in missing.values() if ops]
    found: list[Unlock] = []
    while left and len(found) < MOST_UNLOCKING:
        alone = Counter(next(iter(ops)) for ops in left if len(ops) == 1)
        candidates = {op for ops in left for op in ops}
        best = min(candidates, key=lambda op: (-alone[op], -blocking[op], op))
        found.append(Unlock(best, alone[best], blocking[best]))
        left = [rest for ops in left if (rest := ops - {best})]
    return found
