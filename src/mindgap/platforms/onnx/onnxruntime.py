"""ONNX Runtime on the CPU, or on a WebGPU device, fed by torch's ONNX exporter."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import torch

from mindgap.platforms import mesa
from mindgap.platforms.base import (
    FALLBACK,
    FALLBACK_MEANS,
    LAVAPIPE,
    Fallback,
    Platform,
    Prepared,
    Profile,
    StageClock,
    StageFailure,
    status_of,
    thread_knobs,
    threads_of,
)
from mindgap.platforms.exported import LOWERING, LOWERING_MEANS, REMEMBERED, ExportedRun, from_bits, quiet, to_numpy
from mindgap.platforms.ladder import Knob, Ladder, Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.onnx.export import (
    ELEMENT_TYPES,
    EXPORTER,
    INSTALL,
    PACKAGES,
    PINS,
    REFERENCE,
    TO_ONNX,
    TORCH_TYPES,
    add_model,
    export_onnx,
    exporter,
    require_exporter,
)
from mindgap.platforms.onnx.file import ONNX, FileRun
from mindgap.platforms.onnx.optimisers import DISABLED, OPTIMISERS
from mindgap.platforms.probing import guarded, is_two, working
from mindgap.platforms.recipe import Recipe, Versioned
from mindgap.platforms.reproducer import Headings, ReproducerText
from mindgap.program.case import Case
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPE_NAMES, DTYPES

_LEVELS: Final = {
    "none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL",
}  # fmt: skip
"""Levels of graph optimisation with ONNX Runtime's own names, from none to all."""

_MESSAGES: Final = EXPORTER + MessageRules(
    rewrites=((r"\[ONNXRuntimeError\] : \d+ : (\w+) : ", r"\1: "),),
    telling=(r"could not find an implementation", r"type error: type"),
)

_UNOPTIMISED: Final = Knob(
    "graph optimisations off", {"optimisation": "none"}, "optimiser", "onnxruntime runs without graph optimisations",
    cure="options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL",
)  # fmt: skip


WEBGPU: Final = Recipe(
    "onnxruntime:webgpu",
    "ONNX Runtime's WebGPU shaders on Mesa's software GPU (lavapipe), not on a real one",
    pins=("onnxruntime-webgpu==1.27.0", "flatbuffers==25.12.19", *PINS),
    size_mb=380,
    debian=mesa.FILES,
    prepare="mindgap.platforms.mesa:describe",
    env=mesa.ENV,
)

_DEVICE_PROVIDERS: Final = {"webgpu": "WebGpuExecutionProvider"}
_CPU_PROVIDER: Final = "CPUExecutionProvider"


