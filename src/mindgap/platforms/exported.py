"""Runtimes that read an exported program: bits in, bits out, names restored.

A runtime of this kind is a subclass of `ExportedPlatform` that says how to `load` an exported program.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.export import ExportedProgram

from mindgap.platforms.base import Platform, Prepared, StageClock, StageFailure
from mindgap.platforms.lowering import Lowering
from mindgap.platforms.probing import is_two, remembered_dtypes
from mindgap.platforms.quick_tables import quick_tables
from mindgap.program.build import LITERALS, literal_tensor
from mindgap.program.case import Case
from mindgap.program.convert import returned, to_exported
from mindgap.program.graph import Program, Ref
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, NamedTensor, same_bits

Infer: TypeAlias = Callable[[list[torch.Tensor]], list[torch.Tensor]]
"""The runtime itself: compact input tensors in the program's order to its outputs in order."""

_BITS: Final = {
    torch.bfloat16: torch.uint16, torch.complex32: torch.uint32,
    **{dtype: torch.uint8 for dtype, name in DTYPE_NAMES.items() if name.startswith("float8")},
}  # fmt: skip
"""Element types that numpy does not know, with one of the same size that it does."""


@dataclass(frozen=True, slots=True)
class Export:
    """A case as an exported program, and what it takes and returns."""

    program: Program
    exported: ExportedProgram
    placeholders: tuple[str, ...]
    """Names of the inputs in the exported graph, in the program's order."""
    results: tuple[torch.Tensor, ...]
    """Fake tensors with the shape and element type of each result."""

    @property
    def takes(self) -> list[torch.Tensor]:
        """The same of each input, in the program's order."""
        nodes = {node.name: node for node in self.exported.graph.nodes if node.op == "placeholder"}
        return [nodes[name].meta["val"] for name in self.placeholders]


LOWERING: Final = "lowering"
REMEMBERED: Final = "remembered"
LOWERING_MEANS: Final = (
    "stock (the default): torch exports and decomposes each program; remembered: from calls decomposed before, for "
    "many programs that resemble each other"
)
"""An option of every runtime that reads exported programs."""


def export(case: Case, clock: StageClock, lowering: Lowering | None = None) -> Export:
    """The case's program as torch.export makes it from scratch: runtimes may change what they are given.

    With `lowering`, the program is decomposed already, wherever it can be put together from what was learned.
    """
    with clock(Stage.EXPORT), quiet(), quick_tables(lowering is not None):
        if case.program is None:
            raise StageFailure(Status.UNSUPPORTED, "the model could not be exported")
        lowered = lowering.lowered(case.program, case.constants) if lowering is not None else None
        exported = lowered or to_exported(case.program, case.constants, case.tensors)
        returned = next(node for node in exported.graph.nodes if node.op == "output").args[0]
        return Export(
            case.program,
            exported,
            tuple(exported.graph_signature.user_inputs),
            tuple(node.meta["val"] for node in returned),
        )


class ExportedPlatform(Platform):
    """A runtime that converts and compiles an exported program, and then takes flat lists of tensors."""

    @abstractmethod
    def load(self, export: Export, clock: StageClock) -> Infer:
        """Convert and compile, each under its stage; the runtime may change what it is given."""

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        exported = export(case, clock)
        return ExportedRun(case, exported, self.load(exported, clock))

    def dtypes(self) -> tuple[str, ...]:
        """Element types with which 1 + 1 came out right."""
        return remembered_dtypes(self.spec, tuple(DTYPES), self.adds)

    def adds(self, dtype: str) -> bool:
        one = torch.ones(2).to(DTYPES[dtype])
        with torch.no_grad(), quiet():
            exported = torch.export.export(_Either() if dtype == "bool" else _Twice(), (one,), strict=False)
            returned = next(node for node in exported.graph.nodes if node.op == "output").args[0]
            names = tuple(exported.graph_signature.user_inputs)
            results = tuple(node.meta["val"] for node in returned)
            (total,) = self.load(Export(Program("add", (), (), (), ()), exported, names, results), StageClock())([one])
        return is_two(total, dtype)


class _Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


class _Either(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logical_or(x, x)


class ExportedRun(Prepared):
    """A program in a runtime that only knows flat lists of tensors."""

    ran = Ran.PROGRAM

    def __init__(self, case: Case, export: Export, infer: Infer, *kept_alive: object) -> None:
        self._case = case
        self._export = export
        self._infer = infer
        self._kept_alive = kept_alive

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        given = [tensor.detach().resolve_conj().resolve_neg().contiguous() for tensor in tensors]
        results = self._infer(given)
        expected = self._export.results
        if len(results) != len(expected):
            raise StageFailure(Status.ERROR, f"the runtime returned {len(results)} outputs instead of {len(expected)}")
        restored = [as_expected(result, fake) for result, fake in zip(results, expected)]
        program = self._export.program
        names = returned(program)
        values = dict(zip(dict.fromkeys(names.values()), restored))
        outputs = []
        for name, value in program.output_leaves():
            if isinstance(value, Ref):
                outputs.append(_named(name, values[names[name]]))
            elif isinstance(value, LITERALS):
                outputs.append(NamedTensor(name, literal_tensor(value)))
        for item, before, known in zip(program.inputs, given, self._case.inputs.tensors):
            after = values[names[f"input:{item.name}"]] if f"input:{item.name}" in names else before
            if not same_bits(before, after):
                outputs.append(_named(f"input:{known.name}", after))
        return outputs


def _named(name: str, tensor: torch.Tensor) -> NamedTensor:
    return NamedTensor(name, tensor, tuple(tensor.stride()))


def as_expected(result: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    """Complex numbers that a runtime returned as pairs of real ones."""
    pairs = fake.dtype.is_complex and not result.dtype.is_complex and result.shape == (*fake.shape, 2)
    return torch.view_as_complex(result) if pairs else result


def by_placeholder(export: Export, names: Sequence[Sequence[str]]) -> list[int]:
    """For each input of a converted model, with the names it goes by, the index of the program's input."""
    indices = {name: index for index, name in enumerate(export.placeholders)}
    found = []
    for position, known_as in enumerate(names):
        hits = [indices[name] for name in known_as if name in indices]
        if not hits and len(names) == len(indices):
            hits = [position]
        if not hits:
            raise StageFailure(Status.ERROR, f"the converted model takes an unknown input: {', '.join(known_as)}")
        found.append(hits[0])
    return found


def to_numpy(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """A compact tensor as an array; element types that numpy does not know as their bits."""
    bits = _BITS.get(tensor.dtype)
    return (tensor if bits is None else tensor.view(bits)).numpy()


def to_ml_numpy(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """The same with the element types of ml_dtypes, which runtimes with bfloat16 and float8 take."""
    array = to_numpy(tensor)
    name = DTYPE_NAMES[tensor.dtype]
    if name != "bfloat16" and not name.startswith("float8"):
        return array
    import ml_dtypes

    return array.view(getattr(ml_dtypes, name))


def from_ml_numpy(array: npt.NDArray[Any]) -> torch.Tensor:
    """A copy of an array as a tensor of the element type that its label names."""
    name = array.dtype.name
    if name not in DTYPES:
        raise StageFailure(Status.UNSUPPORTED, f"the runtime returned {name}, which torch does not have")
    return from_bits(array, DTYPES[name], array.shape)


def from_bits(array: npt.NDArray[Any], dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """A copy of an array's bits as a tensor, whatever element type numpy believes it has."""
    data = bytearray(np.ascontiguousarray(array).tobytes())
    tensor = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return tensor.reshape(tuple(shape))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Converters warn and log about themselves; what matters they raise."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
