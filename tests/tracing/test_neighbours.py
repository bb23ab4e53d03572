"""What is wrong only together: neighbours stand together, and a compiler that fuses them is caught."""

from __future__ import annotations

import torch

from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.tracing.examine import Examiner
from mindgap.tracing.neighbours import neighbourhoods
from mindgap.tracing.trace import trace
from tests.tracing.witnesses import chain, witness_of


def test_every_operator_stands_with_its_readers() -> None:
    program = witness_of(chain, torch.randn(4, 4)).program
    places = {node.id: node.op.split(".")[1] for node in program.nodes}
    names = [[places[member] for member in part] for part in neighbourhoods(program, 1)]
    assert ["mul", "sin"] in names
    assert ["sin", "split", "getitem", "getitem"] in names, names
    assert ["exp", "add"] in names
    assert all(len(part) > 1 for part in neighbourhoods(program, 2))


def test_each_neighbourhood_is_named_once() -> None:
    program = witness_of(lambda x: (x.sin(), x.sin().cos()), torch.randn(2)).program
    parts = neighbourhoods(program, 2)
    assert len(parts) == len(set(parts)) == 1


def test_operators_that_a_compiler_fuses_wrongly_are_found_together(pool: Pool) -> None:
    """Inductor takes a product with zero for zero: only the reciprocal behind it shows that a sign was lost."""

    def lost_sign(x: torch.Tensor) -> torch.Tensor:
        return (1.0 / (torch.tanh(x) * 0)).sigmoid() + 1

    witness = witness_of(lost_sign, torch.tensor([-1.5, 2.5] * 8))
    examiner = Examiner(pool, resolve("eager"), resolve("inductor"))
    found = examiner.examine(witness)
    assert found.symptom is not None, found.verdict
    path = trace(examiner, witness, found.symptom)
    assert path.culprits == ()
    names = [node.op.split(".")[1] for node in witness.graph.nodes if node.id in path.together]
    assert names == ["mul", "reciprocal"]
