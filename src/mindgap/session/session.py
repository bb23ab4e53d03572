"""A session: the one place where users' calls become cases, runs, verdicts and explanations."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

import torch

from mindgap.campaign.hunt import keep_explanation
from mindgap.campaign.reader import finding_case
from mindgap.corpus.casing import BuildCase, build_case, case_of
from mindgap.corpus.casting import in_precision
from mindgap.corpus.inputs import check_fit, read_inputs
from mindgap.corpus.loaded import Loaded
from mindgap.errors import ModelError, UsageError
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel
from mindgap.execution.pool import HOST, Pool, in_parallel
from mindgap.explanation.explain import DONE, NothingToExplain, Progress, explain_case
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.probing import probe, require
from mindgap.platforms.registry import catalogue, resolve
from mindgap.platforms.running import run
from mindgap.platforms.versions import versions
from mindgap.records.check import CheckResult, PlatformResult
from mindgap.records.explanation import Explanation
from mindgap.records.outcome import Outcome, Ran
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.source import Source
from mindgap.records.tensors import DTYPE_NAMES
from mindgap.reduction.reducer import Budget
from mindgap.verdicts.judging import Comparing, Judged, Question, ask_judge

DEFAULT_PLATFORMS: Final = ("eager@scalar", "inductor", "onnxruntime", "openvino")
"""Checked when none are named: unlike enough to find most differences, and all run on a CPU."""

Model: TypeAlias = "str | torch.nn.Module | Callable[..., Any]"
"""A name such as `timm:resnet18`, or a live module or function."""

Given: TypeAlias = "Sequence[Any] | Mapping[str, Any] | torch.Tensor | str | os.PathLike[str]"
"""Inputs as a caller may give them: positional, by keyword, a single tensor, or a file."""


def _silent(who: str, what: str) -> None:
    """Tells nobody."""


class Session:
    """Workers that stay warm: the second check of a small model costs what its runtimes cost.

    >>> with mindgap.Session() as session:
    ...     session.check(model, [x], on=["inductor"])
    """

    def __init__(self, config: Config | None = None, jobs: int | None = None, progress: Progress | None = None) -> None:
        self.config = config or load_config(None)
        self.pool = Pool(import_paths())
        self.jobs = jobs or os.cpu_count() or 1
        self._tell = progress or _silent
        self._probes: dict[str, Probe] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every worker."""
        self.pool.close()

    def check(
        self,
        model: Model,
        inputs: Given | None = None,
        on: Sequence[str] | None = None,
        *,
        dtype: str | None = None,
        seed: int = 0,
        program: bool = False,
        trust: bool = False,
    ) -> CheckResult:
        """Run one model on many platforms and judge each against eager and the float64 reference."""
        start = time.perf_counter()
        specs = [resolve(name, self.config) for name in (on or DEFAULT_PLATFORMS)]
        baseline = resolve("eager", self.config)
        for spec in [baseline, *specs]:
            self.pool.warm(spec)
        parcel = self.build(model, inputs, dtype=dtype, seed=seed, trust=trust)
        probes = in_parallel(self.jobs, self._require, specs)
        eager, eager_program, outcomes = self._execute(parcel, baseline, specs, program)
        judged = self._judge(parcel, eager, eager_program, outcomes)
        for outcome in (eager, eager_program, *outcomes):
            if outcome is not None:
                discarded(outcome)  # what is mapped stays
        return CheckResult(
            model=parcel.name,
            dtype=dtype or _dtype_of(parcel),
            seed=seed,
            nodes=parcel.nodes,
            parameters=parcel.parameters,
            inputs={name: str(meta) for name, (meta, _) in zip(parcel.input_names, parcel.inputs)},
            eager=eager,
            platforms={
                outcome.platform: PlatformResult(outcome, judged.verdicts[outcome.platform], known)
                for outcome, known in zip(outcomes, probes)
            },
            export_failure=parcel.export_failure,
            program_exact=_exact(eager, eager_program),
            reference=judged.reference,
            versions=versions(specs),
            seconds=time.perf_counter() - start,
        )

    def explain(
        self,
        model: Model,
        on: str,
        folder: Path | str,
        inputs: Given | None = None,
        *,
        dtype: str | None = None,
        seed: int = 0,
        trust: bool = False,
        budget: Budget = Budget(),  # noqa: B008 - frozen
    ) -> Explanation:
        """Why a model gives another result on one platform; writes repro.py, issue.md and their data to a folder."""
        spec = resolve(on, self.config)
        self.pool.warm(spec)
        parcel = self.build(model, inputs, dtype=dtype, seed=seed, trust=trust)
        if not parcel.program:
            raise ModelError("a model that cannot be exported cannot be explained", cause=parcel.export_failure)
        case = open_parcel(parcel.without_source(), Constants())
        return explain_case(self.pool, parcel.name, case, spec, self.config, Path(folder), budget, self._tell)

    def explain_finding(
        self,
        directory: Path | str,
        identity: str,
        budget: Budget = Budget(),  # noqa: B008 - frozen
    ) -> Explanation:
        """A finding of the campaign in a directory; what is found goes back to its ledger."""
        directory = Path(directory)
        filed = finding_case(directory, identity)
        spec = resolve(filed.platform, self.config)
        folder = directory / identity
        try:
            found = explain_case(self.pool, identity, filed.case, spec, self.config, folder, budget, self._tell)
        except NothingToExplain as nothing:
            now = require(self.pool, spec).version
            changed = f"{filed.platform} was {filed.version}, now {now}" if now != filed.version else ""
            raise UsageError(
                f"{identity} no longer reproduces",
                cause="; ".join(filter(None, [nothing.cause, changed or f"{filed.platform} is still {now}"])),
            ) from nothing
        keep_explanation(directory, filed.program, found, identity)
        return found

    def platforms(self, names: Sequence[str] | None = None) -> dict[str, Probe]:
        """What every known platform says about itself on this machine."""
        specs = [resolve(name, self.config) for name in names] if names else catalogue(self.config)
        return probe(self.pool, specs)

    def build(
        self,
        model: Model,
        inputs: Given | None,
        *,
        dtype: str | None = None,
        seed: int = 0,
        trust: bool = False,
    ) -> Parcel:
        """A model as a case: one that is named is loaded in a worker; a live module or function is exported here."""
        _check_dtype(dtype)
        file = self.pool.scratch.new_file("case")
        self._tell("model", "load and export")
        if isinstance(model, str):
            if inputs is not None and not isinstance(inputs, str | os.PathLike):
                raise UsageError("a model given by name takes its inputs from a file", hint="inputs='inputs.pt'")
            source = Source(spec=model, seed=seed, dtype=dtype, trust=trust, directory=str(Path.cwd()))
            given = str(Path(inputs).absolute()) if inputs is not None else None
            parcel = self.pool.demand(HOST, build_case, BuildCase(source, str(file), given), f"loading {model}")
        else:
            loaded = _live(model, inputs, dtype)
            parcel = make_parcel(case_of(loaded, _pickled(loaded, seed), seed), file)
        self._tell("model", DONE)
        return parcel

    def _require(self, spec: PlatformSpec) -> Probe:
        """Each platform is asked once per session."""
        if spec.name not in self._probes:
            self._probes[spec.name] = require(self.pool, spec)
        return self._probes[spec.name]

    def _execute(
        self, parcel: Parcel, baseline: PlatformSpec, specs: Sequence[PlatformSpec], program_only: bool
    ) -> tuple[Outcome, Outcome | None, list[Outcome]]:
        """Eager on the source and on the program, then every platform; outputs are mapped."""

        def execute(spec: PlatformSpec) -> Outcome:
            tell = self._tell
            outcome = run(self.pool, spec, parcel, 2, program_only, on_stage=lambda stage: tell(spec.name, stage.value))
            tell(spec.name, DONE)
            return opened(outcome)

        eager = replace(execute(baseline), is_local_eager=True)
        eager_program = None
        if eager.ran is Ran.SOURCE and parcel.program:
            eager_program = replace(opened(run(self.pool, baseline, parcel)), is_local_eager=True)
        others = [spec for spec in specs if spec != baseline]
        outcomes = {spec.name: o for spec, o in zip(others, in_parallel(self.jobs, execute, others))}
        return eager, eager_program, [outcomes.get(spec.name, eager) for spec in specs]

    def _judge(
        self, parcel: Parcel, eager: Outcome, eager_program: Outcome | None, outcomes: Sequence[Outcome]
    ) -> Judged:
        """A platform that ran the program is compared with eager on the program, so that what the exporter changed is
        not blamed on it."""
        by_program = tuple(o for o in outcomes if o.ran is Ran.PROGRAM)
        by_source = tuple(o for o in outcomes if o.ran is not Ran.PROGRAM)
        groups = (Comparing(eager_program or eager, by_program), Comparing(eager, by_source))
        self._tell("reference", "float64 and rounding noise")
        found = ask_judge(self.pool, Question(parcel, groups))
        self._tell("reference", DONE)
        return found


