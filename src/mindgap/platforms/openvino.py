"""OpenVINO, fed with the exported program directly."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock, StageFailure, thread_knobs
from mindgap.platforms.exported import (
    LOWERING,
    LOWERING_MEANS,
    REMEMBERED,
    ExportedRun,
    by_placeholder,
    export,
    from_bits,
    quiet,
    to_numpy,
)
from mindgap.platforms.ladder import Knob, Ladder, Rung
from mindgap.platforms.lowering import Decomposition, Lowering
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.onnx.file import ONNX, FileRun
from mindgap.platforms.probing import guarded, is_two, working
from mindgap.platforms.quick_tables import quick_tables
from mindgap.platforms.recipe import Versioned
from mindgap.platforms.reproducer import Headings, ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.program.case import Case
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPE_NAMES, DTYPES

ELEMENT_TYPES: Final = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "boolean", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip
"""OpenVINO's names of element types."""

REFERENCE: Final = "reference"
_KERNELS: Final = Rung(
    "OpenVINO's reference kernels", {"kernels": REFERENCE}, layer="conversion",
    says="OpenVINO's conversion brings it in: its own reference kernels give the same result for the converted model",
    cause="exporter semantics",
)  # fmt: skip
"""`Model.evaluate`: the converted model without the plugin of a device."""


def _knob(name: str, layer: str, properties: dict[str, object], device: str) -> Knob:
    return Knob(
        name, {"properties": properties}, layer, f"OpenVINO runs with {name}",
        cure=f'openvino.compile_model(model, "{device}", {properties!r})',
    )  # fmt: skip


def knobs_for(spec: PlatformSpec) -> tuple[Knob, ...]:
    """Precision and execution hints, and what the CPU plugin lets one switch of its transformations."""
    device = _device(spec)
    found = []
    if spec.options.get("precision", "f32") != "f32":
        found.append(_knob("float32 precision", "precision hint", {"INFERENCE_PRECISION_HINT": "f32"}, device))
    found.append(_knob("accuracy as its execution hint", "execution hint", {"EXECUTION_MODE_HINT": "ACCURACY"}, device))
    if device == "CPU":
        found.append(_knob("code generation for fused operators off", "snippets", {"SNIPPETS_MODE": "DISABLE"}, device))
        found.append(_knob("denormal numbers kept", "denormals", {"CPU_DENORMALS_OPTIMIZATION": False}, device))
    return (*found, *thread_knobs(spec))


_TORCH_TYPES: Final = {theirs: DTYPES[ours] for ours, theirs in ELEMENT_TYPES.items() if ours in DTYPES}


