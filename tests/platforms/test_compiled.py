from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from mindgap.execution.serve import load_adapter
from mindgap.platforms.base import StageClock, StageFailure
from mindgap.platforms.registry import resolve
from mindgap.platforms.torch.compiled import Inductor
from mindgap.program.graph import Ref
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.tensors import same_bits
from tests.platforms.running import Network, Words, changes_input, run_on, shares_memory, task_of


@pytest.mark.parametrize("source", [True, False])
def test_inductor_runs_a_network(source: bool) -> None:
    task = task_of(Network(), [torch.randn(1, 3, 6, 6)], source=source)
    done, eager = run_on("inductor", task, runs=2), run_on("eager", task)
    assert done.message == ""
    assert done.ran is (Ran.SOURCE if source else Ran.PROGRAM)
    assert list(done.outputs) == list(eager.outputs)
    torch.testing.assert_close(done["features"], eager["features"])
    assert set(done.clock.seconds) == {"load", "compile", "run"}
    assert done.clock.seconds["compile"] > done.clock.seconds["run"]


def test_inductor_refuses_values_when_it_runs() -> None:
    def model(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i] * 2

    done = run_on("inductor", task_of(model, [torch.ones(3), torch.tensor([7])], source=True))
    assert (done.status, done.clock.current) == (Status.REJECTED, Stage.RUN)
    assert "out of bounds" in done.message


