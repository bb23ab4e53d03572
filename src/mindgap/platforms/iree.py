"""IREE, Google's MLIR compiler and runtime, fed with the exported program through torch-mlir."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import numpy as np
import torch
from torch.export import ExportedProgram

from mindgap.platforms import mesa
from mindgap.platforms.base import LAVAPIPE, Profile, StageClock
from mindgap.platforms.exported import Export, ExportedPlatform, Infer, from_bits, from_ml_numpy, quiet, to_ml_numpy
from mindgap.platforms.ladder import Knob, Ladder, Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.probing import guarded
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe

RECIPE: Final = Recipe(
    "iree",
    "IREE's LLVM code on this CPU, not on a GPU, through torch-mlir",
    pins=(
        "iree-base-compiler==3.13.0", "iree-base-runtime==3.13.0", "torch_mlir==20261001", "ml_dtypes==0.6.0",
        "numpy==2.4.6", "packaging==26.3",
    ),
    size_mb=710,
)  # fmt: skip

VULKAN: Final = replace(
    RECIPE,
    name="iree:vulkan",
    really="IREE's SPIR-V code on Mesa's software GPU (lavapipe), not on a real one",
    size_mb=970,
    debian=mesa.FILES,
    prepare="mindgap.platforms.mesa:describe",
    env=mesa.ENV,
)

_NARROWED: Final = r"buffer view byte length \d+ exceeds backing buffer byte length \d+"
"""Its Vulkan targets have no 64-bit numbers: it computes in 32 and then finds its own result too short."""
_BACKEND: Final = "backend"
_LEVEL: Final = "optimisation"
_TARGETS: Final = {"llvm-cpu": ["--iree-llvmcpu-target-cpu=host"], "vmvx": [], "vulkan-spirv": []}
"""Back ends with their own arguments."""


class Iree(ExportedPlatform):
    """Compiled ahead of time and run by IREE's virtual machine, synchronously."""

    runtime = "iree"
    summary = "IREE"
    profiles: ClassVar = {
        "vmvx": Profile("IREE's portable byte code, interpreted on this CPU", options={_BACKEND: "vmvx"})
    }
    devices: ClassVar = {"vulkan": VULKAN.command}
    options: ClassVar = {
        _BACKEND: "llvm-cpu (the default) or vmvx",
        _LEVEL: "O0, O1, O2 or O3 of its compiler; its own default when it is not set",
    }
    recipes: ClassVar = {"": RECIPE, ":vulkan": VULKAN}
    packages = ("iree-base-compiler", "iree-base-runtime", "torch_mlir")
    message_rules = TORCH + MessageRules(
        summaries=(
            (
                r"failed to legalize operation 'torch.operator'[^\n]*name = \"torch\.([\w.]+)\"",
                r"torch-mlir cannot lower \1",
            ),
            (r"error: (failed to legalize operation '[^']+')", r"\1"),
            (_NARROWED, "its code for Vulkan keeps int64 and float64 in 32 bits and cannot return them"),
        ),
        noise=(r"Error invoking IREE compiler", r"Error code:", r"Diagnostics:", r"Invoked with:", r"Need more info"),
        telling=(r"failed to legalize", r"error: "),
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            import iree.compiler.version
            import iree.runtime
            import torch_mlir  # noqa: F401

            return Probe(True, str(iree.compiler.version.VERSION), backend_of(self.spec), self.dtypes())

        return guarded(ask)

    def load(self, export: Export, clock: StageClock) -> Infer:
        import iree.compiler
        import iree.runtime

        with clock(Stage.CONVERT), quiet():
            module = _imported(export.exported)
        with clock(Stage.COMPILE), quiet():
            compiled = iree.compiler.compile_str(
                module, target_backends=[backend_of(self.spec)], input_type="torch", extra_args=arguments_of(self.spec)
            )
            if driver_of(self.spec) == "vulkan":
                _fetch_by_staging()
            context = iree.runtime.SystemContext(config=iree.runtime.Config(driver_of(self.spec)))
            context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))
            function = context.modules.module["main"]

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            found = function(*[to_ml_numpy(tensor) for tensor in tensors])
            results = found if isinstance(found, tuple | list) else [found]
            return [_fetched(result, fake) for result, fake in zip(results, export.results)]

        return infer

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """Its compiler refuses an operator that it cannot lower."""
        refused = stage in (Stage.CONVERT, Stage.COMPILE) and "failed to legalize" in str(error)
        refused = refused or (self.spec.device == "vulkan" and re.search(_NARROWED, str(error)) is not None)
        return Status.UNSUPPORTED if refused else super().status_of(error, stage)

    @classmethod
    def families_of(cls, spec: PlatformSpec) -> tuple[str, ...]:
        return (*super().families_of(spec), *((LAVAPIPE,) if spec.device is not None else ()))

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        text = _SCRIPT.replace("BACKEND", repr(backend_of(spec))).replace("ARGUMENTS", repr(arguments_of(spec)))
        text = text.replace("DRIVER", repr(driver_of(spec))).replace("STAGING\n", _STAGING if spec.device else "")
        return ReproducerText(text, exports=True, short=_short(spec), packages=cls.packages)

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder:
        """The byte code has the same importer and the same lowering to linear algebra before it."""
        if backend_of(spec) == "vmvx":
            whole = Rung("vmvx", layer="import", says="IREE's importer, lowering or byte code brings it in")
            return Ladder((whole,), (_UNOPTIMISED,))
        byte_code = Rung(
            "vmvx",
            {_BACKEND: "vmvx"},
            layer="import",
            says="IREE's byte code gives the same result: torch-mlir or the shared lowering brings it in",
        )
        if spec.device:
            own = Rung("vulkan-spirv", layer="vulkan-spirv", says="shaders, or the GPU that runs them, bring it in")
            return Ladder((replace(byte_code, options={}, platform="iree@vmvx"), own), (_UNOPTIMISED,))
        return Ladder(
            (byte_code, Rung("llvm-cpu", layer="llvm-cpu", says="code for the CPU brings it in")), (_UNOPTIMISED,)
        )


