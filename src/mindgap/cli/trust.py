"""Allow the mindgap.toml of this directory to run programs.

It may name interpreters, environments and adapters, which are code: mindgap uses such a file only after you confirmed
it once. Any change must be confirmed again. A file that you name with --config needs no confirmation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    file: Annotated[Path, typer.Argument(help="The file to trust as it is now.", metavar="FILE")] = Path(
        "mindgap.toml"
    ),
    revoke: Annotated[bool, typer.Option("--revoke", help="Take the trust back.")] = False,
) -> None:
    from mindgap.platforms.config import forget_config, trust_config
    from mindgap.report.console import show_line

    if revoke:
        was = forget_config(file)
        show_line(f"{file} is no longer trusted" if was else f"{file} was not trusted")
        return
    for line in trust_config(file):
        show_line(f"  {line}")
    show_line(f"{file} is trusted as it is now")
