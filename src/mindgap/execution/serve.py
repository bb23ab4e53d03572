"""What a worker does with a request: one method each, and always an answer."""

from __future__ import annotations

import contextlib
import pickle
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mindgap.corpus.loaded import Loaded
from mindgap.errors import MindgapError, NoSpace
from mindgap.execution import arena
from mindgap.execution.batch import Job, Question
from mindgap.execution.serve_batch import Weights, failure, judge_question, one_run, run_job
from mindgap.execution.serve_stream import Streaming
from mindgap.execution.subject import Subject
from mindgap.platforms.base import Platform, Prepared, StageClock, StageFailure, Task
from mindgap.platforms.messages import first_cause
from mindgap.records.memory import collect_seldom, resident_mb
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.records.source import Source
from mindgap.records.tensors import NamedTensor, same_outputs

if TYPE_CHECKING:
    from mindgap.verdicts.survey import Surveyor


class Server:
    """Holds one platform and answers requests about it."""

    def __init__(self, report: Callable[[dict[str, Any]], None]) -> None:
        self._report = report
        self._platform: Platform | None = None
        self._limits = Limits()
        self._weights = Weights()
        self._streaming = Streaming()
        self._surveyed: tuple[dict[str, Any], Surveyor] | None = None

    def serve(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request; what goes wrong is part of it."""
        content = dict(request)
        action = getattr(self, f"do_{content.pop('do')}")
        self._grant_cpu_time()
        try:
            return {"result": action(**content)}
        except MindgapError as error:
            rows = {name: getattr(error, name) for name in ("what", "where", "cause", "hint")}
            return {"refused": {"type": type(error).__name__, **rows}}
        except Exception as error:
            return {"internal": traceback.format_exc(), "message": f"{type(error).__name__}: {error}"}

    def do_start(self, spec: Mapping[str, Any], import_paths: list[str]) -> dict[str, Any]:
        """Become a platform."""
        from mindgap.platforms.registry import load_adapter

        described = PlatformSpec.from_message(spec)
        self._limits = described.limits
        with contextlib.suppress(ValueError, OSError):
            size = self._limits.memory_mb << 20
            resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.path.extend(path for path in import_paths if path not in sys.path)
        torch.set_num_threads(int(str(described.options.get("threads", 1))))
        self._platform = load_adapter(described)
        return {"torch": str(torch.__version__), "python": sys.version.split()[0]}

    def do_probe(self, specs: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What these platforms of this interpreter say about themselves."""
        from mindgap.platforms.registry import load_adapter

        return [asdict(load_adapter(PlatformSpec.from_message(spec)).probe()) for spec in specs]

    def do_build(self, source: Mapping[str, Any], inputs_file: str | None, file: str) -> dict[str, Any]:
        """Load a model, export it, and write what every platform needs to `file`."""
        from mindgap.execution.build import build_subject

        return build_subject(Source(**source), inputs_file, Path(file)).to_message()

    def do_offers(self, library: str) -> list[dict[str, Any]]:
        """Every model that a library offers."""
        from mindgap.corpus.plan import libraries

        return [asdict(offer) for offer in libraries()[library].offers()]

    def do_build_model(self, source: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Make one model of the corpus; also says how much memory this process has come to hold."""
        from mindgap.corpus.build_model import build_model

        built = build_model(Source(**source), Path(folder))
        return {"built": built.to_message(), "resident_mb": resident_mb()}

    def do_replay(self, source: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Compare a stored program with its source, bit for bit."""
        from mindgap.corpus.roundtrip import replay

        return {"different": replay(Source(**source), Path(path)), "resident_mb": resident_mb()}

    def do_run(self, subject: Mapping[str, Any], program_only: bool, runs: int, file: str) -> dict[str, Any]:
        """Run a model here; the outputs go to `file`."""
        clock = StageClock(lambda stage: self._report({"stage": stage.value}))
        platform = self._require_platform()
        try:
            prepared, outputs, stable = self._run(platform, Subject.from_message(subject), program_only, runs, clock)
            entries = arena.write(Path(file), [item.tensor for item in outputs])
        except NoSpace:
            raise
        except Exception as error:
            return {**failure(platform, error, clock), "seconds": clock.seconds}
        return {
            "status": Status.OK.value,
            "stage": Stage.RUN.value,
            "message": "",
            "seconds": clock.seconds,
            "ran": prepared.ran.value,
            "note": prepared.note,
            "stable": stable,
            "outputs": [
                [item.name, entry, item.stride] for item, entry in zip(outputs, entries)
            ],
        }  # fmt: skip

    def do_batch(self, jobs: list[Mapping[str, Any]], files: list[str], runs: int) -> dict[str, Any]:
        """Run many programs; each is reported when it is done, so that a death costs only the one at hand."""
        platform = self._require_platform()

        def one(number: int) -> dict[str, Any]:
            job, file = Job(**jobs[number]), Path(files[number])
            return run_job(platform, job, runs, file, self._weights, lambda s: self._report({"stage": s.value}))

        return self._each(len(jobs), one)

    def do_judge(self, questions: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Judge many programs whose outputs lie in files."""

        def one(number: int) -> list[dict[str, Any]]:
            return judge_question(Question.from_message(questions[number]), self._weights)

        return self._each(len(questions), one)

    def do_open_stream(self, recipe: Mapping[str, Any]) -> int:
        """Load the programs that variants are made from; how many there are."""
        return self._streaming.open(recipe)

    def do_stream(self, recipe: Mapping[str, Any], numbers: list[int]) -> dict[str, Any]:
        """Make variants; each is reported when it is ready, and the pipe holds back what nobody takes."""

        def report(number: int, result: Any) -> None:
            self._report({"item": number, "result": result})
            self._grant_cpu_time()

        self._streaming.open(recipe)
        self._streaming.send(numbers, report)
        return {"resident_mb": resident_mb()}

    def _each(self, count: int, one: Callable[[int], Any]) -> dict[str, Any]:
        """Every item has the whole limit of CPU time for itself."""
        collect_seldom()
        for number in range(count):
            self._grant_cpu_time()
            self._report({"item": number, "result": one(number)})
        return {"resident_mb": resident_mb()}

    def _run(
        self, platform: Platform, subject: Subject, program_only: bool, runs: int, clock: StageClock
    ) -> tuple[Prepared, list[NamedTensor], bool | None]:
        task, fallback = self._task(platform, subject, program_only, clock)
        prepared = platform.prepare(task, clock)
        outputs = one_run(prepared.run, task, clock)
        if fallback:
            prepared.note = "; ".join(filter(None, [fallback, prepared.note]))
        stable = None
        for _ in range(runs - 1):
            again = one_run(prepared.run, task, clock)
            stable = (stable is not False) and same_outputs(outputs, again)
        return prepared, outputs, stable

    def _task(self, platform: Platform, subject: Subject, program_only: bool, clock: StageClock) -> tuple[Task, str]:
        """The user's own source where this platform can run it, otherwise the program."""
        inputs = subject.load_inputs()
        tensors = subject.load_tensors()
        reason = ""
        if platform.runs_source and subject.source is not None and not program_only:
            with clock(Stage.LOAD):
                try:
                    loaded = load_source(subject.source)
                    _restore_state(loaded, subject.state, tensors)
                    return Task(inputs, source=loaded, seed=subject.seed), ""
                except Exception as error:
                    if subject.program is None:
                        raise
                    reason = f"ran the program, because the source cannot be loaded here: {first_cause(error)}"
        with clock(Stage.EXPORT):
            program = subject.load_program()
            if program is None:
                raise StageFailure(Status.UNSUPPORTED, subject.export_failure or "the model was not exported")
        return Task(inputs, program=program, constants=tensors, seed=subject.seed), reason

    def do_survey(self, subject: Mapping[str, Any], runs: int, file: str) -> dict[str, Any]:
        """What rounding alone explains for this model and these inputs: reference, noise floor, hazards.

        Asked again about the same subject, it only adds the runs that are missing.
        """
        from mindgap.verdicts.steps import ALL_RUNS

        start = time.perf_counter()
        known, surveyor = self._surveyed or ({}, None)
        self._surveyed = None
        if surveyor is None or known != subject:
            surveyor = _surveyor(Subject.from_message(subject))
        more = runs < ALL_RUNS
        found = surveyor.survey(runs, more)
        if more:
            self._surveyed = dict(subject), surveyor
        message, result = found.to_message()
        entries = arena.write(Path(file), result)
        return {"survey": message, "entries": entries, "seconds": time.perf_counter() - start}

    def _require_platform(self) -> Platform:
        if self._platform is None:
            raise RuntimeError("the worker was not started")
        return self._platform

    def _grant_cpu_time(self) -> None:
        """The kernel ends the process when a request has used its share, even inside native code."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + self._limits.cpu_s) + 1
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _surveyor(subject: Subject) -> Surveyor:
    from mindgap.verdicts.survey import Surveyor

    inputs, tensors, program = subject.load_inputs(), subject.load_tensors(), subject.load_program()
    if program is not None:
        return Surveyor((program, tensors), inputs, subject.seed)
    loaded = load_source(subject.source) if subject.source else None
    if loaded is None or loaded.model is None:
        raise MindgapError("there is neither a program nor a source to survey")
    _restore_state(loaded, subject.state, tensors)
    return Surveyor(loaded.model, inputs, subject.seed)


def load_source(source: Source) -> Loaded:
    """The user's own model, made again in this process."""
    if source.pickled is not None:
        # Bytes that the user's own process made from its own live object; never read from a file.
        model, args, kwargs = pickle.loads(source.pickled)
        return Loaded(name=source.spec, args=args, kwargs=kwargs, model=model)
    from mindgap.corpus.load import load

    return load(source)


def _restore_state(loaded: Loaded, state: tuple[tuple[str, str], ...], tensors: Mapping[str, torch.Tensor]) -> None:
    """Give the module made here exactly the weights of the one that was exported."""
    if not isinstance(loaded.model, torch.nn.Module):
        return
    own = dict((*loaded.model.named_parameters(), *loaded.model.named_buffers()))
    with torch.no_grad():
        for name, identity in state:
            if name not in own or own[name].shape != tensors[identity].shape:
                raise MindgapError(f"the model made here has no {name} of the same shape")
            own[name].copy_(tensors[identity])
