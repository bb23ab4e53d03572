"""Export a model once and save it as a portable program: FILE.mgp, with its weights in FILE.safetensors.

The file holds a graph and numbers, nothing that executes: any torch >= 2.6 with mindgap can run it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import Dtype, Seed, Trust


def command(
    model: Annotated[str, typer.Argument(help="As for `mindgap check`.", metavar="MODEL")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .mgp file to write.", metavar="FILE")],
    dtype: Dtype = None,
    seed: Seed = 0,
    trust: Trust = False,
) -> None:
    from mindgap.errors import UsageError
    from mindgap.execution.parcel import Constants, open_parcel
    from mindgap.program import codec
    from mindgap.report.console import ProgressLine, show_line
    from mindgap.session.session import Session

    if output.suffix != ".mgp":
        raise UsageError(f"{output} does not end in .mgp")
    with ProgressLine() as progress, Session(progress=progress) as session:
        parcel = session.build(model, None, dtype=dtype, seed=seed, trust=trust)
        if not parcel.program:
            raise UsageError(f"{model} cannot be exported", cause=parcel.export_failure)
        case = open_parcel(parcel, Constants())
        codec.save(output, case.graph, case.constants)
    size = output.stat().st_size
    show_line(f"{output}  {parcel.nodes} nodes  {size:,} bytes, weights in {output.stem}.safetensors")
