"""What a platform is: everything about one runtime, in one class.

    class Toy(Platform):
        runtime = "toy"                       # names: toy, toy:DEVICE, toy@PROFILE
        summary = "a runtime of my own"
        packages = ("toy-runtime",)           # reported with every result
        message_rules = MessageRules(noise=("toy: note",))

        def probe(self): ...                  # can it be used here?
        def prepare(self, case, clock): ...   # convert, compile, place: returns a Prepared

Only these two methods, `runtime` and `summary` are needed. What else a runtime knows about itself has a default:
its profiles, devices and options, how its errors read (`message_rules`, `status_of`), how a script without mindgap
uses it (`reproducer`), and how to find the layer at fault (`rungs` and `knobs`, or `ladder`).
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import torch

from mindgap.platforms.ladder import ONE_THREAD, Knob, Ladder, Rung
from mindgap.platforms.messages import NO_RULES, MessageRules, first_cause
from mindgap.platforms.recipe import Recipe, Versioned
from mindgap.platforms.reproducer import Headings, ReproducerText, with_mindgap
from mindgap.program.case import Case
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import NamedTensor


@dataclass(frozen=True, slots=True)
class Profile:
    """A named way to run a runtime: `eager@scalar` is eager with this environment and these options."""

    summary: str
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    emulates: str = ""
    """What hardware it stands in for: its results are emulated, not observed, and nobody is blamed for them."""


class StageClock:
    """Tracks the current stage, so that a failure carries it, and the time that each stage took."""

    def __init__(self, on_stage: Callable[[Stage], None] | None = None) -> None:
        self.current = Stage.LOAD
        self.seconds: dict[str, float] = {}
        self._on_stage = on_stage

    def enter(self, stage: Stage) -> None:
        """From here on a failure, or the death of the process, belongs to this stage."""
        self.current = stage
        if self._on_stage is not None:
            self._on_stage(stage)

    @contextlib.contextmanager
    def __call__(self, stage: Stage) -> Iterator[None]:
        self.enter(stage)
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[stage.value] = self.seconds.get(stage.value, 0.0) + spent


class StageFailure(Exception):
    """A failure with the status that the adapter gives it, where an exception's type would not tell."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Fallback:
    """Operators that a runtime gave to somebody else."""

    share: float
    """Of all operators that it was given, after its own optimisations."""
    to: str
    """Who runs them: `ONNX Runtime's CPU provider`."""
    names: tuple[str, ...] = ()
    """Which they are, the most frequent first, where the runtime names them."""


XNNPACK: Final = "xnnpack"
LAVAPIPE: Final = "lavapipe"
"""Families that several runtimes belong to: Google's kernels, and Mesa's software GPU."""

FALLBACK: Final = "fallback"
FALLBACK_MEANS: Final = "allow (the default: the share that ran elsewhere is told) or forbid"
"""An option of every runtime that can tell; what it cannot tell of one case is forbidden as well."""


class Prepared(ABC):
    """A case prepared on a platform: converted, compiled, placed."""

    ran: Ran
    note: str = ""
    not_compared: tuple[str, ...] = ()
    """What the last run returned besides tensors and numbers."""
    composed: tuple[str, ...] = ()
    """Operators that mindgap put together for a runtime that has none of the kind: their meaning is mindgap's."""
    fallback: Fallback | None = None
    """What quietly runs elsewhere than the platform says, where the runtime can tell."""

    @abstractmethod
    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        """Outputs by name for these input tensors, which are the run's own copies.

        Inputs that the model changed follow the outputs as `input:NAME`.
        """


