"""ONNX's own reference implementation: tells faults of the exporter from faults of a runtime."""

from __future__ import annotations

import traceback
from typing import Any, Final

import numpy as np
import torch

from mindgap.platforms.base import Platform, Prepared, StageClock, StageFailure, status_of
from mindgap.platforms.exported import ExportedRun, from_ml_numpy, quiet, to_ml_numpy
from mindgap.platforms.messages import first_cause
from mindgap.platforms.onnx.export import (
    ELEMENT_TYPES,
    EXPORTER,
    INSTALL,
    PACKAGES,
    TO_ONNX,
    add_model,
    export_onnx,
    require_exporter,
)
from mindgap.platforms.onnx.file import ONNX, FileRun
from mindgap.platforms.probing import guarded, is_two, working
from mindgap.platforms.reproducer import ReproducerText
from mindgap.program.case import Case
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPES


class OnnxReference(Platform):
    """Every operator in numpy, straight from the standard's text; slow."""

    runtime = "onnx-reference"
    summary = "ONNX reference implementation"
    install = INSTALL
    families = ("onnx",)
    reads = ONNX
    packages = PACKAGES
    message_rules = EXPORTER

    def probe(self) -> Probe:
        def ask() -> Probe:
            import onnx

            require_exporter()
            return Probe(True, onnx.__version__, "numpy", working(ELEMENT_TYPES, _adds))

        return guarded(ask)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        model = export_onnx(case, clock)
        with clock(Stage.COMPILE), quiet():
            from onnx.reference import ReferenceEvaluator

            evaluator = ReferenceEvaluator(str(model.path) if model.path else model.proto)

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return _run(evaluator, model.feeds(tensors))

        return ExportedRun(case, model.export, infer, model)

    def prepare_file(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE), quiet():
            from onnx.reference import ReferenceEvaluator

            evaluator = ReferenceEvaluator(case.file)
        return FileRun(case, evaluator.output_names, lambda given: _run(evaluator, given))

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        return ReproducerText(TO_ONNX + _SCRIPT, exports=True, packages=cls.packages)


_SCRIPT: Final = """

def on_platform(model, inputs):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(to_onnx(model, inputs))
    feeds = dict(zip(evaluator.input_names, [x.contiguous().numpy() for x in inputs]))
    return [torch.as_tensor(result) for result in evaluator.run(None, feeds)]
"""


def _run(evaluator: Any, feeds: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    arrays = {name: to_ml_numpy(tensor) for name, tensor in feeds.items()}
    try:
        with quiet(), np.errstate(all="ignore"):
            results = evaluator.run(None, arrays)
    except Exception as error:
        raise _explained(error) from None
    return [from_ml_numpy(np.asarray(result)) for result in results]


def _explained(error: Exception) -> StageFailure:
    """The failure with the operator that it happened in.

    numpy refuses shapes, not values: only an index that is out of range is the model's own fault.
    """
    status = status_of(error, Stage.RUN)
    if status is Status.REJECTED and not isinstance(error, IndexError):
        status = Status.ERROR
    owners: list[Any] = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    nodes = [owner.onnx_node.op_type for owner in owners if hasattr(owner, "onnx_node")]
    return StageFailure(status, ": ".join([*nodes[-1:], first_cause(error, EXPORTER)]))


def _adds(dtype: str) -> bool:
    from onnx.reference import ReferenceEvaluator

    one = torch.ones(2, dtype=torch.float32).to(DTYPES[dtype])
    (total,) = _run(ReferenceEvaluator(add_model(dtype)), {"x": one})
    return is_two(total, dtype)
