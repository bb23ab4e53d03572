"""ExecuTorch, PyTorch's runtime for phones: its portable kernels, or its XNNPACK delegate, on this CPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import (
    FALLBACK,
    FALLBACK_MEANS,
    XNNPACK,
    Fallback,
    Prepared,
    Profile,
    StageClock,
    StageFailure,
)
from mindgap.platforms.exported import Export, ExportedPlatform, ExportedRun, Infer, export, quiet
from mindgap.platforms.ladder import Ladder, Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.probing import guarded
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.program.case import Case
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec, Probe

RECIPE: Final = Recipe(
    "executorch",
    "ExecuTorch's portable kernels on this CPU, not on a phone",
    # Of its requirements only these are imported by exir, XNNPACK's partitioner and the runtime; the others (pandas,
    # scikit-learn, coremltools, hydra) serve its examples and other back ends, and would be half a gigabyte.
    pins=(
        "executorch==1.5.1", "torchao==0.18.0", "flatbuffers==25.12.19", "ruamel.yaml==0.19.1", "tabulate==0.10.0",
        "PyYAML==6.0.3", "packaging==26.3",
    ),
    size_mb=160,
)  # fmt: skip

_DELEGATE: Final = "delegate"
_OPERATOR_MISSING: Final = re.compile(r"0x:?14\b")  # Error::OperatorMissing of its runtime/core/error.h


class ExecuTorch(ExportedPlatform):
    """Lowered to edge operators, planned, and run by its own interpreter from a buffer, as on a phone."""

    runtime = "executorch"
    summary = "ExecuTorch"
    profiles: ClassVar = {
        "xnnpack": Profile(
            "ExecuTorch with Google's XNNPACK kernels on this CPU, not on a phone", options={_DELEGATE: "xnnpack"}
        )
    }
    options: ClassVar = {
        _DELEGATE: "xnnpack, or nothing for the portable kernels",
        FALLBACK: FALLBACK_MEANS,
    }
    recipes: ClassVar = {"": RECIPE}
    packages = ("executorch",)
    message_rules = TORCH + MessageRules(
        noise=(r"Failed to execute method forward, error", r"\[.*\.cpp:\d+\]", r"Missing out variants: \{\}"),
        telling=(r"Missing out variants", r"Missing operator", r"not supported"),
    )

    def probe(self) -> Probe:
        def ask() -> Probe:
            from importlib import metadata

            from executorch.runtime import Runtime

            Runtime.get()
            kernels = "XNNPACK" if self.delegate else "portable kernels"
            return Probe(True, metadata.version("executorch"), kernels, self.dtypes())

        return guarded(ask)

    @property
    def delegate(self) -> str:
        return str(self.spec.options.get(_DELEGATE, ""))

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        exported = export(case, clock)
        lowered = self.lower(exported, clock)
        prepared = ExportedRun(case, exported, _infer(lowered.method), lowered)
        prepared.fallback = Fallback(lowered.share, "ExecuTorch's portable kernels")
        return prepared

    def load(self, export: Export, clock: StageClock) -> Infer:
        return _infer(self.lower(export, clock).method)

    def lower(self, export: Export, clock: StageClock) -> _Lowered:
        from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
        from executorch.runtime import Runtime

        with clock(Stage.CONVERT), quiet():
            edge = to_edge_transform_and_lower(
                export.exported,
                partitioner=self.partitioners(),
                compile_config=EdgeCompileConfig(_check_ir_validity=False),
            )
            share = _not_delegated(edge.exported_program().graph_module) if self.delegate else 0.0
        with clock(Stage.COMPILE), quiet():
            program = edge.to_executorch()
            loaded = Runtime.get().load_program(program.buffer)
            try:
                method = loaded.load_method("forward")
            except RuntimeError as error:
                if _OPERATOR_MISSING.search(str(error)):
                    _refuse_missing(program, Runtime.get().operator_registry.operator_names)
                raise
        if method is None:
            raise StageFailure(Status.UNSUPPORTED, "the runtime cannot load the method: a kernel is missing")
        return _Lowered(method, share, (program, loaded))

    def partitioners(self) -> list[Any]:
        if self.delegate != "xnnpack":
            return []
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return [XnnpackPartitioner()]

    @classmethod
    def families_of(cls, spec: PlatformSpec) -> tuple[str, ...]:
        return (cls.runtime, XNNPACK) if spec.options.get(_DELEGATE) == "xnnpack" else (cls.runtime,)

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        text = _XNNPACK if spec.options.get(_DELEGATE) == "xnnpack" else "    partitioners = []\n"
        return ReproducerText(
            _SCRIPT.replace("    PARTITIONERS\n", text), exports=True, short=_short(spec), packages=cls.packages
        )

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder:
        """The portable kernels have the same lowering before them: what only the delegate shows is XNNPACK's."""
        portable = Rung(
            "portable kernels",
            {_DELEGATE: ""} if spec.options.get(_DELEGATE) else {},
            layer="executorch",
            says="ExecuTorch's lowering or its portable kernels bring it in",
        )
        if not spec.options.get(_DELEGATE):
            return Ladder((portable,))
        return Ladder((portable, Rung("XNNPACK", layer="xnnpack", says="XNNPACK brings it in")))


