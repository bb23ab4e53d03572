"""Export a campaign's ledger as CSV or Parquet, a file per table.

For pandas, DuckDB or a spreadsheet:

\b
  mindgap export out/hunt --parquet
  duckdb -c "SELECT platform, conclusion, COUNT(*) FROM 'out/hunt/export/verdicts.parquet' GROUP BY ALL"

The tables are programs, outcomes, verdicts, findings and members; docs/hunt.md describes their columns. The default
is CSV, which needs no other package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import CampaignDirectory, output, refuse_mistakes


def command(
    directory: CampaignDirectory,
    target: Annotated[Path | None, output("Where to write. Default: DIR/export.", "DIR")] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Parquet instead of CSV; needs pyarrow.")] = False,
) -> None:
    refuse_mistakes(campaign=directory)
    from mindgap.campaign.export import export
    from mindgap.report.console import show_table

    rows = export(directory, target or directory / "export", parquet)
    show_table(["table", "rows", "file"], [[name, str(count), str(path)] for name, (count, path) in rows.items()])
