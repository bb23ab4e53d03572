"""An evaluation: read a batch, run it everywhere, score it, keep it; then a verdict per platform."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mindgap.errors import ModelError, UsageError
from mindgap.evaluation.dataset import Dataset
from mindgap.evaluation.keeping import Keeper
from mindgap.evaluation.metrics import BUILT_IN, Task, UserTask
from mindgap.evaluation.reading import Batch, Opened, OpenModel, ReadBatch, open_model, read_batch, with_batch
from mindgap.evaluation.samples import Settings
from mindgap.evaluation.scoring import BatchScore, ScoreBatch, score_batch
from mindgap.evaluation.spelling import AS_USUAL, Wanted, is_function
from mindgap.evaluation.statistics import LEVEL
from mindgap.evaluation.verdict import Tally
from mindgap.execution import arena
from mindgap.execution.arena import discarded
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import HOST, Pool, in_parallel
from mindgap.platforms.running import run
from mindgap.platforms.versions import versions
from mindgap.records.evaluation import Evaluation
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.source import Source

READER: Final = replace(HOST, worker="reader")
"""Reads the next batch while platforms run this one."""
NOISE_RUNS: Final = 8
"""One flip that no run makes is likely, four are not: with fewer runs more are needed to say anything."""
BATCH: Final = 16


@dataclass(frozen=True)
class Plan:
    """What is evaluated, and how."""

    source: Source
    data: Dataset
    baseline: PlatformSpec
    platforms: Sequence[PlatformSpec]
    task: str = "classification"
    batch: int = BATCH
    noise_runs: int = NOISE_RUNS
    limit: int | None = None
    answer: str | None = None
    wanted: Wanted = AS_USUAL
    skip_unreadable: bool = False
    jobs: int = 1
    left_out: Mapping[str, str] | None = None


def evaluate(pool: Pool, plan: Plan, directory: Path | None, count: Callable[[str, int, int], None]) -> Evaluation:
    """Evaluate a model; with a directory, what an earlier run finished there is not repeated."""
    start = time.perf_counter()
    opened = _open(pool, plan)
    keeper = Keeper(directory, _settings(plan, opened)) if directory is not None else None
    try:
        tally = Tally(_task(plan), [spec.name for spec in plan.platforms])
        for score in keeper.batches if keeper is not None else ():
            tally.add(score)
        done = len(keeper.batches) if keeper is not None else 0
        _Loop(pool, plan, opened, keeper, tally, count).run(done)
    finally:
        if keeper is not None:
            keeper.close()
    if not tally.samples:
        raise UsageError("none of the samples can be read", cause=tally.skipped[0])
    return Evaluation(
        model=opened.parcel.name,
        task=plan.task,
        data=plan.data.path,
        samples=tally.samples,
        batch=opened.batch,
        dtype=plan.source.dtype or opened.parcel.inputs[0][0].dtype,
        seed=plan.source.seed,
        noise_runs=plan.noise_runs,
        level=LEVEL,
        eager=tally.eager(),
        platforms=tally.verdicts(),
        skipped=tuple(tally.skipped),
        preprocessing=opened.preprocessing.told() if opened.preprocessing is not None else "",
        left_out=plan.left_out or {},
        versions=versions(plan.platforms),
        seconds=time.perf_counter() - start,
        baseline=plan.baseline.name,
    )


def _open(pool: Pool, plan: Plan) -> Opened:
    file = str(pool.scratch.new_file("case", READER.worker_name))
    request = OpenModel(plan.source, file, plan.data, plan.batch, plan.wanted, plan.limit, plan.skip_unreadable)
    opened = pool.demand(READER, open_model, request, f"loading {plan.source.spec}")
    if opened.parcel.file != file or opened.parcel.source is not None or not opened.chosen:
        raise ModelError(f"loading {plan.source.spec}: its worker answers with another file than it was given")
    return replace(opened, parcel=replace(opened.parcel, structure=f"evaluation {_content(opened.parcel)}"))


def _content(parcel: Parcel) -> str:
    """Another program, other weights or another file have another."""
    content = hashlib.blake2b(parcel.program, digest_size=12)
    if parcel.model_file:
        found = Path(parcel.model_file).stat()
        content.update(repr((parcel.model_file, found.st_size, found.st_mtime_ns)).encode())
    return content.hexdigest()


def _settings(plan: Plan, opened: Opened) -> Settings:
    return Settings(
        model=plan.source.spec,
        data=plan.data.path,
        identity=plan.data.identity,
        platforms=tuple(spec.name for spec in plan.platforms),
        task=plan.task,
        batch=opened.batch,
        noise_runs=plan.noise_runs,
        seed=plan.source.seed,
        dtype=plan.source.dtype,
        answer=plan.answer,
        limit=plan.limit,
        preprocessing=opened.preprocessing.told() if opened.preprocessing is not None else "",
        directory=plan.source.directory,
        trust=plan.source.trust,
        content=_content(opened.parcel),
    )


def _task(plan: Plan) -> Task:
    """The task, for its metrics; a function of the user's runs in workers only."""
    if is_function(plan.task):
        return UserTask(lambda outputs, labels: [], plan.task)
    return BUILT_IN[plan.task](plan.answer)


