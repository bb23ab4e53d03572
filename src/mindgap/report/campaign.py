"""A campaign for readers: what did not run, what diverges, who is wrong, what to look at first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mindgap.campaign.plan import BASELINE, eager_of
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import Campaign, PlatformCounts
from mindgap.records.finding import Finding
from mindgap.records.outcome import Status
from mindgap.records.verdict import Blame, Conclusion
from mindgap.report.markdown import cell, markdown_table
from mindgap.report.summary import multiple

Table = tuple[list[str], list[list[str]]]
"""Titles and rows."""

SHOWN: Final = 12
"""Findings of one section on a terminal; the Markdown page has all."""

FAILED: Final = (Status.UNSUPPORTED, Status.REJECTED, Status.ERROR, Status.CRASH, Status.TIMEOUT, Status.OOM)
JUDGED: Final = (
    Conclusion.AGREES, Conclusion.ROUNDING, Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.HAZARD,
    Conclusion.UNJUDGED,
)  # fmt: skip


def headline(campaign: Campaign) -> str:
    names = ", ".join(item.name for item in campaign.platforms)
    return f"{_many(campaign.variants, 'variant')} of {_many(campaign.bases, 'real model')} on {names}"


def execution_table(campaign: Campaign) -> Table:
    """What did not run (the study's figure 3)."""
    shown = [status for status in FAILED if any(item.statuses.get(status.value) for item in campaign.platforms)]
    titles = ["platform", "ran", "ok", *(status.value for status in shown), "waiting"]
    rows = []
    for item in campaign.platforms:
        ok = item.statuses.get("ok", 0)
        failures = [_part(item.statuses.get(status.value, 0), item.done) for status in shown]
        waiting = str(item.due - item.done or "")
        rows.append([shown_name(item, campaign), str(item.done), _part(ok, item.done), *failures, waiting])
    return titles, rows


def shown_name(item: PlatformCounts, campaign: Campaign) -> str:
    """The platform, with its version where the campaign has several."""
    return f"{item.name} {item.version}" if item.name in campaign.changed_versions else item.name


def consistency_table(platforms: Sequence[PlatformCounts]) -> Table:
    """How outputs compare with eager's (figures 4 and 5)."""
    shown = [word for word in JUDGED if any(item.conclusions.get(word.value) for item in platforms)]
    rows = []
    for item in platforms:
        total = sum(item.conclusions.get(word.value, 0) for word in JUDGED)
        rows.append([item.name, str(total), *(_part(item.conclusions.get(w.value, 0), total) for w in shown)])
    return ["platform", "compared", *(_WORDS.get(word, word.value) for word in shown)], rows


_WORDS: Final = {Conclusion.AGREES: "same bits", Conclusion.FAILED: "did not run"}


def consistency_tables(campaign: Campaign) -> Iterator[tuple[str, Table]]:
    """Across platforms, and compiled against eager."""
    others = [item for item in campaign.platforms if item.name != BASELINE]
    if others:
        yield "Outputs compared with eager", consistency_table(others)
    compiled = [item for item in others if item.compiles]
    if compiled:
        yield "Compiled against eager", compiled_table(compiled)


def compiled_table(platforms: Sequence[PlatformCounts]) -> Table:
    """Each compiler next to eager of its own device: what it did not compile, and what it changed."""
    words = [word for word in Conclusion if any(item.against_eager.get(word.value) for item in platforms)]
    rows = []
    for item in platforms:
        total = sum(item.against_eager.values())
        shown = [_part(item.against_eager.get(word.value, 0), total) for word in words]
        rows.append([item.name, eager_of(item.name) or "", str(total), *shown])
    return ["compiled", "against", "variants", *(_WORDS.get(word, word.value) for word in words)], rows


def findings_table(findings: Sequence[Finding]) -> Table:
    """One row each: who is wrong, where, how often, and the smallest witness."""
    titles = ["id", "wrong", "what", "operator", "cause", "error / rounding", "variants", "models", "smallest witness"]
    return titles, [
        [
            finding.id,
            wrong(finding),
            _what(finding),
            operator_of(finding),
            cause_of(finding),
            multiple(finding.error_over_bound),
            str(finding.variants),
            str(finding.bases),
            _witness(finding),
        ]
        for finding in findings
    ]


def operator_of(finding: Finding) -> str:
    """The operator at fault, or how far that is known."""
    if finding.operator:
        return finding.operator
    if finding.explanation is not None:
        return finding.explanation.operator
    traced = any(item.operator is not None for item in finding.evidence)
    return "none alone" if traced else "not traced yet" if finding.category == "divergence" else ""


def cause_of(finding: Finding) -> str:
    """Why it differs, in a few words."""
    if finding.explanation is None:
        return ""
    cause = finding.explanation.cause
    return f"{cause.kind.value}: {cause.remark}" if cause.remark else cause.kind.value


def _witness(finding: Finding) -> str:
    witness, found = finding.witness, finding.explanation
    name = f"#{witness.program} {witness.name}"
    if found is None:
        return f"{name}, {_many(witness.nodes, 'node')}"
    return f"{name}, {_many(witness.nodes, 'node')} cut to {len(found.proof.operators)}"


def failures_table(findings: Sequence[Finding]) -> Table:
    titles = ["id", "platform", "what", "stage", "variants", "models", "message"]
    return titles, [
        [f.id, ", ".join(f.platforms), f.kind, f.stage, str(f.variants), str(f.bases), f.message] for f in findings
    ]


def wrong(finding: Finding) -> str:
    """Who is farther from float64."""
    names = ", ".join(finding.platforms)
    if finding.blame == Blame.UNCLEAR.value:
        return f"{names} or eager"
    return f"{names} and eager" if finding.blame == Blame.BOTH.value else names


def _what(finding: Finding) -> str:
    return finding.kind if finding.category == "divergence" else f"{finding.category} ({finding.kind})"


def split(campaign: Campaign) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """New divergences, new failures, and what is known already."""
    new = [finding for finding in campaign.findings if not finding.known]
    failures = [finding for finding in new if finding.category == "failure"]
    return [f for f in new if f.category != "failure"], failures, [f for f in campaign.findings if f.known]


def undecided(campaign: Campaign) -> list[str]:
    """What was not judged or only a hazard, with its reasons."""
    lines = []
    hazards = sum(campaign.hazards.values())
    if hazards:
        rules = ", ".join(f"{rule} {count}" for rule, count in list(campaign.hazards.items())[:4])
        lines.append(f"{_many(hazards, 'verdict')} only a hazard, where behaviour is unspecified: {rules}")
    unjudged = sum(campaign.unjudged.values())
    if unjudged:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in list(campaign.unjudged.items())[:3])
        lines.append(f"{_many(unjudged, 'verdict')} could not be made: {reasons}")
    waiting = [item for item in campaign.platforms if item.due > item.done]
    lines += [f"{item.name} has {_many(item.due - item.done, 'variant')} still to run" for item in waiting]
    for name in campaign.changed_versions:
        versions = " and ".join(item.version for item in campaign.platforms if item.name == name)
        lines.append(f"{name} ran in versions {versions}, which are counted apart")
    nameless = sum(f.category == "divergence" and not f.operator and f.explanation is None for f in campaign.new)
    if nameless:
        lines.append(f"{_many(nameless, 'divergence')} not traced to an operator yet: mindgap explain --all does it")
    return lines