class OnnxRuntime(Platform):
    """ONNX Runtime with all graph optimisations, as users get it."""

    runtime = "onnxruntime"
    summary = "ONNX Runtime"
    install = INSTALL
    profiles: ClassVar = {
        "noopt": Profile("ONNX Runtime without graph optimisations", options={"optimisation": "none"})
    }
    devices: ClassVar = {"webgpu": "mindgap platforms install onnxruntime:webgpu"}
    recipes: ClassVar = {":webgpu": WEBGPU}
    options: ClassVar = {
        "optimisation": "none, basic, extended or all (the default)",
        "threads": "threads inside one operator (1)",
        DISABLED: "names of graph optimisers to switch off (none)",
        "providers": "execution providers in order (CPUExecutionProvider)",
        FALLBACK: FALLBACK_MEANS,
        LOWERING: LOWERING_MEANS,
    }
    in_crowds: ClassVar = {LOWERING: REMEMBERED}
    families = ("onnx",)
    versioned = Versioned("onnxruntime", ("flatbuffers==25.12.19", *PINS))
    reads = ONNX
    shares_lowering = True
    packages = (*PACKAGES, "onnxruntime")
    headings = Headings(
        "Describe the issue", versions="Platform, ONNX Runtime version, execution provider (CPU unless said otherwise)"
    )
    message_rules = _MESSAGES

    def probe(self) -> Probe:
        def ask() -> Probe:
            import onnxruntime

            require_exporter()
            providers = _providers(self.spec)
            missing = [name for name in providers if name not in onnxruntime.get_available_providers()]
            if missing:
                return Probe(False, onnxruntime.__version__, reason=f"this build of onnxruntime has no {missing[0]}")
            told = ", ".join(providers) if self.spec.device is None else providers[0]
            return Probe(True, onnxruntime.__version__, told, working(ELEMENT_TYPES, self.adds))

        return guarded(ask)

    def foresee(self, cases: Sequence[Case]) -> None:
        if self.remembers:
            with quiet():
                exporter().lowering.learn(case.graph for case in cases)

    @property
    def remembers(self) -> bool:
        return self.spec.options.get(LOWERING) == REMEMBERED

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        model = export_onnx(case, clock, self.remembers)
        with clock(Stage.COMPILE):
            source = str(model.path) if model.path else model.proto.SerializeToString()
            session = self.session(source)

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return _run(session, model.feeds(tensors))

        prepared = ExportedRun(case, model.export, infer, model)
        prepared.fallback = _on_the_cpu(session, _providers(self.spec))
        return prepared

    def prepare_file(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            session = self.session(case.file)
        takes = {item.name for item in session.get_inputs()}

        def infer(given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
            return _run(session, {name: tensor for name, tensor in given.items() if name in takes})

        prepared = FileRun(case, [item.name for item in session.get_outputs()], infer)
        prepared.fallback = _on_the_cpu(session, _providers(self.spec))
        return prepared

    def session(self, source: str | bytes, strict: bool = False) -> Any:
        """A session for a model, given as a path or as bytes; `strict` leaves no node to the CPU provider."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, _LEVELS[_level(self.spec)])
        options.intra_op_num_threads = threads_of(self.spec)
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if _providers(self.spec)[0] != _CPU_PROVIDER:
            options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if strict:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        providers = _providers(self.spec)
        given: Any = self.spec.options.get(DISABLED, ())
        disabled = {"disabled_optimizers": [str(name) for name in given]} if given else {}
        chosen = providers[:1] if strict else providers
        session = onnxruntime.InferenceSession(source, options, providers=chosen, **disabled)
        if providers[0] not in session.get_providers():
            raise StageFailure(Status.ERROR, f"{providers[0]} could not be started: all would run on the CPU provider")
        return session

    def adds(self, dtype: str) -> bool:
        """Whether 1 + 1 is right with this element type."""
        one = torch.ones(2, dtype=DTYPES[dtype])
        strict = self.spec.device is not None  # otherwise it would be the CPU provider's answer
        (total,) = _run(self.session(add_model(dtype).SerializeToString(), strict), {"x": one})
        return is_two(total, dtype)

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """Its exceptions share no base class, and it calls a missing kernel an invalid graph."""
        text = self.message_of(error) if stage is Stage.CONVERT else str(error)
        if stage is Stage.CONVERT:  # the exporter's own exceptions say less than what they were raised from
            return status_of(RuntimeError(text), stage)
        if stage is Stage.COMPILE and "Type Error" in text and "is invalid" in text:
            return Status.UNSUPPORTED
        if stage is Stage.RUN and type(error).__name__ in ("InvalidArgument", "RuntimeException"):
            return status_of(RuntimeError(text), stage)
        return status_of(error, stage)

    @classmethod
    def families_of(cls, spec: PlatformSpec) -> tuple[str, ...]:
        return (*super().families_of(spec), *((LAVAPIPE,) if spec.device is not None else ()))

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        text = _SCRIPT.format(level=_LEVELS[_level(spec)], threads=threads_of(spec), providers=_providers(spec))
        return ReproducerText(TO_ONNX + text, exports=True, short=_short(spec), packages=cls.packages)

    @classmethod
    def file_script(cls, spec: PlatformSpec) -> str:
        return _FILE_SCRIPT.format(level=_LEVELS[_level(spec)], threads=threads_of(spec), providers=_providers(spec))

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder:
        """The exporter alone, then each level of optimisations up to the platform's own."""
        names = list(_LEVELS)
        *below, own = names[: names.index(_level(spec)) + 1]
        rungs = (*(_rung(name, {"optimisation": name}) for name in below), _rung(own, {}))
        knobs = ((_UNOPTIMISED,) if below else ()) + thread_knobs(spec)
        return Ladder((REFERENCE, *rungs), knobs, OPTIMISERS if below else None)


def _short(spec: PlatformSpec) -> tuple[str, ...]:
    """A few lines; on a device they insist that nothing is left to the CPU provider."""
    settings = []
    if _level(spec) != "all":
        settings.append(f"graph_optimization_level = onnxruntime.GraphOptimizationLevel.{_LEVELS[_level(spec)]}")
    if spec.device:
        settings.append('add_session_config_entry("session.disable_cpu_ep_fallback", "1")')
    options = ("options = onnxruntime.SessionOptions()", *(f"options.{text}" for text in settings)) if settings else ()
    given = "options, " if settings else ""
    providers = _providers(spec)[:1] if spec.device else _providers(spec)
    return (
        "import onnxruntime",
        "exported = torch.export.export(model, inputs, strict=False)",
        "proto = torch.onnx.export(exported, dynamo=True, verbose=False).model_proto",
        *options,
        f"session = onnxruntime.InferenceSession(proto.SerializeToString(), {given}providers={providers})",
        "feeds = dict(zip([i.name for i in session.get_inputs()], [x.numpy() for x in inputs]))",
        "actual = [torch.as_tensor(result) for result in session.run(None, feeds)]",
    )


def _rung(level: str, options: Mapping[str, str]) -> Rung:
    if level == "none":
        says = "ONNX Runtime's kernels bring it in: on the same model onnx-reference agrees"
        return Rung("no graph optimisations", options, layer="runtime", says=says)
    says = f"graph optimisations of level {level} bring it in; without any ONNX Runtime agrees"
    return Rung(f"optimisations up to {level}", options, layer="optimiser", says=says)


def _on_the_cpu(session: Any, providers: Sequence[str]) -> Fallback | None:
    """The nodes that its CPU provider runs instead of the first one; None where this version does not tell."""
    if providers[0] == _CPU_PROVIDER:
        return Fallback(0.0, "its CPU provider")
    try:
        parts = session.get_provider_graph_assignment_info()
        nodes = [(part.ep_name, node.op_type) for part in parts for node in part.get_nodes()]
    except Exception:  # older versions have no such call, or refuse it
        return None
    if not nodes:
        return None
    left = Counter(operator for name, operator in nodes if name == _CPU_PROVIDER)
    return Fallback(left.total() / len(nodes), "its CPU provider", tuple(name for name, _ in left.most_common()))


def _providers(spec: PlatformSpec) -> list[str]:
    if spec.device is not None:
        return [_DEVICE_PROVIDERS[spec.device.partition(":")[0]], _CPU_PROVIDER]
    chosen = spec.options.get("providers", ["CPUExecutionProvider"])
    return [str(name) for name in chosen] if isinstance(chosen, list | tuple) else [str(chosen)]


def _level(spec: PlatformSpec) -> str:
    return str(spec.options.get("optimisation", "all"))


_FILE_SCRIPT: Final = """
def on_platform(path, feeds):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    options.intra_op_num_threads = {threads}
    session = onnxruntime.InferenceSession(path, options, providers={providers})
    return session.run(None, {{i.name: feeds[i.name] for i in session.get_inputs()}})
"""

_SCRIPT: Final = """

def on_platform(model, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    options.intra_op_num_threads = {threads}
    session = onnxruntime.InferenceSession(
        to_onnx(model, inputs).SerializeToString(), options, providers={providers}
    )
    feeds = dict(zip([i.name for i in session.get_inputs()], [x.contiguous().numpy() for x in inputs]))
    return [torch.as_tensor(result) for result in session.run(None, feeds)]
"""


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
