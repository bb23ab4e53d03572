"""What a worker has loaded: `python -m tests.loaded PLATFORM`. At the top it imports nothing else of mindgap."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from mindgap.execution.tasks import Worker, task


@task
def loaded_modules(worker: Worker, request: None) -> tuple[str, ...]:
    return tuple(name for name in sys.modules if name.startswith("mindgap."))


def importing_tests(spec: Any) -> Any:
    """A platform whose worker can import the tests: by itself it finds nothing but what is installed."""

    return replace(spec, env={**spec.env, "PYTHONPATH": str(Path(__file__).parents[1])})


def loaded_after_a_program(platform: str) -> dict[str, list[str]]:
    """The modules of mindgap in a worker that ran one program on a platform, by folder."""
    import torch

    from mindgap.execution.parcel import make_parcel
    from mindgap.execution.pool import Pool
    from mindgap.platforms.registry import resolve
    from mindgap.platforms.running import run
    from tests.loaded import loaded_modules as named  # run as a script, this file has another name
    from tests.tracing.witnesses import witness_of

    spec = resolve(platform)
    spec = replace(spec, env={**spec.env, "PYTHONPATH": str(Path(__file__).parents[1])})
    with Pool() as pool:
        parcel = make_parcel(witness_of(torch.tanh, torch.ones(3)), pool.scratch.new_file("case"))
        outcome = run(pool, spec, parcel)
        assert outcome.ok, outcome
        modules = pool.ask(spec, named, None)
    found: dict[str, list[str]] = {}
    for name in sorted(modules):  # type: ignore[union-attr]
        _, folder, *rest = name.split(".", 2)
        found.setdefault(folder, []).extend(rest)
    return found


def loaded_text(platform: str) -> str:
    """The same as lines: a folder, and its modules."""
    rows = [f"{folder:<10} {' '.join(names)}".rstrip() for folder, names in loaded_after_a_program(platform).items()]
    return "\n".join(textwrap.fill(row, 110, subsequent_indent=" " * 11) for row in rows)


if __name__ == "__main__":
    print(loaded_text(sys.argv[1]))
