"""Kernels in one translation unit are the kernels that inductor compiles one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch._inductor.exc import CppCompileError
from torch._inductor.utils import fresh_cache

from mindgap.execution.serve import load_adapter
from mindgap.platforms.base import StageClock
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import one_run
from mindgap.platforms.torch import one_unit
from mindgap.platforms.torch.compiled import UNITS
from mindgap.platforms.torch.one_unit import Kernel
from mindgap.program.case import Case
from mindgap.program.crowd import crowd_of
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import NamedTensor, same_outputs
from tests.tracing.witnesses import witness_of

HEADER = "#include <torch/csrc/inductor/cpp_prefix.h>\n"


def members() -> list[Case]:
    """Loops of other lengths and dtypes, with calls between them that inductor leaves to eager's kernels."""
    x, whole = torch.linspace(-3, 3, 35).reshape(5, 7), torch.arange(-8, 9)
    return [
        witness_of(lambda a: torch.softmax(torch.sin(a) @ a.T, -1) * 3 + torch.tanh(a).sum(), x),
        witness_of(lambda a: torch.cumsum(torch.nn.functional.gelu(a), 0).exp().sort(0)[0] / 3, x * 2),
        witness_of(lambda a: (a // 3 + a % 5).to(torch.uint8) >> 1, whole),
        witness_of(lambda a: (a.half() @ a.half().T).float().rsqrt(), x),
    ]


def outputs(spec: PlatformSpec, case: Case) -> list[NamedTensor]:
    with fresh_cache():
        clock = StageClock()
        return one_run(load_adapter(spec).prepare(case, clock), case, clock)


def test_the_bits_of_a_crowd_are_those_of_its_members_compiled_by_the_stock_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units: list[int] = []
    unit_of = one_unit.unit_of

    def counted(kernels: Sequence[Kernel]) -> str:
        units.append(len(kernels))
        return unit_of(kernels)

    monkeypatch.setattr(one_unit, "unit_of", counted)
    spec = resolve("inductor")
    crowd = crowd_of(members())
    together = crowd.split(outputs(replace(spec, options={UNITS: "one"}), crowd.case))
    assert sum(units) >= 2 and len(units) <= 2  # at most one unit per instruction set
    for member, found in zip(members(), together):
        assert same_outputs(found, outputs(spec, member))


def source(body: str) -> str:
    return HEADER + f'extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t ks0) {{ {body} }}'


def test_a_kernel_that_cannot_be_compiled_fails_in_the_stock_way() -> None:
    given = ("const float*", "float*", "const int64_t")
    good, bad = Kernel(given, source("out_ptr0[0] = in_ptr0[0] + ks0;")), Kernel(given, source("undeclared();"))
    with fresh_cache(), pytest.raises(CppCompileError, match="undeclared"):
        one_unit.compiled([good, bad])


def test_each_kernel_of_a_unit_gets_its_own_arguments() -> None:
    given = ("const float*", "float*", "int64_t")
    kernels = [Kernel(given, source(f"out_ptr0[0] = in_ptr0[0] * {n} + ks0;")) for n in (2, 3)]
    result = torch.zeros(1)
    with fresh_cache():
        for kernel, factor in zip(one_unit.compiled(kernels), (2, 3)):
            kernel(torch.tensor([5.0]), result, 1)
            assert result.item() == 5 * factor + 1


def test_a_kernel_with_other_arguments_is_left_to_inductor() -> None:
    assert Kernel(("const float*", "int64_t"), "").fits
    assert not Kernel(("const float*", "double"), "").fits
