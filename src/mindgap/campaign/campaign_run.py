"""One run of a campaign, from its start or resumption to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mindgap.campaign.dossier import Dossier, NumberedVariant
from mindgap.campaign.explaining import Explaining
from mindgap.campaign.flow import Errand, Flow
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.campaign.progress import PlatformProgress, Snapshot
from mindgap.campaign.queues import WorkQueue
from mindgap.campaign.relations import RelationCheck
from mindgap.campaign.stream import Numbering
from mindgap.campaign.triage import rough_key
from mindgap.campaign.workforce import Workforce
from mindgap.campaign.writer import Writer
from mindgap.errors import NoSpace
from mindgap.platforms.config import Config
from mindgap.records.outcome import Outcome

IN_FLIGHT: Final = 128
"""Variants between synthesis and verdict: enough to keep all workers busy, few enough to hold their outputs."""
BACKLOG: Final = 24
"""Variants that may wait for a slow platform before it falls behind and is served later."""
WATCH_S: Final = 1.0

Watch = Callable[[Snapshot], None]

Given = Callable[[NumberedVariant], list[Outcome]]
"""What platforms elsewhere did with a variant."""


class CampaignRun:
    """Synthesis feeds queues, queues feed judges, judges feed the one writer."""

    def __init__(
        self, ledger: Ledger, plan: Plan, workforce: Workforce, jobs: int, config: Config, explain_s: float = 0.0
    ) -> None:
        self.ledger = ledger
        self.plan = plan
        self.workforce = workforce
        self.jobs = jobs
        self.stop = threading.Event()
        self.phase = "run"
        self.paused = ""
        self.noted = (0, 0)
        self.failure: BaseException | None = None
        self.changed: list[str] = []
        """Platforms whose version is another than in an earlier run."""
        self.conclusions: dict[str, int] = {}
        self.kinds: set[tuple[str, ...]] = set()
        self._ledger_lock = threading.Lock()
        self._in_flight = threading.Semaphore(IN_FLIGHT)
        self._active = 0
        self._count_lock = threading.Lock()
        self.flow = Flow(self._finish)
        self.writer = Writer(ledger, self._ledger_lock, self._pause, self._fail, self.stop)
        self.explaining = Explaining(
            ledger, self._ledger_lock, workforce.pool, workforce.local_specs(), config, explain_s, self.stop.is_set
        )
        self._start = time.monotonic()
        self._before = 0

    def run(self, numbering: Numbering, hours: float | None, watch: Watch) -> str:
        """Work through the plan; why it ended: `done`, `time` or `interrupted`."""
        done = self.ledger.done()
        complete = {n for n, names in done.items() if names >= set(self.plan.platforms)}

        def feed() -> None:
            left = self._pass(numbering.pick(lambda n: n not in complete, self.plan.variants), done, patient=False)
            while left and not self.stop.is_set():
                self.phase = "late"
                self._drain()
                again = numbering.pick(left.__contains__, self.plan.variants)
                left = self._pass(again, self.ledger.done(), patient=True)

        return self._work(feed, numbering, hours, watch)

    def merge(self, numbering: Numbering, numbers: set[int], given: Given, watch: Watch) -> str:
        """Take in what platforms elsewhere did with these variants."""

        def feed() -> None:
            self._pass(numbering.pick(numbers.__contains__, self.plan.variants), self.ledger.done(), True, given)

        return self._work(feed, numbering, None, watch)

    def _work(self, feed: Callable[[], None], numbering: Numbering, hours: float | None, watch: Watch) -> str:
        probes = self.workforce.require()  # every platform must be usable before hours are spent
        self.changed = self.ledger.add_platforms({name: (p.version, p.device) for name, p in probes.items()})
        self._before = self.ledger.count()
        self._open_queues()
        self.explaining.start()

        def synthesis() -> None:
            try:
                feed()
                self._drain()
                self._relate(numbering)
                self.explaining.stop_serving()
                self.phase = "explain"
                self.explaining.finish(self._note)
            except BaseException as error:
                self._fail(error)

        feeder = threading.Thread(target=synthesis, name="synthesis", daemon=True)
        feeder.start()
        reason = self._wait(feeder, hours, watch)
        self._close(feeder)
        if self.failure is not None:
            raise self.failure
        return reason

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def _open_queues(self) -> None:
        slots = threading.Semaphore(self.jobs)
        self._runners = self.workforce.runners(self.stop.is_set, self._pause)
        self._judges = self.workforce.judges(self.stop.is_set, self._pause)
        for name, runners in self._runners.items():
            works = [self.flow.run_on(runner) for runner in runners]
            self.flow.platforms[name] = WorkQueue(name, works, slots, self.stop, self._fail)
        judging = [self.flow.judge_with(judge) for judge in self._judges]
        self.flow.judges = WorkQueue("judges", judging, slots, self.stop, self._fail)
        for queue in self._queues():
            queue.start()
        self.writer.start()

    def _queues(self) -> list[WorkQueue[Errand] | WorkQueue[Dossier]]:
        assert self.flow.judges is not None
        return [*self.flow.platforms.values(), self.flow.judges]

    def _pass(
        self,
        variants: Iterator[NumberedVariant],
        done: Mapping[int, set[str]],
        patient: bool,
        given: Given = lambda variant: [],
    ) -> set[int]:
        """Every variant to every platform that is due; numbers of those for which a slow one had no room."""
        left: set[int] = set()
        for variant in variants:
            if self.stop.is_set():
                break
            known = done.get(variant.number, set())
            due = [n for n in self.plan.platforms if n not in known and self.plan.is_due(n, variant.fingerprint)]
            chosen = [n for n in due if patient or not self._is_behind(n)]
            if len(chosen) < len(due):
                left.add(variant.number)
            elsewhere = given(variant)
            if chosen or elsewhere:
                self._begin(variant, chosen, elsewhere, bool(known), patient)
        return left

    def _begin(
        self, variant: NumberedVariant, platforms: list[str], elsewhere: list[Outcome], known: bool, patient: bool
    ) -> None:
        while patient and any(self._is_behind(name) for name in platforms) and not self.stop.wait(0.05):
            pass
        while not self._in_flight.acquire(timeout=0.2):
            if self.stop.is_set():
                return
        related = self.plan.is_related(variant.fingerprint, variant.provenance.intent)
        dossier = Dossier(variant, related=related)
        if known:
            with self._ledger_lock:
                dossier.outcomes = self.ledger.outcomes(variant.number)
                if not self.ledger.has_current_baseline(variant.number) and BASELINE not in platforms:
                    platforms = [BASELINE, *platforms]
        dossier.fresh = {*platforms, *(outcome.platform for outcome in elsewhere)}
        for outcome in elsewhere:
            dossier.record(outcome)
        with self._count_lock:
            self._active += 1
        self.flow.start(dossier, platforms)

    def _is_behind(self, name: str) -> bool:
        queue = self.flow.platforms[name]
        return name != BASELINE and queue.is_slow and queue.backlog >= BACKLOG

    def _finish(self, dossier: Dossier) -> None:
        with self._count_lock:
            for name in dossier.fresh & dossier.verdicts.keys():
                word = dossier.verdicts[name].conclusion.value
                self.conclusions[word] = self.conclusions.get(word, 0) + 1
                kind = rough_key(dossier.verdicts[name], dossier.outcomes[name])
                if kind is not None:
                    self.kinds.add(kind)
        self.paused = ""
        self.writer.put(dossier)
        self.explaining.offer(dossier)
        self._in_flight.release()
        with self._count_lock:
            self._active -= 1

    def _drain(self) -> None:
        """Wait until everything that was started is in the ledger."""
        while self._active and not self.stop.wait(0.05):
            pass
        self.writer.flush()

    def _relate(self, numbering: Numbering) -> None:
        """What each platform says about programs that must agree with each other."""
        self.phase = "relations"
        runners = {name: runners[0] for name, runners in self._runners.items()}
        check = RelationCheck(
            self.ledger, self._ledger_lock, self.plan, numbering, runners, self._judges, self.stop.is_set, self._note
        )
        check.run()

    def _note(self, done: int, count: int) -> None:
        self.noted = (done, count)

    def _wait(self, feeder: threading.Thread, hours: float | None, watch: Watch) -> str:
        deadline = None if hours is None else self._start + hours * 3600
        shown = 0.0
        try:
            while feeder.is_alive() and self.failure is None:
                feeder.join(0.1)
                if time.monotonic() - shown >= WATCH_S:
                    shown = time.monotonic()
                    watch(self.snapshot())
                if deadline is not None and time.monotonic() > deadline:
                    return "time"
        except KeyboardInterrupt:
            return "interrupted"
        watch(self.snapshot())
        return "done"

    def _close(self, feeder: threading.Thread) -> None:
        """End the workers, then write what is finished; what is half done is done again next time."""
        self.stop.set()
        self.workforce.interrupt()
        feeder.join()
        self.explaining.stop_serving()
        for queue in self._queues():
            queue.join()
        self.workforce.close()
        self.writer.close()

    def _pause(self, reason: NoSpace) -> None:
        self.paused = str(reason)

    def _fail(self, error: BaseException) -> None:
        if not self.stop.is_set():
            self.failure = self.failure or error
            self.stop.set()

    def snapshot(self) -> Snapshot:
        spent = self.seconds
        assert self.flow.judges is not None
        return Snapshot(
            phase=self.phase,
            seconds=spent,
            finished=self._before + self.writer.written,
            total=self.plan.variants,
            rate=self.writer.written / spent if spent else 0.0,
            conclusions=dict(self.conclusions),
            platforms={n: PlatformProgress(x.done, x.backlog, x.pace_s) for n, x in self.flow.platforms.items()},
            judging=self.flow.judges.backlog,
            paused=self.paused,
            kinds=len(self.kinds),
            explained=self.explaining.explained,
            noted=self.noted,
        )
