"""One row of `mindgap bench audit`, made in a worker with limits: a program audited as it is, or with a canary in it.

A canary lives in the memory of the worker that plants it. Only one that fires on one platform goes to other workers,
by the way that every case goes.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.audit.auditing import audit_here
from mindgap.audit.watching import Clock
from mindgap.bench.canaries import PUBLISHED, Canary, plant
from mindgap.bench.measurement import Row
from mindgap.bench.planting import Unfit
from mindgap.bench.published import published_measures
from mindgap.corpus.library import import_library
from mindgap.corpus.onnx.program import program_of_onnx
from mindgap.errors import MindgapError, UnsupportedConstruct
from mindgap.execution.parcel import Parcel, make_parcel
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.platforms.onnx.export import TORCH_TYPES
from mindgap.program import codec
from mindgap.program.case import Case
from mindgap.program.examples import of_program
from mindgap.records.audit import Found

SECONDS: Final = 60.0
"""Of CPU time, for one audit: what `mindgap audit` has as well."""
SIZES: Final = (64, 576, 320, 2)
"""For open dimensions of files in wheels: pictures, frames of sound, tokens."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a model lies: a program, or an `.onnx` file in a wheel."""

    name: str
    path: str
    member: str = ""


@dataclass(frozen=True, slots=True)
class Planting:
    """A canary that is wanted, and the models that are tried for it, the first that suits it counts."""

    family: str
    place: str
    parameter: int
    seed: int
    models: tuple[Stored, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """What became of it."""

    tried: int
    """Models: the last one has the canary, unless none suits it."""
    model: str = ""
    held_out: bool = False
    problem: str = ""
    """Why the last model did not suit it."""


@dataclass
class Garden:
    """The canary that a worker planted last."""

    planting: Planting | None = None
    answer: Planted = field(default_factory=lambda: Planted(0))
    plain: Case | None = None
    canary: Canary | None = None

    def grow(self, planting: Planting) -> Planted:
        """Try one model after the other; what was planted already is not planted again."""
        if planting == self.planting:
            return self.answer
        self.planting, self.plain, self.canary = None, None, None
        problem = "no model has what it reads"
        for number, model in enumerate(planting.models, 1):
            case = load_case(model)
            try:
                self.canary = plant(case, planting.family, planting.place, planting.parameter, planting.seed)
            except Unfit as unfit:
                problem = str(unfit)
                continue
            except Exception as error:  # whatever an operator says of values that do not suit it
                problem = f"{type(error).__name__}: {error}".splitlines()[0]
                continue
            self.plain, self.answer = case, Planted(number, model.name, self.canary.held_out)
            break
        else:
            self.answer = Planted(len(planting.models), problem=problem)
        self.planting = planting
        return self.answer

    def grown(self, planting: Planting) -> tuple[Case, Canary]:
        """The model as it is, and with its canary; planted again in a worker that replaces one that was killed."""
        self.grow(planting)
        assert self.plain is not None and self.canary is not None
        return self.plain, self.canary


@hosting(MindgapError)
@task
def plant_canary(worker: Worker, request: Planting) -> Planted:
    """Plant one, and keep it in this process."""
    return worker.keep(Garden).grow(request)


@hosting(MindgapError)
@task
def audit_planted(worker: Worker, request: Planting) -> dict[str, Any]:
    """Audit what was planted; of the published form also what the paper measured."""
    plain, canary = worker.keep(Garden).grown(request)
    return audited(canary.case, canary.planted, plain if request.family == PUBLISHED else None)


@hosting(MindgapError)
@task
def audit_honest(worker: Worker, request: Stored) -> dict[str, Any]:
    """Audit a model as it is."""
    return audited(load_case(request))


@dataclass(frozen=True, slots=True)
class Sending:
    """A canary that is to run on platforms, and files that take the tensors of both cases."""

    planting: Planting
    plain_file: str
    planted_file: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A case as it is and with its canary."""

    plain: Parcel
    planted: Parcel
    nodes: tuple[int, ...]
    """Of the canary."""


@hosting(MindgapError)
@task
def send_planted(worker: Worker, request: Sending) -> Sent:
    """What was planted, for workers that host platforms."""
    plain, canary = worker.keep(Garden).grown(request.planting)
    return Sent(
        make_parcel(plain, Path(request.plain_file)),
        make_parcel(canary.case, Path(request.planted_file)),
        tuple(sorted(canary.planted)),
    )


def audited(case: Case, planted: frozenset[int] = frozenset(), plain: Case | None = None) -> Row:
    """An audit as a row; with the program as it was before, also what the paper measured."""
    start, cpu = time.perf_counter(), time.process_time()
    here = audit_here(case, Clock(SECONDS))
    spent = {"seconds": round(time.perf_counter() - start, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}
    fired = next((one.tensors for one in here.fired if one is not None), None)
    measured = {} if plain is None else published_measures(plain, case, fired)
    gates = here.found.gates
    proved = any(gate.witness is not None and (gate.operator.node in planted or not planted) for gate in gates)
    return {**seen(here.found, planted), "proved": proved, **spent, **measured}


def seen(found: Found, planted: frozenset[int]) -> Row:
    """What an audit says, and whether it says it of the nodes that were planted."""
    return {
        "problem": "",
        "gates": len(found.gates),
        "named_first": bool(found.gates) and found.gates[0].operator.node in planted,
        "found": any(gate.operator.node in planted for gate in found.gates),
        "said": _said(found),
        "why_not": sorted({f"{x.operator.op}: {x.why.value} {x.detail}" for x in found.excused
                           if x.operator.node in planted}),
        "nodes": found.nodes,
        "unfinished": list(found.not_looked_at),
    }  # fmt: skip


def _said(found: Found) -> str:
    told = []
    for gate in found.gates[:3]:
        fires = "fires" if gate.witness is not None else "not fired"
        where = f" on {', '.join(item.platform for item in gate.platforms)}" if gate.platforms else ""
        told.append(f"%{gate.operator.node} {gate.operator.op}, forced: {gate.shift.over_inputs:.2g}x, {fires}{where}")
    return "; ".join(told)


def load_case(model: Stored) -> Case:
    """A model on its example."""
    if model.member:
        return _shipped(Path(model.path), model.member)
    program, constants = codec.load(Path(model.path))
    return Case.of(program, constants, of_program(program, 0))


def onnx_members(wheel: Path) -> Mapping[str, tuple[int, int]]:
    """The `.onnx` files that ship in a wheel, with checksum and size."""
    with zipfile.ZipFile(wheel) as archive:
        return {i.filename: (i.CRC, i.file_size) for i in archive.infolist() if i.filename.endswith(".onnx")}


def _shipped(wheel: Path, member: str) -> Case:
    """One of them as a program, with the first size for its open dimensions that it takes."""
    onnx = import_library("onnx", "onnx")
    with zipfile.ZipFile(wheel) as archive:
        model = onnx.load_from_string(archive.read(member))
    problem: Exception = UnsupportedConstruct("no size fits")
    for size in SIZES:
        inputs = fed(model, size)
        try:
            found = program_of_onnx(model, Path(member).stem, inputs)
        except UnsupportedConstruct:
            raise
        except Exception as error:  # whatever an operator says of sizes that do not fit it
            problem = error
            continue
        return Case.of(found.program, found.constants, [inputs[item.name] for item in found.program.inputs])
    raise UnsupportedConstruct(f"{member} takes no input of ours", cause=str(problem).splitlines()[0])


def fed(model: Any, size: int) -> dict[str, torch.Tensor]:
    """Inputs with so many elements along each open dimension but the first."""
    constants = {tensor.name for tensor in model.graph.initializer}
    rng = torch.Generator().manual_seed(0)
    made = {}
    for value in model.graph.input:
        if value.name not in constants:
            kind = value.type.tensor_type
            shape = [d.dim_value if d.dim_value > 0 else size if n else 1 for n, d in enumerate(kind.shape.dim)]
            dtype = TORCH_TYPES[kind.elem_type]
            drawn = (
                torch.randn(shape, generator=rng) if dtype.is_floating_point else torch.randint(2, shape, generator=rng)
            )
            made[value.name] = drawn.to(dtype)
    return made
