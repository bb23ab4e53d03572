"""Operators and causes for what a campaign finds: while it runs, and at its end, within a budget of time.

While variants still run, the smallest program of each new kind of finding is explained in workers of its own, so
that a campaign that is interrupted already names operators and causes. At the end every divergence is traced to its
operator as far as the budget goes, and the smallest program of each operator is explained in full.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mindgap.campaign.dossier import Dossier
from mindgap.campaign.ledger import WEIGHTS, Ledger
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.reader import evidence_of, explanations_of, traceable
from mindgap.campaign.triage import group, rough_key
from mindgap.errors import MindgapError
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.pool import HOST, Pool, TaskFailed
from mindgap.explanation.explain import confirm, explain_case
from mindgap.platforms.config import Config
from mindgap.program.case import Case
from mindgap.records.finding import Evidence
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion
from mindgap.reduction.reducer import Budget
from mindgap.tracing.examine import Examiner
from mindgap.tracing.trace import trace

FOLDER: Final = "explanations"
SHARE: Final = 0.25
"""Of the time of a run: explaining goes on beside the platforms, and must not take their cores away."""
FIRST_S: Final = 60.0
"""But so much at the start: the first findings are worth most."""
REDUCE_S: Final = 20.0
"""For making one witness smaller; `mindgap explain` takes longer and finds smaller ones."""
MOST_TRACED: Final = 60
"""Divergences of one kind on one platform that are traced, the smallest first; the others join the operator that most
of those have, if their program holds it."""
LABEL: Final = "explain"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A program on a platform that is worth an explanation."""

    rank: tuple[int, int, int]
    number: int
    platform: str
    parcel: Parcel


