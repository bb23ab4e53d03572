"""A campaign as the content of a page."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.known import Known
from mindgap.campaign.matrix import DIFFERS, FAULT, OPEN, ROUNDING, RUN_COLUMNS, SAME, cells_of, pairs_of, runs_of
from mindgap.campaign.plan import BASELINE, eager_of
from mindgap.campaign.reader import Campaign, PlatformCounts, open_ledger, read
from mindgap.records.finding import Finding
from mindgap.records.outcome import Status
from mindgap.records.verdict import Conclusion
from mindgap.report.campaign import cause_of, headline, operator_of, split, undecided
from mindgap.report.page.content import MOST_FINDINGS, MOST_RUNS, Bar, Content, Entry, Figure, Link, Table, term, to
from mindgap.report.page.findings import details_of, head_of, page_id, story
from mindgap.report.page.matrix import consistency
from mindgap.report.page.method import method_of_campaign
from mindgap.report.summary import joined, many

STATUSES: Final = tuple(status.value for status in Status)
JUDGED: Final = ("agrees", "rounding", "hazard", "unjudged", "unstable", "diverges")
PAIRED: Final = (SAME, ROUNDING, FAULT, OPEN, DIFFERS)
MOST_FIRST: Final = 6
"""Entries of the list of what to fix first."""
FINDING_COLUMNS: Final = (
    "id", "category", "platform", "operator", "what differs", "models", "variants", "fragments", "error / rounding",
    "cause", "known", "in words",
)  # fmt: skip


def campaign_content(directory: Path, known: Sequence[Known] = ()) -> Content:
    """A campaign as it is now."""
    campaign = read(directory, known)
    with open_ledger(directory) as data:
        cells, pairs = cells_of(data), pairs_of(data)
        rows, total = runs_of(data, MOST_RUNS)
        details = list(details_of(data, directory, campaign))
        created = _created(data)
    sections: dict[str, Any] = {
        "findings": _findings(campaign),
        "runs": {"titles": RUN_COLUMNS, "rows": rows, "total": total, "caption": "What every platform did"},
    }
    if cells:
        sections["consistency"] = consistency(cells, pairs, _known_cells(campaign), _ran(campaign))
    return Content(
        title=headline(campaign),
        subject="campaign",
        conclusion=conclusion_of(campaign),
        mood=mood_of(campaign),
        strip=_strip(campaign, created),
        answers=answers_of(campaign),
        not_decided=undecided(campaign),
        figures=tuple(figures_of(campaign, pairs)),
        tables=tuple(_tables(campaign)),
        first=_first(campaign),
        sections=sections,
        details=details,
        method=method_of_campaign(campaign, len(rows), total),
    )


def conclusion_of(campaign: Campaign) -> str:
    """Are the answers right, does it run there, and what could not be judged: one sentence."""
    tallies = _tallies(campaign)
    if not tallies:
        return f"Only {BASELINE} ran: there is nothing to compare with."
    noun = "program" if campaign.fragments else "model" if campaign.plan.unmodified else "variant"
    differ = sorted((t for t in tallies if t.differ), key=lambda t: (-t.differ, t.name))
    failing = sorted((t for t in tallies if t.failed), key=lambda t: (-t.failed, t.name))
    fine = [t.name for t in tallies if not t.differ and not t.failed]
    parts = []
    if differ:
        listed = joined([f"{t.name} ({t.differ:,} of {many(t.ran, noun)})" for t in differ])
        parts.append(f"{listed} {'differs' if len(differ) == 1 else 'differ'} by more than rounding")
    if failing:
        listed = joined([f"{t.name} ({t.failed:,} of {t.done:,})" for t in failing])
        parts.append(f"{listed} {'does' if len(failing) == 1 else 'do'} not run everything")
    if fine:
        parts.append(f"{joined(fine)} {'agrees' if len(fine) == 1 else 'agree'} within rounding")
    judged = sum(campaign.unjudged.values())
    rest = f" {many(judged, 'output')} could not be judged." if judged else ""
    return "; ".join(parts) + "." + rest


@dataclass(frozen=True, slots=True)
class _Tally:
    """One platform next to eager, variants and fragments together."""

    name: str
    platform: str
    """Its name without a version, as filters know it."""
    done: int
    conclusions: Counter[str]

    @property
    def failed(self) -> int:
        """What it does not run although eager does; what both refuse is no failure."""
        return self.conclusions["failed"]

    @property
    def ran(self) -> int:
        return self.done - self.failed

    @property
    def differ(self) -> int:
        return self.conclusions["diverges"] + self.conclusions["unstable"]


def _tallies(campaign: Campaign) -> list[_Tally]:
    found: dict[str, _Tally] = {}
    for item in (*campaign.platforms, *campaign.fragment_platforms):
        if item.name != BASELINE and item.done:
            label = _label(item, campaign)
            before = found.get(label) or _Tally(label, item.name, 0, Counter())
            counts = before.conclusions + Counter(item.conclusions)
            found[label] = _Tally(label, item.name, before.done + item.done, counts)
    return list(found.values())


def _idle(campaign: Campaign) -> list[str]:
    """Platforms of the plan on which nothing ran: their sample is too small, or their turn has not come."""
    ran = {item.name for item in (*campaign.platforms, *campaign.fragment_platforms) if item.done}
    return [name for name in campaign.plan.platforms if name not in ran and name != BASELINE]


def answers_of(campaign: Campaign) -> Table | None:
    """A row per platform, the gravest first."""
    ranked = sorted(_tallies(campaign), key=lambda t: (-bool(t.differ), -t.differ / t.done, -t.failed / t.done))
    titles = ["platform", "does it run?", "are the answers right?", "not decided"]
    rows = [_answer(tally) for tally in ranked] + [[name, "· nothing ran", "", ""] for name in _idle(campaign)]
    return Table("Every platform", titles, rows) if ranked else None


def _answer(tally: _Tally) -> list[Any]:
    def leading(text: str, query: str, word: str) -> Link:
        return Link(text, to("runs", f"{term('p', tally.platform)} {query}".strip()), word)

    counts = tally.conclusions
    if tally.failed:
        runs = leading(
            f"{tally.failed:,} of {tally.done:,} {_does(tally.failed)} not run", term("v", "failed"), "failed"
        )
    else:
        runs = leading(_all(tally.done, "run"), "", "ok")
    word = "diverges" if counts["diverges"] else "unstable"
    good = counts["agrees"] + counts["rounding"]
    if tally.differ:
        verb = "differs" if tally.differ == 1 else "differ"
        right = leading(f"{tally.differ:,} of {tally.ran:,} {verb} by more than rounding", term("v", word), word)
    elif good:
        told = _all(good, "agree") if good == tally.ran else f"{good:,} of {tally.ran:,} agree"
        right = leading(f"{told} within rounding", "", "rounding" if counts["rounding"] else "agrees")
    else:
        right = leading("nothing to compare", "", "not run")
    open_ = [word for word in ("hazard", "unjudged") if counts[word]]
    told = ", ".join(f"{counts[word]:,} {word}" for word in open_)
    return [tally.name, runs, right, leading(told, term("v", open_[0]), open_[0]) if open_ else ""]


def _does(count: int) -> str:
    return "does" if count == 1 else "do"


def _all(count: int, verb: str) -> str:
    """`all 80 run`, `the only one runs`."""
    return f"the only one {verb}s" if count == 1 else f"all {count:,} {verb}"


def mood_of(campaign: Campaign) -> str:
    found = {finding.category for finding in campaign.new}
    if found & {"divergence", "unstable", "metamorphic"}:
        return "diverges"
    if found:
        return "failed"
    return "unjudged" if campaign.unjudged or not _tallies(campaign) else "agrees"


def _created(data: sqlite3.Connection) -> str:
    row = data.execute("SELECT value FROM meta WHERE key = 'created'").fetchone()
    return str(row[0]) if row else ""


def _strip(campaign: Campaign, created: str) -> list[tuple[str, str]]:
    versions, plan = dict(campaign.versions), campaign.plan
    first = [(name, versions.pop(name)) for name in ("mindgap", "torch") if name in versions]
    devices = dict.fromkeys(item.device for item in (*campaign.platforms, *campaign.fragment_platforms) if item.device)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in plan.shares.items())
    done, due = (
        sum(getattr(item, what) for item in (*campaign.platforms, *campaign.fragment_platforms))
        for what in ("done", "due")
    )
    started = campaign.runs[-1].started if campaign.runs else created
    return [
        *first,
        *versions.items(),
        ("device", ", ".join(devices)),
        ("last run", started.replace("T", " ").replace("Z", " UTC")),
        ("seed", str(plan.seed)),
        *([("samples", shares)] if shares else []),
        ("run", f"{done:,} of {due:,} program runs" + _so_far(campaign)),
    ]


def _so_far(campaign: Campaign) -> str:
    """While a campaign runs, or where it was stopped: how much of its plan has been made into programs."""
    made, planned = campaign.variants + campaign.fragments, campaign.plan.variants
    return f", {made:,} of {planned:,} programs so far" if made < planned else ""


def _label(item: PlatformCounts, campaign: Campaign) -> str:
    return f"{item.name} {item.version}" if item.name in campaign.changed_versions else item.name


def _bars(rows: Sequence[tuple[str, Mapping[str, int], str]], words: Sequence[str], key: str) -> tuple[Bar, ...]:
    """Rows with their counts and the filter of what they count; `key` adds the word to that filter."""
    found = []
    for row, counts, query in rows:
        total = sum(counts.get(word, 0) for word in words)
        found += [
            Bar(row, word, counts[word], total, to("runs", f"{query} {term(key, word)}"))
            for word in words
            if counts.get(word)
        ]
    return tuple(found)


def figures_of(campaign: Campaign, pairs: Sequence[Any]) -> Iterator[Figure]:
    """The study's figures for one campaign."""
    others = [item for item in campaign.platforms if item.name != BASELINE]
    if campaign.variants:
        ran = [(_label(i, campaign), i.statuses, f"{term('p', i.name)} kind:variant") for i in campaign.platforms]
        yield Figure(
            "execution", "What runs", f"Outcomes of {campaign.whole}s per platform (the study's figure 3).",
            _bars(ran, STATUSES, "s"), STATUSES,
        )  # fmt: skip
        judged = [(_label(i, campaign), i.conclusions, f"{term('p', i.name)} kind:variant") for i in others]
        yield Figure(
            "consistency", "Whether the answers are right",
            f"Outputs of {campaign.whole}s next to eager and float64 (the study's figure 4).",
            _bars(judged, JUDGED, "v"), JUDGED,
        )  # fmt: skip
        yield from _pair_figure([pair for pair in pairs if pair.kind == "variant"], campaign.whole)
    compiled = [item for item in others if item.compiles]
    if compiled:
        words = (*JUDGED, Conclusion.FAILED.value)
        against = [
            (f"{_label(i, campaign)} against {eager_of(i.name)}", i.against_eager, f"{term('p', i.name)} kind:variant")
            for i in compiled
        ]
        yield Figure(
            "compiled", "Compiled against eager",
            "torch.compile next to eager of the same device (the study's figure 5).",
            _bars(against, words, "v"), words,
        )  # fmt: skip
    small = [item for item in campaign.fragment_platforms if item.name != BASELINE]
    if small:
        words = (*JUDGED, Conclusion.FAILED.value)
        rows = [(_label(i, campaign), i.conclusions, f"{term('p', i.name)} kind:fragment") for i in small]
        yield Figure(
            "fragments", "Fragments", "Verdicts on fragments: a few operators of a real program, changed.",
            _bars(rows, words, "v"), words,
        )  # fmt: skip


