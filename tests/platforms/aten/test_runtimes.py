"""The shared table on each runtime, in its own environment; skipped where that is not installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run_here
from mindgap.program.build import named_results
from mindgap.records.outcome import Status
from tests.platforms.aten.examples import EXAMPLES, IMAGE, X
from tests.platforms.aten.test_table import difference
from tests.platforms.running import require_installed, task_of

REFUSED = {
    ("mindspore", "bitwise_not"), ("mlx", "fmod"),
}  # fmt: skip
"""Examples that a runtime has no call for; each is told as unsupported."""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


@pytest.fixture(params=["mlx", "mindspore"], scope="module")
def runtime(request: pytest.FixtureRequest) -> str:
    """A runtime that is installed here."""
    name = str(request.param)
    require_installed(resolve(name))
    return name


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_runtime_gives_what_eager_gives(pool: Pool, runtime: str, name: str) -> None:
    function, tensors = EXAMPLES[name]
    expected = [leaf for _, leaf in named_results(function(*tensors))]
    found = run_here(pool, resolve(runtime), task_of(function, list(tensors)))
    if (runtime, name) in REFUSED:
        assert found.status is Status.UNSUPPORTED, found
        return
    assert found.ok, f"{found.stage.value}: {found.message}"
    assert difference([item.tensor for item in found.outputs], expected) == ""


def test_the_whole_path(pool: Pool, runtime: str) -> None:
    def changes(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        x.add_(1)
        return {"pooled": torch.max_pool2d(y, 2), "sum": x + 1}

    done = run_here(pool, resolve(runtime), task_of(changes, [X, IMAGE], names=["x", "y"]), runs=2)
    assert done.ok, done.message
    outputs = {item.name: item.tensor for item in done.outputs}
    assert list(outputs) == ["pooled", "sum", "input:x"]
    assert outputs["sum"].equal(X + 2) and outputs["pooled"].equal(torch.max_pool2d(IMAGE, 2))
    refused = run_here(pool, resolve(runtime), task_of(torch.erfinv, [X / 8]))
    assert refused.status is Status.UNSUPPORTED and "erfinv" in refused.message
