"""From the batches of an evaluation to a verdict per platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mindgap.evaluation.metrics import Task, Totals, add
from mindgap.evaluation.scoring import BatchScore
from mindgap.evaluation.statistics import LEVEL, difference_interval, mcnemar, p_of_changes
from mindgap.records.evaluation import Flip, PlatformEvaluation, TaskVerdict
from mindgap.verdicts.elements import THRESHOLD


class Tally:
    """Sums over batches: samples that never change leave nothing behind."""

    def __init__(self, task: Task, platforms: Sequence[str]) -> None:
        self.task = task
        self.samples = 0
        self.skipped: list[str] = []
        self.totals: Totals = {}
        self.noise: dict[int, list[float]] = {}
        self.noise_runs: dict[int, int] = {}
        """By sample, for those that changed anywhere."""
        self.of = {name: _OfPlatform() for name in platforms}

    def add(self, score: BatchScore) -> None:
        """Another batch."""
        self.samples += score.samples
        self.skipped += score.skipped
        add(self.totals, score.totals)
        self.noise |= score.noise
        for name, found in score.platforms.items():
            mine = self.of[name]
            add(mine.totals, found.totals)
            mine.changed |= found.changed
            mine.flips += found.flips
            mine.lost += found.lost
            mine.won += found.won
            mine.failure = mine.failure or found.failure
        for sample in (*score.noise, *(s for found in score.platforms.values() for s in found.changed)):
            self.noise_runs[sample] = score.noise_runs

    def failed(self, platform: str) -> bool:
        """Whether a platform did not run a batch: it is not asked again."""
        return bool(self.of[platform].failure)

    def eager(self) -> dict[str, float]:
        """The metrics of the baseline."""
        return self.task.metrics(self.totals)

    def verdicts(self) -> dict[str, PlatformEvaluation]:
        return {name: self._verdict(mine) for name, mine in self.of.items()}

    def _verdict(self, mine: _OfPlatform) -> PlatformEvaluation:
        metrics = self.task.metrics(mine.totals)
        if mine.failure:
            return PlatformEvaluation(TaskVerdict.FAILED, mine.failure)
        strata = [
            (mine.changed.get(sample, 0.0), self.noise.get(sample, [0.0] * self.noise_runs[sample]))
            for sample in {*self.noise, *mine.changed}
        ]
        changed = len(mine.changed)
        explained = sum(sum(map(bool, runs)) / len(runs) for runs in self.noise.values() if runs)
        p_value = p_of_changes(strata) if changed else 1.0
        beyond = [f for f in mine.flips if f.margin_over_noise is not None and f.margin_over_noise > THRESHOLD]
        verdict = TaskVerdict.AGREES if not changed else TaskVerdict.JITTER
        if changed and (p_value < LEVEL or beyond):
            verdict = TaskVerdict.REGRESSION
        eager = self.eager()
        first = next(iter(metrics), None)
        paired = "top-1" in metrics
        found = PlatformEvaluation(
            verdict,
            "",
            metrics,
            changed,
            explained,
            p_value,
            len(beyond),
            mine.lost,
            mine.won,
            metrics[first] - eager[first] if first is not None else None,
            difference_interval(mine.lost, mine.won, self.samples) if paired else None,
            mcnemar(mine.lost, mine.won) if paired else None,
            tuple(sorted(mine.flips, key=_by_margin)),
        )
        return replace(found, sentence=sentence(found, self.samples))


class _OfPlatform:
    def __init__(self) -> None:
        self.totals: Totals = {}
        self.changed: dict[int, float] = {}
        self.flips: tuple[Flip, ...] = ()
        self.lost = 0
        self.won = 0
        self.failure = ""


def _by_margin(flip: Flip) -> tuple[float, int]:
    known = flip.margin_over_noise if flip.margin_over_noise is not None else flip.changed
    return -known, flip.sample


def sentence(found: PlatformEvaluation, samples: int) -> str:
    """What is concluded, in words."""
    if found.verdict is TaskVerdict.AGREES:
        return f"no answer of {samples} changed"
    flips = "1 answer" if found.changed == 1 else f"{found.changed} answers"
    told = f"{flips} of {samples} changed where rounding explains {found.explained:.2g}"
    if found.verdict is TaskVerdict.JITTER:
        return f"{told} (p = {found.p_value:.2g}): jitter"
    why = [f"p = {found.p_value:.2g}"]
    if found.beyond:
        why.append(f"{found.beyond} with a margin of more than {THRESHOLD:g} times what rounding moves")
    return f"{told} ({'; '.join(why)}): regression"
