"""The table against eager, operator by operator: with torch's own calls, and with every runtime that is here."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.execution.serve import load_adapter
from mindgap.platforms.aten.mindspore_words import mindspore_words
from mindgap.platforms.aten.mlx_words import mlx_words
from mindgap.platforms.aten.runtimes import AtenRuntime, MindSpore, Mlx
from mindgap.platforms.aten.table import COMPOSED, TABLE, Graph
from mindgap.platforms.registry import adapter_class, resolve
from mindgap.program.build import named_results
from mindgap.records.outcome import Status
from tests.platforms.aten.examples import EXAMPLES, IMAGE, X, Y
from tests.platforms.aten.torch_words import torch_words
from tests.platforms.running import as_module, run_on, task_of

WORDS = {"torch": torch_words, "mlx": mlx_words, "mindspore": mindspore_words}

REFUSED = {
    ("mindspore", "bitwise_not"), ("mindspore", "fmod"),
}  # fmt: skip
"""Examples that a runtime has no call for; each is told as unsupported."""


def exported(function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]) -> Any:
    return torch.export.export(as_module(function), tensors, strict=False).run_decompositions()


def here(runtime: str) -> None:
    if find_spec(runtime) is None:
        pytest.skip(f"{runtime} is not installed")


def compare(name: str, runtime: str) -> str:
    """Nothing, or how an example differs from eager."""
    function, tensors = EXAMPLES[name]
    expected = [leaf for _, leaf in named_results(function(*tensors))]
    results = Graph(exported(function, tensors), WORDS[runtime]()).run(tensors)
    for number, (mine, right) in enumerate(zip(results, expected, strict=True)):
        if mine.dtype is not right.dtype or mine.shape != right.shape:
            return f"[{number}] {mine.dtype} {tuple(mine.shape)}, not {right.dtype} {tuple(right.shape)}"
        tolerance = 2e-2 if right.dtype in (torch.half, torch.bfloat16) else 2e-5
        if not torch.allclose(mine.double(), right.double(), rtol=tolerance, atol=tolerance):
            return f"[{number}] {mine.flatten()[:6].tolist()}, not {right.flatten()[:6].tolist()}"
    return ""


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_table_means_what_eager_means(name: str) -> None:
    assert compare(name, "torch") == ""


@pytest.mark.parametrize("runtime", ["mlx", "mindspore"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_runtime_gives_what_eager_gives(name: str, runtime: str) -> None:
    here(runtime)
    if (runtime, name) in REFUSED:
        with pytest.raises(NotImplementedError):
            compare(name, runtime)
    else:
        assert compare(name, runtime) == ""


def test_every_operator_of_the_table_has_an_example() -> None:
    seen = {
        str(node.target._schema.name).split("::")[1]
        for function, tensors in EXAMPLES.values()
        for node in exported(function, tensors).graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    }
    # Names that another version of torch decomposes to.
    assert set(TABLE) - seen <= {"reshape", "_unsafe_view", "detach", "lift_fresh_copy", "alias", "all"}
    assert set(TABLE) > COMPOSED


def test_an_operator_that_is_missing_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"aten\.erfinv\.default is not supported by mindgap's table"):
        Graph(exported(torch.erfinv, (X / 8,)), torch_words())


@pytest.mark.parametrize("function, why", [
    (lambda x: torch.conv_transpose2d(x, torch.ones(4, 2, 3, 3)), "transposed"),
    (lambda x: torch.max_pool2d(x, 2, dilation=2), "dilated"),
])  # fmt: skip
def test_what_the_table_leaves_out_is_told(function: Any, why: str) -> None:
    with pytest.raises(NotImplementedError, match=why):
        Graph(exported(function, (IMAGE,)), torch_words()).run([IMAGE])


@pytest.mark.parametrize("name", ["mlx", "mindspore"])
def test_the_whole_path_on_a_runtime(name: str) -> None:
    here(name)
    adapter = load_adapter(resolve(name))
    assert {"float32", "int64", "bool", "bfloat16"} <= set(adapter.probe().dtypes)

    def changes(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        x.add_(1)
        return {"pooled": torch.max_pool2d(y, 2), "sum": x + 1}

    done = run_on(adapter, task_of(changes, [X, IMAGE], names=["x", "y"]), runs=2)
    assert done.status is Status.OK, done.message
    assert list(done.outputs) == ["pooled", "sum", "input:x"]
    assert done["sum"].equal(X + 2) and done["pooled"].equal(torch.max_pool2d(IMAGE, 2))
    refused = run_on(adapter, task_of(torch.erfinv, [X / 8]))
    assert refused.status is Status.UNSUPPORTED and "erfinv" in refused.message


@pytest.mark.parametrize("cls", [Mlx, MindSpore])
def test_a_runtime_that_is_not_here_says_so(
    cls: type[AtenRuntime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDGAP_PLATFORMS", str(tmp_path))
    if find_spec(cls.package.split(".")[0]) is not None:
        pytest.skip("it is here")
    probe = cls(resolve(cls.runtime)).probe()
    assert not probe.available and probe.reason == f"{cls.package.split('.')[0]} is not installed"
    assert resolve(cls.runtime).install == f"mindgap platforms install {cls.runtime}"


def test_the_script_holds_the_runtimes_own_calls(capsys: pytest.CaptureFixture[str]) -> None:
    spec = resolve("mlx")
    cls = adapter_class(spec)
    assert cls is not None
    text = cls.reproducer(spec).text
    assert "mx.maximum" in text or "mx.fast.layer_norm" in text
    assert "import mindgap" not in text and "from mindgap" not in text
    space: dict[str, Any] = {"torch": torch}
    exec(text, space)
    space["mlx_words"] = torch_words
    (result,) = space["on_platform"](as_module(torch.maximum), [X, Y])
    assert result.equal(torch.maximum(X, Y))
    assert capsys.readouterr().err == "calls maximum\n"
