"""Do the findings of a campaign hold? Their programs run again, each in a process of its own, as users run them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell, grouped, share
from mindgap.bench.side_by_side import make_rows
from mindgap.campaign.ledger import WEIGHTS
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.reader import evidence_of, open_ledger, read_case
from mindgap.execution.arena import discarded
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run
from mindgap.program.codec import encode
from mindgap.records.finding import Evidence
from mindgap.records.verdict import Conclusion
from mindgap.session.session import Session
from mindgap.verdicts.judging import Comparing, Question, ask_judge

RUNS: Final = 2


def measure(
    tell: Tell, directory: Path, count: int = 200, seed: int = 0, keep: Path | None = None, jobs: int = 1
) -> Measurement:
    """A random choice of the divergences of a campaign, one by one."""
    with open_ledger(directory) as data:
        known = [item for item in evidence_of(data) if item.conclusion is Conclusion.DIVERGES and not item.oracle]
    chosen = random.Random(seed).sample(known, min(count, len(known)))
    todo = {f"{item.program} on {item.platform}": partial(_shown, directory, item) for item in chosen}
    found = make_rows(todo, jobs, keep, lambda what: tell("witnesses", what))
    gone = [f"{row['witness']}: {row['now']}" for row in found if not row["shown"]]
    return Measurement(
        name="witnesses",
        what="divergences of a campaign whose programs were run again, each alone in a process started for it, by the "
        "stock path",
        on=f"{len(chosen)} of {len(known)} divergences of {directory}, seed {seed}",
        rows=grouped(found, lambda row: str(row["platform"]), _summary),
        conclusion=f"{len(found) - len(gone)} of {len(found)} still show it (target: all)"
        + "".join(f"\n  gone: {line}" for line in gone),
    )


def _summary(platform: str, rows: Sequence[Row]) -> Row:
    return {
        "platform": platform,
        "divergences": len(rows),
        "shown again": share(sum(row["shown"] for row in rows), len(rows)),
    }


def _shown(directory: Path, item: Evidence, session: Session) -> Row:
    now = _verdict(session.pool, directory, item)
    told = f"{item.program} on {item.platform} ({item.operator or 'no operator'}, {item.kind})"
    return {"platform": item.platform, "witness": told, "now": now, "shown": now == item.conclusion.value}


def _verdict(pool: Pool, directory: Path, item: Evidence) -> str:
    """What is concluded of a program now."""
    with open_ledger(directory) as data:
        case = read_case(data, directory, item.program)
    if case is None:
        return "its program was not kept"
    parcel = Parcel(encode(case.graph, compression=0), weights=str(directory / WEIGHTS))
    outcomes = []
    for name in (BASELINE, item.platform):
        spec = resolve(name)
        pool.retire(spec)
        outcomes.append(run(pool, spec, parcel, RUNS))
    question = Question(parcel, (Comparing(outcomes[0], (outcomes[1],)),), refusal_agrees=True)
    found = ask_judge(pool, question).verdicts[item.platform].conclusion
    for outcome in outcomes:
        discarded(outcome)
    return found.value if outcomes[1].stable is not False else Conclusion.UNSTABLE.value
