"""Apache TVM (Relax), fed with the exported program."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import StageClock
from mindgap.platforms.exported import Export, ExportedPlatform, Infer, from_ml_numpy, quiet, to_ml_numpy
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.probing import guarded
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe

RECIPE: Final = Recipe(
    "tvm",
    "Apache TVM's LLVM code on this CPU",
    pins=("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.15.post2", "ml_dtypes==0.6.0", "numpy==2.4.6"),
    size_mb=320,
    env={"TVM_NUM_THREADS": "1"},
)


class Tvm(ExportedPlatform):
    """Relax with its default pipeline, compiled by LLVM for this processor."""

    runtime = "tvm"
    summary = "Apache TVM"
    recipes: ClassVar = {"": RECIPE}
    packages = ("apache-tvm",)
    message_rules = TORCH + MessageRules(
        noise=(r"Stack trace", r"\d+: ", r"\[bt\]"), telling=(r"unsupported function types", r"not supported")
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            import tvm

            return Probe(True, str(tvm.__version__), _processor(tvm), self.dtypes())

        return guarded(ask)

    def load(self, export: Export, clock: StageClock) -> Infer:
        import tvm
        from tvm import relax
        from tvm.relax.frontend.torch import from_exported_program

        with clock(Stage.CONVERT), quiet():
            module = from_exported_program(export.exported)
        with clock(Stage.COMPILE), quiet():
            built = relax.build(module, tvm.target.Target({"kind": "llvm", "mcpu": _processor(tvm)}))
            machine = relax.VirtualMachine(built, tvm.cpu())

        def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            found = machine["main"](*[tvm.runtime.tensor(to_ml_numpy(tensor)) for tensor in tensors])
            results = [found] if hasattr(found, "numpy") else list(found)
            return [from_ml_numpy(result.numpy()) for result in results]

        return infer

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """Its importer refuses what it does not know with an assertion."""
        refused = stage is Stage.CONVERT and isinstance(error, AssertionError | ValueError | KeyError)
        return Status.UNSUPPORTED if refused else super().status_of(error, stage)

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        return ReproducerText(_SCRIPT, exports=True, short=_SHORT, packages=cls.packages)


def _processor(tvm: Any) -> str:
    """LLVM's name of this processor."""
    return str(tvm.target.codegen.llvm_get_system_cpu())


_SCRIPT: Final = """
def on_platform(model, inputs):
    import tvm
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(torch.export.export(model, tuple(inputs), strict=False))
    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    machine = relax.VirtualMachine(relax.build(module, target), tvm.cpu())
    results = machine["main"](*[tvm.runtime.tensor(x.contiguous().numpy()) for x in inputs])
    results = [results] if hasattr(results, "numpy") else list(results)
    return [torch.from_numpy(result.numpy().copy()) for result in results]
"""

_SHORT: Final = (
    "import tvm",
    "from tvm.relax.frontend.torch import from_exported_program",
    "module = from_exported_program(torch.export.export(model, inputs, strict=False))",
    'target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})',
    'main = tvm.relax.VirtualMachine(tvm.relax.build(module, target), tvm.cpu())["main"]',
    "results = main(*[tvm.runtime.tensor(x.numpy()) for x in inputs])",
    'actual = [torch.from_numpy(x.numpy()) for x in ([results] if hasattr(results, "numpy") else results)]',
)
