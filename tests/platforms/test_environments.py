"""The contract of every runtime with an environment of its own, in that environment; skipped where it is not installed.

`make test-platforms` installs them first and sets MINDGAP_REQUIRE_PLATFORMS, so that a missing one is a failure there.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from mindgap.execution.pool import Pool
from mindgap.explanation.short import running_lines
from mindgap.platforms.probing import probe
from mindgap.platforms.registry import adapter_class, catalogue, resolve
from mindgap.platforms.running import run_here
from mindgap.program.case import Case
from mindgap.records.outcome import Outcome, Ran, Status
from mindgap.records.platform import Probe
from tests.platforms.running import Network, Words, changes_input, require_installed, shares_memory, task_of

REFUSES = {
    "executorch": "its portable batch normalisation takes no channels-last input",
    "executorch@xnnpack": "its portable batch normalisation takes no channels-last input",
    "tvm": "its frontend has no amax",
}
"""Runtimes that do not run the network, by the versions that their recipes pin; seen by hand in their logs."""
LACKS = {"onnxruntime:webgpu": {"int64", "bool"}}
"""Dtypes that a runtime cannot add."""

WRONG = {
    "iree:vulkan": {
        "test_a_changed_input_an_unused_one_and_element_types": "its shaders read 8-bit numbers in the last, "
        "incomplete word of four bytes as 0",
        "test_a_cast_to_int64_is_returned_or_refused_in_words": "the same: its bools have 8 bits",
    }
}
"""Tests that a runtime fails because its numbers are wrong, with what is wrong; a test that passes again fails."""

PLATFORMS = [spec.name for spec in catalogue() if spec.environment]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


@pytest.fixture(params=PLATFORMS, scope="module")
def platform(request: pytest.FixtureRequest) -> str:
    """A platform that is installed here."""
    name = str(request.param)
    spec = resolve(name)
    require_installed(spec)
    return name


@pytest.fixture(autouse=True)
def known_wrong(request: pytest.FixtureRequest, platform: str) -> None:
    name = request.node.originalname
    if name in WRONG.get(platform, {}):
        request.node.add_marker(pytest.mark.xfail(strict=True, reason=WRONG[platform][name]))


@pytest.fixture(scope="module")
def known(pool: Pool, platform: str) -> Probe:
    return probe(pool, [resolve(platform)])[platform]


def run_on(pool: Pool, platform: str, case: Case, runs: int = 1) -> Outcome:
    return run_here(pool, resolve(platform), case, runs)


def outputs(outcome: Outcome) -> dict[str, torch.Tensor]:
    assert outcome.ok, f"{outcome.stage.value}: {outcome.message}\n{outcome.log_tail}"
    return {item.name: item.tensor for item in outcome.outputs}


def compare(pool: Pool, platform: str, case: Case, refusal: str = "") -> dict[str, torch.Tensor]:
    """The outputs, which must be eager's within what kernels may differ in on ordinary values.

    Only what is known to be refused may be; the page of results lists it.
    """
    outcome = run_on(pool, platform, case)
    if refusal:
        assert outcome.status in (Status.UNSUPPORTED, Status.REJECTED), f"it no longer refuses: {refusal}"
        pytest.skip(refusal)
    eager, found = outputs(run_on(pool, "eager", case)), outputs(outcome)
    assert list(found) == list(eager)
    for name, expected in eager.items():
        torch.testing.assert_close(found[name], expected, rtol=1e-3, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}")
    return found


def test_it_is_ready_and_says_what_it_is(platform: str, known: Probe) -> None:
    assert known.available, known.reason
    assert known.version and known.device
    assert {"float32", "int64", "bool"} - LACKS.get(platform, set()) <= set(known.dtypes)
    spec = resolve(platform)
    assert spec.summary and spec.python and spec.size_mb


def test_a_network_with_a_channels_last_input(pool: Pool, platform: str) -> None:
    image = torch.randn(1, 3, 6, 6, generator=torch.manual_seed(0)).to(memory_format=torch.channels_last)
    compare(pool, platform, task_of(Network(), [image]), REFUSES.get(platform, ""))


def test_words_and_a_softmax(pool: Pool, platform: str) -> None:
    compare(pool, platform, task_of(Words(), [torch.tensor([[1, 2, 15]]), torch.zeros(3, 1)]))


def test_a_changed_input_an_unused_one_and_element_types(pool: Pool, platform: str, known: Probe) -> None:
    wanted = [name for name in ("float16", "bfloat16", "uint8", "int32") if name in known.dtypes]

    def model(x: torch.Tensor, unused: torch.Tensor, flag: torch.Tensor, *more: torch.Tensor) -> tuple[object, ...]:
        x[0].add_(1)
        return x * 2, x.sum(), ~flag, *(item + item for item in more), 7

    more = [torch.ones(2).to(getattr(torch, name)) for name in wanted]
    case = task_of(model, [torch.full((2, 3), 1.5), torch.ones(4), torch.tensor([True, False]), *more])
    found = compare(pool, platform, case)
    assert any(name.startswith("input:") for name in found), "the changed input is returned"
    for index, name in enumerate(wanted):
        assert found[f"[{3 + index}]"].dtype is getattr(torch, name)


def test_a_cast_to_int64_is_returned_or_refused_in_words(pool: Pool, platform: str) -> None:
    """tract turns it into symbolic dimensions, which it cannot return."""
    case = task_of(lambda flag: flag.to(torch.int64) * 3, [torch.tensor([True, False])])
    outcome = run_on(pool, platform, case)
    if outcome.ok:
        assert outputs(outcome)["output"].tolist() == [3, 0] and outputs(outcome)["output"].dtype is torch.int64
    else:
        assert outcome.status is Status.UNSUPPORTED and "int64" in outcome.message, outcome


def test_it_writes_to_no_input_of_the_case(pool: Pool, platform: str) -> None:
    case = task_of(changes_input, [torch.ones(2, 3), torch.ones(2, 3)])
    first = outputs(run_on(pool, platform, case))
    again = outputs(run_on(pool, platform, case, runs=2))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_outputs_that_share_memory(pool: Pool, platform: str) -> None:
    compare(pool, platform, task_of(shares_memory, [torch.ones(2, 3)]))


def test_a_second_run_gives_the_same_bits(pool: Pool, platform: str) -> None:
    case = task_of(nn.Linear(16, 16), [torch.randn(4, 16, generator=torch.manual_seed(1))])
    assert run_on(pool, platform, case, runs=3).stable is True


def test_what_it_cannot_do_is_told_in_one_line(pool: Pool, platform: str) -> None:
    """No runtime here has an eigenvalue solver; torch itself, of another version, has."""
    outcome = run_on(pool, platform, task_of(lambda x: torch.linalg.eigh(x)[0], [torch.eye(3)]))
    if outcome.ok:
        assert outputs(outcome)["output"].tolist() == [1.0, 1.0, 1.0]
        return
    assert outcome.status is Status.UNSUPPORTED, outcome
    assert "eigh" in outcome.message and "\n" not in outcome.message and len(outcome.message) <= 300


def test_a_model_that_could_not_be_exported(pool: Pool, platform: str) -> None:
    case = replace(task_of(lambda x: x, [torch.ones(1)]), program=None, export_failure="a loop")
    outcome = run_on(pool, platform, case)
    assert outcome.status is Status.UNSUPPORTED and outcome.message


def test_what_ran_is_the_program(pool: Pool, platform: str) -> None:
    assert run_on(pool, platform, task_of(lambda x: x + 1, [torch.ones(2)])).ran is Ran.PROGRAM


def test_its_script_runs_without_mindgap(platform: str, tmp_path: object) -> None:
    spec = resolve(platform)
    text = (adapter_class(spec) or pytest.fail("no adapter")).reproducer(spec).text
    script = (
        "import copy, torch\n"
        "as_list = lambda value: list(value) if isinstance(value, (tuple, list)) else [value]\n"
        f"{text}\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x, y):\n"
        "        return x * 2 + y, x.sum()\n"
        "found = on_platform(Model().eval(), [torch.ones(2, 3), torch.full((2, 3), 0.5)])\n"
        "print([item.tolist() for item in found])\n"
    )
    done = subprocess.run(
        [str(spec.python), "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, **spec.env, "PYTHONPATH": ""},
    )
    assert done.stdout.strip().endswith("[[[2.5, 2.5, 2.5], [2.5, 2.5, 2.5]], 6.0]"), done.stderr[-2000:]


def test_its_few_lines_for_an_issue_run_when_pasted(platform: str, tmp_path: Path) -> None:
    spec = resolve(platform)
    runtime = adapter_class(spec)
    assert runtime is not None
    given = [
        "import torch",
        "class Model(torch.nn.Module):",
        "    def forward(self, x):",
        "        return torch.sin(x), x + 1",
        "model, inputs = Model().eval(), (torch.tensor([[1.0, 2.0]]),)",
    ]
    lines = running_lines(given, spec)
    if not lines:
        pytest.skip("its script takes more than a few lines")
    script = [*given, *lines, "torch.testing.assert_close(actual, list(model(*inputs)))"]
    (tmp_path / "pasted.py").write_text("\n".join(script))
    done = subprocess.run(
        [str(spec.python), "pasted.py"], cwd=tmp_path, env={**os.environ, **spec.env}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
