"""The observed sweep: a campaign of invocations, with the campaign's own crowds, judges and ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.campaign_run import Watch
from mindgap.campaign.hunt import Ending, hunt
from mindgap.campaign.plan import Plan, with_baseline
from mindgap.operators.universe import Models
from mindgap.platforms.config import Config
from mindgap.records.variant import KINDS, Sweep
from mindgap.variants.fragments import operators

TIMEOUT_S: Final = 120.0
"""CPU time of one invocation on one platform: more is a hang."""


def universe(models: Models, samples: Sequence[str] = ()) -> list[str]:
    """What real models need, the most needed first; then everything that invocations can be made of."""
    return list(dict.fromkeys((*models.counts, *operators(), *samples)))


def sweep(
    directory: Path,
    platforms: Sequence[str],
    asked: Sequence[str],
    dtypes: Sequence[str],
    *,
    kinds: Sequence[str] = KINDS,
    corpus: Path | None = None,
    seed: int = 0,
    hours: float | None = None,
    jobs: int | None = None,
    config: Config | None = None,
    watch: Watch | Callable[[Any], None] = lambda snapshot: None,
    import_paths: Sequence[str] = (),
) -> Ending:
    """Run invocations of every operator in every dtype on every platform; a directory that has some is continued."""
    wanted = Sweep(tuple(asked), tuple(dtypes), tuple(kinds))
    store = str(corpus.resolve()) if corpus is not None else None
    plan = Plan(
        with_baseline(platforms), wanted.count, seed, corpus_directory=store, timeout_s=TIMEOUT_S, fragments=1.0,
        metamorphic_share=0.0, sweep=wanted,
    )  # fmt: skip
    return hunt(
        directory, plan, hours=hours, jobs=jobs, explain_s=0.0, config=config, watch=watch,
        import_paths=import_paths,
    )  # fmt: skip
