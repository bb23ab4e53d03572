"""Export a model once and save it as a portable program: FILE.mgp, with its weights in FILE.safetensors.

The file holds a graph and numbers, nothing that executes: any torch >= 2.6 with mindgap can run it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[str, typer.Argument(help="As for `mindgap check`.", metavar="MODEL")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .mgp file to write.", metavar="FILE")],
    dtype: Annotated[str | None, typer.Option(help="float32, float16 or bfloat16.")] = None,
    seed: Annotated[int, typer.Option(help="Makes weights repeatable.")] = 0,
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow reading files that can execute code (pickles).")
    ] = False,
) -> None:
    from mindgap.errors import UsageError
    from mindgap.execution.pool import Pool
    from mindgap.pipeline import import_paths, make_subject
    from mindgap.program import codec
    from mindgap.report.console import ProgressLine, show_line

    if output.suffix != ".mgp":
        raise UsageError(f"{output} does not end in .mgp")
    with Pool(import_paths()) as pool:
        with ProgressLine() as progress:
            progress("model", "load and export")
            subject = make_subject(pool, model, None, dtype=dtype, seed=seed, trust=trust)
        program = subject.load_program()
        if program is None:
            raise UsageError(f"{model} cannot be exported", cause=subject.export_failure)
        codec.save(output, program, subject.load_tensors())
    size = output.stat().st_size
    show_line(f"{output}  {len(program.nodes)} nodes  {size:,} bytes, weights in {output.stem}.safetensors")
