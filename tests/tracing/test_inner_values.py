"""Inner values are shown as they are, also where a converter takes a copy for the value itself."""

from __future__ import annotations

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.program.graph import leaves
from mindgap.program.interpret import Executable
from mindgap.tracing.examine import Examiner
from mindgap.tracing.extract import is_tensor
from mindgap.tracing.inner_values import showing
from tests.tracing.witnesses import chain, witness_of, writing


@pytest.mark.parametrize("function", [chain, writing])
def test_every_value_is_shown_as_it_is_when_it_is_made(function: object) -> None:
    witness = witness_of(function, torch.randn(4, 4))  # type: ignore[arg-type]
    program = witness.graph
    members = [node.id for node in program.nodes if is_tensor(node)]
    shown, count = showing(program, members)
    made: dict[int, torch.Tensor] = {}

    def note(node: object, result: torch.Tensor) -> torch.Tensor:
        if isinstance(result, torch.Tensor):
            made[node.id] = result.clone()  # type: ignore[attr-defined]
        return result

    own = Executable(program, witness.constants).run([t.clone() for t in witness.tensors], observer=note)
    results = [leaf for _, leaf in leaves(Executable(shown, witness.constants).run(witness.tensors))]
    assert count == len(list(leaves(own))) and len(results) == len(members) + count
    assert all(torch.equal(result, made[member]) for member, result in zip(members, results))


def test_a_value_and_a_copy_that_a_converter_drops_are_both_shown(pool: Pool) -> None:
    pytest.importorskip("openvino")

    def dropping_nothing(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x @ x, 0.5, training=False).relu() + 1

    witness = witness_of(dropping_nothing, torch.randn(4, 4))
    members = [node.id for node in witness.graph.nodes if is_tensor(node)]
    shown = witness.with_program(showing(witness.graph, members)[0])
    found = Examiner(pool, resolve("eager"), resolve("openvino")).examine(shown)
    assert found.candidate.ok and len(found.candidate.outputs) == len(members) + 1, found.candidate.message