class OpenVino(Platform):
    """OpenVINO on one of its devices."""

    runtime = "openvino"
    summary = "OpenVINO"
    install = "pip install 'mindgap[openvino]'"
    devices: ClassVar = {
        "GPU": "pip install 'mindgap[openvino]' (and Intel's compute runtime for the GPU)",
        "NPU": "pip install 'mindgap[openvino]' (and Intel's NPU driver)",
    }
    hardware: ClassVar = {"GPU": "an Intel GPU", "NPU": "an Intel NPU"}
    options: ClassVar = {
        "precision": "the precision of inference: f32 (the default), bf16 or f16",
        "threads": "threads of one inference (1)",
        "kernels": "reference: OpenVINO's own reference kernels on the converted model, without a device",
        "properties": "more properties of the compiled model, by name",
        LOWERING: LOWERING_MEANS,
    }
    in_crowds: ClassVar = {LOWERING: REMEMBERED}
    versioned = Versioned("openvino")
    headings = Headings(
        "Issue description",
        reproduce="Step-by-step reproduction",
        versions="OpenVINO version, operating system, device",
    )
    reads = ONNX
    shares_lowering = True
    packages = ("openvino",)
    message_rules = TORCH + MessageRules(
        summaries=(
            # An operator that it knows and still could not convert.
            (r"-- (\S+) with a message:\n.*?OpConversionFailure:\n(?:\[[^\]]*\] )?([^\n]+)", r"\1: \2"),
            # The name is that of whatever is returned twice: without it, one cause has one message.
            (
                r"Tensor name is not a number: ",
                "it cannot return a value twice, not even a copy of it as well (Tensor name is not a number)",
            ),
        ),
        rewrites=((r"^--+ ", ""),),
        noise=(r"Exception from src/", r"Check '"),
        telling=(r"no conversion rule", r"unsupported operation"),
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            openvino = import_quietly()
            core = openvino.Core()
            version = openvino.__version__.split("-")[0]
            if not any(found.split(".")[0] == self.device.split(".")[0] for found in core.available_devices):
                return Probe(False, version, reason=f"OpenVINO finds no {self.device} device")
            name = str(core.get_property(self.device, "FULL_DEVICE_NAME"))
            return Probe(True, version, name, working(ELEMENT_TYPES, lambda dtype: self.adds(core, dtype)))

        return guarded(ask)

    def foresee(self, cases: Sequence[Case]) -> None:
        if self.remembers:
            with quiet():
                lowering().learn(case.graph for case in cases)

    @property
    def remembers(self) -> bool:
        return self.spec.options.get(LOWERING) == REMEMBERED

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        exported = export(case, clock, lowering() if self.remembers else None)
        with clock(Stage.CONVERT), quiet(), quick_tables(self.remembers):
            openvino = import_quietly()
            model = openvino.convert_model(exported.exported)
        with clock(Stage.COMPILE):
            compiled = self.compiled(openvino.Core(), model)
            indices = by_placeholder(exported, [sorted(port.names) for port in compiled.inputs])

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return _run(compiled, [tensors[index] for index in indices])

        return ExportedRun(case, exported, infer)

    def prepare_file(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.CONVERT), quiet():
            openvino = import_quietly()
            core = openvino.Core()
            model = core.read_model(case.file)
        with clock(Stage.COMPILE):
            compiled = self.compiled(core, model)

        def infer(given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
            names = [next(name for name in port.names if name in given) for port in compiled.inputs]
            return _run(compiled, [given[name] for name in names])

        return FileRun(case, [port.get_any_name() for port in model.outputs], infer)

    def compiled(self, core: Any, model: Any) -> Any:
        """A converted model for its device, or for no device at all."""
        if self.spec.options.get("kernels") == REFERENCE:
            return _Evaluated(model)
        return core.compile_model(model, self.device, properties_of(self.spec))

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder:
        """The conversion alone, then the plugin of the device: its transformations and its kernels."""
        says = (
            f"OpenVINO's {_device(spec)} plugin brings it in: its reference kernels agree on the same converted model"
        )
        return Ladder((_KERNELS, Rung("plugin", layer="plugin", says=says)), knobs_for(spec))

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        text = _SCRIPT.format(device=_device(spec), settings=properties_of(spec))
        short = (
            "import openvino",
            "converted = openvino.convert_model(torch.export.export(model, inputs, strict=False))",
            f'compiled = openvino.compile_model(converted, "{_device(spec)}", {properties_of(spec)})',
            "actual = [torch.as_tensor(result) for result in compiled([x.numpy() for x in inputs]).values()]",
        )
        return ReproducerText(text, exports=True, short=short, packages=cls.packages)

    @classmethod
    def file_script(cls, spec: PlatformSpec) -> str:
        return _FILE_SCRIPT.format(device=_device(spec), settings=properties_of(spec))

    @property
    def device(self) -> str:
        return _device(self.spec)

    def adds(self, core: Any, dtype: str) -> bool:
        """Whether 1 + 1 is right with this element type."""
        openvino = import_quietly()
        from openvino import opset8

        x = opset8.parameter([2], getattr(openvino.Type, ELEMENT_TYPES[dtype]))
        node = opset8.logical_or(x, x) if dtype == "bool" else opset8.add(x, x)
        compiled = core.compile_model(openvino.Model([node], [x], "add"), self.device, properties_of(self.spec))
        (total,) = _run(compiled, [torch.ones(2).to(DTYPES[dtype])])
        return is_two(total, dtype)


@functools.cache
def lowering() -> Lowering:
    """One for a process: it remembers every call that it has lowered."""
    from torch.export.decomp_utils import CustomDecompTable

    import_quietly()
    from openvino.frontend.pytorch.torchdynamo.export_decompositions import ops_to_not_decompose

    table: Any = CustomDecompTable()  # type: ignore[no-untyped-call]
    for operator in ops_to_not_decompose():
        table.pop(operator, None)
    return Lowering(Decomposition(lambda exported: exported.run_decompositions(table), lambda: set(table)))


def _device(spec: PlatformSpec) -> str:
    return spec.device or "CPU"


def properties_of(spec: PlatformSpec) -> dict[str, object]:
    """Settings of a compiled model; without the hint, bfloat16 units would compute float32 programs in bfloat16."""
    found: dict[str, object] = {"INFERENCE_PRECISION_HINT": spec.options.get("precision", "f32")}
    if _device(spec) == "CPU":
        found["INFERENCE_NUM_THREADS"] = spec.options.get("threads", 1)
    more = spec.options.get("properties")
    return found | (dict(more) if isinstance(more, Mapping) else {})


_FILE_SCRIPT: Final = """
def on_platform(path, feeds):
    import openvino
    compiled = openvino.compile_model(path, "{device}", {settings})
    result = compiled({{name: feeds[name] for port in compiled.inputs for name in port.names if name in feeds}})
    return [result[i] for i in range(len(compiled.outputs))]
"""

_SCRIPT: Final = """
def on_platform(model, inputs):
    import openvino

    exported = torch.export.export(model, tuple(inputs), strict=False)
    compiled = openvino.Core().compile_model(openvino.convert_model(exported), "{device}", {settings})
    given = dict(zip(exported.graph_signature.user_inputs, inputs))  # inputs that nothing reads are dropped
    feeds = [given[name] for port in compiled.inputs for name in port.names if name in given]
    result = compiled([x.contiguous().numpy() for x in feeds])
    return [torch.as_tensor(result[i]) for i in range(len(compiled.outputs))]
"""


def import_quietly() -> ModuleType:
    """OpenVINO without its telemetry, which by default sends events from threads of its own.

    It falls back to a stub when its telemetry package is not there, so that package must not be found.
    """
    if "openvino_telemetry" not in sys.modules:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    return openvino  # type: ignore[no-any-return]


class _Evaluated:
    """A converted model run by OpenVINO's reference kernels; looks like a compiled one, as far as `_run` looks."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.inputs, self.outputs = model.inputs, model.outputs
        self._given: dict[int, Any] = {}
        self._made: list[Any] = []

    def create_infer_request(self) -> _Evaluated:
        return self

    def set_input_tensor(self, position: int, tensor: Any) -> None:
        self._given[position] = tensor

    def infer(self) -> None:
        openvino = import_quietly()
        self._made = [openvino.Tensor(port.element_type, openvino.Shape([0])) for port in self.outputs]
        try:
            self._model.evaluate(self._made, [self._given[index] for index in sorted(self._given)])
        except RuntimeError as error:  # an operator has no reference kernel
            raise StageFailure(Status.UNSUPPORTED, str(error)) from None

    def get_output_tensor(self, index: int) -> Any:
        return self._made[index]


def _run(compiled: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    openvino = import_quietly()
    request = compiled.create_infer_request()
    feeds = []
    for position, tensor in enumerate(tensors):
        name = DTYPE_NAMES[tensor.dtype]
        if name not in ELEMENT_TYPES:
            raise StageFailure(Status.UNSUPPORTED, f"OpenVINO has no {name}")
        feeds.append(to_numpy(tensor))
        kind = getattr(openvino.Type, ELEMENT_TYPES[name])
        request.set_input_tensor(position, openvino.Tensor(feeds[-1], list(tensor.shape), kind))
    request.infer()
    return [_fetched(request.get_output_tensor(index)) for index in range(len(compiled.outputs))]


def _fetched(tensor: Any) -> torch.Tensor:
    """bfloat16 arrives in numpy labelled float16: only the runtime's own label counts."""
    return from_bits(tensor.data, _TORCH_TYPES[tensor.element_type.get_type_name()], list(tensor.shape))
