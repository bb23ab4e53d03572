"""A session: the one place where users' calls become cases, runs, verdicts and explanations."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

import torch

from mindgap.audit.auditing import audit_parcel
from mindgap.audit.comparing import compare_parcels, with_gates
from mindgap.campaign.hunt import keep_explanation
from mindgap.campaign.reader import OpenFinding, finding_folder, open_finding
from mindgap.corpus import files
from mindgap.corpus.backward import LOADER, with_gradients
from mindgap.corpus.casing import BuildCase, build_case, case_of
from mindgap.corpus.casting import in_precision
from mindgap.corpus.inputs import check_fit, read_inputs
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.onnx.program import ReadOnnx, read_onnx
from mindgap.corpus.registry import find
from mindgap.corpus.spelling import refuse_precision, refuse_unknown
from mindgap.errors import ModelError, PlatformUnavailable, UsageError
from mindgap.evaluation.dataset import list_samples
from mindgap.evaluation.evaluate import BATCH, NOISE_RUNS, Plan, evaluate
from mindgap.evaluation.spelling import AS_USUAL, Wanted, refuse_task
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel
from mindgap.execution.pool import HOST, Pool, in_parallel
from mindgap.explanation.explain import DONE, NothingToExplain, Progress, explain_case
from mindgap.explanation.onnx_file import explain_onnx
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.probing import probe, require
from mindgap.platforms.registry import catalogue, refuse_emulated, resolve
from mindgap.platforms.running import run
from mindgap.platforms.versions import versions
from mindgap.platforms.versions import versions as versions_of
from mindgap.records.audit import AuditResult
from mindgap.records.bisection import Bisection, TriedVersion
from mindgap.records.check import CheckResult, PlatformResult, Tolerance
from mindgap.records.evaluation import Evaluation
from mindgap.records.explanation import Explanation
from mindgap.records.outcome import Outcome, Ran
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.source import Source
from mindgap.records.tensors import DTYPE_NAMES
from mindgap.records.verdict import Conclusion, Kind
from mindgap.reduction.reducer import Budget
from mindgap.session.bisecting import bisect, chosen, installed, judged_in, offered_versions, recipe_of
from mindgap.session.invariance import batch_of, check_invariance
from mindgap.verdicts.judging import Comparing, Judged, Question, ask_judge, speaking_of
from mindgap.verdicts.replay import ReplayCase, replay_case, with_replayed
from mindgap.verdicts.tolerance import AskTolerance, recommend_tolerances
from mindgap.verdicts.unspecified.chance import RANDOM_STREAM

DEFAULT_PLATFORMS: Final = ("eager@scalar", "inductor", "onnxruntime", "openvino")
"""Checked when none are named, those that are ready: unlike enough to find most differences, and all run on a CPU."""

ONNX_PLATFORMS: Final = ("onnxruntime", "onnxruntime@noopt", "openvino")
"""The same for an ONNX file, which only some platforms read."""

Model: TypeAlias = "str | torch.nn.Module | Callable[..., Any]"
"""A name such as `timm:resnet18`, or a live module or function."""

ONNX_BASELINE: Final = "onnx-reference"

Given: TypeAlias = "Sequence[Any] | Mapping[str, Any] | torch.Tensor | str | os.PathLike[str]"
"""Inputs as a caller may give them: positional, by keyword, a single tensor, or a file."""


def _silent(who: str, what: str) -> None:
    """Tells nobody."""


def _count_silently(who: str, done: int, total: int) -> None:
    """Tells nobody."""


class Session:
    """Workers that stay warm: the second check of a small model costs what its runtimes cost.

    >>> with mindgap.Session() as session:
    ...     session.check(model, [x], on=["inductor"])
    """

    def __init__(
        self,
        config: Config | None = None,
        jobs: int | None = None,
        progress: Progress | None = None,
        isolated: bool = False,
    ) -> None:
        self.config = config or load_config(None)
        self.pool = Pool(import_paths(), self.config.limits, isolated)
        self.jobs = jobs or os.cpu_count() or 1
        self._tell = progress or _silent
        self._probes: dict[str, Probe] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        asked = ", ".join(self._probes) or "nothing asked yet"
        return f"<Session with {self.jobs} jobs: {asked}>"

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
        tolerance: bool = False,
        invariance: bool = False,
        backward: bool = False,
    ) -> CheckResult:
        """Run one model on many platforms and judge each against eager and the float64 reference.

        With `tolerance`, recommend what a test of each output should allow; with `invariance`, ask each platform
        whether a sample gets the same result whatever surrounds it. With `backward`, what is compared is a training
        step: the loss and the gradient of each parameter and input.
        """
        start = time.perf_counter()
        is_file = _is_file(model)
        specs = [resolve(name, self.config) for name in (on or (ONNX_PLATFORMS if is_file else DEFAULT_PLATFORMS))]
        baseline = resolve(ONNX_BASELINE if is_file else "eager", self.config)
        _refuse_mistakes(model, inputs, dtype)
        for spec in [baseline, *specs]:
            self.pool.warm(spec)
        parcel = self.build(model, inputs, dtype=dtype, seed=seed, trust=trust, backward=backward)
        if invariance:
            batch_of(parcel)  # a mistake is told before anything runs
        specs, left_out = (specs, {}) if on else self._ready(specs)
        probes = in_parallel(self.jobs, self._require, [*specs, baseline] if is_file else specs)
        eager, eager_program, outcomes = self._execute(parcel, baseline, specs, program)
        judged = self._judge(parcel, eager, eager_program, outcomes)
        judged = self._judge_without_chance(parcel, baseline, specs, judged)
        judged = speaking_of(judged, baseline.name)
        tolerances = self._tolerances(parcel, eager_program or eager, outcomes, judged) if tolerance else ()
        invariances = check_invariance(self.pool, parcel, baseline, specs, self.jobs, self._tell) if invariance else {}
        for outcome in (eager, eager_program, *outcomes):
            if outcome is not None:
                discarded(outcome)  # what was read stays
        return CheckResult(
            model=parcel.name,
            dtype=dtype or _dtype_of(parcel),
            seed=seed,
            nodes=parcel.nodes,
            parameters=parcel.parameters,
            inputs={name: str(meta) for name, (meta, _) in zip(parcel.input_names, parcel.inputs)},
            eager=eager,
            baseline=baseline.name,
            platforms={
                outcome.platform: PlatformResult(outcome, judged.verdicts[outcome.platform], known)
                for outcome, known in zip(outcomes, probes)
            },
            export_failure=parcel.export_failure,
            program_exact=_exact(eager, eager_program),
            reference=judged.reference,
            left_out=left_out,
            tolerances=tolerances,
            invariance=invariances,
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
        backward: bool = False,
    ) -> Explanation:
        """Why a model gives another result on one platform; writes repro.py, issue.md and their data to a folder."""
        spec = resolve(on, self.config)
        refuse_emulated(spec, "an explanation")
        _refuse_mistakes(model, inputs, dtype)
        self.pool.warm(spec)
        parcel = self.build(model, inputs, dtype=dtype, seed=seed, trust=trust, backward=backward)
        if parcel.model_file:
            baseline = resolve(ONNX_BASELINE, self.config)
            self._require(baseline)
            self._require(spec)
            return explain_onnx(self.pool, parcel, spec, baseline, Path(folder), budget, self._tell)
        if not parcel.program:
            raise ModelError("a model that cannot be exported cannot be explained", cause=parcel.export_failure)

        def explained(one: Parcel) -> Explanation:
            case = open_parcel(one.without_source(), Constants(), mapped=False)
            return explain_case(self.pool, parcel.name, case, spec, self.config, Path(folder), budget, self._tell)

        replayed = self._without_chance(parcel)
        if replayed is not None:
            with contextlib.suppress(NothingToExplain):  # then it may be the random operator itself
                return explained(replayed)
        return explained(parcel)

    def evaluate(
        self,
        model: str,
        data: Path | str,
        on: Sequence[str] | None = None,
        *,
        task: str = "classification",
        labels: Path | None = None,
        classes: Path | None = None,
        first_label: int = 0,
        limit: int | None = None,
        batch: int = BATCH,
        noise_runs: int = NOISE_RUNS,
        answer: str | None = None,
        preprocessing: Wanted = AS_USUAL,
        skip_unreadable: bool = False,
        dtype: str | None = None,
        seed: int = 0,
        trust: bool = False,
        folder: Path | str | None = None,
        count: Callable[[str, int, int], None] = _count_silently,
    ) -> Evaluation:
        """Whether the answers to labelled data change on other platforms by more than rounding explains.

        With a folder, what is found is kept there, and an evaluation that was stopped continues.
        """
        is_file = _is_file(model)
        specs = [resolve(name, self.config) for name in (on or (ONNX_PLATFORMS if is_file else DEFAULT_PLATFORMS))]
        baseline = resolve(ONNX_BASELINE if is_file else "eager", self.config)
        _refuse_mistakes(model, None, dtype)
        refuse_task(task, trust, Path.cwd())
        samples = list_samples(Path(data), labels, classes, first_label, limit, seed)
        specs, left_out = (specs, {}) if on else self._ready(specs)
        in_parallel(self.jobs, self._require, [*specs, baseline] if is_file else specs)
        plan = Plan(
            Source(model, seed, dtype, trust, str(Path.cwd()), tuple(import_paths())),
            samples,
            baseline,
            [spec for spec in specs if spec.name != baseline.name],
            task,
            batch,
            noise_runs,
            limit,
            answer,
            preprocessing,
            skip_unreadable,
            self.jobs,
            left_out,
        )
        found = evaluate(self.pool, plan, Path(folder) if folder is not None else None, count)
        return with_emulated(found, specs)

    def bisect(
        self,
        model: Model,
        on: str,
        *,
        versions: str | None = None,
        pythons: Sequence[str] = (),
        inputs: Given | None = None,
        dtype: str | None = None,
        seed: int = 0,
        trust: bool = False,
    ) -> Bisection:
        """Between which two versions of a runtime a difference appeared or vanished.

        `versions` is a range of what pip finds (`1.20..1.31`) or a list; `pythons` are interpreters instead.
        """
        start = time.perf_counter()
        spec = resolve(on, self.config)
        _refuse_mistakes(model, inputs, dtype)
        package = "interpreter" if pythons else recipe_of(spec, "0").name.removesuffix("-0")
        names = list(pythons) or chosen(versions or "", lambda: offered_versions(package))
        parcel = self.build(model, inputs, dtype=dtype, seed=seed, trust=trust).without_source()
        baseline = resolve(ONNX_BASELINE if _is_file(model) else "eager", self.config)
        eager = replace(opened(run(self.pool, baseline, parcel)), is_local_eager=True)
        if not eager.ok:
            raise ModelError(f"{baseline.name} could not run the model", cause=eager.message)

        def ask(name: str) -> TriedVersion:
            self._tell("versions", name)
            if pythons:
                return judged_in(self.pool, replace(spec, python=name, worker=name), name, parcel, eager)
            try:
                there = installed(spec, name, self._tell)
            except UsageError as error:
                return TriedVersion(name, None, "; ".join(filter(None, [error.what, error.cause])))
            return judged_in(self.pool, there, name, parcel, eager)

        tried, found = bisect(names, ask)
        discarded(eager)
        low, high = found or (0, 0)
        return Bisection(
            parcel.name,
            spec.name,
            package,
            tuple(tried),
            len(names),
            names[low] if found else "",
            names[high] if found else "",
            bool(found and next(item for item in tried if item.version == names[high]).is_wrong),
            tuple(names[low + 1 : high]),
            versions_of([spec]),
            time.perf_counter() - start,
            baseline.name,
        )

    def audit(
        self,
        model: Model,
        folder: Path | str,
        inputs: Given | None = None,
        on: Sequence[str] = (),
        *,
        dtype: str | None = None,
        seed: int = 0,
        trust: bool = False,
        budget_s: float = 60.0,
        compare: Model | None = None,
    ) -> AuditResult:
        """Whether a model hides a branch, also one that fires only on some platforms; inputs that fire one are written
        to a folder. With `compare`, also what the model has that this original of it has not."""
        start = time.perf_counter()
        specs = [spec for name in on if (spec := resolve(name, self.config)).name != "eager"]
        for spec in specs:
            refuse_emulated(spec, "an audit")
        parcel, left_out = self._with_program(self.build(model, inputs, dtype=dtype, seed=seed, trust=trust))
        if not parcel.program:
            raise ModelError("a model that cannot be exported cannot be audited", cause=parcel.export_failure)
        in_parallel(self.jobs, self._require, specs)
        difference = None
        if compare is not None:
            original, _ = self._with_program(self.build(compare, inputs, dtype=dtype, seed=seed, trust=trust))
            if not original.program:
                raise ModelError("a model that cannot be exported cannot be compared", cause=original.export_failure)
            self._tell("audit", "compare with the original")
            difference = compare_parcels(self.pool, parcel, original, budget_s)
        found = audit_parcel(self.pool, parcel, Path(folder), budget_s, specs, partial(self._tell, "audit"))
        found = replace(found, not_looked_at=(*left_out, *found.not_looked_at))
        self._tell("audit", DONE)
        return AuditResult(
            model=parcel.name,
            seed=seed,
            found=found,
            parameters=parcel.parameters,
            inputs={name: str(meta) for name, (meta, _) in zip(parcel.input_names, parcel.inputs)},
            difference=with_gates(difference, found.gates) if difference is not None else None,
            versions=versions(specs),
            seconds=time.perf_counter() - start,
        )

    def _with_program(self, parcel: Parcel) -> tuple[Parcel, tuple[str, ...]]:
        """A case with a program, made from its file where it is one, and what of the file is not in it."""
        if not parcel.model_file:
            return parcel, ()
        request = ReadOnnx(parcel, str(self.pool.scratch.new_file("case", HOST.worker_name)))
        read = self.pool.demand(HOST, read_onnx, request, f"reading {parcel.name}")
        return read.case, read.left_out

    def explain_finding(
        self,
        directory: Path | str,
        identity: str,
        budget: Budget = Budget(),  # noqa: B008 - frozen
    ) -> Explanation:
        """A finding of the campaign in a directory; what is found goes back to its ledger."""
        directory = Path(directory)
        file = str(self.pool.scratch.new_file("case", HOST.worker_name))
        request = OpenFinding(str(directory.absolute()), identity, file)
        filed = self.pool.demand(HOST, open_finding, request, f"reading {identity}")
        spec = resolve(filed.platform, self.config)
        folder = finding_folder(directory, identity)
        case = open_parcel(filed.case, Constants(), mapped=False)
        try:
            found = explain_case(self.pool, identity, case, spec, self.config, folder, budget, self._tell)
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

    def unready_platforms(self) -> dict[str, str]:
        """The default platforms that cannot be used here, each with the reason and how to get it."""
        return self._ready([resolve(name, self.config) for name in DEFAULT_PLATFORMS])[1]

    def build(
        self,
        model: Model,
        inputs: Given | None,
        *,
        dtype: str | None = None,
        seed: int = 0,
        trust: bool = False,
        backward: bool = False,
    ) -> Parcel:
        """A model as a case: one that is named is loaded in a worker; a live module or function is exported here."""
        _refuse_mistakes(model, inputs, dtype)
        file = self.pool.scratch.new_file("case", HOST.worker_name)
        self._tell("model", "load and export")
        if isinstance(model, str):
            assert inputs is None or isinstance(inputs, str | os.PathLike)
            source = Source(model, seed, dtype, trust, str(Path.cwd()), tuple(import_paths()))
            given = str(Path(inputs).absolute()) if inputs is not None else None
            request = BuildCase(source, str(file), given, backward)
            parcel = self.pool.demand(HOST, build_case, request, f"loading {model}")
            known = (None, source, replace(source, loader=LOADER))
            if parcel.file != str(file) or parcel.source not in known:
                raise ModelError(f"loading {model}: its worker answers with another file or source than it was given")
        else:
            loaded = replace(_live(model, inputs, dtype), seed=seed)
            source_of = _pickled(loaded, seed)
            if backward:
                loaded = with_gradients(replace(loaded, model=copy.deepcopy(loaded.model)))
                source_of = replace(source_of, loader=LOADER) if source_of is not None else None
            parcel = make_parcel(case_of(loaded, source_of, seed), file)
            if not parcel.program and _is_of_main(model):
                raise ModelError(
                    f"{loaded.name} can neither be exported nor imported by a worker",
                    where="it is defined in __main__: in a notebook, or in the script that runs",
                    cause=parcel.export_failure,
                    hint="define it in a file of its own and import it from there",
                )
        self._tell("model", DONE)
        return parcel

    def _require(self, spec: PlatformSpec) -> Probe:
        """Each platform is asked once per session."""
        if spec.name not in self._probes:
            self._probes[spec.name] = require(self.pool, spec)
        return self._probes[spec.name]

    def _ready(self, specs: Sequence[PlatformSpec]) -> tuple[list[PlatformSpec], dict[str, str]]:
        """Those that can be used here, and for each of the others why not and how to get it."""

        def why_not(spec: PlatformSpec) -> str:
            try:
                self._require(spec)
                return ""
            except PlatformUnavailable as error:
                return "; get it with: ".join(filter(None, [error.cause, error.hint]))

        reasons = dict(zip((spec.name for spec in specs), in_parallel(self.jobs, why_not, specs)))
        left_out = {name: reason for name, reason in reasons.items() if reason}
        return [spec for spec in specs if spec.name not in left_out], left_out

    def _execute(
        self, parcel: Parcel, baseline: PlatformSpec, specs: Sequence[PlatformSpec], program_only: bool
    ) -> tuple[Outcome, Outcome | None, list[Outcome]]:
        """Eager on the source and on the program, then every platform; outputs are read."""

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

    def _tolerances(
        self, parcel: Parcel, eager: Outcome, outcomes: Sequence[Outcome], judged: Judged
    ) -> tuple[Tolerance, ...]:
        """What a test should allow, and whether it would have caught what diverges here."""
        if not eager.ok:
            return ()
        diverging = [
            replace(outcome, outputs=())
            for outcome in outcomes
            if outcome.ok and judged.verdicts[outcome.platform].conclusion is Conclusion.DIVERGES
        ]
        self._tell("tolerance", "rounding noise")
        request = AskTolerance(parcel, replace(eager, outputs=()), tuple(diverging))
        found = self.pool.demand(HOST, recommend_tolerances, request, "recommending a tolerance")
        self._tell("tolerance", DONE)
        return found

    def _judge_without_chance(
        self, parcel: Parcel, baseline: PlatformSpec, specs: Sequence[PlatformSpec], judged: Judged
    ) -> Judged:
        """Where chance may hide a fault, the same program with eager's random numbers written down is judged too."""
        hidden = [spec for spec in specs if _may_hide(judged, spec.name)]
        if not hidden or not parcel.program:
            return judged
        self._tell("reference", "the same random numbers on every platform")
        replayed = self._without_chance(parcel)
        if replayed is None:
            return judged
        eager, _, outcomes = self._execute(replayed, baseline, hidden, program_only=True)
        found = ask_judge(self.pool, Question(replayed, (Comparing(eager, tuple(outcomes)),)))
        for outcome in (eager, *outcomes):
            discarded(outcome)
        self._tell("reference", DONE)
        return with_replayed(judged, found)

    def _without_chance(self, parcel: Parcel) -> Parcel | None:
        """The case with eager's random numbers written down; None where nothing is random."""
        file = str(self.pool.scratch.new_file("case", HOST.worker_name))
        request = ReplayCase(parcel.without_source(), file)
        found = self.pool.demand(HOST, replay_case, request, "writing down the random numbers")
        if found is not None and (found.file != file or found.source is not None):
            raise ModelError("writing down the random numbers: the worker answers with another file than it was given")
        return found


