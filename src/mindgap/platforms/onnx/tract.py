"""tract, Sonos' inference engine in Rust, fed by torch's ONNX exporter."""

from __future__ import annotations

import ctypes
import math
import re
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import torch

from mindgap.platforms.base import Platform, Prepared, StageClock, StageFailure
from mindgap.platforms.exported import ExportedRun, from_bits, to_numpy
from mindgap.platforms.ladder import Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.onnx.export import (
    ELEMENT_TYPES,
    EXPORTER,
    PACKAGES,
    PINS,
    REFERENCE,
    TO_ONNX,
    add_model,
    export_onnx,
    require_exporter,
)
from mindgap.platforms.probing import guarded, is_two, working
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.program.case import Case
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPE_NAMES, DTYPES

RECIPE: Final = Recipe("tract", "tract, Sonos' engine in Rust, on the CPU", pins=("tract==0.23.9", *PINS), size_mb=33)

_TYPES: Final = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "I8": "int8", "I16": "int16",
    "I32": "int32", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip
"""tract's names of element types that can be passed to it, with ours."""


class Tract(Platform):
    """tract as users load it: analysed, decluttered and optimised, which cannot be switched off from Python."""

    runtime = "tract"
    summary = "tract"
    recipes: ClassVar = {"": RECIPE}
    families = ("onnx",)
    packages = (*PACKAGES, "tract")
    message_rules = EXPORTER + MessageRules(
        # Its errors are chains of causes with the innermost last.
        summaries=((r"Caused by:\n(?:.*\n)*?\s*(?:\d+: )?([^\n]+)(?:\n\nStack backtrace:.*)?$", r"\1"),),
        rewrites=(
            (
                r"Unsupported DatumType in the public API TDim",
                "an int64 result became tract's symbolic dimensions (TDim), which its Python package cannot return: "
                "not supported",
            ),
        ),
        noise=(r"Stack backtrace", r"\d+: <unknown>"),
    )
    rungs = (
        REFERENCE,
        Rung(
            "tract",
            layer="runtime",
            says="tract brings it in: on the same model onnx-reference agrees",
        ),
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            import tract

            require_exporter()
            return Probe(True, _version(tract), "CPU", working(ELEMENT_TYPES, self.adds))

        return guarded(ask)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        model = export_onnx(case, clock)
        with clock(Stage.COMPILE):
            runnable = self.load(model.proto, model.path)

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return _run(runnable, model.feeds(tensors))

        return ExportedRun(case, model.export, infer, model)

    def load(self, proto: Any, path: Path | None = None) -> Any:
        """A runnable for a model, given as a message or as a file."""
        import tract

        with tempfile.TemporaryDirectory(prefix="mindgap-tract-") as folder:
            if path is None:
                path = Path(folder) / "model.onnx"
                path.write_bytes(proto.SerializeToString())
            return tract.onnx().load(str(path)).into_model().into_runnable()

    def adds(self, dtype: str) -> bool:
        """Whether 1 + 1 is right with this element type."""
        (total,) = _run(self.load(add_model(dtype)), {"x": torch.ones(2).to(DTYPES[dtype])})
        return is_two(total, dtype)

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """It has one class of exceptions, and refuses operators while it analyses a model."""
        status = super().status_of(error, stage)
        unknown = stage is Stage.COMPILE and re.search(r"[Uu]nimplemented|[Nn]o definition for|not handled", str(error))
        return Status.UNSUPPORTED if status is Status.ERROR and unknown else status

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        return ReproducerText(TO_ONNX + _SCRIPT, exports=True, short=_SHORT, packages=cls.packages)


_SCRIPT: Final = """

def on_platform(model, inputs):
    import tempfile
    import tract

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(to_onnx(model, inputs).SerializeToString())
        file.flush()
        runnable = tract.onnx().load(file.name).into_model().into_runnable()
    return [torch.as_tensor(result.to_numpy()) for result in runnable.run([x.contiguous().numpy() for x in inputs])]
"""


_SHORT: Final = (
    "import tract",
    "exported = torch.export.export(model, inputs, strict=False)",
    'torch.onnx.export(exported, dynamo=True, verbose=False).save("model.onnx")',
    'runnable = tract.onnx().load("model.onnx").into_model().into_runnable()',
    "actual = [torch.as_tensor(result.to_numpy()) for result in runnable.run([x.numpy() for x in inputs])]",
)


def _run(runnable: Any, feeds: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    for name, tensor in feeds.items():
        if DTYPE_NAMES[tensor.dtype] not in _TYPES.values():
            raise StageFailure(Status.UNSUPPORTED, f"tract takes no {DTYPE_NAMES[tensor.dtype]}, the dtype of {name}")
    return [_fetched(result) for result in runnable.run([to_numpy(tensor) for tensor in feeds.values()])]


def _fetched(result: Any) -> torch.Tensor:
    """By its own label and its bytes: its `to_numpy` fails where there are no elements."""
    kind, shape, data = result._parts()
    if kind.name not in _TYPES:
        raise StageFailure(Status.UNSUPPORTED, f"tract returns {kind.name}, which its Python package cannot read")
    dtype = DTYPES[_TYPES[kind.name]]
    size = math.prod(shape) * dtype.itemsize
    content = ctypes.string_at(data, size) if size else b""
    return from_bits(np.frombuffer(content, dtype=np.uint8), dtype, shape)


def _version(tract: Any) -> str:
    return str(tract.version())
