"""List every platform: version, device and dtypes, or why it cannot be used and how to get it.

A platform's name is `runtime[:device][@profile]`: `eager@scalar`, `inductor:cuda`. Declare your own in mindgap.toml.
"""

from __future__ import annotations

from typing import Annotated

import typer

from mindgap.cli.options import ConfigFile


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead.")] = False,
    config: ConfigFile = None,
) -> None:
    from mindgap.platforms.config import load_config
    from mindgap.platforms.registry import catalogue
    from mindgap.report.console import ProgressLine, show_json, show_platforms
    from mindgap.report.summary import platforms_document
    from mindgap.session.calls import platforms

    settings = load_config(config)
    specs = catalogue(settings)
    with ProgressLine() as progress:
        progress("platforms", f"asking {len(specs)}")
        probes = platforms(config=settings)
    if as_json:
        show_json(platforms_document(specs, probes))
    else:
        show_platforms(specs, probes)
