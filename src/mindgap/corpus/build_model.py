"""One model of the corpus: loaded, exported, compared with its source, looked at for life, written."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.metadata
import json
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from mindgap.corpus.export import export, prepare
from mindgap.corpus.inputs import first_line
from mindgap.corpus.liveness import Liveness, LivenessObserver
from mindgap.corpus.load import load
from mindgap.corpus.recipes import with_held
from mindgap.corpus.registry import Library, discover
from mindgap.corpus.roundtrip import as_example, difference, run_call, run_source
from mindgap.errors import MindgapError, NoSpace
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.program import codec
from mindgap.program.fingerprint import fingerprint
from mindgap.program.graph import Program, Tensors
from mindgap.program.interpret import Executable
from mindgap.program.made import Made
from mindgap.records.files import write_whole
from mindgap.records.source import Source

DRAWS: Final = 3
"""How often weights are drawn before a dead branch is taken for the model's own."""
SEED_STEP: Final = 1_000_003
MOST_KEPT: Final = 32 << 20
"""Bytes of constants that no seed gives, in a model whose weights come from one: tables that it derives from weights.
More would make a store of thousands of models hard to keep; trained weights are another matter."""


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """What became of one model; `stage` and `reason` say why it has no program."""

    stage: str = ""
    """`load`, `export`, `run`, `write`, `read` or `compare`: where it failed."""
    reason: str = ""
    seed: int = 0
    """That its weights were drawn from."""
    fingerprint: str = ""
    nodes: int = 0
    parameters: int = 0
    bytes: int = 0
    """Of the program file, and of weights that no seed gives."""
    seconds: float = 0.0
    liveness: Liveness | None = None
    operators: tuple[str, ...] = ()
    versions: str = "{}"
    """JSON: the package that defines the model, and torch."""


@dataclass(frozen=True, slots=True)
class BuildModel:
    """A model to build, and the folder that takes its files."""

    source: Source
    folder: str


@hosting(MindgapError)
@task
def build_in_worker(worker: Worker, request: BuildModel) -> BuiltModel:
    return build_model(request.source, Path(request.folder))


class NotBuilt(Exception):
    """Where and why there is no program."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage


def build_model(source: Source, folder: Path) -> BuiltModel:
    """Make `folder/programs/model.mgp` and `folder/weights`; a failure is a value with its stage.

    Where weights killed a branch by chance (a rectifier behind a few units that are all negative), others are drawn.
    """
    start = time.perf_counter()
    for draw in range(DRAWS):
        found = _try(replace(source, seed=source.seed + draw * SEED_STEP), folder)
        if found.liveness is None or not found.liveness.died_by_chance:
            break
    gc.collect()
    gc.freeze()  # what libraries keep for ever need not be walked through again for each model
    return replace(found, seconds=time.perf_counter() - start, versions=_versions(source))


def _try(source: Source, folder: Path) -> BuiltModel:
    try:
        with _clean_state():
            return _build(source, folder)
    except NotBuilt as failure:
        sys.stderr.write(traceback.format_exc())
        return BuiltModel(failure.stage, str(failure), seed=source.seed)


def _build(source: Source, folder: Path) -> BuiltModel:
    with _stage("load"):
        loaded = load(source)
        inputs = prepare(loaded)
    with _stage("export"):
        program, constants = export(loaded)
        program = with_held(program, constants)
        inputs = as_example(inputs, program)
    with _stage("run"):
        expected = run_source(inputs, source.seed, loaded.model) if loaded.model is not None else None
    with _stage("write"):
        size = write(program, constants, folder)
    # Weights whose recipe was just compared with them need not be made again: that is half of a large model's time.
    proven = {c.digest: constants[c.digest] for c in program.constants if isinstance(c.made, Made)}
    del loaded, constants
    gc.collect()
    with _stage("read"):
        path = folder / "programs" / "model.mgp"
        again = codec.decode(path.read_bytes(), where=str(path))
        made = codec.load_constants(again, path, proven)
    with _stage("run"):
        watch = LivenessObserver(again, made, [item.tensor for item in inputs.tensors])
        executable = Executable(again, made)
        given = run_call(inputs, source.seed, lambda tensors: executable.run(tensors, observer=watch))
    different = difference(expected, given) if expected is not None else ""
    if different:
        raise NotBuilt("compare", f"the program does not give the source's bits: {different}")
    return BuiltModel(
        seed=source.seed,
        fingerprint=fingerprint(again),
        nodes=len(again.nodes),
        parameters=again.parameter_count(),
        bytes=size,
        liveness=watch.found(),
        operators=tuple(sorted({node.op for node in again.nodes})),
    )


def write(program: Program, constants: Tensors, folder: Path) -> int:
    """Write `programs/model.mgp` and, one file for each, the weights that no recipe gives; returns the bytes."""
    from safetensors.torch import save

    path = folder / "programs" / "model.mgp"
    for part in ("programs", "weights"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    kept = {c.digest: constants[c.digest].nbytes for c in program.constants if c.made is None}
    if sum(kept.values()) > MOST_KEPT and any(isinstance(c.made, Made) for c in program.constants):
        raise NotBuilt(
            "write", f"{sum(kept.values()) >> 20} MB of constants derived from its weights, which no seed gives"
        )
    data = codec.encode(program)
    size = len(data)
    for identity in kept:
        content = save({identity: constants[identity].contiguous()})
        write_whole(codec.weights_file(path, identity), content)
        size += len(content)
    write_whole(path, data)
    return size


@contextlib.contextmanager
def _stage(name: str) -> Iterator[None]:
    try:
        yield
    except (NotBuilt, NoSpace):  # a full disk is not the model's fault
        raise
    except Exception as error:  # a model's code and torch.export raise anything; the reason is what counts
        raise NotBuilt(name, _reason(error)) from error


def _reason(error: BaseException) -> str:
    """Why a model was not built, in one line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or "can't allocate memory" in str(cause):  # how Python and torch say it
            return "out of memory"
        cause = cause.__cause__
    if "DataDependent" in type(error).__name__ or "data-dependent" in str(error):
        return f"data-dependent control flow, which cannot be exported: {_place(error) or first_line(error)}"
    if isinstance(error, MindgapError):
        return ": ".join(filter(None, [error.what, error.cause]))
    return f"{type(error).__name__}: {first_line(error)}"


def _place(error: BaseException) -> str:
    """The line of the model's own code that torch was asked to follow."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/torch/" not in f.filename and "/mindgap/" not in f.filename]
    return f"{own[-1].line} (in {own[-1].name})" if own else ""


@contextlib.contextmanager
def _clean_state() -> Iterator[None]:
    """What a model's code changes globally is set back, so that it cannot fail the next one."""
    dtype = torch.get_default_dtype()
    grad = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)


def _versions(source: Source) -> str:
    versions = {"torch": str(torch.__version__)}
    for package in packages_of(source.spec):
        for distribution in _distributions().get(package, ())[:1]:
            versions[package] = importlib.metadata.version(distribution)
    return json.dumps(versions)


def packages_of(spec: str) -> list[str]:
    """The packages that define a model: that of its library, or of several the one that its name begins with."""
    prefix, _, name = spec.partition(":")
    libraries = [item for item in discover() if isinstance(item, Library) and item.prefix == prefix]
    packages = [package for library in libraries for package in library.packages]
    return packages if len(packages) == 1 else [package for package in packages if name.startswith(f"{package}.")]


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """Names of what pip installed, by what is imported; looking takes a moment."""
    return importlib.metadata.packages_distributions()
