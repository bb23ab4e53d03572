"""A program as an ONNX model, for every runtime that reads one."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from mindgap.platforms.base import StageClock
from mindgap.platforms.exported import Export, by_placeholder, export, quiet
from mindgap.platforms.ladder import Rung
from mindgap.platforms.lowering import Decomposition, Lowered, Lowering
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.onnx.quick_export import quick_export
from mindgap.platforms.quick_tables import quick_tables
from mindgap.platforms.torch.messages import TORCH
from mindgap.program.case import Case
from mindgap.records.outcome import Stage
from mindgap.records.tensors import DTYPES

INSTALL: Final = "pip install 'mindgap[onnx]'"

PACKAGES: Final = ("onnx", "onnxscript")
"""Distributions that torch's exporter needs besides torch."""

PINS: Final = (
    "onnx==1.23.2", "onnxscript==0.7.2", "onnx-ir==1.1.0", "ml_dtypes==0.6.0", "protobuf==7.36.2", "packaging==26.3",
)  # fmt: skip
"""The same with what they need, for the environment of a runtime."""

REFERENCE: Final = Rung(
    "onnx-reference",
    platform="onnx-reference",
    layer="exporter",
    says="onnx-reference, the standard's own implementation, gives the same result: the exported model is wrong",
    cause="exporter semantics",
)
"""The first rung of every runtime that reads ONNX models."""

TO_ONNX: Final = """
def to_onnx(model, inputs):
    exported = torch.export.export(model, tuple(inputs), strict=False)
    return torch.onnx.export(exported, dynamo=True, verbose=False).model_proto
"""
"""Source for scripts."""

EXPORTER: Final = TORCH + MessageRules(
    rewrites=((r"^<class '[\w.]+'>: ", ""),), noise=(r"⬆", r"⬇", r"#"), telling=(r"no onnx function",)
)
"""How torch's exporter words its errors: what every runtime needs that reads an exported ONNX model."""

PROTOBUF_LIMIT_BYTES: Final = 1_800_000_000
"""A model above 2 GB cannot be one message: its weights go to a file (some room is left for the graph)."""

ELEMENT_TYPES: Final[dict[str, int]] = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15,
    "bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20,
}  # fmt: skip
"""The numbers of TensorProto.DataType, which never change."""

TORCH_TYPES: Final = {ELEMENT_TYPES[name]: DTYPES[name] for name in ELEMENT_TYPES if name in DTYPES}


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """An ONNX model with the way back to the program's inputs."""

    export: Export
    proto: Any
    """The onnx.ModelProto; None when the model is too large for one message."""
    path: Path | None
    """Where such a model was saved, weights beside it."""
    directory: tempfile.TemporaryDirectory[str] | None
    input_names: tuple[str, ...]
    indices: tuple[int, ...]
    """For each input of the model, the index of the program's input."""

    def feeds(self, tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Input tensors by their name in the model; complex numbers as pairs of real ones."""
        return {name: _as_real(tensors[index]) for name, index in zip(self.input_names, self.indices)}


def require_exporter() -> None:
    """Raise when torch's exporter lacks a package, without the seconds that importing it takes."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def export_onnx(case: Case, clock: StageClock, remembered: bool = False) -> OnnxModel:
    """The case as torch's own exporter converts it by default."""
    exported = export(case, clock, exporter().lowering if remembered else None)
    with clock(Stage.CONVERT), quiet(), torch.no_grad(), quick_tables(remembered):
        if remembered:
            converted: torch.onnx.ONNXProgram | None = exporter().converted(exported.exported)
        else:
            converted = torch.onnx.export(exported.exported, dynamo=True, verbose=False)
        assert converted is not None  # with dynamo=True the exporter returns a program
        size = sum(tensor.numel() * tensor.element_size() for tensor in case.constants.values())
        names = tuple(str(value.name) for value in converted.model.graph.inputs)
        indices = by_placeholder(exported, [(name, name.removesuffix("_orig")) for name in names])
        if size < PROTOBUF_LIMIT_BYTES:
            return OnnxModel(exported, converted.model_proto, None, None, names, tuple(indices))
        directory = tempfile.TemporaryDirectory(prefix="mindgap-onnx-")
        path = Path(directory.name) / "model.onnx"
        converted.save(str(path), external_data=True)
        return OnnxModel(exported, None, path, directory, names, tuple(indices))


class _Exporter:
    """The steps of torch's exporter one by one, so that what they look up each time is looked up once."""

    def __init__(self) -> None:
        from torch.onnx import _constants
        from torch.onnx._internal.exporter import _core, _decomp, _fx_passes, _registration

        self._core, self._passes = _core, _fx_passes
        self._opset = _constants.ONNX_DEFAULT_OPSET
        self._registry = _registration.ONNXRegistry.from_torchlib(opset_version=self._opset)
        known = set(_decomp.get_onnx_implemented_overloads(self._registry))
        self._table = _decomp.create_onnx_friendly_decomposition_table(known)
        self.lowering = Lowering(Decomposition(self._decomposed, lambda: self._table, self._finish))

    def converted(self, exported: ExportedProgram) -> torch.onnx.ONNXProgram:
        """What `torch.onnx.export` does; of a program that is decomposed already, only what is left to do."""
        from torch.onnx._internal._lazy_import import onnxscript_apis  # type: ignore[attr-defined]

        if not isinstance(exported, Lowered):
            return self._core.export(exported, registry=self._registry, verbose=False, opset_version=self._opset)
        with quick_export():
            program = self._core._exported_program_to_onnx_program(exported, registry=self._registry)
            program.model = onnxscript_apis.convert_version(program.model, self._opset)
            program.optimize()
        return program

    def _decomposed(self, exported: ExportedProgram) -> ExportedProgram:
        with torch.fx.experimental._config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
            found: ExportedProgram = exported.run_decompositions(
                dict(self._table)
            )  # which takes out of it what it does itself
            self._finish(found.graph_module)
            return found

    def _finish(self, module: GraphModule) -> None:
        self._passes.insert_type_promotion_nodes(module)
        self._passes.remove_assertion_nodes(module)


exporter: Final = functools.cache(_Exporter)
"""One for a process: it remembers every call that it has lowered."""


def add_model(dtype: str) -> Any:
    """A model of one addition: what a runtime is asked to run to learn whether it knows an element type."""
    from onnx import helper

    kind = ELEMENT_TYPES[dtype]
    operator = "Or" if dtype == "bool" else "Add"
    x, y = (helper.make_tensor_value_info(name, kind, [2]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node(operator, ["x", "x"], ["y"])], "add", [x], [y])
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor).contiguous() if tensor.dtype.is_complex else tensor
