"""A script for every cell that accuses a platform, run again in a fresh process before anybody sees it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from mindgap.campaign.reader import open_ledger, read_case
from mindgap.execution.pool import Pool, in_parallel
from mindgap.explanation.reproducer import write_reproducer
from mindgap.operators.observed import Grade, Observed
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import resolve
from mindgap.platforms.versions import versions
from mindgap.program.case import Case
from mindgap.reading.files import read_file, refusing
from mindgap.reading.limits import FILE_BYTES
from mindgap.records.files import write_whole
from mindgap.tracing.examine import Examiner

FOLDER: Final = "reproducers"
FILE: Final = "proofs.json"
NO_PROGRAM: Final = "not tried: the ledger does not hold its program"
ACCUSED: Final = (Grade.WRONG, Grade.CRASH)


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of one accusation when it was tried again."""

    platform: str
    operator: str
    dtype: str
    invocation: int
    script: str
    """Below the directory of the sweep; empty when there was nothing to try."""
    reproduces: bool
    """Whether it showed the difference again, or the death, whether eager shares it or not."""
    said: str
    tried: bool = True
    """Whether the ledger held the program: that of another machine may have come without."""


def prove(
    directory: Path,
    found: Observed,
    config: Config | None = None,
    tell: Callable[[str, str], None] = lambda who, what: None,
    weights: Mapping[str, int] | None = None,
    jobs: int = 1,
) -> list[Proof]:
    """Write and run the script of every wrong and every crash, operators that most models need first.

    What was proved before is kept, also when this is interrupted.
    """
    settings = config or load_config(None)
    accused = {key: cell for key, cell in found.cells.items() if cell.grade in ACCUSED and cell.worst is not None}
    needed = weights or {}
    order = sorted(accused, key=lambda key: (-needed.get(key[1], 0), key))
    known = {(p.platform, p.operator, p.dtype): p for p in proofs(directory)}
    result = {key: p for key in order if (p := known.get(key)) and p.tried and p.invocation == accused[key].worst}
    left = [key for key in order if key not in result]
    lock = threading.Lock()
    stopped = threading.Event()  # Ctrl-C reaches the main thread alone

    def go_on(first: int) -> None:
        with Pool(limits=settings.limits) as pool, open_ledger(directory) as data:
            for key in left[first::jobs]:
                if stopped.is_set():
                    return
                invocation = accused[key].worst
                assert invocation is not None
                tell("scripts", f"{len(result)} of {len(order)}: {key[1]} on {key[0]}")
                case = read_case(data, directory, invocation)
                proof = (
                    _proof(pool, directory, key, invocation, case, settings)
                    if case is not None
                    else Proof(*key, invocation, "", False, NO_PROGRAM, tried=False)
                )
                with lock:
                    result[key] = proof
                    rows = [asdict(item) for item in result.values()]
                    write_whole(directory / FILE, json.dumps(rows, indent=1) + "\n")

    try:
        in_parallel(jobs, go_on, range(jobs))
    finally:
        stopped.set()
    return [result[key] for key in order if key in result]


def _proof(
    pool: Pool, directory: Path, key: tuple[str, str, str], invocation: int, case: Case, settings: Config
) -> Proof:
    platform, op, dtype = key
    spec = resolve(platform, settings)
    seen = Examiner(pool, resolve("eager", settings), spec).examine(case, runs=2)
    name = re.sub(r"[^\w.-]+", "-", f"{op}-{dtype}-{platform}")
    folder = directory / FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    script = write_reproducer(folder, case, seen, spec, versions([spec]), shared_deaths=True)
    where = f"{FOLDER}/{name}/{script.path.name}"
    return Proof(platform, op, dtype, invocation, where, script.reproduces, script.said)


def proofs(directory: Path) -> list[Proof]:
    """What was proved in a directory so far."""
    path = directory / FILE
    if not path.is_file():
        return []
    with refusing(f"{path.name} is damaged", path):
        return msgspec.json.decode(read_file(path, FILE_BYTES), type=list[Proof])
