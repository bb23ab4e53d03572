"""The endless stream of variants, and one variant from a base and a seed."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random
from typing import Final

from mindgap.errors import UsageError
from mindgap.program.graph import Program
from mindgap.records.memory import collect_seldom
from mindgap.records.variant import Intent, Provenance
from mindgap.variants.base import Base
from mindgap.variants.coverage import Coverage
from mindgap.variants.draft import Draft
from mindgap.variants.registry import Mutation, by_intent, registered
from mindgap.variants.rules import Refused, RuleTable

INVALID_SHARE: Final = 0.02
EQUIVALENT_SHARE: Final = 0.05
_EDITS: Final = (1, 1, 2, 2, 3, 4)
"""How many mutations a variant gets: few enough to see which one matters, many enough to combine."""
_MOST_ATTEMPTS: Final = 40
_NUMBER: Final = re.compile(r"-?\d[\d.e+-]*")
"""Sizes in a reason are left out, so that there are few different ones to count."""
SHARED_RULES: Final = RuleTable()
"""The table of this process, which every synthesis in it shares."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program derived from a real one, and how."""

    program: Program
    provenance: Provenance


def make_variant(
    base: Base,
    seed: int,
    *,
    donor: Base | None = None,
    focus: Sequence[str] = (),
    invalid_share: float = INVALID_SHARE,
    equivalent_share: float = EQUIVALENT_SHARE,
    mutations: Sequence[Mutation] | None = None,
    rules: RuleTable = SHARED_RULES,
    skipped: Counter[tuple[str, str]] | None = None,
    draft_type: type[Draft] = Draft,
) -> Variant:
    """The variant of a base for a seed: the same in every process, given the same donor, focus and shares.

    `skipped` counts the mutations that did not fit, by name and reason. Raises Refused when nothing fits.
    """
    rng = Random(_mixed(base.fingerprint, seed))
    intent = _intent(rng.random(), invalid_share, equivalent_share)
    draft = draft_type(base, rules, rng, donor)
    known = tuple(mutations) if mutations is not None else _registered()
    names = _by_name(known)
    draft.focus = [name for name in focus if name not in names]
    ahead = [names[name] for name in focus if name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # operators complain about what they are tried with
        done = _apply(draft, known, intent, ahead, skipped if skipped is not None else Counter())
    if not done:
        raise Refused(f"no mutation fits {base.name}")
    provenance = Provenance(
        base=base.fingerprint,
        base_name=base.name,
        seed=seed,
        intent=intent,
        steps=tuple(draft.steps),
        mutations=tuple(done),
        values=draft.plan,
        donor=donor.fingerprint if donor is not None else "",
        donor_name=donor.name if donor is not None else "",
        focus=tuple(focus),
        options=(invalid_share, equivalent_share),
    )
    return Variant(draft.build(f"{base.name}~{seed:x}"), provenance)


class Synthesis:
    """An endless, deterministic stream of variants over several bases."""

    def __init__(
        self,
        bases: Sequence[Base],
        seed: int,
        *,
        guided: bool = True,
        invalid_share: float = INVALID_SHARE,
        equivalent_share: float = EQUIVALENT_SHARE,
        plugins: Sequence[Mutation] = (),
        rules: RuleTable = SHARED_RULES,
        draft_type: type[Draft] = Draft,
    ) -> None:
        if not bases:
            raise UsageError(
                "there are no programs to make variants from",
                cause="the corpus is empty",
                hint="mindgap corpus build makes a corpus",
            )
        self._bases = sorted(bases, key=lambda base: base.fingerprint)
        self._rng = Random(_mixed("synthesis", seed))
        self._guided = guided
        self._shares = (invalid_share, equivalent_share)
        self._mutations = (*_registered(), *plugins)
        self._valid = tuple(item.name for item in by_intent(self._mutations, Intent.VALID))
        self._rules = rules
        self._draft_type = draft_type
        self.coverage = Coverage()
        self.skipped: Counter[tuple[str, str]] = Counter()
        """Mutations that did not fit, by name and reason."""
        self.made = 0
        collect_seldom()

    def __iter__(self) -> Iterator[Variant]:
        while True:
            yield self._next()

    def skip(self, count: int) -> None:
        """Go on after the first `count` variants as if they had been taken."""
        for _ in range(count):
            self._next()

    def _next(self) -> Variant:
        while True:
            base, donor = self._rng.choice(self._bases), self._rng.choice(self._bases)
            seed = self._rng.getrandbits(48)
            focus = self.coverage.focus(self._rng, self._valid) if self._guided else ()
            try:
                variant = make_variant(
                    base,
                    seed,
                    donor=donor,
                    focus=focus,
                    invalid_share=self._shares[0],
                    equivalent_share=self._shares[1],
                    mutations=self._mutations,
                    rules=self._rules,
                    skipped=self.skipped,
                    draft_type=self._draft_type,
                )
            except Refused as refusal:
                self.skipped["variant", str(refusal)] += 1
                continue
            self.made += 1
            self.coverage.add(variant.program, base, variant.provenance.mutations)
            return variant


def _apply(
    draft: Draft,
    mutations: tuple[Mutation, ...],
    intent: Intent,
    ahead: list[Mutation],
    skipped: Counter[tuple[str, str]],
) -> list[str]:
    """Mutations one after the other, first what was asked for; those that do not fit are undone and counted."""
    wanted = draft.rng.choice(_EDITS)
    kinds = [Intent.EQUIVALENT] * wanted if intent is Intent.EQUIVALENT else [Intent.VALID] * wanted
    if intent is Intent.INVALID:
        kinds[-1] = Intent.INVALID
    done: list[str] = []
    for kind in kinds:
        names, weights = _weighted(mutations, kind)
        for _ in range(_MOST_ATTEMPTS // len(kinds) if names else 0):
            asked = ahead and kind is Intent.VALID
            chosen = ahead.pop() if asked else draft.rng.choices(names, cum_weights=weights)[0]
            if _try(draft, chosen, skipped):
                done.append(chosen.name)
                break
        else:
            if kind is Intent.INVALID:
                return []
    return done


def _try(draft: Draft, chosen: Mutation, skipped: Counter[tuple[str, str]]) -> bool:
    state = draft.checkpoint()
    try:
        words = chosen.change(draft)
        draft.settle()
        if not draft.allow_poison and draft.outputs_poisoned():
            raise Refused("no output would be finite")
        draft.steps.append(words)
        return True
    except Refused as refusal:
        reason = str(refusal)
    except Exception as error:  # a plug-in: its fault must not end the stream
        reason = f"raised {type(error).__name__}: {error}"
    skipped[chosen.name, _NUMBER.sub("N", reason)[:80]] += 1
    draft.restore(state)
    return False


def _intent(draw: float, invalid: float, equivalent: float) -> Intent:
    if draw < invalid:
        return Intent.INVALID
    return Intent.EQUIVALENT if draw < invalid + equivalent else Intent.VALID


@cache
def _registered() -> tuple[Mutation, ...]:
    return tuple(registered())


@cache
def _by_name(mutations: tuple[Mutation, ...]) -> dict[str, Mutation]:
    return {item.name: item for item in mutations}


@cache
def _weighted(mutations: tuple[Mutation, ...], intent: Intent) -> tuple[list[Mutation], list[float]]:
    found = by_intent(mutations, intent)
    return found, list(accumulate(item.weight for item in found))


def _mixed(text: str, seed: int) -> int:
    content = f"{text} {seed}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
