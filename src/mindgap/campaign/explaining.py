"""Operators and causes for what a campaign finds: while it runs, and at its end, within a budget of time.

While variants still run, the smallest program of each new kind of divergence is explained in workers of its own, so
that a campaign that is interrupted already names operators and causes. At the end the smallest program of every finding
is explained, every other divergence is traced to its operator, and failures whose message names no operator follow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
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
"""Of a run's time: explaining shares the cores with the platforms, and must not take them away."""
FIRST_S: Final = 60.0
"""But so much at the start: the first findings are worth most."""
REDUCE_S: Final = 20.0
"""For making one witness smaller; `mindgap explain` takes longer and finds smaller ones."""
TRACE_S: Final = 30.0
"""After so long, operators that are wrong only together are left to `mindgap explain`."""
MOST_TRACED: Final = 60
"""Divergences of one kind on one platform that are traced, the smallest first; the others join the operator that most
of those have, if their program holds it."""
LABEL: Final = "explain"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A program on a platform that is worth an explanation."""

    nodes: int
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
        """A finished variant: the smallest of each new kind of divergence waits to be explained."""
        with self._open:
            for name in dossier.fresh & dossier.verdicts.keys() & self._specs.keys():
                verdict = dossier.verdicts[name]
                key = rough_key(verdict, dossier.outcomes[name])
                if key is None or key in self._done or verdict.conclusion is not Conclusion.DIVERGES:
                    continue
                variant, before = dossier.variant, self._wanted.get(key)
                if before is None or (variant.nodes, variant.number) < (before.nodes, before.number):
                    self._wanted[key] = _Wanted(variant.nodes, variant.number, name, variant.parcel)
            self._open.notify_all()

    def stop_serving(self) -> None:
        """Explain nothing more in the background; what is being explained is finished first."""
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
                key = min(self._wanted, key=lambda item: (self._wanted[item].nodes, self._wanted[item].number))
                chosen = self._wanted.pop(key)
                self._done.add(key)
            case = open_parcel(chosen.parcel, Constants())
            self._timed(lambda case=case, item=chosen: self._explain(item.number, item.platform, case))  # type: ignore[misc]

    def _has_time(self) -> bool:
        allowed = FIRST_S + SHARE * (time.monotonic() - self._start)
        return self._spent_s < min(allowed, self._left_s)

    def finish(self, tell: Callable[[int, int], None]) -> None:
        """After the run, until nothing is left or the budget is spent; what is most worth knowing comes first."""
        while not self._stopped() and self._spent_s < self._left_s:
            with self._lock:
                evidence = evidence_of(self._ledger.data)
                findings = group(evidence, explanations_of(self._ledger.data))
                looked_at = self._looked_at()
            tell(sum(finding.explanation is not None for finding in findings), len(findings))
            known = {place for place, is_explained in looked_at.items() if is_explained}

            def open_(item: Evidence, done: Collection[tuple[int, str]]) -> bool:
                return item.platform in self._specs and (item.program, item.platform) not in done

            nameless = [f.witness for f in findings if f.explanation is None and f.category == "divergence"]
            failures = [f.witness for f in findings if f.category == "failure" and not f.operator]
            wanted = next((item for item in nameless if open_(item, known)), None)
            untraced = next((item for item in _smallest_of_each_kind(evidence) if open_(item, looked_at)), None)
            failed = next((item for item in failures if open_(item, looked_at)), None)
            if wanted is not None or (untraced is None and failed is not None):
                chosen = wanted or failed
                assert chosen is not None
                self._with_case(chosen, lambda case, item=chosen: self._explain(item.program, item.platform, case))  # type: ignore[misc]
            elif untraced is not None:
                self._with_case(untraced, lambda case, item=untraced: self._trace(case, item))  # type: ignore[misc]
            else:
                return

    def _looked_at(self) -> dict[tuple[int, str], bool]:
        """Programs on platforms that were traced, and whether an explanation was tried as well."""
        query = (
            "SELECT x.program, f.name, x.problem IS NOT NULL OR x.explanation IS NOT NULL FROM explanations x "
            "JOIN platforms f ON f.id = x.platform"
        )
        return {(program, name): bool(tried) for program, name, tried in self._ledger.data.execute(query)}

    def _with_case(self, item: Evidence, work: Callable[[Case], None]) -> None:
        with self._lock:
            content = self._ledger.program(item.program)
        if content is None:
            problem = "its program was not kept"
            self._keep(lambda: self._ledger.write_operator(item.program, item.platform, "", problem))
            return
        case = open_parcel(Parcel(content, weights=str(self._ledger.directory / WEIGHTS)), Constants())
        self._timed(lambda: work(case))

    def _trace(self, case: Case, item: Evidence) -> None:
        examiner = Examiner(self._pool, self._specs[BASELINE], self._specs[item.platform], self._judge)
        operator, problem = "", ""
        try:
            _, symptom = confirm(examiner, case)
            found = trace(examiner, case, symptom, until=time.monotonic() + TRACE_S)
            nodes = {step.node: step.op for step in found.steps}
            operator = nodes[found.culprits[0]] if found.culprits else ""
        except (MindgapError, TaskFailed) as error:
            problem = str(error).splitlines()[0]
        self._keep(lambda: self._ledger.write_operator(item.program, item.platform, operator, problem))

    def _explain(self, number: int, platform: str, case: Case) -> None:
        folder = f"{FOLDER}/{number}-{platform.replace('@', '-').replace(':', '-')}"
        try:
            found = explain_case(
                self._pool, f"variant {number}", case, self._specs[platform], self._config,
                self._ledger.directory / folder, Budget(REDUCE_S), baseline=self._specs[BASELINE], judge=self._judge,
                trace_s=TRACE_S,
            )  # fmt: skip
        except (MindgapError, TaskFailed) as error:
            problem = str(error).splitlines()[0]
            self._keep(lambda: self._ledger.write_operator(number, platform, "", problem))
            return
        self._keep(lambda: self._ledger.write_explanation(number, found, folder))
        self.explained += 1

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


def _smallest_of_each_kind(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Divergences that are worth tracing, the smallest programs first."""
    kinds: dict[tuple[str, str | None, str | None], list[Evidence]] = {}
    for item in sorted(traceable(evidence), key=lambda item: (item.nodes, item.program)):
        kinds.setdefault((item.platform, item.kind, item.blame), []).append(item)
    return [item for items in kinds.values() for item in items[:MOST_TRACED]]