CASES: dict[str, tuple[Any, list[torch.Tensor]]] = {
    "words": (Words(), [torch.tensor([[1, 2, 3]]), torch.zeros(1)]),
    "changes input": (changes_input, [torch.ones(2, 3), torch.ones(3)]),
    "shares memory": (shares_memory, [torch.ones(2, 3)]),
    "complex": (lambda x: x * 2j, [torch.ones(2, dtype=torch.complex64)]),
    "empty": (lambda x: torch.cat([x, x]), [torch.ones(0, 2)]),
    "scalar": (lambda x: (x.sum(), 3), [torch.ones(2, dtype=torch.bfloat16)]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("source", [True, False])
def test_aot_eager_gives_the_bits_of_eager(case: str, source: bool) -> None:
    model, args = CASES[case]
    task = task_of(model, args, source=source)
    done, eager = run_on("aot_eager", task), run_on("eager", task)
    assert done.message == ""
    assert list(done.outputs) == list(eager.outputs)
    assert all(same_bits(done[name], eager[name]) for name in eager.outputs)
    pointers = [item.tensor.data_ptr() for item in done.outputs.values() if item.tensor.numel()]
    assert len(set(pointers)) == len(pointers)


@pytest.mark.parametrize("platform", ["inductor", "aot_eager"])
def test_a_recurrent_network_is_not_compiled(platform: str) -> None:
    task = task_of(nn.LSTM(4, 4), [torch.randn(3, 1, 4)], source=True)
    done = run_on(platform, task)
    assert (done.status, done.clock.current) == (Status.UNSUPPORTED, Stage.COMPILE)
    assert done.message == "not compiled: Attempted to wrap RNN, GRU, or LSTM"


def test_code_that_is_kept_from_the_compiler_is_not_compiled() -> None:
    @torch.compiler.disable
    def kept(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    done = run_on("aot_eager", task_of(lambda x: kept(x), [torch.ones(2)], source=True))
    assert done.message.startswith("not compiled: ") and done.status is Status.UNSUPPORTED
    nothing = run_on("aot_eager", task_of(lambda x: x, [torch.ones(2)], source=True))
    assert nothing.message == "not compiled: it has no operator to compile"


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.sum() > 1e9:
        return y
    return y * 2


def test_graph_breaks_are_noted() -> None:
    done = run_on("aot_eager", task_of(breaks, [torch.ones(2)], source=True))
    assert done.status is Status.OK
    assert done.note == "2 graphs, 1 graph break: Data-dependent branching"


def validates(x: torch.Tensor) -> torch.Tensor:
    if float(x.sum()) < 1e9:
        raise ValueError("the sum is too small")
    return x


def mismatched(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.ones(5, 5)


FAILURES: dict[str, tuple[Any, Status, Stage, str]] = {
    "eager code in a graph break": (validates, Status.REJECTED, Stage.RUN, "the sum is too small"),
    "propagation of fake tensors": (mismatched, Status.REJECTED, Stage.COMPILE, "a and b must have same reduction dim"),
    "compiled code": (lambda x: x[torch.tensor([9])], Status.REJECTED, Stage.RUN, "out of bounds"),
    "a kernel that does not exist": (
        lambda x: torch.linalg.inv(x.half()), Status.UNSUPPORTED, Stage.COMPILE, "Low precision dtypes not supported",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_carries_the_stage_it_belongs_to(name: str) -> None:
    model, status, stage, message = FAILURES[name]
    done = run_on("aot_eager", task_of(model, [torch.ones(4, 4)], source=True))
    assert (done.status, done.clock.current) == (status, stage)
    assert message in done.message


def test_a_backend_that_fails_fails_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("g++: internal compiler error: Killed")

    monkeypatch.setattr(Inductor, "backend", lambda self, kind: backend)
    done = run_on("inductor", task_of(lambda x: x + 1, [torch.ones(2)], source=True))
    assert (done.status, done.clock.current) == (Status.ERROR, Stage.COMPILE)
    assert done.message == "g++: internal compiler error: Killed"


def test_the_stage_is_told_as_the_first_call_proceeds() -> None:
    """A process that dies in compiled code must leave RUN behind, not COMPILE."""
    stages: list[Stage] = []
    clock = StageClock(stages.append)
    seen: list[Stage] = []

    @torch.compiler.disable
    def watch() -> None:
        seen.append(clock.current)

    def model(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        watch()
        return y * 2

    load_adapter(resolve("aot_eager")).prepare(task_of(model, [torch.ones(2)], source=True), clock)
    assert seen == [Stage.RUN]
    assert stages[:3] == [Stage.LOAD, Stage.COMPILE, Stage.COMPILE]
    assert stages[-1] is Stage.RUN and clock.current is Stage.COMPILE


def test_an_option_reaches_torch_compile() -> None:
    adapter = load_adapter(replace(resolve("aot_eager"), options={"backend": "no_such_backend"}))
    done = run_on(adapter, task_of(lambda x: x + 1, [torch.ones(2)], source=True))
    assert done.clock.current is Stage.COMPILE and "no_such_backend" in done.message


def test_the_adapters_own_word_on_the_status_stands() -> None:
    adapter = load_adapter(resolve("inductor"))
    assert adapter.status_of(StageFailure(Status.OOM, "x"), Stage.COMPILE) is Status.OOM
    assert adapter.status_of(RuntimeError("LoweringException: NotImplementedError: x"), Stage.COMPILE) is (
        Status.UNSUPPORTED
    )


def test_inductor_leaves_no_process_behind() -> None:
    code = """
import os, pathlib, torch
torch.set_num_threads(1)
from tests.platforms.running import run_on, task_of
done = run_on("inductor", task_of(lambda x: torch.sin(x) + 1, [torch.ones(8)], source=True))
children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
print(done.status.value, children)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "ok []"


def test_what_fake_tensors_refuse_is_refused_without_compiling() -> None:
    platform = load_adapter(resolve("inductor"))
    good = task_of(lambda x, i: x[i] * 2, [torch.ones(3), torch.tensor([7])], source=False)
    assert not platform.surely_refuses(good)  # its values are looked at only when it runs
    assert good.program is not None
    node = next(node for node in good.program.nodes if "mul" in node.op)
    cut = replace(node, op="aten.mean.default", args=(torch_int_input(good),), kwargs={})
    bad = replace(good, program=replace(good.program, nodes=(*good.program.nodes[:-1], cut)))
    assert platform.surely_refuses(bad)


def torch_int_input(task: Any) -> Ref:
    """The input that holds whole numbers, whose mean torch refuses."""
    return Ref(next(item.id for item in task.program.inputs if item.meta.dtype == "int64"))
