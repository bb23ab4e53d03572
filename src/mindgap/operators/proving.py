"""A script for every cell that accuses a platform, run again in a fresh process before anybody sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from mindgap.campaign.reader import open_ledger, read_case
from mindgap.execution.pool import Pool
from mindgap.explanation.reproducer import write_reproducer
from mindgap.operators.observed import Grade, Observed
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import resolve
from mindgap.platforms.versions import versions
from mindgap.reading.files import read_file, refusing
from mindgap.reading.limits import FILE_BYTES
from mindgap.records.files import write_whole
from mindgap.tracing.examine import Examiner

FOLDER: Final = "reproducers"
FILE: Final = "proofs.json"
ACCUSED: Final = (Grade.WRONG, Grade.CRASH)


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of one accusation when it was tried again."""

    platform: str
    operator: str
    dtype: str
    invocation: int
    script: str
    """Below the directory of the sweep; empty when the difference is gone."""
    reproduces: bool
    said: str


def prove(
    directory: Path,
    found: Observed,
    config: Config | None = None,
    tell: Callable[[str, str], None] = lambda who, what: None,
    weights: Mapping[str, int] | None = None,
) -> list[Proof]:
    """Write and run the script of every wrong and every crash, operators that most models need first.

    What was proved before is kept, also when this is interrupted.
    """
    settings = config or load_config(None)
    accused = {key: cell for key, cell in found.cells.items() if cell.grade in ACCUSED and cell.worst is not None}
    needed = weights or {}
    order = sorted(accused, key=lambda key: (-needed.get(key[1], 0), key))
    known = {(p.platform, p.operator, p.dtype): p for p in proofs(directory)}
    result = {key: p for key in order if (p := known.get(key)) and p.invocation == accused[key].worst}
    left = [key for key in order if key not in result]
    with Pool(limits=settings.limits) as pool, open_ledger(directory) as data:
        for number, key in enumerate(left):
            platform, op, dtype = key
            tell("scripts", f"{number} of {len(left)}: {op} on {platform}")
            invocation = accused[key].worst
            case = read_case(data, directory, invocation) if invocation is not None else None
            if case is None or invocation is None:
                continue  # a ledger of another machine may have come without its programs
            spec = resolve(platform, settings)
            seen = Examiner(pool, resolve("eager", settings), spec).examine(case, runs=2)
            name = re.sub(r"[^\w.-]+", "-", f"{op}-{dtype}-{platform}")
            folder = directory / FOLDER / name
            folder.mkdir(parents=True, exist_ok=True)
            script = write_reproducer(folder, case, seen, spec, versions([spec]))
            where = f"{FOLDER}/{name}/{script.path.name}"
            result[key] = Proof(platform, op, dtype, invocation, where, script.reproduces, script.said)
            write_whole(directory / FILE, json.dumps([asdict(item) for item in result.values()], indent=1) + "\n")
    return [result[key] for key in order if key in result]


def proofs(directory: Path) -> list[Proof]:
    """What was proved in a directory so far."""
    path = directory / FILE
    if not path.is_file():
        return []
    with refusing(f"{path.name} is damaged", path):
        return msgspec.json.decode(read_file(path, FILE_BYTES), type=list[Proof])
