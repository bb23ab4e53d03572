"""Checks, operator sweeps and comparisons as the content of a page."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.known import Known
from mindgap.campaign.matrix import Cell
from mindgap.report.comparison import KINDS, Change, Comparison, summary_rows
from mindgap.report.documents import AuditDocument, CheckDocument, CheckRun, PlatformRow, read_checks, read_document
from mindgap.report.documents import number as as_number
from mindgap.report.page.content import MOST_RUNS, Bar, Content, Entry, Figure, Link, Table, term, to
from mindgap.report.page.matrix import consistency
from mindgap.report.page.method import method_of_results
from mindgap.report.page.of_audit import audit_content
from mindgap.report.page.of_campaign import JUDGED, STATUSES, campaign_content
from mindgap.report.page.of_operators import operators_content
from mindgap.report.page.of_study import study_content
from mindgap.report.results import BAD
from mindgap.report.summary import joined, many, multiple
from mindgap.report.sweeps import is_campaign, is_sweep, operators_of
from mindgap.report.terminal import shortened
from mindgap.study.plan import is_study

FINDING_COLUMNS: Final = (
    "id", "category", "platform", "model", "what differs", "in words", "error / rounding", "blame", "known",
)  # fmt: skip
RUN_COLUMNS: Final = (
    "model", "dtype", "platform", "status", "verdict", "what differs", "error / rounding", "message", "blame", "stage",
    "worst", "ran", "seconds",
)  # fmt: skip
CHANGE_COLUMNS: Final = (
    "change", "subject", "platform", "before", "now", "before / rounding", "now / rounding", "what differs", "why",
)  # fmt: skip
MOST_ANSWERS: Final = 40
"""Rows under the conclusion; the section of runs has all."""
_SAID: Final = {
    "diverges": ("diverges", "diverge"), "unstable": ("is unstable", "are unstable"),
    "failed": ("does not run it", "do not run it"),
    "hazard": ("differs where behaviour is unspecified", "differ where behaviour is unspecified"),
    "unjudged": ("could not be judged", "could not be judged"),
}  # fmt: skip
"""The gravest first; of one platform, of several."""
_LOUD: Final = tuple(_SAID)


def content_of(path: Path, known: Sequence[Known] = ()) -> Content:
    """The page of whatever lies there: a study, a campaign, checks, an operator sweep or an audit."""
    if is_study(path):
        return study_content(path)
    if is_campaign(path) and not is_sweep(path):
        return campaign_content(path, known)
    if (found := operators_of(path)) is not None:
        return operators_content(found)
    if path.is_file() and isinstance(audit := read_document(path), AuditDocument):
        return audit_content(audit)
    return checks_content(read_checks(path))


def checks_content(documents: Sequence[CheckDocument]) -> Content:
    """One model or several, on every platform."""
    runs = [run for document in documents for run in document.runs]
    items = [(run, name, item) for run in runs for name, item in run.platforms.items()]
    names = list(dict.fromkeys(run.model for run in runs))
    title = names[0] if len(names) == 1 else many(len(names), "model")
    loud = [(run, name, item) for run, name, item in items if item.verdict in _LOUD]
    details = [_details(number, *found) for number, found in enumerate(loud, 1)]
    findings = [_finding_row(number, *found) for number, found in enumerate(loud, 1)]
    sections: dict[str, Any] = {
        "consistency": consistency(_cells(items), [], _known(items)),
        "runs": _runs(runs),
    }
    if findings:
        sections["findings"] = {"titles": FINDING_COLUMNS, "rows": findings, "total": len(findings),
                                "caption": "What somebody should look at"}  # fmt: skip
    return Content(
        title=f"{title} on {', '.join(dict.fromkeys(name for _, name, _ in items)) or 'eager alone'}",
        subject="check",
        conclusion=_conclusion(runs, items),
        mood=_mood(runs, items),
        strip=_strip(documents, runs, items),
        not_decided=list(_open(runs, items)),
        figures=tuple(_figures(items)) if len(runs) > 1 else (),
        answers=_answers(items),
        first=[
            Entry(f"{name}: {item.verdict}" + (f" ({item.kind})" if item.kind else ""),
                  item.sentence or item.message, f"#/finding/{number}", run.subject)
            for number, (run, name, item) in enumerate(loud, 1)
            if item.verdict in BAD and not item.known
        ][:6],
        sections=sections,
        details=details,
        method=method_of_results(f"{many(len(items), 'result')} of {many(len(runs), 'check')}; nothing was sampled."),
    )  # fmt: skip


Item = tuple[CheckRun, str, PlatformRow]


def _conclusion(runs: Sequence[CheckRun], items: Sequence[Item]) -> str:
    if len(runs) == 1:
        return _conclusion_of_one(runs[0], items)
    parts = []
    for platform in dict.fromkeys(name for _, name, _ in items):
        counts = Counter(item.verdict for _, name, item in items if name == platform)
        bad = [f"{counts[word]} {said}" for word, said in (("diverges", "wrong"), ("unstable", "unstable"),
                                                           ("failed", "not run")) if counts[word]]  # fmt: skip
        parts.append(f"{platform}: {', '.join(bad) or 'right'} of {sum(counts.values())}")
    return "; ".join(parts) + "."


def _conclusion_of_one(run: CheckRun, items: Sequence[Item]) -> str:
    """Who is wrong, who did not run, who is right; what the check itself said where eager could not run it."""
    if run.eager.outcome != "ok" or not items:
        return run.summary
    parts = []
    for verdict, (one, several) in _SAID.items():
        for is_known, remark in ((False, ""), (True, ", which is known")):
            found = [name for _, name, item in items if item.verdict == verdict and bool(item.known) == is_known]
            parts += [f"{joined(found)} {one if len(found) == 1 else several}{remark}"] if found else []
    fine = [name for _, name, item in items if item.verdict not in _SAID]
    parts += [f"{joined(fine)} {'agrees' if len(fine) == 1 else 'agree'} within rounding"] if fine else []
    return "; ".join(parts) + "."


def _mood(runs: Sequence[CheckRun], items: Sequence[Item]) -> str:
    words = {item.verdict for _, _, item in items if not item.known}
    words |= {"failed"} if any(run.eager.outcome != "ok" for run in runs) else set()
    return next((word for word in ("diverges", "unstable", "failed", "hazard", "unjudged") if word in words), "agrees")


def _strip(
    documents: Sequence[CheckDocument], runs: Sequence[CheckRun], items: Sequence[Item]
) -> list[tuple[str, str]]:
    versions = {key: value for document in documents for key, value in document.versions.items()}
    devices = dict.fromkeys(f"{name}: {item.device}" for _, name, item in items if item.device)
    references = dict.fromkeys(run.reference for run in runs if run.reference)
    return [
        *versions.items(),
        ("devices", ", ".join(devices)),
        ("made", ", ".join(dict.fromkeys(d.created[:16].replace("T", " ") + " UTC" for d in documents))),
        ("seed", ", ".join(dict.fromkeys(str(run.seed) for run in runs))),
        ("dtype", ", ".join(dict.fromkeys(run.dtype for run in runs))),
        ("reference", "; ".join(references)),
    ]


def _open(runs: Sequence[CheckRun], items: Sequence[Item]) -> Iterator[str]:
    for run in runs:
        if run.eager.outcome != "ok":
            yield f"{run.subject}: eager could not run it: {run.eager.message}"
        if run.export_failure:
            yield f"{run.subject} cannot be exported: {run.export_failure}"
        for name, reason in run.left_out.items():
            yield f"{run.subject}: {name} was left out ({reason})"
    for run, name, item in items:
        if item.verdict == "unjudged":
            yield f"{run.subject} on {name}: {item.sentence}"


def _answers(items: Sequence[Item]) -> Table:
    """A row per model and platform; the verdict leads to its page, or to what ran."""
    numbers = itertools.count(1)
    rows = []
    for run, name, item in items[:MOST_ANSWERS]:
        target = f"#/finding/{next(numbers)}" if item.verdict in _LOUD else to("runs", term("p", name))
        ran = item.outcome if item.outcome == "ok" else f"{item.outcome} at {item.stage}"
        rows.append([
            run.subject, name, Link(ran, to("runs", term("p", name)), item.outcome),
            Link(item.verdict, target, item.verdict), multiple(item.error), item.worst or "", f"{item.seconds:.1f} s",
            "known" if item.known else "",
        ])  # fmt: skip
    titles = ["model", "platform", "does it run?", "is it right?", "error / rounding", "worst output", "time", ""]
    shown = [n for n in range(len(titles)) if any(row[n] for row in rows)]
    more = f", the first {MOST_ANSWERS} of {len(items)}" if len(items) > MOST_ANSWERS else ""
    return Table(f"Every platform{more}", [titles[n] for n in shown], [[row[n] for n in shown] for row in rows])


def _figures(items: Sequence[Item]) -> Iterator[Figure]:
    for ident, title, caption, words, pick, key in (
        ("execution", "What runs", "Outcomes per platform (the study's figure 3).", STATUSES, "outcome", "s"),
        ("consistency", "Whether the answers are right", "Verdicts per platform (the study's figure 4).",
         JUDGED, "verdict", "v"),
    ):  # fmt: skip
        bars = []
        for platform in dict.fromkeys(name for _, name, _ in items):
            counts = Counter(getattr(item, pick) for _, name, item in items if name == platform)
            total = sum(counts[word] for word in words)
            bars += [
                Bar(platform, word, counts[word], total, to("runs", f"{term('p', platform)} {term(key, word)}"))
                for word in words
                if counts[word]
            ]
        if bars:
            yield Figure(ident, title, caption, tuple(bars), words)


def _cells(items: Sequence[Item]) -> list[Cell]:
    return [Cell(run.subject, run.subject, "variant", name, {item.verdict: 1}, item.error) for run, name, item in items]


def _known(items: Sequence[Item]) -> set[tuple[str, str]]:
    return {(run.subject, name) for run, name, item in items if item.known}


def _runs(runs: Sequence[CheckRun]) -> dict[str, Any]:
    rows: list[list[Any]] = []
    for run in runs:
        rows.append([run.model, run.dtype, "eager", run.eager.outcome, "", "", None, run.eager.message, "",
                     run.eager.stage, "", "", run.eager.seconds])  # fmt: skip
        rows += [
            [run.model, run.dtype, name, i.outcome, i.verdict, i.kind or "", i.error, i.message or i.sentence,
             i.blame or "", i.stage, i.worst or "", i.ran or "", i.seconds]
            for name, i in run.platforms.items()
        ]  # fmt: skip
    return {"titles": RUN_COLUMNS, "rows": rows[:MOST_RUNS], "total": len(rows), "caption": "What every platform did"}


def _category(item: PlatformRow) -> str:
    return {"failed": "failure", "unstable": "unstable", "hazard": "hazard"}.get(item.verdict, "divergence")


def _finding_row(number: int, run: CheckRun, name: str, item: PlatformRow) -> list[Any]:
    kind = item.kind or (item.outcome if item.verdict == "failed" else "")
    return [str(number), _category(item), name, run.subject, kind, item.sentence or item.message, item.error,
            item.blame or "", item.known]  # fmt: skip


def _details(number: int, run: CheckRun, name: str, item: PlatformRow) -> dict[str, Any]:
    facts = [
        ("model", [run.subject]),
        ("platform", [f"{name} {item.version} {item.device}".strip()]),
        ("outcome", [item.outcome if item.outcome == "ok" else f"{item.outcome} at {item.stage}"]),
        ("verdict", [item.verdict + (f" ({item.kind})" if item.kind else "")]),
        ("error / rounding", [multiple(item.error)] if item.error else []),
        ("worst output", [item.worst] if item.worst else []),
        ("blame", [item.blame] if item.blame else []),
        ("rule", [item.rule] if item.rule else []),
        ("message", [item.message] if item.message else []),
        ("note", [item.note] if item.note else []),
        ("next", [f"mindgap explain {run.model} --on {name}"] if item.verdict == "diverges" else []),
    ]
    return {
        "id": str(number), "head": f"{name}: {item.verdict}", "category": _category(item), "kind": item.kind or "",
        "known": item.known, "sentence": item.sentence or item.message, "log": item.log_tail,
        "platform": name,
        "elements": [[e.place, e.candidate, e.eager, e.float64, as_number(e.error_over_bound)] for e in item.elements],
        "facts": [(label, said) for label, said in facts if said],
    }  # fmt: skip


def _kind(change: Change) -> str:
    shown = change.new or change.old
    return shown.kind if shown is not None else ""


def comparison_content(comparison: Comparison) -> Content:
    """What an upgrade changed, on the same page as everything else."""
    counts: Mapping[str, int] = {what: comparison.count(what) for what in KINDS}
    rows = [
        [c.what, c.subject, c.platform, c.old.word if c.old else "not run", c.new.word if c.new else "not run",
         c.old.error if c.old else None, c.new.error if c.new else None, _kind(c),
         shortened(c.said)]
        for c in comparison.changes[:MOST_RUNS]
    ]  # fmt: skip
    words = tuple(KINDS)
    platforms = [row[0] for row in summary_rows(comparison)]
    tally = Counter((c.platform, c.what) for c in comparison.changes)
    bars = [
        Bar(name, word, tally[name, word], sum(tally[name, w] for w in words),
            to("changes", f"{term('is', word)} {term('p', name)}"))
        for name in platforms
        for word in words
        if tally[name, word]
    ]  # fmt: skip
    versions = [[name, before, after] for name, (before, after) in comparison.changed_versions.items()]
    linked = [
        [
            name,
            *(
                Link(str(tally[name, word]), to("changes", f"{term('is', word)} {term('p', name)}"))
                if tally[name, word]
                else "0"
                for word in words
            ),
        ]
        for name in platforms
    ]
    tables = [Table("Changes by platform", ["platform", *words], linked)] if linked else []
    tables += [Table("Versions that changed", ["package", "before", "now"], versions)] if versions else []
    mood = "diverges" if counts["appeared"] else "hazard" if counts["changed"] else "agrees"
    figures = (Figure("changes", "What changed", "Per platform.", tuple(bars), words),) if bars else ()
    return Content(
        title=f"{comparison.old.name} against {comparison.new.name}",
        subject="comparison",
        conclusion=comparison.sentence,
        mood=mood,
        strip=[("before", comparison.old.name), ("now", comparison.new.name), ("same", f"{comparison.same:,} results"),
               *comparison.new.versions],
        not_decided=[f"{counts['not run']:,} were run in one of them only"] if counts["not run"] else [],
        figures=figures,
        tables=tables,
        sections={"changes": {"titles": CHANGE_COLUMNS, "rows": rows, "total": len(comparison.changes),
                              "caption": "What is not the same in both"}},
        method=method_of_results(
            "Two results are the same when verdict and kind are, and the error is within a factor of ten. appeared: "
            "wrong now and not before. fixed: wrong before and within rounding now. changed: wrong in another way, or "
            "no longer decided. not run: only in one of them, which says nothing about the other."
        ),
    )  # fmt: skip