class _Loop:
    """Batch after batch; at most two are in memory."""

    def __init__(
        self,
        pool: Pool,
        plan: Plan,
        opened: Opened,
        keeper: Keeper | None,
        tally: Tally,
        count: Callable[[str, int, int], None],
    ) -> None:
        self.pool = pool
        self.plan = plan
        self.opened = opened
        self.keeper = keeper
        self.tally = tally
        self.count = count
        size = opened.batch
        self.parts = [opened.chosen[at : at + size] for at in range(0, len(opened.chosen), size)]

    def run(self, done: int) -> None:
        reading = ThreadPoolExecutor(max_workers=1)
        try:
            following: Future[tuple[Batch, Path]] | None = None
            for number in range(done, len(self.parts)):
                batch, file = (following or reading.submit(self._read, number)).result()
                more = number + 1 < len(self.parts)
                following = reading.submit(self._read, number + 1) if more else None
                score = self._scored(batch, file)
                self.tally.add(score)
                if self.keeper is not None:
                    self._keep_samples(score, batch, file)
                    self.keeper.add(score)
                file.unlink(missing_ok=True)
                self.count("samples", sum(map(len, self.parts[: number + 1])), len(self.opened.chosen))
        finally:
            reading.shutdown(wait=False, cancel_futures=True)

    def _read(self, number: int) -> tuple[Batch, Path]:
        file = self.pool.scratch.new_file("batch", READER.worker_name)
        opened = self.opened
        metas = tuple(meta for meta, _ in opened.parcel.inputs)
        request = ReadBatch(
            self.plan.data, self.parts[number], opened.batch, metas, str(file), opened.preprocessing, opened.arrays,
            self.plan.skip_unreadable,
        )  # fmt: skip
        return self.pool.demand(READER, read_batch, request, "reading samples"), file

    def _scored(self, batch: Batch, file: Path) -> BatchScore:
        if not batch.samples:
            return BatchScore(0, {}, {}, skipped=batch.skipped)
        parcel = with_batch(self.opened.parcel, batch, str(file))
        plan = self.plan
        asked = [plan.baseline, *(spec for spec in plan.platforms if not self.tally.failed(spec.name))]

        def execute(spec: PlatformSpec) -> Outcome:
            return run(self.pool, spec, parcel)

        eager, *others = in_parallel(plan.jobs, execute, asked)
        if not eager.ok:
            raise ModelError(f"{plan.baseline.name} could not run the model on the data", cause=eager.message)
        try:
            request = ScoreBatch(
                parcel, batch, self.opened.batch, plan.task, eager, tuple(others), plan.noise_runs, plan.answer,
                plan.data.classes, plan.source,
            )  # fmt: skip
            return self.pool.demand(HOST, score_batch, request, "scoring a batch")
        finally:
            for outcome in (eager, *others):
                discarded(outcome)

    def _keep_samples(self, score: BatchScore, batch: Batch, file: Path) -> None:
        """The inputs of every sample whose answer changed: alone where the model can be exported for one sample."""
        assert self.keeper is not None
        changed = {sample for found in score.platforms.values() for sample in found.changed}
        if not changed:
            return
        tensors = arena.read(file, batch.inputs, mapped=False)
        for row, sample in enumerate(batch.samples):
            if sample in changed:
                kept = [t[row : row + 1] for t in tensors] if self.opened.takes_one else tensors
                self.keeper.keep_sample(sample, self.opened.parcel.input_names, kept)
