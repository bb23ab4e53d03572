"""LiteRT, Google's runtime for phones (TensorFlow Lite), on this CPU, fed through litert-torch."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import Profile, StageClock, StageFailure
from mindgap.platforms.exported import Export, ExportedPlatform, Infer, from_ml_numpy, quiet, to_ml_numpy
from mindgap.platforms.ladder import Ladder, Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.probing import guarded
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPE_NAMES

RECIPE: Final = Recipe(
    "litert",
    "LiteRT with XNNPACK's kernels on this CPU, not on a phone",
    # Of its requirements only what converting and running imports; transformers, sentencepiece, kagglehub and fire
    # serve its language models and its command line.
    pins=(
        "litert-torch==0.10.0", "ai-edge-litert==2.3.0", "ai-edge-quantizer==0.10.0", "litert-converter==0.5.0",
        "litert-lm-builder==0.18.1", "torchao==0.18.0", "jax==0.10.2", "jaxlib==0.10.2", "ml_dtypes==0.6.0",
        "numpy==2.4.6", "scipy==1.17.1", "opt_einsum==3.4.0", "absl-py==2.5.1", "flatbuffers==25.12.19",
        "tqdm==4.70.1", "protobuf==7.36.2", "backports.strenum==1.2.8", "immutabledict==4.3.1", "lark==1.3.1",
        "xdsl==0.28.0", "ordered-set==4.1.0", "tabulate==0.10.0", "packaging==26.3", "rich==15.0.0",
        "markdown-it-py==4.3.0", "mdurl==0.1.2", "Pygments==2.21.0", "safetensors==0.8.0", "multipledispatch==1.0.0",
        "jaxtyping==0.3.11", "wadler_lindig==0.1.8",
    ),
    size_mb=900,
    env={"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"},
)  # fmt: skip

_KERNELS: Final = "kernels"
_X64: Final = "x64"
_RESOLVERS: Final = {
    "xnnpack": "AUTO",
    "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "reference": "BUILTIN_REF",
}
"""Its own names for the kernels that an interpreter may use."""

_SMALLER: Final = {torch.int64: torch.int32, torch.bfloat16: torch.float32}
"""What the converter turns element types into, where nothing is lost for values that fit."""


class LiteRT(ExportedPlatform):
    """Converted with the defaults of litert-torch and run by LiteRT's interpreter."""

    runtime = "litert"
    summary = "LiteRT"
    profiles: ClassVar = {
        "builtin": Profile("LiteRT's own kernels on this CPU, without XNNPACK", options={_KERNELS: "builtin"})
    }
    options: ClassVar = {
        _KERNELS: "xnnpack (the default), builtin, or reference: the kernels that the interpreter uses",
        _X64: "whether 64-bit types stay (false: int64 becomes int32, and float64 is refused)",
    }
    recipes: ClassVar = {"": RECIPE}
    packages = ("litert-torch", "ai-edge-litert")
    message_rules = TORCH + MessageRules(
        noise=(r"While executing", r"Original traceback", r"Node number \d+"),
        telling=(r"lowering not found|no lowering|not lowered", r"failed to legalize", r"failed to prepare"),
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            from importlib import metadata

            import ai_edge_litert.interpreter  # noqa: F401

            version = metadata.version("ai-edge-litert")
            return Probe(True, version, f"{self.kernels} kernels", self.dtypes())

        return guarded(ask)

    @property
    def kernels(self) -> str:
        return str(self.spec.options.get(_KERNELS, "xnnpack"))

    @property
    def keeps_64_bits(self) -> bool:
        return bool(self.spec.options.get(_X64, False))

    def load(self, export: Export, clock: StageClock) -> Infer:
        with clock(Stage.CONVERT), quiet():
            self._refuse_float64(export)
            import litert_torch
            from ai_edge_litert.interpreter import Interpreter, OpResolverType

            samples = tuple(export.exported.example_inputs[0])
            module = export.exported.module(check_guards=False)
            model = litert_torch.convert(module, samples, enable_x64=self.keeps_64_bits)
        with clock(Stage.COMPILE), quiet():
            resolver = getattr(OpResolverType, _RESOLVERS[self.kernels])
            content = model.model_content()
            interpreter = Interpreter(model_content=content, num_threads=1, experimental_op_resolver_type=resolver)
            interpreter.allocate_tensors()
            runner = interpreter.get_signature_runner()
            wanted = {name: item["dtype"] for name, item in runner.get_input_details().items()}

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            given = {f"args_{index}": tensor for index, tensor in enumerate(tensors)}
            found = runner(**{name: _placed(given[name], dtype) for name, dtype in wanted.items()})
            results = [from_ml_numpy(found[f"output_{index}"]) for index in range(len(found))]
            return [_widened(result, fake) for result, fake in zip(results, export.results, strict=True)]

        return infer

    def _refuse_float64(self, export: Export) -> None:
        values = [node.meta.get("val") for node in export.exported.graph.nodes]
        if not self.keeps_64_bits and any(
            isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128) for value in values
        ):
            raise StageFailure(Status.UNSUPPORTED, "litert-torch would compute float64 in float32: not supported")

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """Its converter has no exception of its own for an operator that it does not know."""
        status = super().status_of(error, stage)
        words = str(error).lower()
        unknown = "lowering not found" in words or "no lowering" in words or "failed to legalize" in words
        return Status.UNSUPPORTED if status is Status.ERROR and unknown else status

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        resolver = _RESOLVERS[str(spec.options.get(_KERNELS, "xnnpack"))]
        text = _SCRIPT.replace("RESOLVER", resolver).replace("X64", str(bool(spec.options.get(_X64, False))))
        return ReproducerText(text, exports=True, packages=cls.packages)

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder:
        """The same converted model with other kernels: what the reference kernels show is the converter's."""
        reference = Rung(
            "reference kernels",
            {_KERNELS: "reference"},
            layer="litert-torch",
            says="litert-torch's conversion, or what it means by an operator, brings it in",
        )
        own = "LiteRT's own kernels bring it in"
        if spec.options.get(_KERNELS) == "builtin":
            return Ladder((reference, Rung("builtin kernels", layer="litert", says=own)))
        builtin = Rung("builtin kernels", {_KERNELS: "builtin"}, layer="litert", says=own)
        return Ladder((reference, builtin, Rung("XNNPACK", layer="xnnpack", says="XNNPACK's kernels bring it in")))


