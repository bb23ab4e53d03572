"""Running a packed campaign elsewhere: `python -m mindgap.campaign.remote campaign.mgz --on eager:npu -o results.mgz`.

Needs torch, numpy and msgpack, nothing else; `mindgap run` is the same where the command line is installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.archive import Reading, Writing
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.campaign.runners import LocalRunner, limited
from mindgap.errors import MindgapError, UsageError
from mindgap.execution import arena
from mindgap.execution.batch import Job, Trial
from mindgap.execution.careful import Careful
from mindgap.execution.pool import Pool
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import resolve
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import byte_view

BATCH: Final = 16

Tell = Callable[[str, int, int], None]
"""Told the platform, and how many programs it has run, of how many."""


def run_pack(
    pack: Path,
    platforms: Sequence[str],
    output: Path,
    *,
    config: Config | None = None,
    tell: Tell = lambda platform, done, count: None,
) -> int:
    """Run every program of a pack that is due on these platforms; how many outcomes were written.

    Ctrl-C ends it with what is done: `mindgap merge` takes parts.
    """
    if BASELINE in platforms:
        raise UsageError(
            "eager is what results are compared with, and runs where the campaign is",
            hint="declare this machine's eager under another name in mindgap.toml",
        )
    settings = config or load_config(None)
    with Reading(pack, "a campaign") as given, Pool() as pool:
        plan = Plan.from_text(given.about["plan"])
        specs = [limited(resolve(name, settings), plan.timeout_s) for name in platforms]
        probes = {spec.name: pool.require(spec) for spec in specs}
        weights = pool.scratch.path / "weights"
        given.unpack_weights(weights)
        about = {
            "campaign": given.about["campaign"],
            "platforms": {name: [probe.version, probe.device] for name, probe in probes.items()},
        }
        with Writing(output, "results", about) as results:
            try:
                return sum(_run(given, results, pool, spec, plan, str(weights), tell) for spec in specs)
            except KeyboardInterrupt:
                return 0


def _run(given: Reading, results: Writing, pool: Pool, spec: PlatformSpec, plan: Plan, weights: str, tell: Tell) -> int:
    runner = LocalRunner(pool, spec.name, Careful(pool, spec))
    rows = [row for row in given.rows("programs") if plan.is_due(spec.name, row[1])]
    for start in range(0, len(rows), BATCH):
        tell(spec.name, start, len(rows))
        part = rows[start : start + BATCH]
        found: dict[int, Trial] = {}
        runner.run([Job(row[3], row[4], weights) for row in part], 1, found.__setitem__)
        results.add_rows("outcomes", [_row(row, found[n]) for n, row in enumerate(part)])
        for trial in found.values():
            trial.without_outputs()
    tell(spec.name, len(rows), len(rows))
    return len(rows)


def _row(row: Sequence[Any], trial: Trial) -> dict[str, Any]:
    """An outcome; its outputs only where they are not the bits that eager gave."""
    same = trial.ok and trial.digest == row[5]
    values = [] if same else output_values(trial)
    plain = replace(trial, file="", outputs=() if same else trial.outputs).to_message()
    return {"number": row[0], "fingerprint": row[1], "trial": plain, "values": values}


def output_values(trial: Trial) -> list[bytes]:
    """The raw values of each output."""
    return [byte_view(item.tensor).numpy().tobytes() for item in trial.outcome().outputs]


def restore(row: dict[str, Any], file: Path) -> Trial:
    """The trial of a row, its outputs laid down in a file again."""
    trial = replace(Trial.from_message(row["trial"]), here=False)
    if not trial.outputs:
        return trial
    metas = [(meta, 0) for _, (meta, _), _ in trial.outputs]
    raw = [arena.tensor_of(values, meta) for values, (meta, _) in zip(row["values"], metas)]
    entries = arena.write(file, raw)
    outputs = tuple((name, entry, stride) for (name, _, stride), entry in zip(trial.outputs, entries))
    return replace(trial, file=str(file), outputs=outputs)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line for machines that have no more than a worker needs."""
    parser = argparse.ArgumentParser(prog="python -m mindgap.campaign.remote", description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--on", required=True, help="platforms, comma-separated")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=None, help="a mindgap.toml that declares more platforms")
    given = parser.parse_args(arguments)
    shown = 0.0

    def tell(platform: str, done: int, count: int) -> None:
        nonlocal shown
        if done == count or time.monotonic() - shown > 10:
            shown = time.monotonic()
            sys.stderr.write(f"{platform}: {done} of {count}\n")

    try:
        names = [name.strip() for name in given.on.split(",") if name.strip()]
        run_pack(given.pack, names, given.output, config=load_config(given.config), tell=tell)
    except MindgapError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
