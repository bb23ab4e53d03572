from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mindgap.corpus.roundtrip import FORTY, difference, roundtrip
from mindgap.records.source import Source
from mindgap.records.tensors import same_bits


@pytest.mark.parametrize("spec", ["timm:resnet18", "transformers:llama:causal-lm", "transformers:mixtral"])
def test_real_models_come_back_bit_for_bit(spec: str) -> None:
    trip = roundtrip(Source(spec))
    assert (trip.built, trip.exact, trip.reason) == (True, True, "")
    assert trip.nodes > 50 and trip.bytes > 1000


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_too(dtype: str) -> None:
    assert roundtrip(Source("transformers:gpt2", dtype=dtype)).exact


def test_in_place_code_and_randomness(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "def model(x):\n"
        "    x[1:].mul_(2)\n"
        "    return torch.nn.functional.dropout(x, 0.5, training=True), torch.log(x - 1)\n"
        "def inputs(): return [torch.ones(8)]\n"
    )
    trip = roundtrip(Source("net.py", directory=str(tmp_path)))
    assert trip.exact, trip.reason


def test_what_cannot_be_built_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef model(x): return x + 1 if x.sum() > 0 else x\ndef inputs(): return [torch.ones(8)]\n"
    )
    trip = roundtrip(Source("net.py", directory=str(tmp_path)))
    assert not trip.built and not trip.exact and trip.reason


def test_a_model_that_refuses_its_inputs_is_built_but_not_exact(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "def model(x): return torch.nn.functional.binary_cross_entropy(x, x + 1)\n"
        "def inputs(): return [torch.ones(8)]\n"
    )
    trip = roundtrip(Source("net.py", directory=str(tmp_path)))
    assert trip.built and not trip.exact and "between 0 and 1" in trip.reason


def test_bits_are_compared_not_values() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert same_bits(nan, nan.clone())
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.zeros(2), torch.zeros(2, dtype=torch.int32))
    assert not same_bits(torch.zeros(2), torch.zeros(1, 2))


def test_a_difference_is_named() -> None:
    one, two = torch.ones(1), torch.ones(1) * 2
    assert difference({"a": one}, {"a": one}) == ""
    assert difference({"a": one, "b": one}, {"a": one, "b": two}) == "b"
    assert difference({"a": one}, {"b": one}) == "outputs are a and b"


def test_the_forty_are_forty_different_models() -> None:
    assert len(set(FORTY)) == 40