def with_emulated(found: Evaluation, specs: Sequence[PlatformSpec]) -> Evaluation:
    """The evaluation with what was emulated called so."""
    emulated = {
        spec.name: replace(item, emulates=spec.emulates, sentence=f"emulated: {spec.emulates}: {item.sentence}")
        for spec in specs
        if spec.emulates and (item := found.platforms.get(spec.name)) is not None
    }
    return replace(found, platforms={**found.platforms, **emulated})


def _is_file(model: Model) -> bool:
    """Whether a model is a file that platforms read as it is; then torch has no part in it."""
    return isinstance(model, str) and model.endswith(".onnx")


def _may_hide(judged: Judged, platform: str) -> bool:
    """Whether a platform drew other random numbers, so that its numbers could not be compared one by one."""
    verdict = judged.verdicts[platform]
    open_question = verdict.conclusion in (Conclusion.HAZARD, Conclusion.UNJUDGED)
    return open_question and RANDOM_STREAM in judged.rules and verdict.kind is not Kind.VALIDATION


def import_paths() -> list[str]:
    """Where the user's own modules may live: what is on sys.path beyond the interpreter's installation."""
    prefixes = (sys.prefix, sys.base_prefix)
    return [str(Path.cwd()), *(path for path in sys.path if path and not path.startswith(prefixes))]


