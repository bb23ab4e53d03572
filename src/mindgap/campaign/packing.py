"""A campaign for a machine that cannot see this one: its programs, and the digests that eager gave here."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mindgap.campaign.archive import Writing
from mindgap.campaign.ledger import WEIGHTS
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.campaign.reader import open_ledger, plan_of
from mindgap.campaign.stream import Numbering, stream_of
from mindgap.execution.pool import Pool

ROWS: Final = 500
"""Programs in one part: a few MB."""

CAMPAIGN: Final = "a campaign"
RESULTS: Final = "results"


def pack_campaign(
    directory: Path,
    output: Path,
    *,
    numbering: Numbering | None = None,
    tell: Callable[[int, int], None] = lambda done, count: None,
) -> int:
    """Write every variant of a campaign to a pack; how many there are."""
    with open_ledger(directory) as data:
        plan = plan_of(data, directory)
        digests = _digests(data)
    about = {"plan": plan.to_text(), "campaign": identity_of(plan), "variants": plan.variants}
    with Pool() as pool, Writing(output, CAMPAIGN, about) as pack:
        numbers = numbering or stream_of(plan, directory, pool)
        rows = []
        for variant in numbers.pick(lambda number: True, plan.variants):
            parcel, digest = variant.parcel, digests.get(variant.number, "")
            rows.append([variant.number, variant.fingerprint, variant.name, parcel.program, parcel.seed, digest])
            if len(rows) == ROWS:
                pack.add_rows("programs", rows)
                tell(variant.number + 1, plan.variants)
                rows = []
        pack.add_rows("programs", rows)
        for path in sorted((directory / WEIGHTS).glob("*")):
            pack.add(f"weights/{path.name}", path.read_bytes())
    return plan.variants


def identity_of(plan: Plan) -> str:
    """The same for plans that make the same variants, however many of them."""
    told = repr((plan.seed, plan.corpus, plan.corpus_directory))
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def _digests(data: sqlite3.Connection) -> dict[int, str]:
    """What eager gave here, so that outputs with the same bits need not travel back."""
    query = (
        "SELECT program, digest FROM outcomes JOIN platforms ON platforms.id = platform "
        "WHERE platforms.name = ? AND digest IS NOT NULL"
    )
    return {number: digest.hex() for number, digest in data.execute(query, (BASELINE,))}
