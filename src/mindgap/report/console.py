"""The only place that prints."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.padding import Padding
from rich.status import Status as Spinner
from rich.table import Table
from rich.text import Text

from mindgap.explanation.explain import DONE
from mindgap.records.check import CheckResult
from mindgap.records.files import write_whole
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.progress import Lane
from mindgap.records.verdict import Conclusion
from mindgap.report.summary import (
    CHECK_TITLES,
    DAMAGED,
    INSTALLABLE,
    READY,
    STANDINGS,
    check_facts,
    check_row,
    closing_line,
    eager_failure,
    export_line,
    invariance_lines,
    left_out_lines,
    remarks,
    standing,
    tolerance_lines,
    why_not,
)
from mindgap.report.terminal import make_console, plain_text
from mindgap.verdicts.unspecified.rule import Practice, Rule

if TYPE_CHECKING:
    from typing_extensions import Self

PICTURE_WIDTH = 118

STYLES = {
    Conclusion.AGREES: "green",
    Conclusion.ROUNDING: "green",
    Conclusion.DIVERGES: "bold red",
    Conclusion.HAZARD: "yellow",
    Conclusion.UNSTABLE: "magenta",
    Conclusion.UNJUDGED: "yellow",
    Conclusion.FAILED: "red",
}


_STANDING_STYLES = {READY: "green", INSTALLABLE: "cyan", DAMAGED: "bold red"}


class Moving(ABC):
    """One line on stderr that is redrawn while work is under way; without a terminal nothing moves."""

    def __init__(self) -> None:
        self.console = make_console(stderr=True)
        self.start = time.monotonic()
        self._spinner: Spinner | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._spinner = self.console.status(self)
            self._spinner.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def __rich__(self) -> Text:
        """Drawn anew at each refresh, so that the clock moves while nothing else does."""
        return Text(f"{time.monotonic() - self.start:.0f} s  {self.line()}", no_wrap=True, overflow="ellipsis")

    @abstractmethod
    def line(self) -> str:
        """What is being done, now."""

    def log(self, text: str) -> None:
        """A plain line, when there is no terminal that could show the moving one."""
        if not self.console.is_terminal:
            self.console.print(Text(f"{time.monotonic() - self.start:6.1f} s  {plain_text(text)}"))


class ProgressLine(Moving):
    """Who is doing what."""

    def __init__(self) -> None:
        super().__init__()
        self._doing: dict[str, str] = {}
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def __call__(self, who: str, what: str) -> None:
        """`what` is a stage, or DONE."""
        with self._lock:
            if self._doing.get(who) == what:
                return
            if what == DONE:
                self._doing.pop(who, None)
            else:
                self._doing[who] = what
            self.log(f"{who}: {what}")

    def count(self, who: str, done: int, total: int) -> None:
        """`who` has done so many of all; with the time that is left at its pace."""
        now = time.monotonic()
        lane = self._lanes.get(who) or Lane().begun(now)
        lane = (lane.advanced(now, done - lane.done) if done > lane.done else lane).expecting(total)
        self._lanes[who] = lane
        self(who, lane.told(now))

    def line(self) -> str:
        with self._lock:
            return "  ".join(f"{plain_text(name)}: {stage}" for name, stage in self._doing.items())


def show_check(result: CheckResult) -> None:
    """The table of one check."""
    _print_check(make_console(), result)


def picture_of_check(results: Sequence[CheckResult], title: str) -> str:
    """What `show_check` prints as an SVG picture, without fonts from elsewhere."""
    console = Console(record=True, width=PICTURE_WIDTH, file=io.StringIO(), highlight=False, emoji=False, markup=False)
    for result in results:
        _print_check(console, result)
    elsewhere = re.compile(r"@font-face \{\{.*?\}\}\s*|<!--.*?-->\s*", re.DOTALL)
    return console.export_svg(title=plain_text(title), code_format=elsewhere.sub("", CONSOLE_SVG_FORMAT))


def _print_check(console: Console, result: CheckResult) -> None:
    failure = eager_failure(result)
    if failure:
        console.print(Text(plain_text(failure), style="bold red"))
    console.print(Text.assemble((plain_text(result.model), "bold"), f"  {check_facts(result)}"))
    if export_line(result):
        console.print(Text(plain_text(export_line(result)), style="yellow"))
    if result.program_exact is False:
        text = (
            "the exported program does not give the source's bits on eager; platforms that ran it are compared with "
            "eager on the program"
        )
        console.print(Text(text, style="yellow"))
    rows: list[list[str | Text]] = []
    for name, item in result.platforms.items():
        row: list[str | Text] = [*check_row(name, item)]
        row[2] = Text(str(row[2]), style=STYLES[item.verdict.conclusion])
        rows.append(row)
    console.print(_table(CHECK_TITLES, rows, fold=("worst output",)))
    for names, said, conclusion in remarks(result):
        line = Text.assemble((f"  {plain_text(names)}: ", STYLES[conclusion]), plain_text(said))
        console.print(line, soft_wrap=not console.is_terminal and not console.record)
    for told in (*tolerance_lines(result), *invariance_lines(result)):
        console.print(Text(f"  {plain_text(told)}"), soft_wrap=not console.is_terminal and not console.record)
    for left_out in left_out_lines(result):
        console.print(Text(f"  {plain_text(left_out)}", style="dim"))
    console.print(Text(closing_line(result), style="bold"))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str | Text]], fold: Sequence[str] | None = None) -> Table:
    """Rows under titles; with `fold`, only these columns may take several lines."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for title in titles:
        if fold is None:
            table.add_column(title)
        else:
            table.add_column(title, overflow="fold", no_wrap=title not in fold)
    for row in rows:
        table.add_row(*(item if isinstance(item, Text) else Text(plain_text(item)) for item in row))
    return table


