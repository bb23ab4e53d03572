"""List every platform, or why it is missing and how to get it.

A platform is named `runtime[:device][@profile]`: `eager@scalar`, `inductor:cuda`. Declare your own in mindgap.toml.
"""

from __future__ import annotations

from mindgap.cli.options import AsJson, ConfigFile, refuse_mistakes


def command(
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    refuse_mistakes(config=config)
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
