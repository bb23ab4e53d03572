"""What a campaign is to do: written down once, so that it can be resumed, packed and repeated."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import msgspec

from mindgap.errors import UsageError
from mindgap.platforms import registry
from mindgap.platforms.registry import built_in
from mindgap.reading.files import refusing
from mindgap.records.variant import Intent, Sweep

BASELINE: Final = "eager"
"""Every other platform is compared with it; blame goes to whoever is farther from float64."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides which outcomes a campaign has."""

    platforms: tuple[str, ...]
    """The baseline first."""
    variants: int
    seed: int = 0
    corpus: tuple[str, ...] | None = None
    """Names of base programs; None is a whole corpus."""
    corpus_directory: str | None = None
    """A store of programs; None is the smoke corpus that comes with mindgap."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """The part of the variants that an expensive platform sees, by its name; all where nothing is said."""
    timeout_s: float = 120.0
    """CPU time that one program may take on one platform."""
    fragments: float = 0.0
    """The part of the programs that are fragments; the others are whole variants."""
    metamorphic_share: float = 0.02
    """The part of the variants that is also run with its batch permuted, cut and with other neighbours."""
    sweep: Sweep | None = None
    """Set for `mindgap ops`: its programs are invocations of operators instead of variants."""
    unmodified: bool = False
    """Whether its programs are the real ones of the corpus as they are, instead of variants of them."""

    def is_due(self, platform: str, fingerprint: str) -> bool:
        """Whether a platform is to run a variant; a smaller sample is part of every larger one."""
        return self.lot(fingerprint) < self.shares.get(platform, 1.0)

    def is_related(self, fingerprint: str, intent: Intent) -> bool:
        """Whether a variant is also compared with programs that must agree with it; more of those that have an
        equivalent base."""
        share = (10 if intent is Intent.EQUIVALENT else 1) * self.metamorphic_share
        # A lot of its own: otherwise all of them would be in the sample of every expensive platform.
        return self.lot(f"relations {fingerprint}") < share

    def lot(self, fingerprint: str) -> float:
        """A number from 0 to 1 that a variant always draws."""
        content = hashlib.blake2b(f"{self.seed} {fingerprint}".encode(), digest_size=8).digest()
        return int.from_bytes(content, "little") / 2.0**64

    def to_text(self) -> str:
        return json.dumps({**asdict(self), "shares": dict(self.shares)})

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """What `to_text` wrote; raises CorruptFile for any other text."""
        with refusing("the plan of the campaign cannot be read"):
            plan = msgspec.json.decode(text, type=cls)
            numbers = (plan.timeout_s, plan.metamorphic_share, *plan.shares.values())
            if not all(map(math.isfinite, numbers)) or min(plan.variants, *numbers) < 0 or not plan.timeout_s:
                raise ValueError("a number in it is out of range")
            return plan


@functools.cache
def eager_of(platform: str) -> str | None:
    """Eager on the device that a platform compiles for; None for one that is not torch.compile."""
    spec = built_in(platform)
    return None if spec is None else registry.eager_of(spec)


def with_baseline(platforms: Sequence[str]) -> tuple[str, ...]:
    """The platforms, each once, the baseline first."""
    return tuple(dict.fromkeys((BASELINE, *platforms)))


def parse_shares(texts: Sequence[str], platforms: Sequence[str]) -> dict[str, float]:
    """`inductor=5%` or `inductor=0.05`, each for a platform of the campaign."""
    shares: dict[str, float] = {}
    for text in texts:
        found = re.fullmatch(r"([^=]+)=([0-9.]+)(%?)", text.replace(" ", ""))
        value = _number(found[2]) if found else None
        if found is None or value is None:
            raise UsageError(f"--sample {text!r} is not understood", hint="write --sample inductor=5%")
        share = value / 100 if found[3] else value
        if not 0 < share <= 1:
            raise UsageError(f"--sample {text!r} is not a part of the whole", hint="write --sample inductor=5%")
        if found[1] not in platforms:
            raise UsageError(f"--sample names {found[1]}, which is not among --on", cause=", ".join(platforms))
        if found[1] == BASELINE:
            raise UsageError("the baseline eager runs every variant: it cannot be sampled")
        shares[found[1]] = share
    return shares


def parse_share(option: str, text: str) -> float:
    """`50%` or `0.5`, from nothing to all."""
    value = _number(text.strip().removesuffix("%"))
    share = None if value is None else value / 100 if text.strip().endswith("%") else value
    if share is None or not 0 <= share <= 1:
        raise UsageError(f"{option} {text!r} is not a part of the whole", hint=f"write {option} 50%")
    return share


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
