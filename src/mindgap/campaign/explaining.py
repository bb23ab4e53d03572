"""Operators and causes for what a campaign finds: while it runs, and at its end, within a budget of time.

While variants still run, the smallest program of each new kind of divergence is explained in workers of its own, so
that a campaign that is interrupted already names operators and causes. At the end the smallest program of every finding
is explained, every other divergence is traced to its operator, and failures whose message names no operator follow.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from mindgap.campaign.dossier import Dossier
from mindgap.campaign.ledger import WEIGHTS, Ledger
from mindgap.campaign.messages import operator_in
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.reader import evidence_of, explanations_of, traceable
from mindgap.campaign.triage import group, rough_key
from mindgap.errors import MindgapError
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.pool import HOST, Pool, TaskFailed
from mindgap.explanation.explain import OutOfBudget, confirm, explain_case
from mindgap.platforms.config import Config
from mindgap.program.case import Case
from mindgap.records.explanation import Explanation
from mindgap.records.finding import Evidence
from mindgap.records.platform import PlatformSpec
from mindgap.records.progress import Lane
from mindgap.records.verdict import Conclusion, Kind
from mindgap.reduction.reducer import Budget
from mindgap.tracing.examine import Examiner
from mindgap.tracing.trace import trace

FOLDER: Final = "explanations"
SHARE: Final = 0.25
"""Of a run's time: explaining shares the cores with the platforms, and must not take them away."""
FIRST_S: Final = 60.0
"""But so much at the start: the first findings are worth most."""
EACH_S: Final = 60.0
"""For one explanation, and for tracing one divergence; `mindgap explain` takes longer and finds smaller witnesses."""
MOST_TRACED: Final = 60
"""Divergences of one kind on one platform that are traced, the smallest first; the others join the operator that most
of those have, if their program holds it."""
LABEL: Final = "explain"
EXPLAIN_GUESS_S: Final = 30.0
TRACE_GUESS_S: Final = 5.0
"""What an explanation and a trace take, until one is measured."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A program on a platform that is worth an explanation."""

    nodes: int
    number: int
    platform: str
    parcel: Parcel
    is_named: bool = True
    """Whether the operator is to be explained; a fragment that does not tell it is only traced, and comes first."""

    @property
    def order(self) -> tuple[bool, int, int]:
        return (self.is_named, self.nodes, self.number)


