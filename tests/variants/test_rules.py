"""Rules are learned once, say what the operator really does, and survive in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mindgap.errors import CorruptProgram
from mindgap.program.graph import Ref
from mindgap.records.tensors import TensorMeta
from mindgap.variants.rules import MAGIC, Refused, RuleTable
from mindgap.variants.values import Range, Value, of_tensor, value

KNOWN = {
    0: of_tensor(torch.linspace(-1, 1, 12).reshape(3, 4)),
    1: of_tensor(torch.tensor([0, 7])),
    2: of_tensor(torch.ones(4, 5)),
    3: of_tensor(torch.linspace(-1, 1, 12).half().reshape(3, 4)),
}


def evaluate(rules: RuleTable, op: str, *args: object) -> object:
    return rules.evaluate(op, args, {}, lambda identity: KNOWN[identity])


def test_a_rule_is_learned_once() -> None:
    rules = RuleTable()
    first = evaluate(rules, "aten.mm.default", Ref(0), Ref(2))
    assert isinstance(first, Value) and str(first.meta) == "float32[3, 5]"
    assert evaluate(rules, "aten.mm.default", Ref(0), Ref(2)) is first
    assert (rules.hits, rules.misses) == (1, 1)


def test_a_refusal_is_a_rule_too() -> None:
    rules = RuleTable()
    for _ in range(2):
        with pytest.raises(Refused):
            evaluate(rules, "aten.mm.default", Ref(2), Ref(2))
    assert rules.misses == 1


def test_what_a_sketch_would_accept_is_refused_where_eager_refuses_it() -> None:
    """An index that is out of bounds, and a dtype without a kernel: tensors without storage accept both."""
    with pytest.raises(Refused, match="out of range"):
        evaluate(RuleTable(), "aten.index_select.default", Ref(0), 0, Ref(1))
    with pytest.raises(Refused, match="not implemented"):
        evaluate(RuleTable(), "aten.special_bessel_j0.default", Ref(3))


@pytest.mark.parametrize("literal", [1, 1.0, True, -0.0, 0.0])
def test_literals_that_are_equal_are_not_the_same(literal: object) -> None:
    rules = RuleTable()
    for other in (1, 1.0, True, 0.0, -0.0):
        evaluate(rules, "aten.add.Scalar", Ref(0), other)
    evaluate(rules, "aten.add.Scalar", Ref(0), literal)
    assert (rules.misses, rules.hits) == (5, 1)


def test_how_large_a_result_is_is_learned() -> None:
    meta = TensorMeta((4,), "float32", (1,))
    known = {0: value(meta, Range(-128.0, 128.0)), 1: value(meta, Range(0.0, 0.0))}
    overflown = RuleTable().evaluate("aten.exp.default", (Ref(0),), {}, lambda i: known[i])
    assert isinstance(overflown, Value) and overflown.range.poison
    divided = RuleTable().evaluate("aten.div.Tensor", (Ref(0), Ref(1)), {}, lambda i: known[i])
    assert isinstance(divided, Value) and divided.range.poison == 3


def test_too_large_results_are_refused() -> None:
    with pytest.raises(Refused, match="too large"):
        evaluate(RuleTable(), "aten.zeros.default", [1 << 20, 1 << 20])


def test_a_table_survives_in_a_file(tmp_path: Path) -> None:
    rules, path = RuleTable(), tmp_path / "rules"
    result = evaluate(rules, "aten.mm.default", Ref(0), Ref(2))
    pair = evaluate(rules, "aten.max.dim", Ref(0), 1)
    with pytest.raises(Refused) as refusal:
        evaluate(rules, "aten.mm.default", Ref(2), Ref(2))
    rules.save(path)
    again = RuleTable()
    assert again.load(path)
    assert evaluate(again, "aten.mm.default", Ref(0), Ref(2)) is result
    assert evaluate(again, "aten.max.dim", Ref(0), 1) == pair
    with pytest.raises(Refused, match=str(refusal.value)[:20]):
        evaluate(again, "aten.mm.default", Ref(2), Ref(2))
    assert again.misses == 0


def test_a_table_of_another_torch_is_not_used(tmp_path: Path) -> None:
    from mindgap.program import codec

    path = tmp_path / "rules"
    path.write_bytes(codec.pack({"magic": MAGIC, "torch": "0.1", "content": b""}))
    assert not RuleTable().load(path)
    path.write_bytes(b"damaged")
    with pytest.raises(CorruptProgram):
        RuleTable().load(path)


def test_samples_are_never_written_to() -> None:
    before = KNOWN[0].sample().clone()
    evaluate(RuleTable(), "aten.mul_.Scalar", Ref(0), 3.0)
    assert torch.equal(KNOWN[0].sample(), before)
