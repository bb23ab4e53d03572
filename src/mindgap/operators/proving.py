"""A script for every cell that accuses a platform, run again in a fresh process before anybody sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
) -> list[Proof]:
    """Write and run the script of every wrong and every crash; what was proved before is kept."""
    settings = config or load_config(None)
    known = {(p.platform, p.operator, p.dtype, p.invocation): p for p in proofs(directory)}
    accused = [(key, cell) for key, cell in sorted(found.cells.items()) if cell.grade in ACCUSED]
    result: list[Proof] = []
    with Pool(limits=settings.limits) as pool, open_ledger(directory) as data:
        for number, ((platform, op, dtype), cell) in enumerate(accused):
            assert cell.worst is not None
            proof = known.get((platform, op, dtype, cell.worst))
            if proof is None:
                tell("scripts", f"{number} of {len(accused)}: {op} on {platform}")
                case = read_case(data, directory, cell.worst)
                assert case is not None
                spec = resolve(platform, settings)
                seen = Examiner(pool, resolve("eager", settings), spec).examine(case, runs=2)
                name = re.sub(r"[^\w.-]", "-", f"{op}-{dtype}-{platform}")
                folder = directory / FOLDER / name
                folder.mkdir(parents=True, exist_ok=True)
                script = write_reproducer(folder, case, seen, spec, versions([spec]))
                where = f"{FOLDER}/{name}/{script.path.name}"
                proof = Proof(platform, op, dtype, cell.worst, where, script.reproduces, script.said)
            result.append(proof)
            write_whole(directory / FILE, json.dumps([asdict(item) for item in result], indent=1) + "\n")
    return result


def proofs(directory: Path) -> list[Proof]:
    """What was proved in a directory so far."""
    path = directory / FILE
    if not path.is_file():
        return []
    with refusing(f"{path.name} is damaged", path):
        return msgspec.json.decode(read_file(path, FILE_BYTES), type=list[Proof])
