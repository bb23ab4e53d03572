"""ONNX Runtime on the CPU, fed by torch's ONNX exporter."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np
import torch

from mindgap.platforms.base import Platform, Prepared, Profile, StageClock, status_of
from mindgap.platforms.exported import ExportedRun, from_bits, to_numpy
from mindgap.platforms.onnx_export import (
    ELEMENT_TYPES,
    INSTALL,
    TORCH_TYPES,
    add_model,
    export_onnx,
    require_exporter,
)
from mindgap.platforms.probing import guarded, working
from mindgap.program.case import Case
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import Probe
from mindgap.records.tensors import DTYPE_NAMES, DTYPES


class OnnxRuntime(Platform):
    """ONNX Runtime with all graph optimisations, as users get it."""

    runtime = "onnxruntime"
    summary = "ONNX Runtime"
    install = INSTALL
    profiles: ClassVar = {
        "noopt": Profile("ONNX Runtime without graph optimisations", options={"optimisation": "none"})
    }
    options: ClassVar = {
        "optimisation": "none, basic, extended or all (the default)",
        "threads": "threads inside one operator (1)",
        "providers": "execution providers in order (CPUExecutionProvider)",
    }

    def probe(self) -> Probe:
        def ask() -> Probe:
            import onnxruntime

            require_exporter()
            providers = ", ".join(self.providers)
            return Probe(True, onnxruntime.__version__, providers, working(ELEMENT_TYPES, self.adds))

        return guarded(ask)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        model = export_onnx(case, clock)
        with clock(Stage.COMPILE):
            source = str(model.path) if model.path else model.proto.SerializeToString()
            session = self.session(source)

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return _run(session, model.feeds(tensors))

        return ExportedRun(case, model.export, infer, model)

    @property
    def providers(self) -> list[str]:
        chosen = self.spec.options.get("providers", ["CPUExecutionProvider"])
        return [str(name) for name in chosen] if isinstance(chosen, list | tuple) else [str(chosen)]

    def session(self, source: str | bytes) -> Any:
        """A session for a model, given as a path or as bytes."""
        import onnxruntime

        levels = onnxruntime.GraphOptimizationLevel
        by_name = {
            "none": levels.ORT_DISABLE_ALL, "basic": levels.ORT_ENABLE_BASIC,
            "extended": levels.ORT_ENABLE_EXTENDED, "all": levels.ORT_ENABLE_ALL,
        }  # fmt: skip
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = by_name[str(self.spec.options.get("optimisation", "all"))]
        options.intra_op_num_threads = int(str(self.spec.options.get("threads", 1)))
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(source, options, providers=self.providers)

    def adds(self, dtype: str) -> bool:
        """Whether 1 + 1 is right with this element type."""
        one = torch.ones(2, dtype=DTYPES[dtype])
        (total,) = _run(self.session(add_model(dtype).SerializeToString()), {"x": one})
        return bool((total.to(torch.complex128) == (1 if dtype == "bool" else 2)).all())

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """Its exceptions share no base class, and it calls a missing kernel an invalid graph."""
        text = str(error)
        if stage is Stage.COMPILE and "Type Error" in text and "is invalid" in text:
            return Status.UNSUPPORTED
        if stage is Stage.RUN and type(error).__name__ in ("InvalidArgument", "RuntimeException"):
            return status_of(RuntimeError(text), stage)
        return status_of(error, stage)


def _run(session: Any, feeds: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """All through OrtValue, because arrays would lose bfloat16 and float8."""
    import onnxruntime

    arrays = {name: to_numpy(tensor) for name, tensor in feeds.items()}
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            arrays[name], ELEMENT_TYPES[DTYPE_NAMES[tensor.dtype]]
        )
        for name, tensor in feeds.items()
    }
    return [_fetched(value) for value in session.run_with_ort_values(None, values)]


def _fetched(value: Any) -> torch.Tensor:
    shape, dtype = value.shape(), TORCH_TYPES[value.element_type()]
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return from_bits(np.frombuffer(data, dtype=np.uint8), dtype, shape)
