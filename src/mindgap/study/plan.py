"""What a study is to do: its phases, each a campaign in a directory of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

from mindgap.campaign.plan import Plan
from mindgap.errors import UsageError
from mindgap.reading.files import read_file, refusing
from mindgap.records.files import write_whole
from mindgap.variants.base import base_files

MODELS, VARIANTS, FRAGMENTS, OPERATORS = "models", "variants", "fragments", "operators"
PHASES: Final = (MODELS, VARIANTS, FRAGMENTS, OPERATORS)
"""In the order in which each has its first turn."""
DTYPES: Final = ("float32", "int64", "bfloat16", "float16")
"""Element types in which operators are run one by one."""
PLAN: Final = "plan.json"
CORPUS: Final = "corpus"
"""Where models are built, unless a corpus is given."""
PLAN_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """Everything that decides what a study looks at; written down once."""

    platforms: tuple[str, ...]
    """The baseline first."""
    variants: int
    """Whole variants at most, and fragments at most."""
    corpus: tuple[str, ...] | None = ("core",)
    """Names of real programs, or of a corpus that comes with mindgap; None is the whole store."""
    store: str | None = None
    """The directory of a corpus."""
    seed: int = 0

    def campaign(self, phase: str) -> Plan:
        """The campaign of a phase; operators have a sweep instead."""
        count = self.models if phase == MODELS else self.variants
        return Plan(
            self.platforms, count, self.seed, self.corpus, self.store,
            fragments=1.0 if phase == FRAGMENTS else 0.0,
            metamorphic_share=0.02 if phase == VARIANTS else 0.0,
            unmodified=phase == MODELS,
        )  # fmt: skip

    @property
    def models(self) -> int:
        """Real programs of a size that campaigns can afford."""
        return len(base_files(self.corpus, self.directory))

    @property
    def directory(self) -> Path | None:
        """The store."""
        return None if self.store is None else Path(self.store)

    @property
    def called(self) -> str:
        """The corpus, in words."""
        return ", ".join(self.corpus) if self.corpus is not None else Path(self.store or "").name


def chosen_phases(names: Sequence[str] | None) -> tuple[str, ...]:
    """The phases of these names, in their order; all where none are given."""
    if names is None:
        return PHASES
    for name in names:
        if name not in PHASES:
            raise UsageError(f"a study has no phase {name!r}", hint=f"its phases are {', '.join(PHASES)}")
    return tuple(phase for phase in PHASES if phase in names)


def open_plan(directory: Path, given: StudyPlan | None) -> StudyPlan:
    """The plan of a study that is there, or a new one; raises UsageError where both are and differ."""
    file = directory / PLAN
    if not file.exists():
        if given is None:
            raise UsageError(f"there is no study in {directory}", hint=f"mindgap study -o {directory} starts one")
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(given), indent=1) + "\n")
        return given
    with refusing(f"{file} is not the plan of a study"):
        known = msgspec.json.decode(read_file(file, PLAN_BYTES), type=StudyPlan)
    if given is not None and given != known:
        raise UsageError(
            f"{directory} holds a study with another plan",
            where=str(file),
            hint="leave out --on, --models, --variants and --seed to continue it, or choose another directory",
        )
    return known


def is_study(directory: Path) -> bool:
    """Whether a directory holds a study."""
    return (directory / PLAN).is_file() and not (directory / "ledger.sqlite").exists()
