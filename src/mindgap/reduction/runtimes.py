"""How a script without mindgap runs a model on each runtime: source text of `on_platform(model, inputs)`.

A runtime of another package offers its own text as the attribute `reproducer` of its adapter class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from mindgap.platforms.names import parse_name
from mindgap.records.platform import PlatformSpec


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a script needs to use a runtime."""

    text: str
    """Source of `on_platform(model, inputs)`, which returns a list of tensors."""
    exports: bool = False
    """Whether the runtime reads an exported program: it wants a module, and writes become outputs."""
    packages: tuple[str, ...] = ()
    """Besides torch, for the list of versions."""


_EAGER = """
def on_platform(model, inputs):
    return as_list(model(*inputs))
"""

_WITHOUT_MKLDNN = """
def on_platform(model, inputs):
    with torch.backends.mkldnn.flags(enabled=False):
        return as_list(model(*inputs))
"""

_DEVICE = """
def on_platform(model, inputs):
    if isinstance(model, torch.nn.Module):
        model = copy.deepcopy(model).to("{device}")
    moved = [x.to("{device}") for x in inputs]
    results = as_list({call}(*moved))
    for x, there in zip(inputs, moved):
        x.copy_(there)
    return [result.cpu() for result in results]
"""

_COMPILE = """
def on_platform(model, inputs):
    return as_list({call}(*inputs))
"""

_ONNX_EXPORT = """
def to_onnx(model, inputs):
    exported = torch.export.export(model, tuple(inputs), strict=False)
    return torch.onnx.export(exported, dynamo=True, verbose=False).model_proto
"""

_ONNXRUNTIME = (
    _ONNX_EXPORT
    + """

def on_platform(model, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        to_onnx(model, inputs).SerializeToString(), options, providers={providers}
    )
    feeds = dict(zip([i.name for i in session.get_inputs()], [x.contiguous().numpy() for x in inputs]))
    return [torch.as_tensor(result) for result in session.run(None, feeds)]
"""
)

_ONNX_REFERENCE = (
    _ONNX_EXPORT
    + """

def on_platform(model, inputs):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(to_onnx(model, inputs))
    feeds = dict(zip(evaluator.input_names, [x.contiguous().numpy() for x in inputs]))
    return [torch.as_tensor(result) for result in evaluator.run(None, feeds)]
"""
)

_OPENVINO = """
def on_platform(model, inputs):
    import openvino

    exported = torch.export.export(model, tuple(inputs), strict=False)
    compiled = openvino.Core().compile_model(openvino.convert_model(exported), "{device}", {settings})
    given = dict(zip(exported.graph_signature.user_inputs, inputs))  # inputs that nothing reads are dropped
    feeds = [given[name] for port in compiled.inputs for name in port.names if name in given]
    result = compiled([x.contiguous().numpy() for x in feeds])
    return [torch.as_tensor(result[i]) for i in range(len(compiled.outputs))]
"""

_MINDGAP = """
def on_platform(model, inputs):
    import mindgap  # {name} has no recipe without it

    outcome = mindgap.check(model, inputs, on=["{name}"], program=True).platforms["{name}"].outcome
    if not outcome.ok:
        raise RuntimeError(outcome.message)
    return [item.tensor for item in outcome.outputs]
"""

_LEVELS: Final = {
    "none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL",
}  # fmt: skip


def recipe_for(spec: PlatformSpec) -> Recipe:
    """The recipe of a platform; with mindgap itself where nothing else is known."""
    offered = _offered(spec)
    if offered is not None:
        return offered
    options: Mapping[str, Any] = spec.options
    runtime = _runtime(spec)
    if runtime == "eager":
        if spec.device:
            return Recipe(_DEVICE.format(device=_torch_device(spec), call="model"))
        return Recipe(_EAGER if options.get("mkldnn", True) else _WITHOUT_MKLDNN)
    if runtime in ("inductor", "aot_eager"):
        call = _compile_call(runtime, options)
        text = _DEVICE.format(device=_torch_device(spec), call=call) if spec.device else _COMPILE.format(call=call)
        return Recipe(text)
    if runtime == "onnxruntime":
        providers = list(options.get("providers", ["CPUExecutionProvider"]))
        text = _ONNXRUNTIME.format(level=_LEVELS[str(options.get("optimisation", "all"))], providers=providers)
        return Recipe(text, exports=True, packages=("onnx", "onnxscript", "onnxruntime"))
    if runtime == "onnx-reference":
        return Recipe(_ONNX_REFERENCE, exports=True, packages=("onnx", "onnxscript"))
    if runtime == "openvino":
        settings = {"INFERENCE_PRECISION_HINT": options.get("precision", "f32")}
        if not spec.device:
            settings["INFERENCE_NUM_THREADS"] = options.get("threads", 1)
        text = _OPENVINO.format(settings=settings, device=spec.device or "CPU")
        return Recipe(text, exports=True, packages=("openvino",))
    return Recipe(_MINDGAP.format(name=spec.name), packages=("mindgap",))


def _runtime(spec: PlatformSpec) -> str:
    """The runtime behind a name; one that a user declared is known by its adapter."""
    cls = _adapter(spec)
    parsed = parse_name(spec.name)
    return str(getattr(cls, "runtime", parsed.runtime if parsed else spec.name))


def _offered(spec: PlatformSpec) -> Recipe | None:
    found = getattr(_adapter(spec), "reproducer", None)
    if callable(found):
        found = found(spec)
    return found if isinstance(found, Recipe) else None


def _adapter(spec: PlatformSpec) -> Any:
    module, _, name = spec.adapter.partition(":")
    try:
        return getattr(import_module(module), name, None)
    except Exception:  # a runtime that only another interpreter has
        return None


def _torch_device(spec: PlatformSpec) -> str:
    return str(spec.device)


def _compile_call(runtime: str, options: Mapping[str, Any]) -> str:
    backend = options.get("backend", runtime)
    chosen = {"backend": backend, **{key: options[key] for key in ("mode", "dynamic") if key in options}}
    return f"torch.compile(model, {', '.join(f'{key}={value!r}' for key, value in chosen.items())})"