@dataclass
class _Effort:
    """Work of one kind: how often it was done and what it took, and how often it is known to be left."""

    guess_s: float
    done: int = 0
    seconds: float = 0.0
    left: int = 0
    """Without the one at hand."""
    since: float | None = None
    """When the one at hand was begun."""

    @property
    def spent_s(self) -> float:
        since = self.since
        return self.seconds + (0.0 if since is None else time.monotonic() - since)

    def lane(self) -> Lane:
        guess = self.seconds / self.done if self.done else self.guess_s
        since, done = self.since, self.done
        if since is None:
            return Lane(done + self.left, done, guess)
        return Lane(done + self.left + 1, done, guess, marks=((since, done),))

    @contextmanager
    def one(self) -> Iterator[None]:
        self.since, self.left = time.monotonic(), max(0, self.left - 1)
        try:
            yield
        finally:
            self.seconds, self.since, self.done = self.spent_s, None, self.done + 1


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
        self.on_operator: Callable[[str, str], None] = lambda platform, operator: None
        """Told the operator at fault when a trace finds one."""
        self.on_cause: Callable[[Explanation], None] = lambda found: None
        """Told what was explained."""
        self._ledger = ledger
        self._lock = lock
        self._pool = pool
        self._specs = {name: replace(spec, worker=LABEL) for name, spec in specs.items()}
        self._judge = replace(HOST, worker=LABEL)
        self._config = config
        self._left_s = budget_s
        self._stopped = stopped
        self._start = time.monotonic()
        self._explanations, self._traces = _Effort(EXPLAIN_GUESS_S), _Effort(TRACE_GUESS_S)
        self._seen: Counter[tuple[str, ...]] = Counter()
        """Divergences of this run by their kind: all but the first of each are traced at the end."""
        self._nameless: set[tuple[str, ...]] = set()
        """Failures of this run whose message names no operator: they are explained at the end."""
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
                variant, operator = dossier.variant, dossier.operators.get(name, "")
                held = " ".join(sorted({context.partition(" ")[0] for context in variant.contexts}))
                key = rough_key(verdict, dossier.outcomes[name], operator or held)
                if key is not None and verdict.conclusion is Conclusion.FAILED and not operator_in(key[-1]):
                    self._nameless.add(key)
                if key is None or verdict.conclusion is not Conclusion.DIVERGES:
                    continue
                self._seen[key] += 1
                if key in self._done:
                    continue
                is_named = bool(operator) or not variant.is_fragment or verdict.kind is Kind.VALIDATION
                wanted = _Wanted(variant.nodes, variant.number, name, variant.parcel, is_named)
                if key not in self._wanted or wanted.order < self._wanted[key].order:
                    self._wanted[key] = wanted
            self._expect()
            self._open.notify_all()

    def _expect(self) -> None:
        """While variants still run: a kind that was not explained will be, and others of its kind traced."""
        self._explanations.left = len(self._wanted) + len(self._nameless)
        self._traces.left = sum(min(count, MOST_TRACED) - 1 for count in self._seen.values())

    def lanes(self) -> tuple[Lane, Lane, float]:
        """Explanations and traces, and the time that is left for them."""
        return self._explanations.lane(), self._traces.lane(), max(0.0, self._left_s - self._spent_s)

    @property
    def _spent_s(self) -> float:
        return self._explanations.spent_s + self._traces.spent_s

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
                key = min(self._wanted, key=lambda item: self._wanted[item].order)
                chosen = self._wanted.pop(key)
                self._done.add(key)
            case = open_parcel(chosen.parcel, Constants())
            effort, work = (self._explanations, self._explain) if chosen.is_named else (self._traces, self._trace)
            with effort.one():
                work(chosen.number, chosen.platform, case)

    def _has_time(self) -> bool:
        allowed = FIRST_S + SHARE * (time.monotonic() - self._start)
        return self._spent_s < min(allowed, self._left_s)

    def finish(self) -> None:
        """After the run, until nothing is left or the budget is spent; what is most worth knowing comes first."""
        while not self._stopped() and self._spent_s < self._left_s:
            with self._lock:
                evidence = evidence_of(self._ledger.data)
                findings = group(evidence, explanations_of(self._ledger.data))
                looked_at = self._looked_at()
            known = {place for place, is_explained in looked_at.items() if is_explained}

            def open_(items: Iterable[Evidence], done: Collection[tuple[int, str]]) -> list[Evidence]:
                return [i for i in items if i.platform in self._specs and (i.program, i.platform) not in done]

            nameless = (f.witness for f in findings if f.explanation is None and f.category == "divergence")
            failures = (f.witness for f in findings if f.category == "failure" and not f.operator)
            wanted, failed = open_(nameless, known), open_(failures, looked_at)
            untraced = open_(_smallest_of_each_kind(evidence), {*looked_at, *((i.program, i.platform) for i in wanted)})
            self._explanations.left, self._traces.left = len(wanted) + len(failed), len(untraced)
            if wanted or (failed and not untraced):
                self._with_case((wanted or failed)[0], self._explanations, self._explain)
            elif untraced:
                self._with_case(untraced[0], self._traces, self._trace)
            else:
                return

    def _looked_at(self) -> dict[tuple[int, str], bool]:
        """Programs on platforms that were traced, and whether an explanation was tried as well."""
        query = (
            "SELECT x.program, f.name, x.problem IS NOT NULL OR x.explanation IS NOT NULL FROM explanations x "
            "JOIN platforms f ON f.id = x.platform"
        )
        return {(program, name): bool(tried) for program, name, tried in self._ledger.data.execute(query)}

    def _with_case(self, item: Evidence, effort: _Effort, work: Callable[[int, str, Case], None]) -> None:
        with self._lock:
            content = self._ledger.program(item.program)
        if content is None:
            problem = "its program was not kept"
            self._keep(lambda: self._ledger.write_operator(item.program, item.platform, "", problem))
            return
        case = open_parcel(Parcel(content, weights=str(self._ledger.directory / WEIGHTS)), Constants())
        with effort.one():
            work(item.program, item.platform, case)

    def _trace(self, number: int, platform: str, case: Case) -> None:
        examiner = Examiner(self._pool, self._specs[BASELINE], self._specs[platform], self._judge)
        operator, problem = "", ""
        time_s = self._each_s()
        examiner.until = time.monotonic() + time_s
        try:
            _, symptom = confirm(examiner, case)
            found = trace(examiner, case, symptom)
            nodes = {step.node: step.op for step in found.steps}
            operator = nodes[found.culprits[0]] if found.culprits else ""
            problem = "" if operator or found.finished else found.note
        except (MindgapError, TaskFailed) as error:
            problem = str(error).splitlines()[0]
        if time_s < EACH_S and not operator and time.monotonic() > examiner.until:
            return  # the end of this run's budget says nothing of the program: another run may try again
        self._keep(lambda: self._ledger.write_operator(number, platform, operator, problem))
        self.on_operator(platform, operator)

    def _explain(self, number: int, platform: str, case: Case) -> None:
        folder = f"{FOLDER}/{number}-{platform.replace('@', '-').replace(':', '-')}"
        time_s = self._each_s()
        try:
            found = explain_case(
                self._pool, f"variant {number}", case, self._specs[platform], self._config,
                self._ledger.directory / folder, Budget(time_s), baseline=self._specs[BASELINE],
                judge=self._judge,
            )  # fmt: skip
        except (MindgapError, TaskFailed) as error:
            problem = str(error).splitlines()[0]
            if time_s >= EACH_S or not isinstance(error, OutOfBudget):
                self._keep(lambda: self._ledger.write_operator(number, platform, "", problem))
            return
        self._keep(lambda: self._ledger.write_explanation(number, found, folder))
        self.explained += 1
        self.on_cause(found)

    def _each_s(self) -> float:
        return min(EACH_S, self._left_s - self._spent_s)

    def _keep(self, write: Callable[[], None]) -> None:
        if not self._stopped():  # otherwise its workers were ended, and what they said means nothing
            with self._lock:
                write()


def _smallest_of_each_kind(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Divergences that are worth tracing, the smallest programs first."""
    kinds: dict[tuple[str, str | None, str | None], list[Evidence]] = {}
    for item in sorted(traceable(evidence), key=lambda item: (item.nodes, item.program)):
        kinds.setdefault((item.platform, item.kind, item.blame), []).append(item)
    return [item for items in kinds.values() for item in items[:MOST_TRACED]]
