"""Google's LiteRT (TensorFlow Lite) on this CPU, from the exported program through litert-torch.

Its converter makes 32-bit numbers of 64-bit ones unless it is told otherwise, inputs and outputs included. `litert` is
what users get by default: integers are handed over in 32 bits, which each outcome says, and float64 is refused.
`litert@x64` keeps 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import torch

from mindgap.platforms.base import XNNPACK, Prepared, Profile, StageClock, StageFailure, threads_of
from mindgap.platforms.exported import (
    Export,
    ExportedPlatform,
    ExportedRun,
    Infer,
    export,
    from_ml_numpy,
    quiet,
    to_ml_numpy,
)
from mindgap.platforms.ladder import Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.probing import guarded
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.program.case import Case
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe

RECIPE: Final = Recipe(
    "litert",
    "Google's LiteRT on this CPU, not on a phone; 64-bit integers computed in 32 bits",
    # Of its requirements only these are imported by the converter and the runtime; the others (transformers, kagglehub,
    # sentencepiece, litert-lm-builder) serve language models.
    pins=(
        "litert-torch==0.10.0", "ai-edge-litert==2.3.0", "litert-converter==0.5.0", "ai-edge-quantizer==0.10.0",
        "torchao==0.18.0", "jax==0.10.2", "jaxlib==0.10.2", "ml_dtypes==0.6.0", "numpy==2.4.6", "scipy==1.17.1",
        "opt_einsum==3.4.0", "absl-py==2.5.1", "flatbuffers==25.12.19", "protobuf==7.36.2", "backports.strenum==1.2.8",
        "immutabledict==4.3.1", "tqdm==4.70.1", "packaging==26.3", "rich==15.0.0",
        "markdown-it-py==4.3.0", "mdurl==0.1.2", "Pygments==2.21.0",
    ),
    size_mb=957,
    env={"LITERT_TORCH_SHOW_PROGRESS": "n", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"},
)  # fmt: skip

_X64: Final = "x64"
_KERNELS: Final = "kernels"
_RESOLVERS: Final = {
    "xnnpack": "AUTO",
    "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "reference": "BUILTIN_REF",
}
"""What LiteRT calls its sets of kernels."""


class LiteRt(ExportedPlatform):
    """Converted to LiteRT's own format and run by its interpreter, as on a phone."""

    runtime = "litert"
    summary = "LiteRT"
    profiles: ClassVar = {
        "x64": Profile("Google's LiteRT on this CPU, not on a phone, with 64-bit types kept", options={_X64: True})
    }
    options: ClassVar = {
        _X64: "whether 64-bit types are kept (false)",
        _KERNELS: "xnnpack (the default), builtin (LiteRT's own) or reference",
        "threads": "threads inside one operator (1)",
    }
    recipes: ClassVar = {"": RECIPE}
    packages = ("litert-torch", "ai-edge-litert", "litert-converter")
    message_rules = TORCH + MessageRules(
        rewrites=((r"^.*(failed to legalize operation '[\w.]+').*$", r"LiteRT's converter \1"),),
        noise=(r"While executing", r"GraphModule:", r"Original traceback", r"See https", r"see current operation"),
        telling=(r"Lowering not found", r"unresolved custom op", r"failed to legalize", r"not supported"),
    )
    rungs = (
        Rung(
            "reference kernels",
            {_KERNELS: "reference"},
            layer="converter",
            says="LiteRT's converter brings it in: its reference kernels already differ",
        ),
        Rung(
            "builtin kernels",
            {_KERNELS: "builtin"},
            layer="kernels",
            says="LiteRT's own optimised kernels bring it in",
        ),
        Rung("XNNPACK", layer="xnnpack", says="XNNPACK brings it in"),
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            import litert_torch

            return Probe(True, str(litert_torch.__version__), f"{self.kernels} kernels", self.dtypes())

        return guarded(ask)

    @property
    def kernels(self) -> str:
        return str(self.spec.options.get(_KERNELS, "xnnpack"))

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        exported = export(case, clock)
        loaded = self.lower(exported, clock)
        prepared = ExportedRun(case, exported, loaded.run)
        prepared.note = loaded.note
        return prepared

    def load(self, export: Export, clock: StageClock) -> Infer:
        return self.lower(export, clock).run

    def lower(self, export: Export, clock: StageClock) -> _Loaded:
        import litert_torch
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        keeps = bool(self.spec.options.get(_X64, False))
        with clock(Stage.CONVERT), quiet():
            if not keeps:
                _refuse_float64(export)
            samples = tuple(torch.zeros(tuple(fake.shape), dtype=fake.dtype) for fake in export.takes)
            converted = litert_torch.convert(export.exported.module(), samples, enable_x64=keeps)
            content = converted.model_content()
        with clock(Stage.COMPILE), quiet():
            interpreter = Interpreter(
                model_content=content,
                num_threads=threads_of(self.spec),
                experimental_op_resolver_type=getattr(OpResolverType, _RESOLVERS[self.kernels]),
                experimental_default_delegate_latest_features=True,  # as litert-torch's own model does
            )
            interpreter.allocate_tensors()
            return _Loaded(interpreter.get_signature_runner(), export)

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """What its converter has no rule for, or its interpreter no kernel."""
        words = ("lowering not found", "unresolved custom op", "failed to legalize", "select tf")
        unknown = any(word in str(error).lower() for word in words)
        return Status.UNSUPPORTED if unknown else super().status_of(error, stage)

    @classmethod
    def families_of(cls, spec: PlatformSpec) -> tuple[str, ...]:
        kernels = spec.options.get(_KERNELS, "xnnpack")
        return (cls.runtime, XNNPACK) if kernels == "xnnpack" else (cls.runtime,)

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        kernels = _RESOLVERS[str(spec.options.get(_KERNELS, "xnnpack"))]
        text = _SCRIPT.format(x64=bool(spec.options.get(_X64, False)), kernels=kernels, threads=threads_of(spec))
        return ReproducerText(text, exports=True, short=_short(spec), packages=cls.packages)


def _short(spec: PlatformSpec) -> tuple[str, ...]:
    kernels, x64 = _RESOLVERS[str(spec.options.get(_KERNELS, "xnnpack"))], bool(spec.options.get(_X64, False))
    narrowed = (
        "actual = [a.to(b.dtype) if a.dtype == torch.int32 else a "  # LiteRT makes int32 of int64
        "for a, b in zip(actual, torch.utils._pytree.tree_leaves(model(*inputs)))]",
    )
    return (
        "import litert_torch; from ai_edge_litert.interpreter import Interpreter, OpResolverType",
        f"content = litert_torch.convert(model, inputs, enable_x64={x64}).model_content()",
        f"interpreter = Interpreter(model_content=content, num_threads={threads_of(spec)}, "
        f"experimental_op_resolver_type=OpResolverType.{kernels})",
        "interpreter.allocate_tensors(); runner = interpreter.get_signature_runner()",
        "results = runner(**{name: inputs[int(name[5:])].contiguous().numpy().astype(item['dtype']) "
        "for name, item in runner.get_input_details().items()})",
        'actual = [torch.tensor(results[f"output_{index}"]) for index in range(len(results))]',
        *(() if x64 else narrowed),
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A converted model that can be called, and the program that it came from."""

    runner: Any
    export: Export

    @property
    def taken(self) -> dict[int, np.dtype[Any]]:
        """Element types of its inputs, by the index of the program's input; what nothing reads may be left out."""
        return {int(name.removeprefix("args_")): np.dtype(item["dtype"]) for name, item in _details(self.runner, "in")}

    @property
    def note(self) -> str:
        """What is handed over in another type than the program's."""
        takes, returns = self.export.takes, dict(_details(self.runner, "out"))
        parts = [
            f"{self.export.placeholders[index]} ({_name(takes[index])} as {dtype.name})"
            for index, dtype in self.taken.items()
            if dtype.name != _name(takes[index])
        ]
        for index, fake in enumerate(self.export.results):
            name = np.dtype(returns[f"output_{index}"]["dtype"]).name
            if name != _name(fake):
                parts.append(f"result {index} ({_name(fake)} as {name})")
        return f"converted by LiteRT: {', '.join(parts)}" if parts else ""

    def run(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        given = {
            f"args_{index}": _given(tensors[index], dtype, self.export.placeholders[index])
            for index, dtype in self.taken.items()
        }
        found = self.runner(**given)
        return [_result(found[f"output_{index}"], fake) for index, fake in enumerate(self.export.results)]


def _details(runner: Any, side: str) -> list[tuple[str, Mapping[str, Any]]]:
    found = runner.get_input_details() if side == "in" else runner.get_output_details()
    return list(found.items())


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _refuse_float64(export: Export) -> None:
    """Rounding a model's inputs to float32 is no conversion that its user would overlook."""
    for name, fake in [*zip(export.placeholders, export.takes), *(("a result", fake) for fake in export.results)]:
        if fake.dtype is torch.float64:
            raise StageFailure(
                Status.UNSUPPORTED, f"LiteRT makes float32 of float64, the dtype of {name}; litert@x64 keeps it"
            )


def _given(tensor: torch.Tensor, dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """An input in the type that the converted model takes; refused where that cannot hold its values."""
    array = to_ml_numpy(tensor)
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        kept = np.array_equal(converted.astype(array.dtype), array, equal_nan=dtype.kind == "f")
    if not kept:
        raise StageFailure(
            Status.UNSUPPORTED,
            f"LiteRT takes {name} ({array.dtype.name}) as {dtype.name}, which cannot hold its values",
        )
    return converted


def _result(array: npt.NDArray[Any], fake: torch.Tensor) -> torch.Tensor:
    """A result in the type of the program where LiteRT narrowed a 64-bit integer; any other type is as it came."""
    found = from_ml_numpy(array)
    return found.to(torch.int64) if (found.dtype, fake.dtype) == (torch.int32, torch.int64) else found


_SCRIPT: Final = """
def on_platform(model, inputs):
    import litert_torch
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    converted = litert_torch.convert(model, tuple(inputs), enable_x64={x64})
    interpreter = Interpreter(
        model_content=converted.model_content(),
        num_threads={threads},
        experimental_op_resolver_type=OpResolverType.{kernels},
        experimental_default_delegate_latest_features=True,
    )
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner()
    given = {{}}
    for name, item in runner.get_input_details().items():
        tensor = inputs[int(name.removeprefix("args_"))].contiguous()
        given[name] = tensor.numpy().astype(item["dtype"])  # int64 is taken as int32 unless enable_x64 is set
    results = runner(**given)
    found = [torch.tensor(results[f"output_{{index}}"]) for index in range(len(results))]
    with torch.no_grad():
        wanted = as_list(model(*[x.clone() for x in inputs]))
    return [
        have.to(torch.int64) if (have.dtype, want.dtype) == (torch.int32, torch.int64) else have
        for have, want in zip(found, wanted)
    ]
"""
