"""A campaign for readers: what did not run, what diverges, which platform is wrong, what to look at first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mindgap.campaign.plan import BASELINE, eager_of
from mindgap.campaign.progress import EXPLAIN, RELATIONS, RUN, Snapshot
from mindgap.campaign.reader import AtFault, Campaign, PlatformCounts, Yield
from mindgap.records.finding import Finding
from mindgap.records.outcome import Status
from mindgap.records.progress import duration
from mindgap.records.verdict import Blame, Conclusion
from mindgap.report.markdown import cell, markdown_table
from mindgap.report.summary import many, multiple

Table = tuple[list[str], list[list[str]]]
"""Titles and rows."""

SHOWN: Final = 12
"""Findings per section on a terminal; the Markdown page has all."""

FAILED: Final = (Status.UNSUPPORTED, Status.REJECTED, Status.ERROR, Status.CRASH, Status.TIMEOUT, Status.OOM)
JUDGED: Final = (
    Conclusion.AGREES, Conclusion.ROUNDING, Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.HAZARD,
    Conclusion.UNJUDGED,
)  # fmt: skip


def headline(campaign: Campaign) -> str:
    names = ", ".join(dict.fromkeys(i.name for i in (*campaign.platforms, *campaign.fragment_platforms)))
    if campaign.plan.unmodified:
        return f"{many(campaign.variants, campaign.whole)} on {names}"
    kinds = [(campaign.variants, "variant"), (campaign.fragments, "fragment")]
    made = " and ".join(many(count, word) for count, word in kinds if count) or many(0, "variant")
    return f"{made} of {many(campaign.bases, 'real model')} on {names}"


def sections(campaign: Campaign, most: int | None = None) -> Iterator[tuple[str, Table]]:
    """The tables of a summary with their titles; `most` limits the findings and yields in each."""
    if campaign.variants or not campaign.fragments:
        yield "What ran", execution_table(campaign)
        yield from consistency_tables(campaign)
    if campaign.fragments:
        yield "Fragments", fragments_table(campaign)
    yield from yield_sections(campaign, most)
    titles = ("What diverges", "What did not run", "Already known")
    makers = (findings_table, failures_table, known_table)
    for title, make, found in zip(titles, makers, split(campaign)):
        if found:
            yield _cut(title, found, most), make(found[:most])


def execution_table(campaign: Campaign) -> Table:
    """What did not run (the study's figure 3)."""
    shown = [status for status in FAILED if any(item.statuses.get(status.value) for item in campaign.platforms)]
    titles = ["platform", "ran", "ok", *(status.value for status in shown), "waiting"]
    rows = []
    for item in campaign.platforms:
        parts = [_part(item.statuses.get(word, 0), item.done) for word in ("ok", *(s.value for s in shown))]
        rows.append([_name(item, campaign), str(item.done), *parts, str(item.due - item.done or "")])
    return titles, rows


def fragments_table(campaign: Campaign) -> Table:
    """What platforms did with fragments: those that a platform refuses as a rule wait until the others are done."""
    titles = ["platform", "ran", "refused", "died", "agrees", "rounding", "diverges", "seen only in a crowd", "waiting"]
    rows = []
    for item in campaign.fragment_platforms:
        if item.name == BASELINE:
            continue
        refused = sum(item.statuses.get(s.value, 0) for s in (Status.UNSUPPORTED, Status.REJECTED, Status.ERROR))
        dead = sum(item.statuses.get(s.value, 0) for s in (Status.CRASH, Status.TIMEOUT, Status.OOM))
        counts = [item.conclusions.get(c.value, 0) for c in (Conclusion.AGREES, Conclusion.ROUNDING)]
        diverged = item.conclusions.get(Conclusion.DIVERGES.value, 0)
        parts = [_part(count, item.done) for count in (refused, dead, *counts, diverged)]
        vanished = str(campaign.crowd_only.get(item.name, 0))
        rows.append([_name(item, campaign), str(item.done), *parts, vanished, str(item.due - item.done or "")])
    return titles, rows


def yield_sections(campaign: Campaign, most: int | None = None) -> Iterator[tuple[str, Table]]:
    """What platforms, mutations and operators brought, fragments and whole variants apart."""
    if not any(item.divergences for item in campaign.platform_yields):
        return
    yield "What each platform brought", platform_yields_table(campaign)
    for is_fragment, kind in ((True, "fragments"), (False, "whole variants")):
        found = [item for item in campaign.yields if item.is_fragment is is_fragment and item.divergences]
        if found:
            yield _cut(f"What each mutation brought in {kind}", found, most), yields_table(found[:most])
    if campaign.at_fault:
        title = _cut("What each operator brought", campaign.at_fault, most)
        yield title, at_fault_table(campaign.at_fault[:most])


def _cut(title: str, rows: Sequence[object], most: int | None) -> str:
    return f"{title} (the first {most} of {len(rows)})" if most is not None and len(rows) > most else title


_BROUGHT: Final = ["programs", "diverge", "operators at fault", "per hour of its time"]


def _brought(item: Yield) -> list[str]:
    return [f"{item.programs:,}", f"{item.divergences:,}", str(item.operators), f"{item.per_hour:.0f}"]


def platform_yields_table(campaign: Campaign) -> Table:
    """What each platform brought with fragments, and with whole variants."""
    others = [item for item in campaign.platform_yields if item.platform != BASELINE]
    kinds = {True: "fragments", False: "whole variants"}
    return ["platform", "of", *_BROUGHT], [[y.platform, kinds[y.is_fragment], *_brought(y)] for y in others]


def yields_table(yields: Sequence[Yield]) -> Table:
    """Which mutations find faults, the best first."""
    return ["platform", "mutation", *_BROUGHT], [[y.platform, y.mutation, *_brought(y)] for y in yields]


def at_fault_table(found: Sequence[AtFault]) -> Table:
    """Which operators are at fault, the most frequent first."""
    titles = ["platform", "operator", "kind", "fragments", "whole variants"]
    return titles, [[f.platform, f.operator, f.kind, f"{f.fragments:,}", f"{f.variants:,}"] for f in found]


def _name(item: PlatformCounts, campaign: Campaign) -> str:
    """The platform, with its version where the campaign has several."""
    return f"{item.name} {item.version}" if item.name in campaign.changed_versions else item.name


def consistency_tables(campaign: Campaign) -> Iterator[tuple[str, Table]]:
    """How outputs compare with eager's (the study's figure 4), and compiled with eager of its own device (figure 5)."""
    others = [item for item in campaign.platforms if item.name != BASELINE]
    if others:
        names = [[_name(item, campaign)] for item in others]
        yield "Outputs compared with eager", _counts(["platform", "compared"], names, JUDGED,
                                                     [item.conclusions for item in others])  # fmt: skip
    compiled = [item for item in others if item.compiles]
    if compiled:
        names = [[_name(item, campaign), eager_of(item.name) or ""] for item in compiled]
        yield "Compiled against eager", _counts(["compiled", "against", "variants"], names, tuple(Conclusion),
                                                [item.against_eager for item in compiled])  # fmt: skip


def _counts(
    titles: list[str], names: list[list[str]], words: Sequence[Conclusion], counts: list[Mapping[str, int]]
) -> Table:
    """How often each conclusion was drawn; those that never were have no column."""
    shown = [word for word in words if any(found.get(word.value) for found in counts)]
    rows = []
    for named, found in zip(names, counts):
        total = sum(found.get(word.value, 0) for word in words)
        rows.append([*named, str(total), *(_part(found.get(word.value, 0), total) for word in shown)])
    return [*titles, *(_WORDS.get(word, word.value) for word in shown)], rows


_WORDS: Final = {Conclusion.AGREES: "same bits", Conclusion.FAILED: "did not run"}


def findings_table(findings: Sequence[Finding]) -> Table:
    """A row per finding: who is wrong, where, how often, and the smallest witness."""
    titles = [
        "id", "wrong", "what", "operator", "cause", "error / rounding", "variants", "fragments", "models",
        "smallest witness",
    ]  # fmt: skip
    return titles, [
        [
            finding.id,
            wrong(finding),
            finding.kind if finding.category == "divergence" else f"{finding.category} ({finding.kind})",
            operator_of(finding),
            cause_of(finding),
            multiple(finding.error_over_bound),
            str(finding.variants),
            str(finding.fragments),
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
    cut = "" if found is None else f" cut to {len(found.proof.operators)}"
    return f"#{witness.program} {witness.name}, {many(witness.nodes, 'node')}{cut}"


def failures_table(findings: Sequence[Finding]) -> Table:
    titles = ["id", "platform", "what", "stage", "operator", "variants", "fragments", "models", "message"]
    return titles, [
        [f.id, ", ".join(f.platforms), f.kind, f.stage, operator_of(f), str(f.variants), str(f.fragments), str(f.bases),
         f.message]
        for f in findings
    ]  # fmt: skip


def known_table(findings: Sequence[Finding]) -> Table:
    titles = ["id", "known as", "wrong", "operator", "variants"]
    return titles, [[f.id, f.known, wrong(f), operator_of(f), str(f.variants)] for f in findings]


def wrong(finding: Finding) -> str:
    """Who is farther from float64."""
    names = ", ".join(finding.platforms)
    if finding.blame == Blame.UNCLEAR.value:
        return f"{names} or eager"
    return f"{names} and eager" if finding.blame == Blame.BOTH.value else names


def split(campaign: Campaign) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """New divergences, new failures, and known findings."""
    new = [finding for finding in campaign.findings if not finding.known]
    failures = [finding for finding in new if finding.category == "failure"]
    return [f for f in new if f.category != "failure"], failures, [f for f in campaign.findings if f.known]


def undecided(campaign: Campaign) -> list[str]:
    """What was not judged, or is only a hazard, and why."""
    lines = []
    hazards = sum(campaign.hazards.values())
    if hazards:
        rules = ", ".join(f"{rule} {count}" for rule, count in list(campaign.hazards.items())[:4])
        lines.append(f"{many(hazards, 'hazard')}, where behaviour is unspecified: {rules}")
    unjudged = sum(campaign.unjudged.values())
    if unjudged:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in list(campaign.unjudged.items())[:3])
        lines.append(f"{many(unjudged, 'output')} could not be judged: {reasons}")
    for items, word in ((campaign.platforms, "variant"), (campaign.fragment_platforms, "fragment")):
        waiting = [item for item in items if item.due > item.done]
        lines += [f"{item.name} has {many(item.due - item.done, word)} still to run" for item in waiting]
    ran = {item.name for item in campaign.platforms if item.done}
    for name in campaign.plan.platforms if campaign.variants else ():
        if name not in ran:
            sample = f": its sample is {campaign.plan.shares[name]:.0%}" if name in campaign.plan.shares else ""
            lines.append(f"{name} ran no {campaign.whole}{sample}")
    vanished = sum(campaign.crowd_only.values())
    if vanished:
        lines.append(f"{many(vanished, 'difference')} seen only in a crowd or by a shortcut: gone when run as users do")
    for name in campaign.changed_versions:
        versions = " and ".join(item.version for item in campaign.platforms if item.name == name)
        lines.append(f"{name} ran in versions {versions}, which are counted separately")
    nameless = sum(f.is_vague for f in campaign.new)
    if nameless:
        lines.append(f"{many(nameless, 'divergence')} not traced to an operator yet; mindgap explain --all traces them")
    return lines


def first_looks(campaign: Campaign) -> list[str]:
    """The findings to open first, in words; those whose cause is not narrowed down come later."""
    divergences, failures, _ = split(campaign)
    ranked = [*sorted(divergences, key=lambda finding: finding.is_vague), *failures]
    return [f"{finding.id}  {_story(finding)}" for finding in ranked[:3]]


def _story(finding: Finding) -> str:
    kinds = [(finding.variants, "variant"), (finding.fragments, "fragment")]
    seen = " and ".join(many(count, word) for count, word in kinds if count)
    where = f"{seen} of {many(finding.bases, 'model')}"
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
    why = "Time is up" if reason == "time" else "Interrupted"
    return f"{why}; everything so far is saved. To continue: mindgap hunt --resume {directory}"


def progress_text(now: Snapshot, noun: str = "variants") -> str:
    """A campaign at one moment, in one line; `noun` is what it runs."""
    if now.paused:
        return f"paused: {' '.join(now.paused.split())}"
    left = "" if now.left_s is None else f", {duration(now.left_s)} left"
    if now.phase == RELATIONS:
        held = ", ".join(f"{name} {lane.done} of {lane.total}" for name, lane in now.relations.items() if lane.owed)
        return f"running programs that must agree with each other{f': {held}' if held else ''}{left}"
    if now.phase == EXPLAIN:
        kinds = ((now.explanations, "explanations"), (now.traces, "traces"))
        told = ", ".join(f"{lane.done} of {lane.total} {noun}" for lane, noun in kinds if lane.total)
        if now.left_s == 0 and (now.explanations.owed or now.traces.owed):
            left = "; their time is over, the one at hand is being finished"
        return f"explaining findings: {told}{left}" if told else "explaining findings"
    bad = {word: now.conclusions.get(word, 0) for word in ("diverges", "failed", "unstable", "unjudged")}
    found = ", ".join(f"{count} {word}" for word, count in bad.items() if count) or "nothing flagged"
    found += f" ({many(now.kinds, 'kind')} of finding, {now.explained} explained)" if now.kinds else ""
    behind = ", ".join(_lagging(now))
    rate = f", {now.rate:.1f}/s" if now.phase == RUN else ""
    rest = f"; {many(now.judging, 'verdict')} waiting" if now.judging else ""
    return f"{now.finished} of {now.total} {noun}{rate}{left}; {f'{behind}; ' if behind else ''}{found}{rest}"


def _lagging(now: Snapshot) -> Iterator[str]:
    """Platforms that are behind the variants, or have not even finished one."""
    for name, lane in now.platforms.items():
        if lane.owed and lane.done / lane.total < now.finished / now.total - 0.05:
            yield f"{name} {lane.done} of {lane.total}"


def campaign_markdown(campaign: Campaign) -> str:
    """The whole summary as a page."""
    versions = ", ".join(f"{name} {version}" for name, version in campaign.versions.items())
    lines = [f"# {headline(campaign)}", "", f"Seed {campaign.plan.seed}. {versions}.", ""]
    looks = [f"- {cell(look)}" for look in first_looks(campaign)]
    lines += ["## What to look at first", "", *(looks or ["Nothing was found."]), ""]
    for title, table in sections(campaign):
        lines += [f"## {title}", "", *markdown_table(*table), ""]
    told = [f"- **{f.id}** {cell(f.witness.sentence)}" for f in split(campaign)[0]]
    lines += ["## In words", "", *told, ""] if told else []
    left = [f"- {cell(line)}" for line in undecided(campaign)]
    lines += ["## What was not decided", "", *left, ""] if left else []
    return "\n".join(lines)


def _part(count: int, total: int) -> str:
    if not count:
        return "0"
    share = 100 * count / total
    return f"{count} ({share:.0f}%)" if share >= 10 or share == int(share) else f"{count} ({share:.1f}%)"
