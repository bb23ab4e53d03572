"""The table against eager, operator by operator: with torch's own calls (test_runtimes.py: with each runtime's)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.platforms.aten.runtimes import AtenRuntime, MindSpore, Mlx
from mindgap.platforms.aten.table import COMPOSED, TABLE, Graph, decomposed
from mindgap.platforms.registry import adapter_class, resolve
from mindgap.program.build import named_results
from tests.platforms.aten.examples import EXAMPLES, IMAGE, X, Y
from tests.platforms.aten.torch_words import torch_words
from tests.platforms.running import as_module


def exported(function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]) -> Any:
    return decomposed(torch.export.export(as_module(function), tensors, strict=False))


def difference(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str:
    """Nothing, or how results differ from eager's."""
    for number, (mine, right) in enumerate(zip(results, expected, strict=True)):
        if mine.dtype is not right.dtype or mine.shape != right.shape:
            return f"[{number}] {mine.dtype} {tuple(mine.shape)}, not {right.dtype} {tuple(right.shape)}"
        tolerance = 2e-2 if right.dtype in (torch.half, torch.bfloat16) else 2e-5
        if not torch.allclose(mine.double(), right.double(), rtol=tolerance, atol=tolerance):
            return f"[{number}] {mine.flatten()[:6].tolist()}, not {right.flatten()[:6].tolist()}"
    return ""


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_table_means_what_eager_means(name: str) -> None:
    function, tensors = EXAMPLES[name]
    expected = [leaf for _, leaf in named_results(function(*tensors))]
    assert difference(Graph(exported(function, tensors), torch_words()).run(tensors), expected) == ""


def test_every_operator_of_the_table_has_an_example() -> None:
    seen = {
        str(node.target._schema.name).split("::")[1]
        for function, tensors in EXAMPLES.values()
        for node in exported(function, tensors).graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    }
    # Names that another version of torch decomposes to, or this one where gradients are asked for.
    others = {"reshape", "_unsafe_view", "detach", "lift_fresh_copy", "alias", "all", "_embedding_bag"}
    assert set(TABLE) - seen <= others
    assert set(TABLE) > COMPOSED


def test_an_operator_that_is_missing_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"aten\.erfinv\.default is not supported by mindgap's table"):
        Graph(exported(torch.erfinv, (X / 8,)), torch_words())


@pytest.mark.parametrize("function, why", [
    (lambda x: torch.conv_transpose2d(x, torch.ones(4, 2, 3, 3)), "transposed"),
    (lambda x: torch.max_pool2d(x, 2, dilation=2), "dilated"),
    (lambda x: x[:, 1:].as_strided((2, 2), (1, 1)), "a part of a tensor"),
])  # fmt: skip
def test_what_the_table_leaves_out_is_told(function: Any, why: str) -> None:
    with pytest.raises(NotImplementedError, match=why):
        Graph(exported(function, (IMAGE,)), torch_words()).run([IMAGE])


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