def show_platforms(specs: Sequence[PlatformSpec], probes: Mapping[str, Probe]) -> None:
    """The table of all platforms."""
    console = make_console()
    rows: list[list[str | Text]] = []
    kinds = {spec.name: standing(spec, probes[spec.name]) for spec in specs}
    for spec in sorted(specs, key=lambda spec: (STANDINGS.index(kinds[spec.name]), spec.name)):
        probe, kind = probes[spec.name], kinds[spec.name]
        version = " ".join(filter(None, [probe.version, probe.device]))
        last = " ".join(map(_short, probe.dtypes)) if probe.available else why_not(spec, probe)
        rows.append([spec.name, Text(kind, style=_STANDING_STYLES.get(kind, "dim")), spec.summary, version, last])
    titles = ("platform", "state", "what it is", "version, device", "dtypes, or what it lacks")
    console.print(_table(titles, rows, fold=titles[2:]))
    counts = Counter(kinds.values())
    said = ", ".join(f"{counts[kind]} {kind}" for kind in STANDINGS if counts[kind])
    console.print(Text(f"{len(specs)} platforms: {said}.", style="bold"))


def show_rules(rules: Sequence[Rule | Practice]) -> None:
    """Rules of unspecified behaviour."""
    console = make_console()
    for rule in rules:
        operators = ", ".join(sorted(rule.operators)) or "any operator"
        console.print(Text(rule.id, style="bold"))
        for line in (rule.reason, f"operators: {operators}", f"reference: {rule.reference}"):
            console.print(Padding(Text(line), (0, 0, 0, 2)))


def show_line(text: str) -> None:
    """One line on standard output."""
    make_console().print(Text(plain_text(text)))


def show_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under titles."""
    make_console().print(_table(titles, rows))


def show_json(document: Mapping[str, Any]) -> None:
    """A document on standard output, and nothing else."""
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


def save_json(path: Path, document: Mapping[str, Any]) -> None:
    """A document in a file; `-` is standard output."""
    if str(path) == "-":
        show_json(document)
    else:
        write_whole(path, json.dumps(document, indent=1) + "\n")


def _short(dtype: str) -> str:
    for long, brief in (("bfloat", "bf"), ("float", "f"), ("complex", "c"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(long):
            return dtype.replace(long, brief, 1)
    return dtype
