"""How to find the layer of a runtime that brings a difference in, as data.

    Ladder(
        rungs=(
            Rung("dynamo", {"backend": "eager"}, layer="dynamo", says="TorchDynamo's graph already differs"),
            Rung("inductor", layer="inductor", says="inductor brings it in"),
        ),
        knobs=(Knob("fusion off", {"inductor": {"epilogue_fusion": False}}, "fusion", "inductor runs without fusion"),),
    )

Each rung is the same case with a little more of the runtime's own work than the rung before; the first one that
differs names the layer. Each knob is a setting of the whole runtime; one that restores agreement names a layer more
exactly, and is a workaround. Nothing here runs anything: `tracing.ladder` climbs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Rung:
    """One step up: the same case with other options, or on another platform."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """On top of the platform's own options."""
    platform: str | None = None
    """The name of another platform that does this part of the work; None is the platform itself."""
    layer: str = ""
    """The layer at fault if this rung is the first that differs."""
    says: str = ""
    """The same as a clause for a person: `the exported model is wrong`."""
    cause: str = ""
    """The kind of cause that the layer stands for, if it stands for one."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the platform itself, which ran already."""
        return not self.options and self.platform is None


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting of the platform that may restore agreement."""

    name: str
    options: Mapping[str, Any]
    """On top of the platform's own options."""
    layer: str
    """The layer that it switches off or changes."""
    restores: str
    """When the difference vanishes, as a clause: `inductor runs without fusion`."""
    cause: str = ""
    """The kind of cause that the layer stands for, if it stands for one."""
    cure: str = ""
    """The line of code that turns it, to paste."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of a compiler that can be switched off by name: the smallest set that restores agreement is looked for."""

    what: str
    """`graph optimisers`."""
    option: str
    """The option of the platform that takes the names to switch off."""
    names: tuple[str, ...]
    layer: str
    cure: str
    """The line of code, with `{names}` for the list."""
    within: str = ""
    """The layer of the rungs that these passes are a part of; their own where it is not said."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs from the least to the most of the runtime's own work, and the knobs of the whole runtime."""

    rungs: tuple[Rung, ...] = ()
    knobs: tuple[Knob, ...] = ()
    passes: Passes | None = None


ONE_THREAD: Final = Knob(
    "one thread", {"threads": 1}, "threads", "it runs with one thread", cause="instruction scheduling",
    cure="torch.set_num_threads(1)",
)  # fmt: skip
