"""Compare two campaigns, checks or operator sweeps.

\b
  mindgap compare before.json after.json --markdown comment.md --junit junit.xml
  mindgap compare out/torch-2.12 out/torch-2.13 -o compare.html

What appeared, was fixed, changed, or was not run in one of them: after an upgrade of a driver, torch or a runtime. OLD
and NEW are campaign directories or JSON documents of the same kind; campaigns match program by program, so make both
with the same seed.

Exit code: 0 nothing that --fail-on names, 1 something, 2 wrong usage, 3 a bug in mindgap.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import JunitFile, MarkdownFile, output, refuse_mistakes, split
from mindgap.errors import UsageError

Side = Annotated[Path, typer.Argument(help="A campaign's directory, or a JSON document.")]


def command(
    old: Side,
    new: Side,
    file: Annotated[Path | None, output("Also write the comparison as a page.")] = None,
    fail_on: Annotated[
        str,
        typer.Option(help="Changes that make the exit code 1: appeared, changed, fixed, not-run.", metavar="CHANGES"),
    ] = "appeared",
    junit: JunitFile = None,
    markdown: MarkdownFile = None,
) -> None:
    for path in (old, new):
        if not path.exists():
            raise UsageError(f"there is no {path}", hint="mindgap hunt -o DIR, or mindgap check MODEL --json FILE")
    failing = {_kind(name) for name in split(fail_on, "--fail-on")}
    refuse_mistakes(outputs=[file, junit, markdown])
    from mindgap.records.files import write_whole
    from mindgap.report import ci
    from mindgap.report.comparison import KINDS, compare, summary_rows
    from mindgap.report.console import show_line, show_table
    from mindgap.report.page.of_results import comparison_content
    from mindgap.report.page.render import page
    from mindgap.report.results import results_of
    from mindgap.report.terminal import shortened

    found = compare(results_of(old), results_of(new))
    for name, (before, after) in found.changed_versions.items():
        show_line(f"{name} {before} -> {after}")
    if found.changes:
        show_table(["platform", *KINDS], summary_rows(found))
    for change in [item for item in found.changes if item.what in ("appeared", "changed")][:MOST_SHOWN]:
        show_line(f"  {change.what}: {shortened(change.subject)} on {change.platform}: {shortened(change.said)}")
    show_line(found.sentence)
    if file is not None:
        write_whole(file, page(comparison_content(found)))
    if junit is not None:
        write_whole(junit, ci.junit(list(ci.comparison_tests(found, failing)), "mindgap compare"))
    if markdown is not None:
        write_whole(markdown, ci.comparison_markdown(found))
    if any(change.what in failing for change in found.changes):
        raise typer.Exit(1)


MOST_SHOWN = 12
"""Changes on a terminal; files have all."""


def _kind(name: str) -> str:
    allowed = ("appeared", "changed", "fixed", "not-run")
    if name not in allowed:
        raise UsageError(f"--fail-on does not know {name!r}", hint=f"one or more of {', '.join(allowed)}")
    return name.replace("-", " ")
