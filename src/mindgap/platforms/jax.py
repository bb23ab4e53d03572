"""JAX and its compiler XLA on the CPU, fed with the exported program through torchax."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import StageClock
from mindgap.platforms.exported import Export, ExportedPlatform, Infer, from_ml_numpy, quiet, to_ml_numpy
from mindgap.platforms.ladder import Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.probing import guarded
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe

RECIPE: Final = Recipe(
    "jax",
    "JAX and XLA on this CPU, not on a TPU, through torchax",
    pins=(
        "torchax==0.0.13", "jax==0.10.2", "jaxlib==0.10.2", "ml_dtypes==0.6.0", "numpy==2.4.6", "scipy==1.17.1",
        "opt_einsum==3.4.0",
    ),
    size_mb=550,
    env={
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",  # otherwise JAX computes int64 in int32 and float64 in float32
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    },
)  # fmt: skip

_JIT: Final = "jit"


class Jax(ExportedPlatform):
    """The whole program compiled by XLA, as `jax.jit` does."""

    runtime = "jax"
    summary = "JAX/XLA"
    options: ClassVar = {_JIT: "whether XLA compiles the whole program (true) or each operator alone"}
    recipes: ClassVar = {"": RECIPE}
    families = ("xla",)
    packages = ("jax", "jaxlib", "torchax")
    message_rules = TORCH + MessageRules(
        noise=(r"For simplicity, JAX has removed", r"-----", r"While executing", r"Original traceback"),
        telling=(r"lowering not found|no lowering|OperatorNotFound", r"not implemented"),
    )
    rungs = (
        Rung(
            "operators one by one",
            {_JIT: False},
            layer="torchax",
            says="torchax's operators bring it in: each one compiled alone already differs",
        ),
        Rung("jax.jit", layer="xla", says="XLA brings it in when it compiles the whole program"),
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            jax = import_patched()
            device = jax.devices()[0]
            return Probe(True, jax.__version__, f"XLA {device.platform}", self.dtypes())

        return guarded(ask)

    def load(self, export: Export, clock: StageClock) -> Infer:
        jax = import_patched()
        from torchax.export import exported_program_to_jax

        with clock(Stage.CONVERT), quiet():
            weights, function = exported_program_to_jax(export.exported)
        call = jax.jit(function) if self.spec.options.get(_JIT, True) else function
        if call is not function:
            with clock(Stage.COMPILE), quiet():
                shapes = tuple(_placeholder(jax, fake) for fake in export.takes)
                call = call.lower(weights, shapes).compile()

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            import numpy

            given = tuple(jax.numpy.asarray(to_ml_numpy(tensor)) for tensor in tensors)
            return [from_ml_numpy(numpy.asarray(leaf)) for leaf in jax.tree_util.tree_leaves(call(weights, given))]

        return infer

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """torchax names an operator that it has no lowering for, in an exception of its own."""
        unknown = type(error).__name__ == "OperatorNotFound" or "lowering not found" in str(error).lower()
        return Status.UNSUPPORTED if unknown else super().status_of(error, stage)

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        return ReproducerText(_SCRIPT, exports=True, short=_SHORT, packages=cls.packages)


def _placeholder(jax: ModuleType, fake: torch.Tensor) -> Any:
    from torchax.ops import mappings

    return jax.ShapeDtypeStruct(tuple(fake.shape), mappings.t2j_dtype(fake.dtype))


@functools.cache
def import_patched() -> ModuleType:
    """JAX with 64-bit types, and torchax, which names overloads that torch 2.13 removed: while it is imported they
    are stand-ins that no program reaches."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    known = torch._ops.OpOverloadPacket.__getattr__

    def lenient(self: Any, name: str) -> Any:
        try:
            return known(self, name)
        except AttributeError:
            if name.startswith("_"):
                raise
            return ("missing", str(self), name)

    torch._ops.OpOverloadPacket.__getattr__ = lenient  # type: ignore[method-assign]
    try:
        with quiet():
            import torchax
            import torchax.export  # noqa: F401
    finally:
        torch._ops.OpOverloadPacket.__getattr__ = known  # type: ignore[method-assign]
    return jax  # type: ignore[no-any-return]


_SCRIPT: Final = """
def on_platform(model, inputs):
    import jax

    jax.config.update("jax_enable_x64", True)
    known = torch._ops.OpOverloadPacket.__getattr__

    def lenient(self, name):  # torchax names overloads that newer versions of torch removed
        try:
            return known(self, name)
        except AttributeError:
            if name.startswith("_"):
                raise
            return ("missing", str(self), name)

    torch._ops.OpOverloadPacket.__getattr__ = lenient
    try:
        from torchax.export import exported_program_to_jax
        from torchax.ops.mappings import j2t, t2j
    finally:
        torch._ops.OpOverloadPacket.__getattr__ = known

    exported = torch.export.export(model, tuple(inputs), strict=False)
    weights, function = exported_program_to_jax(exported)
    results = jax.jit(function)(weights, tuple(t2j(x.contiguous()) for x in inputs))
    return [j2t(result) for result in jax.tree_util.tree_leaves(results)]
"""

_SHORT: Final = (
    'import jax; jax.config.update("jax_enable_x64", True)',
    "known = torch._ops.OpOverloadPacket.__getattr__  # torchax names overloads that newer versions of torch removed",
    "torch._ops.OpOverloadPacket.__getattr__ = lambda op, name: known(op, name) "
    'if name[0] == "_" or name in op.overloads() else name',
    "import torchax.export; torch._ops.OpOverloadPacket.__getattr__ = known",
    "weights, function = torchax.export.exported_program_to_jax(torch.export.export(model, inputs, strict=False))",
    "results = jax.jit(function)(weights, tuple(jax.numpy.asarray(x.numpy()) for x in inputs))",
    "actual = [torch.tensor(jax.device_get(result)) for result in jax.tree_util.tree_leaves(results)]",
)
