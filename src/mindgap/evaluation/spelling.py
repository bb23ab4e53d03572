"""What can be known of an evaluation before torch is imported: the names of tasks, and wishes for preprocessing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.errors import Untrusted, UsageError

TASKS: Final = ("classification", "segmentation", "next-token")
INTERPOLATIONS: Final = ("nearest", "bilinear", "bicubic", "lanczos")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user says about preprocessing; None keeps what is usual for the model."""

    crop: float | None = None
    interpolation: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.interpolation is not None and self.interpolation not in INTERPOLATIONS:
            known = ", ".join(INTERPOLATIONS)
            raise UsageError(f"there is no interpolation {self.interpolation!r}", hint=f"one of {known}")
        if self.crop is not None and not 0.1 <= self.crop <= 1.0:
            raise UsageError("the share that a crop keeps is from 0.1 to 1", cause=f"given {self.crop:g}")

    def given(self) -> dict[str, Any]:
        """What was said."""
        known = {"crop": self.crop, "interpolation": self.interpolation, "mean": self.mean, "std": self.std}
        return {name: value for name, value in known.items() if value is not None}


AS_USUAL: Final = Wanted()


def is_function(task: str) -> bool:
    """Whether a task is a function in a file of the user's."""
    return task.partition(":")[0].endswith(".py")


def refuse_task(task: str, trust: bool, directory: Path) -> None:
    """Raises where a task does not exist, or would execute code that nobody trusts."""
    if not is_function(task):
        if task not in TASKS:
            raise UsageError(f"there is no task {task!r}", hint=f"{', '.join(TASKS)}, or file.py:function")
        return
    name, _, function = task.partition(":")
    if not (directory / name).is_file():
        raise UsageError(f"there is no file {name}", where=str(directory))
    if not function.isidentifier():
        raise UsageError(f"{task} names no function", hint=f"{name}:score")
    if not trust:
        raise Untrusted(
            f"--task {task} executes code from {name}", hint="if you trust where the file comes from, add --trust"
        )