def import_paths() -> list[str]:
    """Where the user's own modules may live: what is on sys.path beyond the interpreter's installation."""
    prefixes = (sys.prefix, sys.base_prefix)
    return [str(Path.cwd()), *(path for path in sys.path if path and not path.startswith(prefixes))]


def _live(model: torch.nn.Module | Callable[..., Any], inputs: Given | None, dtype: str | None) -> Loaded:
    """A module or function from the caller's own process."""
    if inputs is None:
        raise ModelError("a model given as an object needs inputs", hint="mindgap.check(model, [x, y])")
    if isinstance(inputs, str | os.PathLike):
        args, kwargs = read_inputs(Path(inputs))
    elif isinstance(inputs, Mapping):
        args, kwargs = (), dict(inputs)
    elif isinstance(inputs, torch.Tensor):
        args, kwargs = (inputs,), {}
    else:
        args, kwargs = tuple(inputs), {}
    name = getattr(model, "__name__", type(model).__name__)
    own = copy.deepcopy(model) if dtype is not None and isinstance(model, torch.nn.Module) else model
    loaded = in_precision(Loaded(name=name, args=args, kwargs=kwargs, model=own), dtype)
    check_fit(loaded)
    return loaded


def _pickled(loaded: Loaded, seed: int) -> Source | None:
    """The live model as bytes for workers that can import its class; None when it cannot be pickled."""
    try:
        return Source(spec=loaded.name, seed=seed, pickled=pickle.dumps(loaded.model))
    except Exception:  # a lambda, a local class, an open file: the program runs instead
        return None


def _exact(eager: Outcome, eager_program: Outcome | None) -> bool | None:
    if eager_program is None or not (eager.ok and eager_program.ok):
        return None
    return eager.digest == eager_program.digest


def _check_dtype(dtype: str | None) -> None:
    allowed = ("float32", "float16", "bfloat16", "float64")
    if dtype is not None and dtype not in allowed:
        raise UsageError(f"unknown dtype {dtype!r}", hint=f"one of {', '.join(allowed)}")


def _dtype_of(parcel: Parcel) -> str:
    """The floating dtype that a model computes in, as far as its tensors tell."""
    metas = [meta for meta, _ in (*parcel.inputs, *parcel.tensors.values())]
    floating = [m.dtype for m in metas if m.dtype in _FLOATING]
    if floating:
        return max(set(floating), key=floating.count)
    return metas[0].dtype if metas else "float32"


_FLOATING: Final = {name for dtype, name in DTYPE_NAMES.items() if dtype.is_floating_point}
