"""The end of a stretch: suspects for what diverges, then findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from mindgap.campaign.evidence import read_evidence, read_program, write_findings, write_suspects
from mindgap.campaign.known import Known
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.runners import LocalJudge, Runner
from mindgap.campaign.suspects import Tracer, first_diverging
from mindgap.campaign.triage import Evidence, Finding, group
from mindgap.execution.batch import Job, Question, Trial
from mindgap.program.codec import decode, encode
from mindgap.program.graph import Program
from mindgap.records.verdict import Conclusion, Kind, Verdict

MOST_TRACED: Final = 60
"""Programs of one kind of divergence on one platform that are traced, the smallest first; each costs about eight
runs. The others join the suspect that most of those have, if they hold that operator."""
AT_ONCE: Final = 16

Tell = Callable[[int, int], None]
"""Told how many programs were traced, of how many."""


class Cutting:
    """Finds where a divergence begins by cutting programs shorter on this machine's platforms."""

    def __init__(self, runners: dict[str, Runner], judge: LocalJudge, weights: str) -> None:
        self._runners = runners
        self._judge = judge
        self._weights = weights

    def can_trace(self, platform: str) -> bool:
        """A platform of another machine, whose results were merged, cannot be asked again."""
        return platform in self._runners

    def suspects(self, platform: str, jobs: Sequence[Job]) -> list[str | None]:
        programs = [decode(job.program) for job in jobs]
        return first_diverging(programs, lambda cuts: self._diverge(platform, cuts))

    def _diverge(self, platform: str, programs: Sequence[Program]) -> list[bool]:
        jobs = [Job(encode(program), 0, self._weights) for program in programs]
        baseline = self._trials(BASELINE, jobs)
        candidate = self._trials(platform, jobs)
        verdicts: dict[int, Verdict] = {}
        asked = [n for n in range(len(jobs)) if n in baseline and n in candidate]
        questions = [Question(jobs[n], baseline[n], (candidate[n],)) for n in asked]
        self._judge.judge(questions, lambda number, found: verdicts.update({asked[number]: found[platform]}))
        for trial in (*baseline.values(), *candidate.values()):
            trial.without_outputs()
        wrong = {n for n, verdict in verdicts.items() if verdict.conclusion is Conclusion.DIVERGES}
        return [n in wrong for n in range(len(jobs))]

    def _trials(self, platform: str, jobs: Sequence[Job]) -> dict[int, Trial]:
        found: dict[int, Trial] = {}
        self._runners[platform].run(jobs, 1, found.__setitem__)
        return found


def trace(ledger: Ledger, tracer: Tracer, weights: str, tell: Tell, stopped: Callable[[], bool]) -> None:
    """Note a suspect for the smallest programs of every kind of divergence."""
    wanted: dict[tuple[str, str | None, str | None], list[Evidence]] = {}
    for item in sorted(_divergences(read_evidence(ledger)), key=lambda item: (item.nodes, item.program)):
        wanted.setdefault((item.platform, item.kind, item.blame), []).append(item)
    chosen = [item for items in wanted.values() for item in items[:MOST_TRACED] if item.suspect is None]
    done = 0
    chosen = [item for item in chosen if tracer.can_trace(item.platform)]
    for platform in sorted({item.platform for item in chosen}):
        items = [item for item in chosen if item.platform == platform]
        for start in range(0, len(items), AT_ONCE):
            if stopped():
                return
            tell(done, len(chosen))
            part = items[start : start + AT_ONCE]
            jobs = [Job(read_program(ledger, item.program) or b"", 0, weights) for item in part]
            found = tracer.suspects(platform, jobs)
            if stopped():  # its workers were ended: the answers say nothing
                return
            write_suspects(ledger, platform, {item.program: name or "" for item, name in zip(part, found)})
            done += len(part)


def _divergences(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Those that can be cut: what is refused as a whole has its message."""
    return [
        item
        for item in evidence
        if item.conclusion is Conclusion.DIVERGES and item.kind != Kind.VALIDATION.value and not item.oracle
    ]


def conclude(ledger: Ledger, known: Sequence[Known] = ()) -> list[Finding]:
    """Findings from everything that the ledger holds, entered into it."""
    return write_findings(ledger, group(_with_suspects(ledger, read_evidence(ledger))), known)


def _with_suspects(ledger: Ledger, evidence: Sequence[Evidence]) -> list[Evidence]:
    """Untraced programs join the commonest suspect of their kind whose operator they hold."""
    common: dict[tuple[str, str | None, str | None], Counter[str]] = {}
    for item in evidence:
        if item.suspect:
            common.setdefault((item.platform, item.kind, item.blame), Counter())[item.suspect] += 1
    found = []
    for item in evidence:
        counts = common.get((item.platform, item.kind, item.blame))
        if item.suspect is None and counts and item.conclusion is Conclusion.DIVERGES and not item.oracle:
            data = read_program(ledger, item.program)
            held = {node.op for node in decode(data).nodes} if data else set()
            ranked = sorted(counts, key=lambda name: (-counts[name], name))
            item = replace(item, suspect=next((name for name in ranked if name in held), None))
        found.append(item)
    return found
