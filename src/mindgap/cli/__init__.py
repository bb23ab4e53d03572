"""The command line: one file per command, which parses arguments, calls the pipeline and prints through report.

Exit codes: 0 everything agrees, 1 differences were found, 2 wrong usage, 3 a failure of mindgap itself.
"""

from __future__ import annotations

import os
import sys
import traceback

import typer

from mindgap.errors import MindgapError

EXIT_USAGE, EXIT_INTERNAL, EXIT_INTERRUPTED = 2, 3, 130


def make_app() -> typer.Typer:
    """The `mindgap` command with all its sub-commands."""
    from mindgap.cli import (
        bench,
        check,
        corpus,
        explain,
        export,
        hunt,
        merge,
        pack,
        platforms,
        rules,
        run,
        save,
        variants,
    )

    app = typer.Typer(
        name="mindgap",
        help="Find, measure and explain how PyTorch models behave differently across platforms.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command("check", help=check.__doc__)(check.command)
    app.command("explain", help=explain.__doc__)(explain.command)
    app.command("hunt", help=hunt.__doc__)(hunt.command)
    app.command("pack", help=pack.__doc__)(pack.command)
    app.command("run", help=run.__doc__)(run.command)
    app.command("merge", help=merge.__doc__)(merge.command)
    app.command("export", help=export.__doc__)(export.command)
    app.command("platforms", help=platforms.__doc__)(platforms.command)
    app.command("rules", help=rules.__doc__)(rules.command)
    app.command("save", help=save.__doc__)(save.command)
    app.add_typer(corpus.app, name="corpus", help=corpus.__doc__)
    app.add_typer(variants.app, name="variants", help=variants.__doc__)
    app.add_typer(bench.app, name="bench", help=bench.__doc__)

    @app.callback(invoke_without_command=True)
    def root(
        version: bool = typer.Option(False, "--version", help="Print the version and leave."),
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
    try:
        make_app()(standalone_mode=True)
    except SystemExit as leaving:
        if leaving.code == EXIT_INTERRUPTED:  # typer's own answer to Ctrl-C is silent
            sys.stderr.write("interrupted; all workers were ended\n")
        raise
    except MindgapError as error:
        if os.environ.get("MINDGAP_DEBUG"):
            traceback.print_exc()
        from mindgap.report.console import show_error

        show_error(error)
        sys.exit(EXIT_USAGE)
    except Exception:
        _report_bug()
        sys.exit(EXIT_INTERNAL)


def _report_bug() -> None:
    """An internal error says that it is ours and leaves a file to attach."""
    import tempfile
    from pathlib import Path

    text = traceback.format_exc()
    if os.environ.get("MINDGAP_DEBUG"):
        sys.stderr.write(text)
    handle, name = tempfile.mkstemp(prefix="mindgap-bug-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write(f"{' '.join(sys.argv)}\n\n{text}")
    last = text.strip().splitlines()[-1]
    sys.stderr.write(
        f"error: this is a bug in mindgap: {last}\n  next   attach {Path(name)} to a report; it holds the traceback\n"
    )