def first_looks(campaign: Campaign) -> list[str]:
    """The findings to open first, in words."""
    divergences, failures, _ = split(campaign)
    return [f"{finding.id}  {_story(finding)}" for finding in (divergences + failures)[:3]]


def _story(finding: Finding) -> str:
    where = f"{_many(finding.variants, 'variant')} of {_many(finding.bases, 'model')}"
    if finding.category == "failure":
        return (
            f"{', '.join(finding.platforms)}: {finding.kind} at {finding.stage} in {where}: {finding.witness.message}"
        )
    cause = cause_of(finding)
    why = f" ({cause})" if cause else ""
    return f"{wrong(finding)}: {operator_of(finding)}{why} in {where}: {finding.witness.sentence}"


def ending_line(reason: str, directory: str) -> str:
    if reason == "done":
        return f"The campaign is complete; its ledger and summary.md are in {directory}."
    why = "The time is over" if reason == "time" else "Interrupted"
    return f"{why}; everything so far is kept. Go on with: mindgap hunt --resume {directory}"


def progress_text(now: Snapshot) -> str:
    """A campaign at one moment, in one line."""
    if now.paused:
        return f"paused: {' '.join(now.paused.split())}"
    if now.phase == "relations":
        asked = f"{now.noted[0]} of {now.noted[1]} variants"
        return f"asking each platform about programs that must agree with each other: {asked}"
    if now.phase == "explain":
        return f"finding operators and causes: {now.noted[0]} of {now.noted[1]}"
    left = f", {_time(now.left_s)} left" if now.left_s is not None and now.phase == "run" else ""
    bad = {word: now.conclusions.get(word, 0) for word in ("diverges", "failed", "unstable", "unjudged")}
    found = ", ".join(f"{count} {word}" for word, count in bad.items() if count) or "nothing flagged"
    found += f" ({_many(now.kinds, 'kind')} of finding, {now.explained} explained)" if now.kinds else ""
    waiting = ", ".join(f"{name} {item.waiting}" for name, item in now.platforms.items() if item.waiting)
    rest = f"; waiting: {waiting}" if waiting else ""
    rest += f", verdicts {now.judging}" if now.judging else ""
    return f"{now.finished} of {now.total} variants, {now.rate:.1f}/s{left}; {found}{rest}"


def campaign_markdown(campaign: Campaign) -> str:
    """The whole summary as a page."""
    divergences, failures, known = split(campaign)
    versions = ", ".join(f"{name} {version}" for name, version in campaign.versions.items())
    lines = [f"# {headline(campaign)}", "", f"Seed {campaign.plan.seed}. {versions}.", ""]
    looks = first_looks(campaign)
    lines += ["## What to look at first", "", *([f"- {cell(look)}" for look in looks] or ["Nothing was found."]), ""]
    lines += ["## What ran", "", *markdown_table(*execution_table(campaign)), ""]
    for title, table in consistency_tables(campaign):
        lines += [f"## {title}", "", *markdown_table(*table), ""]
    if divergences:
        lines += ["## What diverges", "", *markdown_table(*findings_table(divergences)), ""]
        lines += [f"- **{f.id}** {cell(f.witness.sentence)}" for f in divergences] + [""]
    if failures:
        lines += ["## What did not run", "", *markdown_table(*failures_table(failures)), ""]
    if known:
        rows = [[f.id, f.known, wrong(f), operator_of(f), str(f.variants)] for f in known]
        lines += [
            "## Known already",
            "",
            *markdown_table(["id", "known as", "wrong", "operator", "variants"], rows),
            "",
        ]
    open_ = undecided(campaign)
    if open_:
        lines += ["## What was not decided", "", *(f"- {cell(line)}" for line in open_), ""]
    return "\n".join(lines)


def _part(count: int, total: int) -> str:
    if not count:
        return "0"
    share = 100 * count / total
    return f"{count} ({share:.0f}%)" if share >= 10 or share == int(share) else f"{count} ({share:.1f}%)"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
