"""The whole flow as one readable function: model -> subject -> outcomes -> survey -> verdicts.

`check` is what the command line and Python users call. Each stage is a folder of its own; this module only
hands the result of one to the next.
"""

from __future__ import annotations

import copy
import os
import pickle
import platform as machine
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch

import mindgap
from mindgap.corpus.casting import in_precision
from mindgap.corpus.inputs import check_fit, read_inputs
from mindgap.corpus.loaded import Loaded
from mindgap.errors import ModelError, UsageError
from mindgap.execution.build import subject_of
from mindgap.execution.pool import Pool, in_parallel
from mindgap.execution.process import Death
from mindgap.execution.subject import Subject
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import catalogue, resolve
from mindgap.records.check import CheckResult, PlatformResult
from mindgap.records.outcome import Outcome, Ran
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.source import Source
from mindgap.records.tensors import DTYPE_NAMES, TensorMeta, same_outputs
from mindgap.records.verdict import Verdict
from mindgap.verdicts.steps import Step, judge_in_steps
from mindgap.verdicts.survey import Survey

DEFAULT_PLATFORMS: Final = ("eager@scalar", "inductor", "onnxruntime", "openvino")
"""Checked when none are named: unlike enough to find most differences, and all run on a CPU."""

Given: TypeAlias = "Sequence[Any] | Mapping[str, Any] | torch.Tensor | str | os.PathLike[str]"
"""Inputs as a caller may give them: positional, by keyword, a single tensor, or a file."""

Progress = Callable[[str, str], None]
"""Told who is doing what: a platform and its stage, at last DONE."""

DONE: Final = "done"


def check(
    model: str | torch.nn.Module | Callable[..., Any],
    inputs: Given | None = None,
    on: Sequence[str] | None = None,
    *,
    dtype: str | None = None,
    seed: int = 0,
    program: bool = False,
    trust: bool = False,
    config: Config | None = None,
    jobs: int | None = None,
    pool: Pool | None = None,
    progress: Progress | None = None,
) -> CheckResult:
    """Run one model on many platforms and judge each against eager and the float64 reference.

    `model` is a module, a function, or a name such as `timm:resnet18`; `inputs` its positional arguments, a dict
    of keyword arguments, or a file that holds them. A pool that is handed in stays open for the next check.
    """
    start = time.perf_counter()
    tell = progress or (lambda who, what: None)
    config = config or load_config(None)
    specs = [resolve(name, config) for name in (on or DEFAULT_PLATFORMS)]
    own_pool = Pool(import_paths()) if pool is None else None
    workers = pool or own_pool
    assert workers is not None
    try:
        baseline = resolve("eager", config)
        for spec in [baseline, *specs]:
            workers.warm(spec)
        tell("model", "load and export")
        subject = make_subject(workers, model, inputs, dtype=dtype, seed=seed, trust=trust)
        tell("model", DONE)
        probes = _require(workers, specs, jobs)
        eager, eager_program, outcomes = execute(workers, subject, baseline, specs, program, jobs, tell)
        verdicts, reference = conclude(workers, subject, eager, eager_program, outcomes, tell)
    finally:
        if own_pool is not None:
            own_pool.close()
    return CheckResult(
        model=subject.name,
        dtype=dtype or _dtype_of(subject),
        seed=seed,
        nodes=subject.nodes,
        parameters=subject.parameters,
        inputs={name: str(meta) for name, (meta, _) in zip(subject.input_names, subject.input_entries)},
        eager=eager,
        platforms={
            outcome.platform: PlatformResult(outcome, verdicts[outcome.platform], probes[outcome.platform])
            for outcome in outcomes
        },
        export_failure=subject.export_failure,
        program_exact=_exact(eager, eager_program),
        reference=reference,
        versions=environment(),
        seconds=time.perf_counter() - start,
    )


def make_subject(
    pool: Pool,
    model: str | torch.nn.Module | Callable[..., Any],
    inputs: Given | None,
    *,
    dtype: str | None = None,
    seed: int = 0,
    trust: bool = False,
) -> Subject:
    """A model by name is loaded in a worker; a live module or function is exported here."""
    _check_dtype(dtype)
    if isinstance(model, str):
        if inputs is not None and not isinstance(inputs, str | os.PathLike):
            raise UsageError("a model given by name takes its inputs from a file", hint="inputs='inputs.pt'")
        source = Source(spec=model, seed=seed, dtype=dtype, trust=trust, directory=str(Path.cwd()))
        return pool.build(source, str(Path(inputs).absolute()) if inputs is not None else None)
    loaded = _live(model, inputs, dtype)
    return subject_of(loaded, _pickled(loaded, seed), seed, pool.scratch.new_file("subject"))