def _short(spec: PlatformSpec) -> tuple[str, ...]:
    xnnpack = spec.options.get(_DELEGATE) == "xnnpack"
    partitioner = "from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner"
    return (
        "from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower",
        "from executorch.runtime import Runtime",
        *((partitioner,) if xnnpack else ()),
        "exported = torch.export.export(model, inputs, strict=False)",
        f"edge = to_edge_transform_and_lower(exported, partitioner=[{'XnnpackPartitioner()' if xnnpack else ''}], "
        "compile_config=EdgeCompileConfig(_check_ir_validity=False))",
        "program = Runtime.get().load_program(edge.to_executorch().buffer)",
        'method = program.load_method("forward")',
        "actual = [torch.as_tensor(result).clone() for result in method.execute(list(inputs))]",
    )


class _Lowered:
    """A loaded method, and what must outlive it."""

    def __init__(self, method: Any, share: float, kept: Sequence[object]) -> None:
        self.method = method
        self.share = share
        self.kept = kept


def _refuse_missing(program: Any, known: set[str]) -> None:
    """Name the operators without a kernel: the runtime's own error is a number, and their names go to its log."""
    wanted = [f"{item.name}.{item.overload}" for item in program.executorch_program.execution_plan[0].operators]
    missing = [name for name in (item.removesuffix(".") for item in wanted) if name not in known]
    if missing:
        raise StageFailure(Status.UNSUPPORTED, f"no kernel for {', '.join(missing)}")


def _infer(method: Any) -> Infer:
    def infer(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [_tensor(result) for result in method.execute(list(tensors))]

    return infer


def _tensor(result: Any) -> torch.Tensor:
    """A copy: results lie in memory that the next run writes to. A number comes back as a number."""
    return result.clone() if isinstance(result, torch.Tensor) else torch.as_tensor(result)


def _not_delegated(module: Any) -> float:
    """The share of operators that the delegate left to portable kernels."""
    own = taken = 0
    for node in module.graph.nodes:
        if node.op != "call_function" or "getitem" in str(node.target):
            continue
        if "executorch_call_delegate" in str(node.target):
            lowered = getattr(module, str(node.args[0].target))
            inner = lowered.original_module.graph.nodes
            taken += sum(item.op == "call_function" and "getitem" not in str(item.target) for item in inner)
        else:
            own += 1
    return own / max(1, own + taken)


_XNNPACK: Final = """\
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    partitioners = [XnnpackPartitioner()]
"""

_SCRIPT: Final = """
def on_platform(model, inputs):
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from executorch.runtime import Runtime

    PARTITIONERS
    exported = torch.export.export(model, tuple(inputs), strict=False)
    config = EdgeCompileConfig(_check_ir_validity=False)
    lowered = to_edge_transform_and_lower(exported, partitioner=partitioners, compile_config=config).to_executorch()
    program = Runtime.get().load_program(lowered.buffer)
    results = program.load_method("forward").execute([x.contiguous() for x in inputs])
    return [torch.as_tensor(result).clone() for result in results]
"""
