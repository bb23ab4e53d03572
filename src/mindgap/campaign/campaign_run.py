"""One run of a campaign, from its start or resumption to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from mindgap.campaign.crowds import CROWD, BriefRunner, CrowdRunner, FreshRunner
from mindgap.campaign.dossier import Dossier, NumberedVariant, Sign
from mindgap.campaign.explaining import Explaining
from mindgap.campaign.flow import Errand, Flow
from mindgap.campaign.guidance import Guidance
from mindgap.campaign.known import Known
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.messages import message_class
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.campaign.progress import EXPLAIN, LATE, RELATIONS, Progress, Snapshot
from mindgap.campaign.queues import Gather, WorkQueue
from mindgap.campaign.reader import findings_of
from mindgap.campaign.relations import RelationCheck, chosen
from mindgap.campaign.stream import Numbering
from mindgap.campaign.triage import is_known, rough_key
from mindgap.campaign.workforce import Workforce
from mindgap.campaign.writer import Writer
from mindgap.errors import NoSpace
from mindgap.execution.batches import SPACE_WAIT_S
from mindgap.platforms.base import Platform
from mindgap.platforms.config import Config
from mindgap.platforms.registry import adapter_class
from mindgap.records.explanation import Explanation
from mindgap.records.outcome import Outcome, Status
from mindgap.records.verdict import Conclusion
from mindgap.variants.rounds import ROUNDS
from mindgap.verdicts.steps import BRIEF, FULL

IN_FLIGHT: Final = 128
"""Variants between synthesis and verdict: enough to keep all workers busy, few enough to hold their outputs."""
FRAGMENTS_IN_FLIGHT: Final = 512 * ROUNDS
"""Fragments between synthesis and verdict; those that wait for a confirmation are among them."""
FRAGMENTS_BACKLOG: Final = 2 * CROWD * ROUNDS
"""Fragments that may wait for a platform: the next crowd while one runs."""
BACKLOG: Final = 24
"""Variants that may wait for a slow platform before it falls behind and is served later."""
WHOLE: Final = Gather(16, 4.0, 30.0)
"""Whole variants for a platform that lowers what they share once for all of them (docs/decisions/0010)."""
CROWDS: Final = Gather(CROWD * ROUNDS, 4.0, 120.0)
"""A full crowd is worth waiting some seconds for; of a slow compiler it takes no more than about two minutes."""
ALONE: Final = Gather(64, 150.0, 180.0)
"""Confirmations share a fresh process: starting one takes seconds."""
WATCH_S: Final = 1.0

Watch = Callable[[Snapshot], None]

Given = Callable[[NumberedVariant], list[Outcome]]
"""What platforms elsewhere did with a variant."""
ELSEWHERE: Final = "results"
"""Stands for all of them where progress is counted."""


class CampaignRun:
    """Synthesis feeds queues, queues feed judges, judges feed the one writer."""

    def __init__(
        self,
        ledger: Ledger,
        plan: Plan,
        workforce: Workforce,
        jobs: int,
        config: Config,
        explain_s: float = 0.0,
        known: Sequence[Known] = (),
    ) -> None:
        self.ledger = ledger
        self.plan = plan
        self.workforce = workforce
        self.jobs = jobs
        self.stop = threading.Event()
        self.paused = ""
        self.failure: BaseException | None = None
        self.changed: list[str] = []
        """Platforms whose version is another than in an earlier run."""
        self.closing = False
        """Whether nothing new runs any more."""
        self.conclusions: dict[str, int] = {}
        self.kinds: set[tuple[str, ...]] = set()
        self._ledger_lock = threading.Lock()
        self._in_flight = threading.Semaphore(IN_FLIGHT)
        self._fragments_in_flight = threading.Semaphore(FRAGMENTS_IN_FLIGHT)
        self.interests: dict[str, Guidance] = {}
        """What each platform that runs crowds has seen."""
        self._known = known
        self._active = 0
        self._count_lock = threading.Lock()
        self._late = False
        """Whether nothing is put off any more."""
        self._put_off: set[int] = set()
        """Fragments that show what is known already; they are run again when all else is done."""
        self.flow = Flow(self._finish, self._puts_off, self._proof, FULL if plan.unmodified else BRIEF)
        self.writer = Writer(ledger, self._ledger_lock, self._pause, self._fail, self.stop)
        self.explaining = Explaining(
            ledger, self._ledger_lock, workforce.pool, workforce.local_specs(), config, explain_s, self.stop.is_set
        )
        self.explaining.on_operator, self.explaining.on_cause = self._dig, self._settle
        self.watch: Watch = lambda snapshot: None
        workforce.pool.on_pause = self._wait_for_space
        self._start = time.monotonic()
        shares = {name: plan.shares.get(name, 1.0) for name in plan.platforms}
        self.progress = Progress(plan.variants, shares, explain_s)

    def run(self, numbering: Numbering, hours: float | None, watch: Watch) -> str:
        """Work through the plan; why it ended: `done`, `time` or `interrupted`."""
        done = self.ledger.done()
        owed = self._owed(done)
        open_ = set().union(*owed.values())
        finished = {name: sum(name in names for names in done.values()) for name in self.plan.platforms}
        self.progress.begin(finished, owed, len(done), len(chosen(self.ledger, self.plan)))

        def seen(variants: Iterator[NumberedVariant]) -> Iterator[NumberedVariant]:
            for variant in variants:
                if variant.number not in done:
                    due = [name for name in self.plan.platforms if self.plan.is_due(name, variant.fingerprint)]
                    related = self.plan.is_related(variant.fingerprint, variant.provenance.intent)
                    self.progress.saw(variant.number, due, related)
                yield variant

        def feed() -> None:
            if self.closing:
                self.progress.saw_all()
                return
            wanted = numbering.pick(lambda n: n in open_ or n not in done, self.plan.variants)
            in_order = self.plan.sweep is not None  # every platform has had an operator before any goes far ahead
            left = self._pass(seen(wanted), done, in_order)
            self.progress.saw_all()
            self._drain()
            left |= self._put_off
            while left and not self.stop.is_set():
                self.progress.phase = LATE
                again = numbering.pick(left.__contains__, self.plan.variants)
                self._late = True
                left = self._pass(again, self.ledger.done(), True)
                self._drain()

        reason = self._work(feed, numbering, hours, watch)
        return "time" if self.closing and reason == "done" else reason  # what has not run yet waits

    def merge(self, numbering: Numbering, numbers: set[int], given: Given, watch: Watch) -> str:
        """Take in what platforms elsewhere did with these variants."""
        self.progress = Progress(len(numbers), {ELSEWHERE: 1.0}, self.progress.budget_s)
        self.progress.begin({}, {}, 0)

        def seen(variants: Iterator[NumberedVariant]) -> Iterator[NumberedVariant]:
            for variant in variants:
                self.progress.saw(variant.number, (ELSEWHERE,))
                yield variant

        def feed() -> None:
            self._late = True
            wanted = numbering.pick(numbers.__contains__, self.plan.variants)
            self._pass(seen(wanted), self.ledger.done(), True, given)

        return self._work(feed, numbering, None, watch)

    def _owed(self, done: Mapping[int, set[str]]) -> dict[str, set[int]]:
        """By platform: variants of earlier runs that it has not run."""
        owed: dict[str, set[int]] = {name: set() for name in self.plan.platforms}
        for number, fingerprint in self.ledger.data.execute("SELECT id, fingerprint FROM programs"):
            for name in owed.keys() - done.get(number, set()):
                if self.plan.is_due(name, fingerprint):
                    owed[name].add(number)
        return owed

    def _work(self, feed: Callable[[], None], numbering: Numbering, hours: float | None, watch: Watch) -> str:
        probes = self.workforce.require()  # every platform must be usable before hours are spent
        self.changed = self.ledger.add_platforms({name: (p.version, p.device) for name, p in probes.items()})
        self._open_queues()
        self._recall()
        self.explaining.start()

        def synthesis() -> None:
            try:
                feed()
                self._drain()
                self._relate(numbering)
                self.progress.phase = EXPLAIN
                self.explaining.stop_serving()
                self.explaining.finish()
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
        local = self.workforce.local_specs()
        adapters = {name: adapter_class(spec) or Platform for name, spec in local.items()}
        for name, runners in self._runners.items():
            works = [self.flow.run_on(runner) for runner in runners]
            shares = self.flow.takes_shortcuts and name in adapters and adapters[name].shares_lowering
            self.flow.platforms[name] = WorkQueue(name, works, slots, self.stop, self._fail, WHOLE if shares else None)
        pool, halted = self.workforce.pool, self.stop.is_set
        for name, spec in local.items():
            if name == BASELINE:
                if self.plan.fragments:
                    brief = [
                        self.flow.run_on(BriefRunner(pool, spec, halted, self._pause, number))
                        for number in range(self.jobs)
                    ]
                    self.flow.brief = WorkQueue(f"{name} fragments", brief, slots, self.stop, self._fail)
                continue
            if adapters[name].in_crowds:
                self.flow.shortcuts.add(name)
            alone = FreshRunner(pool, spec, halted, self._pause)
            self.flow.alone[name] = WorkQueue(
                f"{name} alone", [self.flow.run_on(alone)], slots, self.stop, self._fail, ALONE
            )
            if self.plan.fragments:
                self.interests[name] = Guidance()
                crowds = CrowdRunner(pool, spec, self.interests[name], halted, self._pause)
                self.flow.crowds[name] = WorkQueue(
                    f"{name} crowds", [self.flow.run_crowd_on(crowds)], slots, self.stop, self._fail, CROWDS
                )
        judging = [self.flow.judge_with(judge) for judge in self._judges]
        self.flow.judges = WorkQueue("judges", judging, slots, self.stop, self._fail)
        for queue in self._queues():
            queue.start()
        self.writer.start()

    def _recall(self) -> None:
        """What earlier runs of the campaign tell each platform of what to take next."""
        if self.interests and self.ledger.count():
            with self._ledger_lock:
                findings = findings_of(self.ledger.data, self._known)
                for name, interest in self.interests.items():
                    interest.recall(self.ledger.data, self.ledger.current(name), name, findings)

    def _dig(self, platform: str, operator: str) -> None:
        if platform in self.interests:
            self.interests[platform].traced(operator)

    def _settle(self, found: Explanation) -> None:
        if found.platform in self.interests and found.verdict.kind is not None:
            operators = [step.op for step in found.operators]
            self.interests[found.platform].settled_by(operators, found.verdict.kind.value)

    def _queues(self) -> list[WorkQueue[Errand] | WorkQueue[Dossier]]:
        assert self.flow.judges is not None
        brief = [self.flow.brief] if self.flow.brief is not None else []
        return [
            *self.flow.platforms.values(), *brief, *self.flow.crowds.values(), *self.flow.alone.values(),
            self.flow.judges,
        ]  # fmt: skip

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
            if variant.is_fragment:
                chosen = self._chosen_for_fragment(variant, due, patient)
            else:
                chosen = due if patient else self._chosen_for_whole(due)
            if len(chosen) < len(due):
                left.add(variant.number)
            elsewhere = given(variant)
            for part in self._parts(variant, chosen) if chosen and not elsewhere else [chosen]:
                if part or elsewhere:
                    self._begin(variant, part, elsewhere, bool(known), patient)
        return left

    def _chosen_for_whole(self, due: list[str]) -> list[str]:
        """Platforms that have room: one more result of eager's alone helps nobody, so it waits for another platform,
        or, where fragments come next, for another pass."""
        while True:
            chosen = [name for name in due if not self._is_behind(name)]
            if chosen != [BASELINE] or due == [BASELINE]:
                return chosen
            if self.plan.fragments or self.stop.wait(0.05):
                return []

    def _chosen_for_fragment(self, variant: NumberedVariant, due: list[str], patient: bool) -> list[str]:
        """Platforms that take a fragment now: waits while all are busy, as another fragment helps nobody then."""
        others = [name for name in due if name in self.interests]
        rooms = dict.fromkeys(others, 0)
        while others and not self.stop.is_set():
            rooms = {name: FRAGMENTS_BACKLOG - self.flow.crowds[name].backlog for name in others}
            if any(room > 0 for room in rooms.values()):
                break
            self.stop.wait(0.05)
        if patient:
            return due
        pressed = {name: rooms[name] < FRAGMENTS_BACKLOG // 2 for name in others}
        wanted = {n for n in others if rooms[n] > 0 and self.interests[n].wants(variant, pressed[n])}
        for name in wanted:
            self.interests[name].takes(variant)
        return [n for n in due if n in wanted or (n not in self.interests and (wanted or not others))]

    def _parts(self, variant: NumberedVariant, chosen: list[str]) -> list[list[str]]:
        """Platforms that are judged together: a fragment's crowds are of different speeds and wait for nobody."""
        apart = [name for name in chosen if name in self.interests] if variant.is_fragment else []
        rest = [name for name in chosen if name not in apart]
        return [[*rest, name] for name in apart] or [rest]

    def _begin(
        self, variant: NumberedVariant, platforms: list[str], elsewhere: list[Outcome], known: bool, patient: bool
    ) -> None:
        while patient and any(self._is_behind(name) for name in platforms) and not self.stop.wait(0.05):
            pass
        room = self._room_of(variant)
        while not room.acquire(timeout=0.2):
            if self.stop.is_set():
                return
        related = not variant.is_fragment and self.plan.is_related(variant.fingerprint, variant.provenance.intent)
        dossier = Dossier(variant, related=related, cell=variant.provenance.focus[1] if self.plan.sweep else "")
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

    def _room_of(self, variant: NumberedVariant) -> threading.Semaphore:
        return self._fragments_in_flight if variant.is_fragment else self._in_flight

    def _is_behind(self, name: str) -> bool:
        queue = self.flow.platforms[name]
        while queue.is_on_trial and queue.backlog >= BACKLOG and not self.stop.wait(0.02):
            pass
        return name != BASELINE and queue.is_slow and queue.backlog >= BACKLOG

    def _finish(self, dossier: Dossier) -> None:
        with self._count_lock:
            for name in dossier.fresh & dossier.verdicts.keys():
                word = dossier.verdicts[name].conclusion.value
                self.conclusions[word] = self.conclusions.get(word, 0) + 1
                kind = rough_key(dossier.verdicts[name], dossier.outcomes[name], dossier.operators.get(name, ""))
                if kind is not None:
                    self.kinds.add(kind)
                if name in self.interests and dossier.verdicts[name].conclusion is Conclusion.DIVERGES:
                    self._look_there(dossier, name)
        for name in dossier.signs.keys() & self.interests.keys() if dossier.confirmed else ():
            if dossier.shows_alone(name):
                self.interests[name].proved(dossier.signs[name], dossier.outcomes[name])
            else:
                self.interests[name].vanished(dossier.signs[name])
        self.paused = ""
        self.progress.judged(dossier.variant.number, {*dossier.fresh, ELSEWHERE})
        self.writer.put(dossier)
        self.explaining.offer(dossier)
        self._room_of(dossier.variant).release()
        with self._count_lock:
            self._active -= 1

    def _look_there(self, dossier: Dossier, name: str) -> None:
        """What a platform is wrong in is worth another look, unless somebody reported it already."""
        verdict, operator, interest = dossier.verdicts[name], dossier.operators.get(name, ""), self.interests[name]
        if operator and verdict.kind and is_known(verdict, dossier.outcomes[name], operator, self._known):
            interest.settled_by([operator], verdict.kind.value)
        interest.diverged(dossier.variant, operator, verdict.kind)

    def _puts_off(self, dossier: Dossier) -> bool:
        """Whether a fragment shows only what is known; then it is forgotten until all else is done."""
        asked = [self.interests[name].confirms(sign) for name, sign in dossier.signs.items() if name in self.interests]
        if dossier.pending:
            refusal = dossier.baseline.failed_at, message_class(dossier.baseline.message)
            asked = [self.interests[n].tries(dossier.variant, refusal) for n in dossier.pending if n in self.interests]
        if self._late or any(asked) or not asked:
            return False
        dossier.discard_outputs()
        self._put_off.add(dossier.variant.number)
        self._room_of(dossier.variant).release()
        with self._count_lock:
            self._active -= 1
        return True

    def _proof(self, name: str, sign: Sign) -> Outcome | None:
        """What makes it needless that a platform shows something alone once more: rounds of a structure die of one
        cause; of differences, a sweep asks for the grade of a cell, and a campaign for programs."""
        enough = self.plan.sweep is not None or isinstance(sign[1], Status)
        return self.interests[name].proof(sign) if enough and name in self.interests else None

    def _drain(self) -> None:
        """Wait until everything that was started is in the ledger."""
        alone = list(self.flow.alone.values())
        while self._active and not self.stop.wait(0.05):
            last = sum(queue.open for queue in alone) >= self._active  # starting a fresh process takes seconds
            for queue in self._queues():
                queue.hurried = last or queue not in alone
        for queue in self._queues():
            queue.hurried = False
        self.writer.flush()

    def _relate(self, numbering: Numbering) -> None:
        """What each platform says about programs that must agree with each other."""
        self.progress.phase = RELATIONS
        runners = {name: runners[0] for name, runners in self._runners.items()}
        check = RelationCheck(
            self.ledger, self._ledger_lock, self.plan, numbering, runners, self._judges, self.stop.is_set,
            self.progress.relating, self._pause,
        )  # fmt: skip
        check.run()

    def _wait(self, feeder: threading.Thread, hours: float | None, watch: Watch) -> str:
        deadline = self.progress.deadline = None if hours is None else self._start + hours * 3600
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

    def _wait_for_space(self, reason: NoSpace) -> None:
        """Also while workers start: nothing is lost but time."""
        self._pause(reason)
        self.watch(self.snapshot())
        if self.stop.wait(SPACE_WAIT_S):
            raise reason

    def _fail(self, error: BaseException) -> None:
        if not self.stop.is_set():
            self.failure = self.failure or error
            self.stop.set()

    def snapshot(self) -> Snapshot:
        waiting = self.flow.judges.backlog if self.flow.judges else 0
        self.progress.costing({name: queue.pace_s for name, queue in self.flow.platforms.items()})
        self.progress.explaining(*self.explaining.lanes())
        return self.progress.snapshot(
            self.seconds, self.conclusions, waiting, self.paused, len(self.kinds),
            self.explaining.explained,
        )  # fmt: skip
