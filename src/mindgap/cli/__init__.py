"""The command line: one file per command, which parses arguments, calls the API and prints through report.

Exit codes: 0 everything agrees, 1 differences were found, 2 wrong usage, 3 a failure of mindgap itself, 130, 143 and
129 after Ctrl-C, SIGTERM and SIGHUP: the table is in docs/check.md.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib import import_module
from types import FrameType
from typing import Final

import typer

from mindgap.errors import MindgapError

EXIT_USAGE, EXIT_INTERNAL, EXIT_INTERRUPTED = 2, 3, 130
ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command: Ctrl-C, a CI that cancels a job, a terminal that closes."""
COMMANDS = (
    "check", "evaluate", "explain", "audit", "hunt", "study", "ops", "report", "compare", "show", "pack", "run",
    "merge", "export", "bisect", "trust", "rules", "save",
)  # fmt: skip
GROUPS = ("platforms", "corpus", "variants", "bench")
"""Commands with sub-commands."""


def make_app() -> typer.Typer:
    """The `mindgap` command with all its sub-commands."""
    app = typer.Typer(
        name="mindgap",
        help="Find, measure and explain how PyTorch models behave differently across platforms.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in COMMANDS:
        module = import_module(f"mindgap.cli.{name}")
        app.command(name, help=module.__doc__)(module.command)
    for name in GROUPS:
        module = import_module(f"mindgap.cli.{name}")
        app.add_typer(module.app, name=name, help=module.__doc__)

    @app.callback(invoke_without_command=True)
    def root(
        version: bool = typer.Option(False, "--version", help="Print the version."),
        debug: bool = typer.Option(False, "--debug", help="Show a traceback with every error."),
    ) -> None:
        if version:
            from mindgap import __version__
            from mindgap.report.console import show_line

            show_line(f"mindgap {__version__}")
            raise typer.Exit
        if debug:
            os.environ["MINDGAP_DEBUG"] = "1"

    return app


def main() -> None:
    """Run the command line; every way out has its exit code."""
    received = _end_on_signals()
    try:
        make_app()(standalone_mode=True)
    except SystemExit as leaving:
        if leaving.code == EXIT_INTERRUPTED:  # typer's own answer to Ctrl-C is silent
            sys.stderr.write("interrupted; all workers were stopped\n")
            sys.exit(128 + received[0] if received else EXIT_INTERRUPTED)
        raise
    except MindgapError as error:
        if os.environ.get("MINDGAP_DEBUG"):
            traceback.print_exc()
        from mindgap.report.terminal import show_error

        show_error(error)
        sys.exit(EXIT_USAGE)
    except Exception:
        _report_bug()
        sys.exit(EXIT_INTERNAL)


def _end_on_signals() -> list[int]:
    """Every ending signal takes the way of Ctrl-C, once: a second one must not disturb the cleaning up after the first.

    What the caller ignores (`nohup`) stays ignored. The list holds the signal that came.
    """
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        if not received:
            received.append(number)
            raise KeyboardInterrupt

    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    return received


def _report_bug() -> None:
    """Say that the bug is ours, and write a file to attach to a report."""
    import tempfile

    text = traceback.format_exc()
    if os.environ.get("MINDGAP_DEBUG"):
        sys.stderr.write(text)
    handle, name = tempfile.mkstemp(prefix="mindgap-bug-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write(f"{' '.join(sys.argv)}\n\n{text}")
    last = text.strip().splitlines()[-1]
    sys.stderr.write(
        f"error: this is a bug in mindgap: {last}\n  next   attach {name} to a report; it has the traceback\n"
    )