class Explaining:
    """Explains findings one after the other; what it learns goes to the ledger at once."""

    def __init__(
        self,
        ledger: Ledger,
        lock: threading.Lock,
        pool: Pool,
        specs: Mapping[str, PlatformSpec],
        config: Config,
        budget_s: float,
        stopped: Callable[[], bool],
    ) -> None:
        self.explained = 0
        self._ledger = ledger
        self._lock = lock
        self._pool = pool
        self._specs = {name: replace(spec, worker=LABEL) for name, spec in specs.items()}
        self._judge = replace(HOST, worker=LABEL)
        self._config = config
        self._left_s = budget_s
        self._stopped = stopped
        self._start = time.monotonic()
        self._spent_s = 0.0
        self._wanted: dict[tuple[str, ...], _Wanted] = {}
        self._done: set[tuple[str, ...]] = set()
        self._open = threading.Condition()
        self._running = budget_s > 0
        self._thread = threading.Thread(target=self._serve, name="explaining", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, dossier: Dossier) -> None:
        """A finished variant: the smallest of each new kind of finding waits to be explained."""
        with self._open:
            for name in dossier.fresh & dossier.verdicts.keys() & self._specs.keys():
                verdict = dossier.verdicts[name]
                key = rough_key(verdict, dossier.outcomes[name])
                if key is None or key in self._done or verdict.conclusion is Conclusion.UNSTABLE:
                    continue
                number, nodes = dossier.variant.number, dossier.variant.nodes
                rank = (verdict.conclusion is not Conclusion.DIVERGES, nodes, number)
                before = self._wanted.get(key)
                if before is None or rank < before.rank:
                    self._wanted[key] = _Wanted(rank, number, name, dossier.variant.parcel)
            self._open.notify_all()

    def stop_serving(self) -> None:
        """No more beside the run; what is being explained is finished first."""
        with self._open:
            self._running = False
            self._open.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def _serve(self) -> None:
        while True:
            with self._open:
                while self._running and not (self._wanted and self._has_time()):
                    if self._stopped():
                        return
                    self._open.wait(0.5)
                if not self._running or self._stopped():
                    return
                key = min(self._wanted, key=lambda item: self._wanted[item].rank)
                chosen = self._wanted.pop(key)
                self._done.add(key)
            case = open_parcel(chosen.parcel, Constants())
            self._explain(chosen.number, chosen.platform, case)

    def _has_time(self) -> bool:
        allowed = FIRST_S + SHARE * (time.monotonic() - self._start)
        return self._spent_s < min(allowed, self._left_s)

    def finish(self, tell: Callable[[int, int], None]) -> None:
        """After the run: trace what diverges, then explain the smallest program of each finding."""
        self._trace_all(tell)
        while not self._stopped() and self._spent_s < self._left_s:
            with self._lock:
                known = explanations_of(self._ledger.data)
                findings = group(evidence_of(self._ledger.data), known)
            left = [
                finding.witness
                for finding in findings
                if finding.category in ("divergence", "failure")
                and finding.explanation is None
                and finding.witness.platform in self._specs
                and (finding.witness.program, finding.witness.platform) not in self._tried
            ]
            tell(len(findings) - len(left), len(findings))
            if not left:
                return
            self._explain_filed(left[0])

    @property
    def _tried(self) -> set[tuple[int, str]]:
        """What was looked at without an explanation coming of it."""
        query = (
            "SELECT x.program, f.name FROM explanations x JOIN platforms f ON f.id = x.platform "
            "WHERE x.problem IS NOT NULL"
        )
        with self._lock:
            return set(self._ledger.data.execute(query).fetchall())

    def _trace_all(self, tell: Callable[[int, int], None]) -> None:
        with self._lock:
            evidence = traceable(evidence_of(self._ledger.data))
            traced = {row[:2] for row in self._ledger.data.execute(
                "SELECT x.program, f.name FROM explanations x JOIN platforms f ON f.id = x.platform")}  # fmt: skip
        kinds: dict[tuple[str, str | None, str | None], list[Evidence]] = {}
        for item in sorted(evidence, key=lambda item: (item.nodes, item.program)):
            kinds.setdefault((item.platform, item.kind, item.blame), []).append(item)
        chosen = [item for items in kinds.values() for item in items[:MOST_TRACED]]
        chosen = [i for i in chosen if (i.program, i.platform) not in traced and i.platform in self._specs]
        for number, item in enumerate(chosen):
            if self._stopped() or self._spent_s >= self._left_s:
                return
            tell(number, len(chosen))
            case = self._case(item.program)
            if case is not None:
                self._timed(lambda case=case, item=item: self._trace(case, item))  # type: ignore[misc]

    def _trace(self, case: Case, item: Evidence) -> None:
        examiner = Examiner(self._pool, self._specs[BASELINE], self._specs[item.platform], self._judge)
        operator, problem = "", ""
        try:
            _, symptom = confirm(examiner, case)
            found = trace(examiner, case, symptom)
            nodes = {step.node: step.op for step in found.steps}
            operator = nodes[found.culprits[0]] if found.culprits else ""
        except (MindgapError, TaskFailed) as error:
            problem = str(error).splitlines()[0]
        self._keep(lambda: self._ledger.write_operator(item.program, item.platform, operator, problem))

    def _explain_filed(self, witness: Evidence) -> None:
        case = self._case(witness.program)
        if case is None:
            self._keep(
                lambda: self._ledger.write_operator(witness.program, witness.platform, "", "its program was not kept")
            )
        else:
            self._explain(witness.program, witness.platform, case)

    def _explain(self, number: int, platform: str, case: Case) -> None:
        def work() -> None:
            folder = f"{FOLDER}/{number}-{platform.replace('@', '-').replace(':', '-')}"
            spec = self._specs[platform]
            try:
                found = explain_case(
                    self._pool, f"variant {number}", case, spec, self._config, self._ledger.directory / folder,
                    Budget(REDUCE_S), baseline=self._specs[BASELINE], judge=self._judge,
                )  # fmt: skip
            except (MindgapError, TaskFailed) as error:
                problem = str(error).splitlines()[0]
                self._keep(lambda: self._ledger.write_operator(number, platform, "", problem))
                return
            self._keep(lambda: self._ledger.write_explanation(number, found, folder))
            self.explained += 1

        self._timed(work)

    def _keep(self, write: Callable[[], None]) -> None:
        if not self._stopped():  # otherwise its workers were ended, and what they said means nothing
            with self._lock:
                write()

    def _timed(self, work: Callable[[], None]) -> None:
        start = time.monotonic()
        try:
            work()
        finally:
            self._spent_s += time.monotonic() - start

    def _case(self, number: int) -> Case | None:
        with self._lock:
            content = self._ledger.program(number)
        if content is None:
            return None
        return open_parcel(Parcel(content, weights=str(self._ledger.directory / WEIGHTS)), Constants())