def _pair_figure(pairs: Sequence[Any], whole: str) -> Iterator[Figure]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for pair in pairs:
        if BASELINE not in (pair.first, pair.second):  # that is the figure before
            counts.setdefault((pair.first, pair.second), Counter())[pair.how] += pair.count
    if counts:
        bars = [
            Bar(f"{a} and {b}", word, found[word], sum(found.values()), f"#/consistency?ref={a}")
            for (a, b), found in counts.items()
            for word in PAIRED
            if found[word]
        ]
        yield Figure(
            "pairs", "Platforms next to each other", f"Outputs of {whole}s that both ran.", tuple(bars), PAIRED
        )


def _tables(campaign: Campaign) -> Iterator[Table]:
    counts: Counter[tuple[str, str]] = Counter()
    for finding in campaign.findings:
        for platform in finding.platforms:
            counts[platform, finding.cause_word] += 1
    causes = list(dict.fromkeys(word for _, word in counts))
    causes.sort(key=lambda word: (word in ("not explained", "does not run"), word))
    rows = []
    for platform in dict.fromkeys(name for name, _ in counts):
        row: list[Any] = [platform]
        for cause in causes:
            count = counts[platform, cause]
            query = f"{term('p', platform)} {term('cause', cause)}"
            row.append(Link(str(count), to("findings", query)) if count else "")
        rows.append(row)
    if rows:
        yield Table("Issues by platform and cause (the study's table 1)", ["platform", *causes], rows)


