"""Export the ledger of a campaign for pandas, DuckDB or a spreadsheet: one file a table.

\b
  mindgap export out/hunt --parquet
  duckdb -c "SELECT platform, conclusion, COUNT(*) FROM 'out/hunt/export/verdicts.parquet' GROUP BY ALL"

Tables: programs, outcomes, verdicts, findings, members; their columns are described in docs/hunt.md. Without
--parquet the files are CSV, which needs no other package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    directory: Annotated[Path, typer.Argument(help="The directory of the campaign.", metavar="DIR")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write. Default: DIR/export.", metavar="DIR")
    ] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Parquet instead of CSV; needs pyarrow.")] = False,
) -> None:
    from mindgap.campaign.export import export
    from mindgap.report.console import show_table

    target = output or directory / "export"
    rows = export(directory, target, parquet)
    show_table(["table", "rows", "file"], [[name, str(count), str(path)] for name, (count, path) in rows.items()])
