"""Writes the generated pages of docs/: `python -m mindgap.cli.reference docs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from mindgap.cli import make_app
from mindgap.records.files import write_whole
from mindgap.report.reference import commands_markdown, rules_markdown
from mindgap.report.variants import mutations_markdown
from mindgap.variants.registry import registered


def command_names() -> list[str]:
    """Every command, sub-commands spelled out: `check`, `bench cases`."""
    found: list[str] = []
    for name, command in get_command(make_app()).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        if not inner or command.invoke_without_command:
            found.append(name)
        found += [f"{name} {child}" for child in inner or ()]
    return found


def helps() -> dict[str, str]:
    """The help of every command, as wide as a page."""
    os.environ["COLUMNS"] = "100"
    os.environ["TERMINAL_WIDTH"] = "100"
    runner, app = CliRunner(), make_app()
    return {
        f"mindgap {name}": runner.invoke(app, [*name.split(), "--help"], prog_name="mindgap").output
        for name in command_names()
    }


def pages() -> dict[str, str]:
    """The generated pages by file name."""
    return {
        "commands.md": commands_markdown(helps()),
        "mutations.md": mutations_markdown(registered()),
        "unspecified.md": rules_markdown(),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        write_whole(Path(sys.argv[1]) / name, text)