def _placed(tensor: torch.Tensor, wanted: Any) -> Any:
    """An input as the converted model takes it; what does not fit there is refused."""
    array = to_ml_numpy(tensor)
    if array.dtype == wanted:
        return array
    smaller = _SMALLER.get(tensor.dtype)
    if smaller is None or DTYPE_NAMES[smaller] != wanted.__name__:
        name = DTYPE_NAMES[tensor.dtype]
        raise StageFailure(Status.UNSUPPORTED, f"the converted model takes {wanted.__name__} instead of {name}")
    cast = tensor.to(smaller)
    if not torch.equal(cast.to(tensor.dtype), tensor) and not tensor.dtype.is_floating_point:
        raise StageFailure(
            Status.UNSUPPORTED, "an int64 input does not fit into the int32 that litert-torch makes of it"
        )
    return to_ml_numpy(cast)


def _widened(result: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    """A result in the program's element type, where the converter chose a smaller one by its own rule."""
    return result.to(fake.dtype) if _SMALLER.get(fake.dtype) is result.dtype else result


_SCRIPT: Final = """
def on_platform(model, inputs):
    import litert_torch
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    converted = litert_torch.convert(model, tuple(inputs), enable_x64=X64)
    interpreter = Interpreter(
        model_content=converted.model_content(), num_threads=1, experimental_op_resolver_type=OpResolverType.RESOLVER
    )
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner()
    given = {f"args_{index}": x.contiguous().numpy() for index, x in enumerate(inputs)}
    wanted = runner.get_input_details()
    found = runner(**{name: given[name].astype(item["dtype"]) for name, item in wanted.items()})
    return [torch.as_tensor(found[f"output_{index}"]) for index in range(len(found))]
"""
