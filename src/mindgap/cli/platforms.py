"""List every platform: version, device and dtypes, or why it cannot be used and how to get it.

A platform's name is `runtime[:device][@profile]`: `eager@scalar`, `inductor:cuda`. Declare your own in mindgap.toml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="A mindgap.toml that declares more platforms.", metavar="FILE")
    ] = None,
) -> None:
    from mindgap.pipeline import probe_all
    from mindgap.platforms.config import load_config
    from mindgap.platforms.registry import catalogue
    from mindgap.report.console import ProgressLine, show_json, show_platforms
    from mindgap.report.summary import platforms_document

    settings = load_config(config)
    specs = catalogue(settings)
    with ProgressLine() as progress:
        progress("platforms", f"asking {len(specs)}")
        probes = probe_all(config=settings)
    if as_json:
        show_json(platforms_document(specs, probes))
    else:
        show_platforms(specs, probes)
