"""The only place that prints."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.padding import Padding
from rich.status import Status as Spinner
from rich.table import Table
from rich.text import Text

from mindgap.errors import MindgapError
from mindgap.explanation.explain import DONE
from mindgap.records.check import CheckResult, PlatformResult
from mindgap.records.outcome import Ran, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.verdict import Conclusion
from mindgap.report.summary import closing_line, count, multiple, plain_text
from mindgap.verdicts.unspecified.rule import Practice, Rule

PICTURE_WIDTH = 118
PLAIN_WIDTH = 200  # a pipe has no width; tables are not cut there

STYLES = {
    Conclusion.AGREES: "green",
    Conclusion.ROUNDING: "green",
    Conclusion.DIVERGES: "bold red",
    Conclusion.HAZARD: "yellow",
    Conclusion.UNSTABLE: "magenta",
    Conclusion.UNJUDGED: "yellow",
    Conclusion.FAILED: "red",
}


def make_console(stderr: bool = False) -> Console:
    """A console that is plain, and wide enough for any table, when it is not a terminal."""
    console = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    return console if console.is_terminal else Console(
        stderr=stderr, highlight=False, emoji=False, markup=False, width=PLAIN_WIDTH
    )  # fmt: skip


class ProgressLine:
    """One line on stderr that says who is doing what; plain lines when stderr is not a terminal."""

    def __init__(self) -> None:
        self._console = make_console(stderr=True)
        self._spinner: Spinner | None = None
        self._doing: dict[str, str] = {}
        self._lock = threading.Lock()
        self._start = time.monotonic()

    def __enter__(self) -> ProgressLine:
        if self._console.is_terminal:
            self._spinner = self._console.status(self)
            self._spinner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def __call__(self, who: str, what: str) -> None:
        """`what` is a stage, or DONE."""
        with self._lock:
            if self._doing.get(who) == what:
                return
            if what == DONE:
                self._doing.pop(who, None)
            else:
                self._doing[who] = what
            if self._spinner is None:
                spent = time.monotonic() - self._start
                self._console.print(Text(f"{spent:6.1f} s  {plain_text(who)}: {what}"))

    def __rich__(self) -> Text:
        """Drawn anew at each refresh, so that the clock moves while nothing else does."""
        with self._lock:
            running = "  ".join(f"{plain_text(name)}: {stage}" for name, stage in self._doing.items())
        return Text(f"{time.monotonic() - self._start:.0f} s  {running}", no_wrap=True, overflow="ellipsis")


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
    console.print(_headline(result))
    if result.export_failure:
        console.print(Text(f"not exportable: {plain_text(result.export_failure)}", style="yellow"))
    if result.program_exact is False:
        console.print(
            Text(
                "the exported program does not give the source's bits on eager; platforms that ran it are "
                "compared with eager on the program",
                style="yellow",
            )
        )
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for title in ("platform", "outcome", "verdict", "error / rounding", "worst output", "ran", "time"):
        table.add_column(title, no_wrap=title not in ("worst output",), overflow="fold")
    for name, item in result.platforms.items():
        table.add_row(*_row(name, item))
    console.print(table)
    for name, item in result.platforms.items():
        if item.verdict.conclusion not in (Conclusion.AGREES, Conclusion.ROUNDING) or item.outcome.note:
            console.print(_remark(name, item), soft_wrap=not console.is_terminal and not console.record)
    console.print(Text(closing_line(result), style="bold"))


def show_platforms(specs: Sequence[PlatformSpec], probes: Mapping[str, Probe]) -> None:
    """The table of all platforms."""
    console = make_console()
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("platform", "available", "version", "device", "dtypes, or why not"):
        table.add_column(title, overflow="fold", no_wrap=title in ("platform", "available"))
    for spec in sorted(specs, key=lambda spec: (not probes[spec.name].available, spec.name)):
        probe = probes[spec.name]
        if probe.available:
            cells = [Text("yes", style="green"), Text(probe.version), Text(probe.device)]
            cells.append(Text(" ".join(_short(name) for name in probe.dtypes)))
        else:
            reason = plain_text(probe.reason)
            hint = f"; get it with: {spec.install}" if spec.install else ""
            cells = [Text("no", style="dim"), Text(probe.version), Text(probe.device), Text(reason + hint)]
        table.add_row(Text(spec.name), *cells)
    console.print(table)
    available = sum(probe.available for probe in probes.values())
    console.print(Text(f"{available} of {len(specs)} platforms can be used here.", style="bold"))


def show_rules(rules: Sequence[Rule | Practice]) -> None:
    """Rules of unspecified behaviour."""
    console = make_console()
    for rule in rules:
        operators = ", ".join(sorted(rule.operators)) or "any operator"
        console.print(Text(rule.id, style="bold"))
        for line in (rule.reason, f"operators: {operators}", f"reference: {rule.reference}"):
            console.print(Padding(Text(line), (0, 0, 0, 2)))


def show_error(error: MindgapError) -> None:
    """What, where, why and what next."""
    console = make_console(stderr=True)
    console.print(Text("error: ", style="bold red") + Text(plain_text(str(error))))


def show_line(text: str) -> None:
    """One line on standard output."""
    make_console().print(Text(plain_text(text)))


def show_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under titles."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for title in titles:
        table.add_column(title)
    for row in rows:
        table.add_row(*(Text(plain_text(cell)) for cell in row))
    make_console().print(table)


def show_json(document: Mapping[str, Any]) -> None:
    """A document on standard output, and nothing else."""
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


def _headline(result: CheckResult) -> Text:
    nodes = f"{result.nodes} nodes  " if result.nodes is not None else ""
    facts = f"{nodes}{count(result.parameters)} parameters  {result.dtype}  seed {result.seed}"
    return Text.assemble((plain_text(result.model), "bold"), f"  {facts}   reference: {result.reference}")


def _row(name: str, item: PlatformResult) -> list[Text]:
    outcome, verdict = item.outcome, item.verdict
    style = STYLES[verdict.conclusion]
    shown = "ok" if outcome.ok else "failed" if outcome.status is Status.ERROR else outcome.status.value
    word = verdict.conclusion.value if outcome.ok else outcome.stage.value
    if verdict.conclusion is Conclusion.DIVERGES and verdict.kind is not None:
        word = f"{verdict.conclusion.value} ({verdict.kind.value})"
    seconds = f"{outcome.total_seconds:.1f} s" if outcome.seconds else ""
    ran = "" if outcome.ran is None else ("source" if outcome.ran is Ran.SOURCE else "program")
    return [
        Text(plain_text(name)),
        Text(shown),
        Text(word, style=style),
        Text(multiple(verdict.error_over_bound)),
        Text(plain_text(verdict.worst or "")),
        Text(ran),
        Text(seconds),
    ]


def _remark(name: str, item: PlatformResult) -> Text:
    said = [item.verdict.sentence] if item.verdict.conclusion is not Conclusion.AGREES else []
    if not item.outcome.ok and item.outcome.message and item.outcome.message not in item.verdict.sentence:
        said.append(item.outcome.message)
    if item.outcome.note:
        said.append(item.outcome.note)
    text = plain_text(". ".join(part.rstrip(".") for part in said if part))
    return Text.assemble((f"  {plain_text(name)}: ", STYLES[item.verdict.conclusion]), text)


def _short(dtype: str) -> str:
    table = {"float": "f", "bfloat": "bf", "complex": "c", "uint": "u", "int": "i"}
    for long, short in sorted(table.items(), key=lambda pair: -len(pair[0])):
        if dtype.startswith(long):
            return dtype.replace(long, short, 1)
    return dtype
