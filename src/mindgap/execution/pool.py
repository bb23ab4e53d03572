"""All workers of one run of mindgap: started when first needed, replaced when they die, gone at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from mindgap import errors
from mindgap.corpus.build_model import BuiltModel
from mindgap.corpus.registry import Offer
from mindgap.errors import MindgapError, PlatformUnavailable
from mindgap.execution import arena
from mindgap.execution.process import Death, WorkerProcess
from mindgap.execution.scratch import Scratch
from mindgap.execution.subject import Subject
from mindgap.records.outcome import Outcome, Ran, Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.source import Source
from mindgap.records.tensors import NamedTensor

KILLED_TRIES: Final = 4
"""A worker that was killed from outside says nothing of what it did; so many in a row do (lack of memory)."""

T = TypeVar("T")
R = TypeVar("R")

HOST = PlatformSpec(name="host", adapter="mindgap.platforms.eager:Eager")
"""The worker that loads models and surveys them: plain eager on this machine."""


class WorkerDied(MindgapError):
    """A worker ended while it did something that only mindgap asked for."""

    def __init__(self, doing: str, death: Death) -> None:
        super().__init__(f"{doing}: {death.message}", cause=_last_lines(death.log_tail))
        self.death = death


class Pool:
    """Workers by platform name. Use it as a context manager; it can serve many checks."""

    def __init__(self, import_paths: Sequence[str] = ()) -> None:
        self.scratch = Scratch()
        self._import_paths = list(import_paths)
        self._workers: dict[str, WorkerProcess] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self.interrupted = False
        """Whether everything was ended: nobody should start anything anew."""

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every worker and remove the scratch directory."""
        for worker in list(self._workers.values()):
            worker.kill()
        self._workers.clear()
        self.scratch.remove()

    def interrupt(self, only: PlatformSpec | None = None) -> None:
        """End every process now, or one; the threads that wait for them are told that they died."""
        with self._lock:
            self.interrupted = self.interrupted or only is None
            workers = [w for name, w in self._workers.items() if only is None or name == only.name]
        for worker in workers:
            worker.interrupt()

    def warm(self, spec: PlatformSpec) -> None:
        """Start a worker without waiting until it is ready."""
        with self._lock:
            self._worker(spec)

    def build(self, source: Source, inputs_file: str | None = None) -> Subject:
        """Load and export a model in a worker; raises what a user did wrong."""
        request = {
            "do": "build",
            "source": asdict(source),
            "inputs_file": inputs_file,
            "file": str(self.scratch.new_file("subject")),
        }
        return Subject.from_message(self._demand(HOST, request, f"loading {source.spec}"))

    def offers(self, worker: PlatformSpec, library: str) -> list[Offer]:
        """What a library offers, asked in a worker: importing it may fail in any way."""
        rows = self._demand(worker, {"do": "offers", "library": library}, f"asking {library}")
        return [Offer(**row) for row in rows]

    def build_model(self, worker: PlatformSpec, source: Source, folder: Path) -> tuple[BuiltModel, int] | Death:
        """Make one model of the corpus in this worker, which may die of it; and what memory the worker holds."""
        answer = self._ask(worker, {"do": "build_model", "source": asdict(source), "folder": str(folder)})
        if isinstance(answer, Death):
            return answer
        if "refused" in answer:
            raise _error_from(answer["refused"])
        if "internal" in answer:
            return Death(Status.ERROR, answer["message"], Stage.LOAD, answer["internal"])
        return BuiltModel.from_message(answer["result"]["built"]), int(answer["result"]["resident_mb"])

    def replay(self, worker: PlatformSpec, source: Source, path: Path) -> tuple[str, int]:
        """What differs between a stored program and its source; and what memory the worker holds."""
        answer = self._demand(worker, {"do": "replay", "source": asdict(source), "path": str(path)}, source.spec)
        return str(answer["different"]), int(answer["resident_mb"])

    def retire(self, worker: PlatformSpec) -> None:
        """End a worker that is not asked anything; the next request starts another."""
        with self._lock:
            found = self._workers.pop(worker.name, None)
        if found is not None:
            found.kill()

    def survey(self, subject: Subject, runs: int) -> tuple[dict[str, Any], list[Any]] | Death:
        """The reference, noise floor and hazards of a subject, as `Survey.from_message` wants them."""
        file = self.scratch.new_file("survey")
        request = {"do": "survey", "subject": subject.to_message(), "runs": runs, "file": str(file)}
        answer = self._ask(HOST, request)
        if isinstance(answer, Death):
            return answer
        if "result" not in answer:
            refused = answer.get("refused")
            text = refused["what"] if refused else answer["message"]
            return Death(Status.ERROR, text, Stage.RUN, answer["log_tail"])
        result = answer["result"]
        return result["survey"], self._fetch(file, result["entries"])

    def probe(self, specs: Sequence[PlatformSpec]) -> dict[str, Probe]:
        """Ask platforms about themselves: together in one process, alone after a crash."""
        found: dict[str, Probe] = {}
        groups: dict[str, list[PlatformSpec]] = {}
        for spec in specs:
            groups.setdefault(repr((spec.python, sorted(spec.env.items()))), []).append(spec)
        for key, members in groups.items():
            first = members[0]
            host = replace(HOST, name=f"probe {key}", python=first.python, env=first.env)
            found |= self._probe_together(host, members)
        return found

    def require(self, spec: PlatformSpec) -> Probe:
        """Ask a platform in its own worker whether it can be used; raises with the reason if not."""
        probe = self._probe_together(spec, [spec])[spec.name]
        if not probe.available:
            raise PlatformUnavailable(
                f"platform {spec.name} cannot be used here", cause=probe.reason, hint=spec.install
            )
        return probe

    def run(
        self,
        spec: PlatformSpec,
        subject: Subject,
        program_only: bool = False,
        runs: int = 2,
        on_stage: Callable[[Stage], None] | None = None,
    ) -> Outcome:
        """What a platform does with a subject."""
        file = self.scratch.new_file("outputs")
        request = {
            "do": "run",
            "subject": subject.to_message(),
            "program_only": program_only,
            "runs": runs,
            "file": str(file),
        }
        answer = self._ask(spec, request, on_stage)
        if isinstance(answer, Death):
            file.unlink(missing_ok=True)
            return Outcome(spec.name, answer.status, answer.stage, answer.message, answer.log_tail)
        if "refused" in answer:
            raise _error_from(answer["refused"])
        if "internal" in answer:
            return Outcome(spec.name, Status.ERROR, Stage.LOAD, answer["message"], answer["internal"])
        return self._outcome(spec, answer["result"], answer["log_tail"], file)

    def batch(self, spec: PlatformSpec, request: Mapping[str, Any], on_item: Callable[[int, Any], None]) -> int | Death:
        """Have many items done in one request; says how much memory (MB) the worker has come to hold."""
        answer = self._ask(spec, request, on_item=on_item)
        if isinstance(answer, Death):
            return answer
        if "refused" in answer:
            raise _error_from(answer["refused"])
        if "internal" in answer:
            raise RuntimeError(answer["internal"])
        return int(answer["result"]["resident_mb"])

    def open_stream(self, worker: PlatformSpec, recipe: Mapping[str, Any]) -> int:
        """Load the programs that variants are made from; raises what is wrong with them."""
        return int(self._demand(worker, {"do": "open_stream", "recipe": dict(recipe)}, "loading the corpus"))

    def stream(
        self,
        worker: PlatformSpec,
        recipe: Mapping[str, Any],
        numbers: Sequence[int],
        on_item: Callable[[int, Any], None],
    ) -> Death | None:
        """Have these variants made; None when all came."""
        request = {"do": "stream", "recipe": dict(recipe), "numbers": list(numbers)}
        ended = self.batch(worker, request, on_item)
        return ended if isinstance(ended, Death) else None

    def _outcome(self, spec: PlatformSpec, result: Mapping[str, Any], log: str, file: Path) -> Outcome:
        status = Status(result["status"])
        outputs: tuple[NamedTensor, ...] = ()
        if status is Status.OK:
            described = result["outputs"]
            tensors = self._fetch(file, [entry for _, entry, _ in described])
            outputs = tuple(NamedTensor(name, tensor, stride) for (name, _, stride), tensor in zip(described, tensors))
        return Outcome(
            platform=spec.name,
            status=status,
            stage=Stage(result["stage"]),
            message=result["message"],
            log_tail="" if status is Status.OK else log,
            outputs=outputs,
            ran=Ran(result["ran"]) if result.get("ran") else None,
            note=result.get("note", ""),
            stable=result.get("stable"),
            seconds=result["seconds"],
        )

    def _fetch(self, file: Path, entries: Sequence[arena.Entry]) -> list[Any]:
        tensors = arena.read(file, entries)
        file.unlink()  # the mapping keeps the content
        return tensors

    def _probe_together(self, host: PlatformSpec, specs: Sequence[PlatformSpec]) -> dict[str, Probe]:
        for _ in range(KILLED_TRIES):
            answer = self._ask(host, {"do": "probe", "specs": [spec.to_message() for spec in specs]})
            if not (isinstance(answer, Death) and answer.outside):
                break
        if not isinstance(answer, Death) and "result" in answer:
            return {spec.name: _probe(item) for spec, item in zip(specs, answer["result"])}
        if len(specs) > 1:
            return {name: p for spec in specs for name, p in self._probe_together(host, [spec]).items()}
        reason = answer.message if isinstance(answer, Death) else answer.get("message", "it cannot be asked")
        return {specs[0].name: Probe(available=False, reason=reason)}

    def _demand(self, spec: PlatformSpec, request: Mapping[str, Any], doing: str) -> Any:
        answer = self._ask(spec, request)
        if isinstance(answer, Death):
            raise WorkerDied(doing, answer)
        if "refused" in answer:
            raise _error_from(answer["refused"])
        if "internal" in answer:
            raise RuntimeError(answer["internal"])
        return answer["result"]

    def _ask(
        self,
        spec: PlatformSpec,
        request: Mapping[str, Any],
        on_stage: Callable[[Stage], None] | None = None,
        on_item: Callable[[int, Any], None] | None = None,
    ) -> dict[str, Any] | Death:
        with self._lock:
            lock = self._locks.setdefault(spec.name, threading.Lock())
        with lock:
            with self._lock:
                worker = self._worker(spec)
            return worker.ask(request, on_stage, on_item)

    def _worker(self, spec: PlatformSpec) -> WorkerProcess:
        worker = self._workers.get(spec.name)
        if worker is None or not worker.alive:
            worker = self._workers[spec.name] = WorkerProcess(spec, self.scratch, self._import_paths)
        return worker


def in_parallel(jobs: int, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Results in the order of the items; Ctrl-C does not wait for what is running."""
    executor = ThreadPoolExecutor(max_workers=max(1, jobs))
    try:
        return list(executor.map(work, items))
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _probe(item: Mapping[str, Any]) -> Probe:
    return Probe(**{**item, "dtypes": tuple(item["dtypes"])})


def _error_from(row: Mapping[str, Any]) -> MindgapError:
    """The error that a worker refused with, of the same type."""
    kind = getattr(errors, row["type"], MindgapError)
    error = kind(row["what"], where=row["where"], cause=row["cause"], hint=row["hint"])
    assert isinstance(error, MindgapError)
    return error


def _last_lines(log: str, count: int = 3) -> str | None:
    lines = [line for line in log.splitlines() if line.strip()]
    return " / ".join(lines[-count:]) or None