def _live(model: torch.nn.Module | Callable[..., Any], inputs: Given | None, dtype: str | None) -> Loaded:
    """A module or function from the caller's own process."""
    assert inputs is not None
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
        return Source(loaded.name, seed, import_paths=tuple(import_paths()), pickled=pickle.dumps(loaded.model))
    except Exception:  # a lambda, a local class, an open file: the program runs instead
        return None


def _is_of_main(model: torch.nn.Module | Callable[..., Any]) -> bool:
    """Whether any of its code was defined where no other process can import it from."""
    parts = [type(part) for part in model.modules()] if isinstance(model, torch.nn.Module) else [model]
    return any(getattr(part, "__module__", None) == "__main__" for part in parts)


def _exact(eager: Outcome, eager_program: Outcome | None) -> bool | None:
    if eager_program is None or not (eager.ok and eager_program.ok):
        return None
    return eager.digest == eager_program.digest


def _refuse_mistakes(model: Model, inputs: Given | None, dtype: str | None) -> None:
    """What can be known of a call before any worker starts."""
    if dtype is not None:
        refuse_precision(dtype)
    if isinstance(inputs, str | os.PathLike):
        files.resolve(str(inputs), str(Path.cwd()))
    elif isinstance(model, str) and inputs is not None:
        raise UsageError("a model given by name takes its inputs from a file", hint="inputs='inputs.pt'")
    elif not isinstance(model, str) and inputs is None:
        raise ModelError("a model given as an object needs inputs", hint="mindgap.check(model, [x, y])")
    if isinstance(model, str):
        refuse_unknown(model, Path.cwd())
        find(Source(model, directory=str(Path.cwd())))


def _dtype_of(parcel: Parcel) -> str:
    """The floating dtype that a model computes in, as far as its tensors tell."""
    metas = [meta for meta, _ in (*parcel.inputs, *parcel.tensors.values())]
    floating = [m.dtype for m in metas if m.dtype in _FLOATING]
    if floating:
        return max(set(floating), key=floating.count)
    return metas[0].dtype if metas else "float32"


_FLOATING: Final = {name for dtype, name in DTYPE_NAMES.items() if dtype.is_floating_point}
