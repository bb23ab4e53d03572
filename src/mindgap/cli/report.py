"""Write a campaign, checks, operators or an audit as one page.

\b
  mindgap report out/hunt -o report.html
  mindgap report result.json -o report.html      of mindgap check --json result.json, or of mindgap audit
  mindgap report out/hunt --serve                follow a campaign that is running

The page opens from a file, offline. WHAT is a campaign's directory, a JSON document, or a directory of documents.
docs/report.md says what is on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import KnownFile, output, refuse_mistakes
from mindgap.errors import UsageError


def command(
    what: Annotated[Path, typer.Argument(help="A campaign's directory, or a JSON document.", metavar="WHAT")],
    file: Annotated[Path | None, output("The page to write. Default: report.html beside what it shows.")] = None,
    known: KnownFile = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write every figure here: SVG, PNG and Vega-Lite.", metavar="DIR")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Show it in a browser and follow it; Ctrl-C ends.")] = False,
    host: Annotated[str, typer.Option(help="Where --serve listens; anything else than loopback is seen by others.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port of --serve; 0 takes a free one.", min=0, max=65535)] = 8123,
) -> None:
    if not what.exists():
        raise UsageError(f"there is no {what}", hint="mindgap hunt -o DIR, or mindgap check MODEL --json FILE")
    file = file or (what / "report.html" if what.is_dir() else what.with_suffix(".html"))
    refuse_mistakes(files=[known], outputs=[] if serve else [file])
    from mindgap.campaign.known import load_known
    from mindgap.records.files import write_whole
    from mindgap.report.console import show_line
    from mindgap.report.page.charts import write_figures
    from mindgap.report.page.of_results import content_of
    from mindgap.report.page.render import page

    listed = load_known(known) if known is not None else []
    if serve:
        _serve(lambda: page(content_of(what, listed), live=True), host, port)
        return
    content = content_of(what, listed)
    text = page(content)
    write_whole(file, text)
    show_line(f"{file}  {len(text.encode()) / 1e6:.2f} MB: {content.conclusion}")
    if figures is not None:
        try:
            figures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {figures}", cause=error.strerror) from error
        for path in write_figures(tuple(content.figures), figures):
            show_line(str(path))


def _serve(make: Callable[[], str], host: str, port: int) -> None:
    from mindgap.report.console import show_line
    from mindgap.report.serving import serve

    make()  # what cannot be shown is told here, not in a browser
    with serve(make, host, port) as server:
        show_line(f"http://{host}:{server.server_address[1]}/  Ctrl-C ends")
        server.serve_forever()
