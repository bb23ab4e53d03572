"""What another machine did with a packed campaign, variant by variant."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import msgspec

from mindgap.campaign.archive import Reading
from mindgap.campaign.dossier import NumberedVariant
from mindgap.campaign.packing import RESULTS, identity_of
from mindgap.campaign.plan import BASELINE, Plan
from mindgap.campaign.remote import RemoteOutcome, restored
from mindgap.errors import CorruptProgram, UsageError
from mindgap.execution.scratch import Scratch
from mindgap.records.outcome import Outcome


class Results:
    """The outcomes of a results file; outputs are laid down only for the variant at hand."""

    def __init__(self, path: Path, plan: Plan, scratch: Scratch) -> None:
        self._scratch = scratch
        self._reading = Reading(path, RESULTS)
        about = self._reading.about
        if about.get("campaign") != identity_of(plan):
            raise UsageError(
                f"{path.name} holds results of another campaign", hint="they must come from a pack of this one"
            )
        self.platforms: dict[str, tuple[str, str]] = {
            str(name): (str(version), str(device)) for name, (version, device) in about["platforms"].items()
        }
        taken = sorted({BASELINE, *plan.platforms} & set(self.platforms))
        if taken:
            raise UsageError(f"{path.name} holds results of {taken[0]}, which this campaign runs itself")
        self._rows: dict[int, list[RemoteOutcome]] = {}
        decoder = msgspec.msgpack.Decoder(RemoteOutcome)
        try:
            for row in self._reading.rows("outcomes"):
                told = decoder.decode(row)
                if told.outcome.platform not in self.platforms:
                    raise ValueError(f"it holds outcomes of {told.outcome.platform}, which it does not list")
                self._rows.setdefault(told.number, []).append(told)
        except (TypeError, ValueError) as error:
            raise CorruptProgram(f"{path.name} is damaged", cause=str(error)) from error

    @property
    def numbers(self) -> set[int]:
        return set(self._rows)

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.__exit__(kind, error, trace)

    def outcomes(self, variant: NumberedVariant) -> list[Outcome]:
        """What the other machine's platforms did with a variant."""
        found = []
        for told in self._rows.get(variant.number, []):
            if told.fingerprint != variant.fingerprint:
                raise UsageError(
                    f"variant {variant.number} is another program there than here",
                    hint="pack the campaign with the mindgap that merges it",
                )
            found.append(restored(told, self._scratch.new_file("elsewhere")))
        return found
