"""Export a model and save it as a portable program (FILE.mgp).

The weights go to FILE.safetensors. Neither file holds anything that executes; any torch >= 2.6 with mindgap can run it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mindgap.cli.options import Dtype, Model, Seed, Trust, output, refuse_mistakes
from mindgap.errors import UsageError


def command(
    model: Model,
    file: Annotated[Path, output("The .mgp file to write.")],
    dtype: Dtype = None,
    seed: Seed = 0,
    trust: Trust = False,
) -> None:
    if file.suffix != ".mgp":
        raise UsageError(f"{file} does not end in .mgp")
    refuse_mistakes(model=model, dtypes=[dtype], outputs=[file])
    from mindgap.execution.parcel import Constants, open_parcel
    from mindgap.program import codec
    from mindgap.report.console import ProgressLine, show_line
    from mindgap.session.session import Session

    with ProgressLine() as progress, Session(progress=progress) as session:
        parcel = session.build(model, None, dtype=dtype, seed=seed, trust=trust)
        if not parcel.program:
            raise UsageError(f"{model} cannot be exported", cause=parcel.export_failure)
        case = open_parcel(parcel, Constants())
        codec.save(file, case.graph, case.constants)
    size = file.stat().st_size
    show_line(f"{file}  {parcel.nodes} nodes  {size:,} bytes, weights in {file.stem}.safetensors")