def _first(campaign: Campaign) -> list[Entry]:
    """Causes, ranked by how many models they touch; what gives wrong answers before what does not run.

    Divergences that were not traced share a line whatever their causes are: they come after those that name theirs.
    """
    divergences, failures, _ = split(campaign)
    ranked = [*sorted(divergences, key=lambda f: (f.is_vague, _reach(f))), *sorted(failures, key=_reach)]
    number = {id(finding): n for n, finding in enumerate(campaign.findings)}
    entries = []
    for finding in ranked[:MOST_FIRST]:
        kinds = [(finding.bases, "model"), (finding.variants, "variant"), (finding.fragments, "fragment")]
        entries.append(
            Entry(
                head_of(finding),
                cause_of(finding) if finding.explanation and finding.explanation.cause.remark else story(finding),
                f"#/finding/{page_id(finding, number[id(finding)])}",
                ", ".join(many(count, word) for count, word in kinds if count),
            )
        )
    return entries


def _reach(finding: Finding) -> tuple[int, int]:
    return -finding.bases, -finding.variants - finding.fragments


def _findings(campaign: Campaign) -> dict[str, Any]:
    rows = [
        [
            page_id(finding, number),
            finding.category,
            " ".join(finding.platforms),
            operator_of(finding),
            finding.kind,
            finding.bases,
            finding.variants,
            finding.fragments,
            finding.error_over_bound,
            finding.cause_word,
            finding.known,
            story(finding),
        ]
        for number, finding in enumerate(campaign.findings[:MOST_FINDINGS])
    ]
    return {
        "titles": FINDING_COLUMNS, "rows": rows, "total": len(campaign.findings),
        "caption": "Findings, one per root cause",
    }  # fmt: skip


def _ran(campaign: Campaign) -> dict[str, dict[str, tuple[int, int]]]:
    """By kind of program and platform: how many ran, of how many that are due."""
    kinds = {"variant": campaign.platforms, "fragment": campaign.fragment_platforms}
    idle = dict.fromkeys(_idle(campaign), (0, 0))
    return {
        kind: idle | {_label(item, campaign): (item.done, item.due) for item in items if item.name != BASELINE}
        for kind, items in kinds.items()
    }


def _known_cells(campaign: Campaign) -> set[tuple[str, str]]:
    """Models, by fingerprint, and platforms of which everything that was found is known elsewhere."""
    found: dict[tuple[str, str], bool] = {}
    for finding in campaign.findings:
        for item in finding.evidence:
            key = (item.base, item.platform)
            found[key] = found.get(key, True) and bool(finding.known)
    return {key for key, is_known in found.items() if is_known}
