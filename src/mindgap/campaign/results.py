"""What another machine did with a packed campaign, variant by variant. A worker reads it; no path in it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from mindgap.campaign.archive import Reading
from mindgap.campaign.dossier import NumberedVariant
from mindgap.campaign.packing import RESULTS, identity_of
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.campaign.remote import READER, RemoteOutcome, restored
from mindgap.errors import UsageError
from mindgap.execution.pool import Pool
from mindgap.execution.tasks import Worker, task
from mindgap.reading.limits import MESSAGE, NAME
from mindgap.reading.packed import survey
from mindgap.records.outcome import DIGEST_BYTES, Outcome

PLATFORM: Final = re.compile(r"\w[\w.:@+-]{0,127}")
"""The name of a platform of another machine."""


@dataclass(frozen=True, slots=True)
class OpenResults:
    """Results, and what the campaign that takes them knows about itself."""

    path: str
    campaign: str
    own_platforms: tuple[str, ...]
    variants: int


@dataclass(frozen=True, slots=True)
class ResultsContent:
    """What results are about."""

    platforms: dict[str, tuple[str, str]]
    """Version and device of each platform."""
    numbers: tuple[int, ...]
    """Of the variants that they ran."""


@dataclass(frozen=True, slots=True)
class LayDown:
    """Outputs of one variant wanted, each in a file of ours: one for each platform."""

    results: OpenResults
    number: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaidDown:
    """An outcome of another machine; its outputs, if any, are in the file of its position."""

    fingerprint: str
    outcome: Outcome


@task
def open_results(worker: Worker, request: OpenResults) -> ResultsContent:
    """Check results as a whole."""
    found = worker.keep(_Opened).results(request)
    return ResultsContent(found.platforms, tuple(sorted(found.rows)))


@task
def lay_down(worker: Worker, request: LayDown) -> tuple[LaidDown, ...]:
    """What the platforms of another machine did with one variant."""
    found = worker.keep(_Opened).results(request.results)
    with found.reading.damaged(f"variant {request.number}"):
        rows = found.rows.get(request.number, [])
        return tuple(LaidDown(t.fingerprint, restored(t, Path(f))) for t, f in zip(rows, request.files))


class _Opened:
    """The results that a worker has open."""

    def __init__(self) -> None:
        self._found: tuple[OpenResults, _Checked] | None = None

    def results(self, request: OpenResults) -> _Checked:
        if self._found is None or self._found[0] != request:
            self._found = request, _Checked(request)
        return self._found[1]


class _Checked:
    """Results of which every row was checked: they speak of their own platforms only, and of each variant once."""

    def __init__(self, request: OpenResults) -> None:
        path = Path(request.path)
        self.reading = Reading(path, RESULTS)
        about = self.reading.about
        if about.campaign != request.campaign:
            raise UsageError(
                f"{path.name} holds results of another campaign", hint="they must come from a pack of this one"
            )
        self.platforms = about.platforms
        with self.reading.damaged("platforms"):
            for name, (version, device) in self.platforms.items():
                if not PLATFORM.fullmatch(name) or len(version) > NAME or len(device) > NAME:
                    raise ValueError(f"{name[:40]!r} is not a platform")
        taken = sorted(set(request.own_platforms) & set(self.platforms))
        if taken:
            raise UsageError(f"{path.name} holds results of {taken[0]}, which this campaign runs itself")
        self.rows: dict[int, list[RemoteOutcome]] = {}
        decoder = msgspec.msgpack.Decoder(RemoteOutcome)
        for row in self.reading.rows("outcomes", bytes):
            with self.reading.damaged("outcomes"):
                survey(row)
                self._add(decoder.decode(row), request.variants)

    def _add(self, told: RemoteOutcome, variants: int) -> None:
        outcome = told.outcome
        if outcome.platform not in self.platforms:
            raise ValueError(f"it holds outcomes of {outcome.platform[:40]!r}, which it does not list")
        if not 0 <= told.number < variants:
            raise ValueError(f"there is no variant {told.number}")
        before = self.rows.setdefault(told.number, [])
        if any(other.outcome.platform == outcome.platform for other in before):
            raise ValueError(f"it holds variant {told.number} twice for {outcome.platform}")
        if outcome.digest and not re.fullmatch(rf"[0-9a-f]{{{2 * DIGEST_BYTES}}}", outcome.digest):
            raise ValueError(f"{outcome.digest[:40]!r} is not a digest")
        if not all(0 <= seconds < 1e9 for seconds in outcome.seconds.values()):
            raise ValueError(f"variant {told.number} took no time that can be: {dict(outcome.seconds)}")
        texts: Iterable[str] = (outcome.message, outcome.note, outcome.log_tail, outcome.where, *outcome.not_compared)
        if any(len(text) > MESSAGE for text in texts):
            raise ValueError(f"a message of {outcome.platform} is too long")
        before.append(told)


class Results:
    """The outcomes of a results file; outputs are laid down only for the variant at hand."""

    def __init__(self, path: Path, plan: Plan, pool: Pool) -> None:
        self._pool = pool
        self._name = path.name
        own = tuple(sorted({BASELINE, *plan.platforms}))
        self._request = OpenResults(str(path.absolute()), identity_of(plan), own, plan.variants)
        content = pool.demand(READER, open_results, self._request, f"reading {path.name}")
        self.platforms = content.platforms
        self.numbers = set(content.numbers)

    def outcomes(self, variant: NumberedVariant) -> list[Outcome]:
        """What the other machine's platforms did with a variant."""
        if variant.number not in self.numbers:
            return []
        files = [self._pool.scratch.new_file("elsewhere", READER.worker_name) for _ in self.platforms]
        request = LayDown(self._request, variant.number, tuple(map(str, files)))
        found = self._pool.demand(READER, lay_down, request, f"reading {self._name}")
        if any(item.fingerprint != variant.fingerprint for item in found):
            raise UsageError(
                f"variant {variant.number} is another program there than here",
                hint="pack the campaign with the mindgap that merges it",
            )
        return [
            replace(item.outcome, file=str(file) if item.outcome.stored else "") for item, file in zip(found, files)
        ]
