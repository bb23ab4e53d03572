"""Who has the next turn: time goes where it finds something."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from mindgap.reading.files import read_file, refusing
from mindgap.records.files import write_whole
from mindgap.study.plan import MODELS

TURNS: Final = "turns.jsonl"
TURNS_BYTES: Final = 16 << 20
COUNT: Final = 16
"""Turns that a study's time is cut into: enough that a phase that finds nothing loses little."""
SHORTEST_S, LONGEST_S = 120.0, 1800.0
"""A turn starts workers and loads the corpus, which takes up to half a minute; after half an hour one should look
again."""
MODELS_SHARE: Final = 1 / 3
"""Of the time: unmodified models go first, as the study is about them, but not for ever."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a phase had done when one of its turns ended."""

    phase: str
    seconds: float
    done: Mapping[str, int] = field(default_factory=dict)
    """Programs that each platform has run, earlier turns included."""
    findings: int = 0
    """In all, earlier turns included."""
    new: int = 0
    """Findings of this turn."""
    ended: bool = False
    """Whether nothing is left to run."""
    cpu_s: float = 0.0
    """CPU time of all its processes; 0 in studies that did not measure it."""

    @property
    def per_hour(self) -> float:
        return 3600 * self.new / self.seconds if self.seconds else 0.0


def turn_s(budget_s: float) -> float:
    """How long a turn takes in a study of that length."""
    return min(max(budget_s / COUNT, SHORTEST_S), LONGEST_S, budget_s)


def next_phase(turns: Sequence[Turn], left: Sequence[str], budget_s: float) -> str:
    """Of the phases that have something left: the models, up to their share; then each once; then whichever found
    most per hour in its last turn, and where none did, the one that had least time."""
    spent = {phase: sum(turn.seconds for turn in turns if turn.phase == phase) for phase in left}
    last = {turn.phase: turn for turn in turns}
    if MODELS in left and spent[MODELS] < MODELS_SHARE * budget_s:
        return MODELS
    fresh = [phase for phase in left if phase not in last]
    return fresh[0] if fresh else max(left, key=lambda phase: (last[phase].per_hour, -spent[phase]))


def read_turns(directory: Path) -> list[Turn]:
    """Every turn that came to its end."""
    file = directory / TURNS
    if not file.exists():
        return []
    with refusing(f"{file} is damaged"):
        return [msgspec.json.decode(line, type=Turn) for line in read_file(file, TURNS_BYTES).splitlines()]


def keep_turns(directory: Path, turns: Sequence[Turn]) -> None:
    """All of them, in one piece: there are few."""
    write_whole(directory / TURNS, "".join(json.dumps(asdict(turn)) + "\n" for turn in turns))