def execute(
    pool: Pool,
    subject: Subject,
    baseline: PlatformSpec,
    specs: Sequence[PlatformSpec],
    program_only: bool,
    jobs: int | None,
    tell: Progress,
) -> tuple[Outcome, Outcome | None, list[Outcome]]:
    """Eager on the source and on the program, then every platform."""

    def run(spec: PlatformSpec) -> Outcome:
        outcome = pool.run(spec, subject, program_only, on_stage=lambda stage: tell(spec.name, stage.value))
        tell(spec.name, DONE)
        return outcome

    eager = run(baseline)
    eager_program = None
    if eager.ran is Ran.SOURCE and subject.program is not None:
        eager_program = pool.run(baseline, subject, program_only=True, runs=1)
    others = [spec for spec in specs if spec != baseline]
    outcomes = {spec.name: o for spec, o in zip(others, in_parallel(_jobs(jobs), run, others))}
    return eager, eager_program, [outcomes.get(spec.name, eager) for spec in specs]


def conclude(
    pool: Pool,
    subject: Subject,
    eager: Outcome,
    eager_program: Outcome | None,
    outcomes: Sequence[Outcome],
    tell: Progress,
) -> tuple[dict[str, Verdict], str]:
    """Verdicts by platform, and what they were measured against.

    A platform that ran the program is compared with eager on the program, so that what the exporter changed
    is not blamed on it.
    """
    by_program = [o for o in outcomes if o.ran is Ran.PROGRAM]
    by_source = [o for o in outcomes if o.ran is not Ran.PROGRAM]
    reference = "not needed: every platform gave eager's bits"

    def survey_with(step: Step) -> Survey | None:
        nonlocal reference
        tell("reference", f"float64 and {step.runs} runs with noise" if step.runs else "float64")
        found = pool.survey(subject, step.runs)
        tell("reference", DONE)
        if isinstance(found, Death):
            reference = f"none: the float64 reference could not be made ({found.message})"
            return None
        reference = "eager in float64"
        return Survey.from_message(*found)

    verdicts = judge_in_steps([(eager, by_source), (eager_program or eager, by_program)], survey_with)
    return verdicts, reference


def probe_all(names: Sequence[str] | None = None, config: Config | None = None) -> dict[str, Probe]:
    """What every known platform says about itself on this machine."""
    config = config or load_config(None)
    specs = [resolve(name, config) for name in names] if names else catalogue(config)
    with Pool(import_paths()) as pool:
        return pool.probe(specs)


def environment() -> dict[str, str]:
    """Versions that a reader needs to reproduce a result."""
    installed = {item.name: item.version for item in metadata.distributions() if item.name in _REPORTED}
    return {
        "mindgap": mindgap.__version__,
        "torch": str(torch.__version__),
        **{name: installed[name] for name in _REPORTED if name in installed},
        "python": machine.python_version(),
        "system": f"{machine.system()} {machine.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }


_REPORTED: Final = ("onnx", "onnxruntime", "openvino", "timm", "transformers")


def _require(pool: Pool, specs: Sequence[PlatformSpec], jobs: int | None) -> dict[str, Probe]:
    return dict(zip([spec.name for spec in specs], in_parallel(_jobs(jobs), pool.require, specs)))


def _live(
    model: torch.nn.Module | Callable[..., Any],
    inputs: Given | None,
    dtype: str | None,
) -> Loaded:
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
        content = pickle.dumps((loaded.model, loaded.args, loaded.kwargs))
    except Exception:  # a lambda, a local class, an open file: the program runs instead
        return None
    return Source(spec=loaded.name, seed=seed, pickled=content)


def import_paths() -> list[str]:
    """Where the user's own modules may live: what is on sys.path beyond the interpreter's installation."""
    prefixes = (sys.prefix, sys.base_prefix)
    return [str(Path.cwd()), *(path for path in sys.path if path and not path.startswith(prefixes))]


def _exact(eager: Outcome, eager_program: Outcome | None) -> bool | None:
    if eager_program is None or not (eager.ok and eager_program.ok):
        return None
    return same_outputs(eager.outputs, eager_program.outputs)


def _check_dtype(dtype: str | None) -> None:
    allowed = ("float32", "float16", "bfloat16", "float64")
    if dtype is not None and dtype not in allowed:
        raise UsageError(f"unknown dtype {dtype!r}", hint=f"one of {', '.join(allowed)}")


def _dtype_of(subject: Subject) -> str:
    """The floating dtype that a model computes in, as far as its tensors tell."""
    metas: list[TensorMeta] = [meta for meta, _ in (*subject.input_entries, *subject.tensors.values())]
    floating = [m.dtype for m in metas if m.dtype in _FLOATING]
    if floating:
        return max(set(floating), key=floating.count)
    return metas[0].dtype if metas else "float32"


_FLOATING: Final = {name for dtype, name in DTYPE_NAMES.items() if dtype.is_floating_point}


def _jobs(jobs: int | None) -> int:
    return jobs or os.cpu_count() or 1
