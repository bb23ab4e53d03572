"""What a corpus consists of, from its ledger; pure functions."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.corpus.store import Entry, Status

PAUSE_S: Final = 600
_STEPS: Final = (1, 2, 5)
_VARYING: Final = re.compile(r"'[^']*'|\"[^\"]*\"|(?:/[\w.+-]+)+|\b0x[0-9a-f]+|\d+(?:\.\d+)?|\[[^\]]*\]|\([^)]*\)")
"""What differs between two failures of one cause: names, paths, numbers, shapes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures that share a stage and a cause."""

    stage: str
    models: int
    example: str
    """The spec of the first of them."""
    reason: str
    """What that one said."""


@dataclass(frozen=True, slots=True)
class Stats:
    """A corpus in numbers."""

    built: int
    duplicate: int
    failed: int
    by_library: Mapping[str, Mapping[str, int]]
    """Offers by library and status."""
    by_domain: Mapping[str, int]
    """Built models by domain."""
    operators: Mapping[str, int]
    """In how many models each operator occurs, the most common first."""
    growth: tuple[tuple[int, int], ...]
    """After how many models how many operators had been seen."""
    nodes: tuple[int, int, int]
    """Median, 90th percentile and most nodes of a model."""
    parameters: tuple[int, int, int]
    program_bytes: tuple[int, int, int]
    stored_bytes: Mapping[str, int]
    """Programs, weights that no seed gives, ledger."""
    alive: int
    """Built models in which every operator gives finite values that are not all the same."""
    dead_examples: tuple[tuple[str, str], ...]
    """Models that are not alive, each with its first dead operator."""
    causes: tuple[Cause, ...]
    duplicates: Mapping[str, int]
    """Dropped models by what is the same: `structure` or `name`."""
    cpu_hours: float
    wall_hours: float
    """From the first attempt to the last, without the pauses between two runs."""
    versions: Mapping[str, str]
    """torch and the packages that define the models."""

    @property
    def alive_share(self) -> float:
        return self.alive / self.built if self.built else 0.0


def summarise(entries: Sequence[Entry], stored_bytes: Mapping[str, int]) -> Stats:
    """The numbers of a corpus, from the last attempt at each offer."""
    built = [entry for entry in entries if entry.status is Status.BUILT]
    counts = Counter(entry.status for entry in entries)
    by_library: dict[str, Counter[str]] = {}
    for entry in entries:
        by_library.setdefault(entry.library, Counter())[entry.status.value] += 1
    operators = Counter(name for entry in built for name in entry.operators)
    return Stats(
        built=counts[Status.BUILT],
        duplicate=counts[Status.DUPLICATE],
        failed=counts[Status.FAILED],
        by_library={name: dict(found) for name, found in sorted(by_library.items())},
        by_domain=dict(Counter(entry.domain for entry in built).most_common()),
        operators=dict(operators.most_common()),
        growth=growth(built),
        nodes=_spread([entry.nodes for entry in built]),
        parameters=_spread([entry.parameters for entry in built]),
        program_bytes=_spread([entry.bytes for entry in built]),
        stored_bytes=dict(stored_bytes),
        alive=sum(entry.alive for entry in built),
        dead_examples=tuple((entry.spec, entry.dead_example) for entry in built if not entry.alive),
        causes=causes(entries),
        duplicates=dict(Counter(e.reason for e in entries if e.status is Status.DUPLICATE).most_common()),
        cpu_hours=sum(entry.seconds for entry in entries) / 3600,
        wall_hours=_wall_s([entry.finished for entry in entries]) / 3600,
        versions=library_versions(built),
    )


def growth(built: Sequence[Entry]) -> tuple[tuple[int, int], ...]:
    """Distinct operators after 1, 2, 5, 10, 20, ... models, in the order in which they were built."""
    marks = {step * 10**power for power in range(7) for step in _STEPS} | {len(built)}
    seen: set[str] = set()
    points = []
    for number, entry in enumerate(built, start=1):
        seen.update(entry.operators)
        if number in marks:
            points.append((number, len(seen)))
    return tuple(points)


def causes(entries: Sequence[Entry]) -> tuple[Cause, ...]:
    """Failures by cause, the most frequent first, each with one example."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.status is Status.FAILED:
            groups.setdefault((entry.stage, _VARYING.sub("…", entry.reason)), []).append(entry)
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    return tuple(Cause(stage, len(found), found[0].spec, found[0].reason) for (stage, _), found in ranked)


def _wall_s(finished: Sequence[float]) -> float:
    """Seconds at work, from when each model was finished; a longer silence than any model may cost is a pause."""
    ordered = sorted(finished)
    steps = (later - earlier for earlier, later in itertools.pairwise(ordered))
    return sum(step for step in steps if step < PAUSE_S)


def library_versions(built: Sequence[Entry]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in built:
        found |= json.loads(entry.versions)
    return dict(sorted(found.items()))


def _spread(values: Sequence[int]) -> tuple[int, int, int]:
    if not values:
        return 0, 0, 0
    ordered = sorted(values)
    return int(statistics.median(ordered)), ordered[int(0.9 * (len(ordered) - 1))], ordered[-1]
