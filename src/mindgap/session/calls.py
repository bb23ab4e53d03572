"""The calls of a session, each with a session of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindgap.explanation.explain import Progress
from mindgap.platforms.config import Config
from mindgap.records.check import CheckResult
from mindgap.records.evaluation import Evaluation
from mindgap.records.explanation import Explanation
from mindgap.records.platform import Probe
from mindgap.reduction.reducer import Budget
from mindgap.session.session import Given, Model, Session


def check(
    model: Model,
    inputs: Given | None = None,
    on: Sequence[str] | None = None,
    *,
    dtype: str | None = None,
    seed: int = 0,
    program: bool = False,
    trust: bool = False,
    tolerance: bool = False,
    invariance: bool = False,
    backward: bool = False,
    config: Config | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> CheckResult:
    """Run one model on many platforms and judge each against eager and the float64 reference.

    `model` is a module, a function, or a name such as `timm:resnet18`; `inputs` its positional arguments, a dict
    of keyword arguments, or a file that holds them.
    """
    with Session(config, jobs, progress) as session:
        return session.check(
            model, inputs, on, dtype=dtype, seed=seed, program=program, trust=trust, tolerance=tolerance,
            invariance=invariance, backward=backward,
        )  # fmt: skip


def explain(
    model: Model,
    on: str,
    folder: Path | str,
    inputs: Given | None = None,
    *,
    dtype: str | None = None,
    seed: int = 0,
    trust: bool = False,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    backward: bool = False,
    config: Config | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """Why a model gives another result on one platform; writes repro.py, issue.md and their data to a folder."""
    with Session(config, progress=progress) as session:
        return session.explain(
            model, on, folder, inputs, dtype=dtype, seed=seed, trust=trust, budget=budget, backward=backward
        )


def evaluate(
    model: str,
    data: Path | str,
    on: Sequence[str] | None = None,
    *,
    config: Config | None = None,
    jobs: int | None = None,
    **options: Any,
) -> Evaluation:
    """Whether the answers to labelled data change on other platforms by more than rounding explains.

    `options` are those of `Session.evaluate`.
    """
    with Session(config, jobs) as session:
        return session.evaluate(model, data, on, **options)


def platforms(names: Sequence[str] | None = None, config: Config | None = None) -> dict[str, Probe]:
    """What every known platform, or these, say about themselves on this machine."""
    with Session(config) as session:
        return session.platforms(names)
