"""Parts of a program give what the whole gives at the same place."""

from __future__ import annotations

import pytest
import torch

from mindgap.program.case import Case
from mindgap.records.tensors import same_bits
from mindgap.tracing.capture import capture
from mindgap.tracing.extract import computing_first, extract, units
from tests.tracing.witnesses import chain, run_here, witness_of, writing

PROGRAMS = {"chain": (chain, torch.randn(4, 4)), "writing": (writing, torch.randn(3, 4))}


@pytest.fixture(params=PROGRAMS)
def witness(request: pytest.FixtureRequest) -> Case:
    function, x = PROGRAMS[request.param]
    return witness_of(function, x)


def test_results_that_are_taken_apart_belong_to_their_operator() -> None:
    program = witness_of(*PROGRAMS["chain"]).program
    ops = {node.id: node.op for node in program.nodes}
    split = next(part for part in units(program) if ops[part[0]].startswith("aten.split"))
    assert [ops[member] for member in split[1:]] == ["operator.getitem", "operator.getitem"]
    assert sorted(member for part in units(program) for member in part) == sorted(ops)


def test_operators_that_compute_are_named_before_those_that_shape() -> None:
    program = witness_of(lambda x: torch.sin(x.t().reshape(2, 8)).permute(1, 0) @ x[:2], torch.randn(4, 4)).program
    names = [node.op.split(".")[1] for node in computing_first(program)]
    assert names == ["sin", "matmul", "t", "reshape", "permute", "slice"]


def test_the_last_part_fed_with_captured_values_gives_the_output(witness: Case) -> None:
    whole = run_here(witness).outputs[0].tensor
    parts = units(witness.graph)
    for count in range(1, len(parts) + 1):
        last = {member for part in parts[-count:] for member in part}
        (values,) = capture(run_here, witness, [last])
        part = extract(witness, last, values)
        given_copies = [tensor.clone() for tensor in part.tensors]
        found = run_here(part).outputs[-1].tensor
        # A part loses which of its inputs share memory: only without writes must it give the same.
        if "writing" not in str(witness.graph.nodes[1].op) and witness.graph.nodes[0].op != "aten.clone.default":
            assert same_bits(found, whole)
        assert all(torch.equal(a, b) for a, b in zip(given_copies, part.tensors))


def test_values_are_captured_before_later_writes() -> None:
    witness = witness_of(*PROGRAMS["writing"])
    multiply = next(node for node in witness.graph.nodes if node.op == "aten.mul.Tensor")
    (values,) = capture(run_here, witness, [(multiply.id,)])
    expected = PROGRAMS["writing"][1].clone()
    expected[0] += 1
    (value,) = values.values()
    assert isinstance(value, torch.Tensor) and torch.equal(value, expected)


def test_the_key_of_a_witness_follows_its_bits() -> None:
    first = witness_of(chain, torch.ones(4, 4))
    assert first.key == witness_of(chain, torch.ones(4, 4)).key
    assert first.key != witness_of(chain, torch.zeros(4, 4)).key
