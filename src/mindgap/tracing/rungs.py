"""The steps of torch.compile as one platform: each rung runs the same program, and every output says which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.platforms.base import Prepared, StageClock
from mindgap.program.case import Case
from mindgap.platforms.torch.compiled import Inductor
from mindgap.platforms.messages import first_cause
from mindgap.platforms.torch.torch_run import TorchRun, own_program
from mindgap.program.convert import to_graph_module
from mindgap.records.outcome import Ran, Stage
from mindgap.records.tensors import NamedTensor


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to compile."""

    name: str
    backend: str
    settings: Mapping[str, object] = field(default_factory=dict)
    """Of torch._inductor.config."""
    layer: str = ""
    """For a switch: the layer of inductor that it turns off."""


LAYERS: Final = (
    Rung("dynamo", "eager"),
    Rung("aot", "aot_eager"),
    Rung("decomposition", "aot_eager_decomp_partition"),
    Rung("inductor", "inductor"),
)
"""Each adds one layer to the one before."""

SWITCHES: Final = (
    Rung("fusion off", "inductor", {"max_fusion_size": 1, "epilogue_fusion": False}, "fusion"),
    Rung("vectorisation off", "inductor", {"cpp.simdlen": 0}, "vectorisation"),
    Rung("fast-math off", "inductor", {"cpp.enable_unsafe_math_opt_flag": False,
                                       "cpp.enable_floating_point_contract_flag": "off"}, "codegen"),
    Rung("precision casts emulated", "inductor", {"emulate_precision_casts": True}, "lowering"),
    Rung("pattern matcher off", "inductor", {"pattern_matcher": False}, "pattern matcher"),
)  # fmt: skip
"""Numerics switches of inductor: one that restores agreement names the layer, and is a workaround."""

SEPARATOR: Final = " / "


class Rungs(Inductor):
    """Every rung in one worker; outputs are named `RUNG / OUTPUT`, a rung that fails is told in the note."""

    runtime = "inductor-rungs"

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        return _AllRungs(self, case, clock)


class _AllRungs(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, platform: Rungs, case: Case, clock: StageClock) -> None:
        self._platform = platform
        self._case = case
        with clock(Stage.LOAD):
            self._module = to_graph_module(own_program(case, platform.placement), case.constants)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        found: list[NamedTensor] = []
        failed: list[str] = []
        for rung in (*LAYERS, *SWITCHES):
            try:
                outputs = self._run(rung, tensors)
            except Exception as error:  # one rung less; the others still say something
                failed.append(f"{rung.name}: {first_cause(error)}")
                continue
            found += [NamedTensor(f"{rung.name}{SEPARATOR}{o.name}", o.tensor, o.stride) for o in outputs]
        self.note = "; ".join(failed)
        return found

    def _run(self, rung: Rung, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        from torch._inductor import config

        torch.compiler.reset()
        config.compile_threads = 1
        known = {key: value for key, value in rung.settings.items() if _exists(config, key)}
        if rung.settings and not known:
            raise RuntimeError("this torch has no such switch")
        with config.patch(known):
            compiled: Any = torch.compile(self._module, backend=rung.backend)
            run = TorchRun(self._case, self._platform.placement, Ran.PROGRAM, lambda given: compiled(*given))
            return run.run([tensor.clone() for tensor in tensors])


def _exists(config: Any, key: str) -> bool:
    try:
        getattr(config, key)
    except AttributeError:
        return False
    return True
