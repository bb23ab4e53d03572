"""Running a packed campaign elsewhere: `python -m mindgap.campaign.remote campaign.mgz --on eager:npu -o results.mgz`.

Needs torch, numpy, msgpack and msgspec, nothing else; `mindgap run` is the same where the command line is installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from mindgap.campaign.archive import Reading, Writing
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.campaign.runners import LocalRunner, limited
from mindgap.errors import MindgapError, NoSpace, UsageError
from mindgap.execution import arena
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import HOST, Pool, WorkerDied
from mindgap.execution.process import Death
from mindgap.execution.tasks import Worker, stream_task, task
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.probing import require
from mindgap.platforms.registry import resolve
from mindgap.reading.metas import bytes_of
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import NamedTensor, byte_view

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
    with Pool() as pool:
        weights = pool.scratch.room(READER.worker_name) / "weights"
        opening = OpenPack(str(pack.absolute()), str(weights))
        given = pool.demand(READER, open_pack, opening, f"reading {pack.name}")
        specs = [limited(resolve(name, settings), given.plan.timeout_s) for name in platforms]
        probes = {spec.name: require(pool, spec) for spec in specs}
        about = {
            "campaign": given.campaign,
            "platforms": {name: [probe.version, probe.device] for name, probe in probes.items()},
        }
        with Writing(output, "results", about) as results:
            try:
                return sum(_run(opening, results, pool, spec, tell) for spec in specs)
            except KeyboardInterrupt:
                return 0


READER: Final = replace(HOST, worker="reader")
"""Reads what comes from another machine: if it ends the process, it is not this one."""


@dataclass(frozen=True, slots=True)
class OpenPack:
    """Look into a pack, and lay its weights down."""

    path: str
    weights: str


@dataclass(frozen=True, slots=True)
class PackedCampaign:
    """What a pack is about."""

    plan: Plan
    campaign: str


@dataclass(frozen=True, slots=True)
class ReadPrograms:
    """The programs of a pack that are due on a platform."""

    pack: OpenPack
    platform: str


class PackedProgram(msgspec.Struct, frozen=True, array_like=True):
    """A row of a pack."""

    number: int
    fingerprint: str
    name: str
    program: bytes
    seed: int
    eager_digest: str
    """Of the outputs that eager gave where the campaign is; empty when that is not known."""


@task
def open_pack(worker: Worker, request: OpenPack) -> PackedCampaign:
    """Check a pack and lay its weights down."""
    with Reading(Path(request.path), "a campaign") as reading:
        reading.unpack_weights(Path(request.weights))
        return PackedCampaign(Plan.from_text(reading.about.plan), reading.about.campaign)


@stream_task
def read_programs(worker: Worker, request: ReadPrograms) -> Iterator[PackedProgram]:
    """The programs of a pack that a platform is to run; each is still encoded."""
    with Reading(Path(request.pack.path), "a campaign") as reading:
        plan = Plan.from_text(reading.about.plan)
        for row in reading.rows("programs", PackedProgram):
            if plan.is_due(request.platform, row.fingerprint):
                yield row


@dataclass(frozen=True, slots=True)
class RemoteOutcome:
    """What a platform of another machine did with a variant; outputs travel as raw values, never as a path."""

    number: int
    fingerprint: str
    outcome: Outcome
    values: tuple[bytes, ...] = ()
    """Empty where the outputs have the bits that eager gave."""


def _run(pack: OpenPack, results: Writing, pool: Pool, spec: PlatformSpec, tell: Tell) -> int:
    runner = LocalRunner(pool, spec, lambda: False, _raise)
    rows: list[PackedProgram] = []
    ended = pool.ask(READER, read_programs, ReadPrograms(pack, spec.name), on_item=rows.append)
    if isinstance(ended, Death):
        raise WorkerDied(f"reading {Path(pack.path).name}", ended)
    for start in range(0, len(rows), BATCH):
        tell(spec.name, start, len(rows))
        part = rows[start : start + BATCH]
        found: dict[int, Outcome] = {}
        runner.run([Parcel(row.program, row.seed, pack.weights) for row in part], 1, found.__setitem__)
        told = [told_elsewhere(row.number, row.fingerprint, found[n], row.eager_digest) for n, row in enumerate(part)]
        results.add_rows("outcomes", [msgspec.msgpack.encode(item) for item in told])
    tell(spec.name, len(rows), len(rows))
    return len(rows)


def _raise(reason: NoSpace) -> None:
    raise reason


def told_elsewhere(number: int, fingerprint: str, outcome: Outcome, eager_digest: str = "") -> RemoteOutcome:
    """An outcome for another machine, its file removed; its outputs only where they are not eager's bits."""
    same = outcome.ok and outcome.digest == eager_digest
    items = () if same else opened(outcome).outputs
    values = tuple(byte_view(item.tensor).numpy().tobytes() for item in items)
    discarded(outcome)
    plain = replace(outcome, file="", outputs=(), stored=() if same else outcome.stored, is_local_eager=False)
    return RemoteOutcome(number, fingerprint, plain, values)


def restored(told: RemoteOutcome, file: Path) -> Outcome:
    """The outcome with its outputs in a file of this machine; no path of the other one is kept.

    Raises ValueError when the outputs are not those that it describes.
    """
    outcome = replace(told.outcome, file="", outputs=(), stored=(), is_local_eager=False)
    described = told.outcome.stored
    if not told.values:
        return outcome
    if len(told.values) != len(described):
        raise ValueError(f"{len(told.values)} outputs are described as {len(described)}")
    for item, values in zip(described, told.values):
        if bytes_of(item.meta) < len(values):
            raise ValueError(f"output {item.name} has {len(values)} bytes")
        bytes_of(replace(item.meta, stride=item.stride) if item.stride is not None else item.meta)
    named = [NamedTensor(s.name, arena.tensor_of(v, s.meta), s.stride) for s, v in zip(described, told.values)]
    if arena.digest_of(named) != outcome.digest:
        raise ValueError("the outputs do not have their digest")
    return replace(outcome, stored=arena.store(file, named), file=str(file))


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
