"""Fragments where nothing is wrong: eager again in a second process, with other threads, and with sums in two parts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.bench.calibration import in_two_parts
from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.campaign.hunt import hunt
from mindgap.campaign.plan import Plan, with_baseline
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import open_ledger
from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.platforms.config import Config
from mindgap.platforms.torch.torch_run import Placement, TorchRun, own_program
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import PlatformSpec, Probe

Caller = Callable[..., Any]
WAYS: Final[dict[str, tuple[int, Caller | None]]] = {
    "again": (1, None),
    "threads": (4, None),
    "parts": (1, in_two_parts),
}
"""By name: threads, and how calls are made where that is another way than eager's."""


class Harmless(Platform):
    """Eager in a way that no reader may call wrong; `way` says which."""

    runtime = "harmless"
    summary = "eager, computed in another legal way"
    works_in_copies = True
    options = {"way": "again, threads or parts", "threads": "threads of one operator"}

    def probe(self) -> Probe:
        return Probe(True, "1", "CPU")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        _, caller = WAYS[str(self.spec.options["way"])]
        with clock(Stage.LOAD):
            executable = Executable(own_program(case, Placement()), case.constants)

        def run(tensors: Sequence[torch.Tensor]) -> Any:
            return executable.run(tensors, caller=caller)

        return TorchRun(case, Placement(), Ran.PROGRAM, run)


def measure(tell: Tell, fragments: int = 20_000, seed: int = 0, keep: Path | None = None) -> Measurement:
    """One campaign of fragments in crowds; every divergence is a false alarm."""
    # More threads than cores: those that wait must not keep the others from working.
    patient = {"OMP_WAIT_POLICY": "PASSIVE"}
    platforms = {
        way: PlatformSpec(way, f"{__name__}:Harmless", env=patient, options={"way": way, "threads": threads})
        for way, (threads, _) in WAYS.items()
    }
    with tempfile.TemporaryDirectory() as place:
        directory = keep or Path(place) / "campaign"

        def watch(now: Snapshot) -> None:
            tell("alarms", f"{now.finished:,} of {fragments:,} fragments")

        plan = Plan(with_baseline(list(platforms)), fragments, seed, fragments=1.0, metamorphic_share=0.0)
        hunt(directory, plan, config=Config(platforms), explain_s=0.0, watch=watch).unless_interrupted()
        rows = _rows(directory)
        alarms = _alarms(directory)
    return Measurement(
        name="alarms",
        what="fragments on eager, computed in ways that are all right: in a second process, with four threads, with "
        "sums and products in two parts; in crowds and confirmed alone, as in any campaign",
        on=f"{fragments:,} fragments of the smoke corpus, seed {seed}",
        rows=rows,
        conclusion=f"{len(alarms)} false alarms (target: 0)" + "".join(f"\n  {line}" for line in alarms),
    )


def _rows(directory: Path) -> list[Row]:
    query = "SELECT f.name, conclusion, COUNT(*) FROM verdicts v JOIN platforms f ON f.id = v.platform GROUP BY 1, 2"
    rows: dict[str, Row] = {way: {"way": way, "fragments": 0} for way in WAYS}
    with open_ledger(directory) as data:
        for way, conclusion, count in data.execute(query):
            rows[way]["fragments"] += count
            rows[way][conclusion] = count
    names = sorted({name for row in rows.values() for name in row} - {"way", "fragments", "diverges"})
    return [{key: row.get(key, 0) for key in ("way", "fragments", "diverges", *names)} for row in rows.values()]


def _alarms(directory: Path) -> list[str]:
    query = (
        "SELECT f.name, v.program, v.sentence FROM verdicts v JOIN platforms f ON f.id = v.platform "
        "WHERE conclusion IN ('diverges', 'unstable') ORDER BY v.program"
    )
    with open_ledger(directory) as data:
        return [f"{way}: fragment {number}: {sentence}" for way, number, sentence in data.execute(query)]