class Platform(ABC):
    """One runtime, living in a worker process of its own."""

    runtime: ClassVar[str]
    """The name before `:` and `@`."""
    summary: ClassVar[str]
    install: ClassVar[str | None] = None
    """The command that would make it available."""
    profiles: ClassVar[Mapping[str, Profile]] = {}
    devices: ClassVar[Mapping[str, str]] = {}
    """Devices beyond the default one, each with the command that would make it available."""
    hardware: ClassVar[Mapping[str, str]] = {}
    """Of these devices, those that need hardware, and which."""
    recipes: ClassVar[Mapping[str, Recipe]] = {}
    """Environments of its own: "" for the whole runtime, ":DEVICE" or "@PROFILE" where only that needs one."""
    versioned: ClassVar[Versioned | None] = None
    """How to install another version of it; None where mindgap cannot."""
    options: ClassVar[Mapping[str, str]] = {}
    """Options that a profile or mindgap.toml may set, each with its meaning."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Endings of model files that it takes as they are: `.onnx`."""
    runs_source: ClassVar[bool] = False
    """Whether it can run the user's own module; other runtimes need the exported program."""
    compares_with_eager_of_its_device: ClassVar[bool] = False
    """Whether it is torch.compile: then it is also compared with eager on the device that it compiles for."""
    in_crowds: ClassVar[Mapping[str, object]] = {}
    """Options that make it cheaper for many programs; whatever they show is confirmed without them."""
    families: ClassVar[tuple[str, ...]] = ()
    """All that it shares with others, be it an exporter, a compiler or kernels: who shares any is one witness with it.
    Its own name where it shares nothing."""
    shares_lowering: ClassVar[bool] = False
    """Whether many programs, foreseen together, cost one by one about as much as side by side in one program."""
    works_in_copies: ClassVar[bool] = False
    """Whether a forked copy of its process can run programs: only without threads of its own, which stay behind."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions are reported with every result."""
    headings: ClassVar[Headings] = Headings()
    """How its project's issue template calls the parts of a report."""
    message_rules: ClassVar[MessageRules] = NO_RULES
    """How to read its exceptions, on top of what holds for every runtime."""
    rungs: ClassVar[tuple[Rung, ...]] = ()
    """Parts of its work, from the least to all of it."""
    knobs: ClassVar[tuple[Knob, ...]] = ()
    """Settings that may restore agreement."""

    def __init__(self, spec: PlatformSpec) -> None:
        self.spec = spec

    @abstractmethod
    def probe(self) -> Probe:
        """Version, device and dtypes, or why it cannot be used here; never raises."""

    @abstractmethod
    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        """Make a case ready, each stage under `clock(stage)`."""

    def prepare_file(self, case: Case, clock: StageClock) -> Prepared:
        """Make a model file ready (`reads`), which the platform takes as it is."""
        raise StageFailure(Status.UNSUPPORTED, f"it reads no {Path(case.file).suffix} files")

    def foresee(self, cases: Sequence[Case]) -> None:  # noqa: B027 - most have nothing to share
        """Cases that are prepared next, one by one: what they share can be made here, once for all of them."""

    def surely_refuses(self, case: Case) -> bool:
        """Whether it is known, at little cost, that it will refuse a case: then no other case is prepared with it."""
        return False

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """What kind of failure an exception of this runtime is."""
        return status_of(error, stage)

    def message_of(self, error: BaseException) -> str:
        """The one line of an exception of this runtime that a person needs."""
        return first_cause(error, self.message_rules)

    @classmethod
    def families_of(cls, spec: PlatformSpec) -> tuple[str, ...]:
        """The families of a platform, where they depend on its device or its options."""
        return cls.families or (cls.runtime,)

    @classmethod
    def can_be_copied(cls, spec: PlatformSpec) -> bool:
        """Whether a copy of the process of this very platform can run programs; no driver of a device can."""
        return cls.works_in_copies and threads_of(spec) == 1 and not spec.device

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        """How a script runs a model on this platform; by default with mindgap itself."""
        return with_mindgap(spec)

    @classmethod
    def file_script(cls, spec: PlatformSpec) -> str:
        """Source of `on_platform(path, feeds)`, which runs a model file on arrays by name; empty without such."""
        return ""

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder | None:
        """How to find the layer at fault on this platform; None where there is nothing to try."""
        knobs = (*cls.knobs, *thread_knobs(spec))
        return Ladder(cls.rungs, knobs) if cls.rungs or knobs else None


def threads_of(spec: PlatformSpec) -> int:
    """Threads inside one operator: one unless the platform says otherwise, because their number changes bits."""
    return int(str(spec.options.get("threads", 1)))


def thread_knobs(spec: PlatformSpec) -> tuple[Knob, ...]:
    """For a platform with several threads: one alone may agree."""
    return (ONE_THREAD,) if threads_of(spec) > 1 else ()


_UNSUPPORTED_WORDS = (
    "not implemented for", "not implemented", "not supported", "unsupported", "no conversion rule",
    "no decomposition", "could not find an implementation", "opconversionfailure", "not_implemented",
    "is not currently",
)  # fmt: skip
_MEMORY_WORDS = ("can't allocate memory", "out of memory", "bad_alloc", "cannot allocate memory")


def status_of(error: Exception, stage: Stage) -> Status:
    """The status of an exception, from its type, its words and the stage it came from."""
    if isinstance(error, StageFailure):
        return error.status
    words = f"{type(error).__name__}: {error}".lower().replace("unsupported operand", "")  # Python's own words
    if isinstance(error, MemoryError) or any(word in words for word in _MEMORY_WORDS):
        return Status.OOM
    if isinstance(error, NotImplementedError) or any(word in words for word in _UNSUPPORTED_WORDS):
        return Status.UNSUPPORTED
    if stage is Stage.RUN and isinstance(error, RuntimeError | ValueError | IndexError | TypeError):
        return Status.REJECTED
    return Status.ERROR