_UNOPTIMISED: Final = Knob("no optimisations", {_LEVEL: "O0"}, "optimiser", "IREE compiles with -O0")


def backend_of(spec: PlatformSpec) -> str:
    return "vulkan-spirv" if spec.device == "vulkan" else str(spec.options.get(_BACKEND, "llvm-cpu"))


def driver_of(spec: PlatformSpec) -> str:
    """What runs its code."""
    return "vulkan" if spec.device == "vulkan" else "local-sync"


def _fetch_by_staging() -> None:
    """Results come through a buffer of the device: IREE asks the driver to write into numpy's memory, which is not
    aligned as lavapipe needs it, and believes that it can."""
    from iree.runtime import array_interop

    array_interop.BufferCompatibility = SimpleNamespace(IMPORTABLE=0)


def arguments_of(spec: PlatformSpec) -> list[str]:
    level = spec.options.get(_LEVEL)
    return [*_TARGETS[backend_of(spec)], *([f"--iree-opt-level={level}"] if level else [])]


_STAGING_SHORT: Final = (
    "import types; iree.runtime.array_interop.BufferCompatibility = types.SimpleNamespace(IMPORTABLE=0)",
)


def _short(spec: PlatformSpec) -> tuple[str, ...]:
    return (
        "import iree.compiler, iree.runtime; from torch_mlir.fx import export_and_import",
        "exported = torch.export.export(model, inputs, strict=False)",
        'text = str(export_and_import(exported, output_type="torch", func_name="main"))',
        f"compiled = iree.compiler.compile_str(text, target_backends=[{backend_of(spec)!r}], input_type='torch', "
        f"extra_args={arguments_of(spec)!r})",
        *(_STAGING_SHORT if spec.device else ()),
        f"context = iree.runtime.SystemContext(config=iree.runtime.Config({driver_of(spec)!r}))",
        "context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))",
        'results = context.modules.module["main"](*[x.contiguous().numpy() for x in inputs])',
        "actual = [torch.from_numpy(result.to_host().copy()) for result in torch.utils._pytree.tree_leaves(results)]",
    )


def _imported(exported: ExportedProgram) -> str:
    """The program in torch-mlir's words; its exceptions leave out the reason, which it tells to whoever listens."""
    from torch_mlir import ir
    from torch_mlir.dialects import torch as dialect
    from torch_mlir.extras.fx_importer import FxImporter
    from torch_mlir.fx import export_and_import

    context = ir.Context()
    dialect.register_dialect(context)
    told: list[str] = []

    def listen(diagnostic: Any) -> bool:
        told.append(f"error: {diagnostic.message}")
        return False  # the log shall have it too

    context.attach_diagnostic_handler(listen)
    importer = FxImporter(context=context)
    try:
        return str(export_and_import(exported, output_type="torch", func_name="main", fx_importer=importer))
    except Exception as error:
        raise RuntimeError("\n".join([*told, str(error)])) from None


def _fetched(result: Any, fake: torch.Tensor) -> torch.Tensor:
    """Its integers have no sign, so that uint8 arrives labelled int8: the width is its own, the sign the program's."""
    array = np.asarray(result.to_host())
    integers = array.dtype.kind in "iub" and not (fake.dtype.is_floating_point or fake.dtype.is_complex)
    if integers and array.dtype.itemsize == fake.dtype.itemsize:
        return from_bits(array, fake.dtype, array.shape)
    return from_ml_numpy(array)


_STAGING: Final = """\
    import types  # results through a buffer of the device: numpy's memory is not aligned as a software GPU needs it
    iree.runtime.array_interop.BufferCompatibility = types.SimpleNamespace(IMPORTABLE=0)
"""

_SCRIPT: Final = """
def on_platform(model, inputs):
    import iree.compiler
    import iree.runtime
    from torch_mlir.fx import export_and_import

    exported = torch.export.export(model, tuple(inputs), strict=False)
    module = str(export_and_import(exported, output_type="torch", func_name="main"))
    compiled = iree.compiler.compile_str(
        module, target_backends=[BACKEND], input_type="torch", extra_args=ARGUMENTS
    )
STAGING
    context = iree.runtime.SystemContext(config=iree.runtime.Config(DRIVER))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, compiled))
    results = context.modules.module["main"](*[x.contiguous().numpy() for x in inputs])
    results = results if isinstance(results, (tuple, list)) else [results]
    return [torch.from_numpy(result.to_host().copy()) for result in results]
"""
