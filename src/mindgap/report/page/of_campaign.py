"""A campaign as the content of a page."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from mindgap.report.summary import many

STATUSES: Final = tuple(status.value for status in Status)
JUDGED: Final = ("agrees", "rounding", "hazard", "unjudged", "unstable", "diverges")
PAIRED: Final = (SAME, ROUNDING, FAULT, OPEN, DIFFERS)
MOST_FIRST: Final = 6
"""Entries of the list of what to fix first."""
FINDING_COLUMNS: Final = (
    "id", "category", "platform", "operator", "what differs", "models", "error / rounding", "cause", "in words",
    "variants", "fragments", "known",
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
        not_decided=undecided(campaign),
        figures=tuple(_figures(campaign, pairs)),
        tables=tuple(_tables(campaign)),
        first=_first(campaign),
        sections=sections,
        details=details,
        method=method_of_campaign(campaign, len(rows), total),
    )


def conclusion_of(campaign: Campaign) -> str:
    """Does it run there, are the answers right, and what could not be judged: one sentence."""
    noun = "program" if campaign.fragments else "variant"
    told = [_told(*tally, noun) for tally in sorted(_tallies(campaign), key=lambda tally: (-tally[2], -tally[3]))]
    if not told:
        return f"Only {BASELINE} ran: there is nothing to compare with."
    judged = sum(campaign.unjudged.values())
    rest = f" {many(judged, 'output')} could not be judged." if judged else ""
    return "; ".join(told) + "." + rest


def _tallies(campaign: Campaign) -> list[tuple[str, int, int, int]]:
    """Of each platform that is compared with eager: programs that ran, that differ, that did not run."""
    found: dict[str, list[int]] = {}
    for item in (*campaign.platforms, *campaign.fragment_platforms):
        if item.name != BASELINE and item.done:
            tally = found.setdefault(_label(item, campaign), [0, 0, 0])
            tally[0] += item.done
            tally[1] += sum(item.conclusions.get(word, 0) for word in ("diverges", "unstable"))
            tally[2] += item.done - item.statuses.get("ok", 0)
    return [(name, done, differ, failed) for name, (done, differ, failed) in found.items()]


def _told(name: str, done: int, differ: int, failed: int, noun: str) -> str:
    """`openvino: 14 of 172 programs differ by more than rounding and 61 do not run`."""
    total = f" of {many(done, noun)}"
    parts = [f"{differ:,}{total} differ{'s' * (differ == 1)} by more than rounding"] if differ else []
    runs = "does" if failed == 1 else "do"
    parts += [f"{failed:,}{'' if differ else total} {runs} not run"] if failed else []
    return f"{name}: {' and '.join(parts) or f'all {many(done, noun)} run and agree within rounding'}"


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
        ("run", f"{done:,} of {due:,} planned program runs"),
    ]


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


def _figures(campaign: Campaign, pairs: Sequence[Any]) -> Iterator[Figure]:
    others = [item for item in campaign.platforms if item.name != BASELINE]
    if campaign.variants:
        ran = [(_label(i, campaign), i.statuses, f"{term('p', i.name)} kind:variant") for i in campaign.platforms]
        yield Figure(
            "execution", "What runs", "Outcomes of whole variants per platform (the study's figure 3).",
            _bars(ran, STATUSES, "s"), STATUSES,
        )  # fmt: skip
        judged = [(_label(i, campaign), i.conclusions, f"{term('p', i.name)} kind:variant") for i in others]
        yield Figure(
            "consistency", "Whether the answers are right",
            "Outputs of whole variants next to eager and float64 (the study's figure 4).",
            _bars(judged, JUDGED, "v"), JUDGED,
        )  # fmt: skip
        yield from _pair_figure([pair for pair in pairs if pair.kind == "variant"])
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


def _pair_figure(pairs: Sequence[Any]) -> Iterator[Figure]:
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
            "pairs", "Platforms next to each other", "Outputs of whole variants that both ran.", tuple(bars), PAIRED
        )


def cause_word(finding: Finding) -> str:
    """The column of a finding in the table of issues."""
    if finding.explanation is not None:
        return finding.explanation.cause.kind.value
    return "does not run" if finding.category == "failure" else "not explained"


def _tables(campaign: Campaign) -> Iterator[Table]:
    counts: Counter[tuple[str, str]] = Counter()
    for finding in campaign.findings:
        for platform in finding.platforms:
            counts[platform, cause_word(finding)] += 1
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
    """Causes, ranked by how many models they touch; what gives wrong answers before what does not run."""
    divergences, failures, _ = split(campaign)
    ranked = [*sorted(divergences, key=_reach), *sorted(failures, key=_reach)]
    number = {id(finding): n for n, finding in enumerate(campaign.findings)}
    entries = []
    for finding in ranked[:MOST_FIRST]:
        kinds = [(finding.bases, "model"), (finding.variants, "variant"), (finding.fragments, "fragment")]
        entries.append(
            Entry(
                head_of(finding),
                cause_of(finding) or story(finding),
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
            finding.error_over_bound,
            cause_word(finding),
            story(finding),
            finding.variants,
            finding.fragments,
            finding.known,
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
    return {
        kind: {_label(item, campaign): (item.done, item.due) for item in items if item.name != BASELINE}
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
