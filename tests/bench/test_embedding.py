"""A case inside a real program: all of both is there, and the case's nodes are known."""

from __future__ import annotations

import torch

from mindgap.bench.embedding import embedded, host
from mindgap.program.graph import leaves
from mindgap.program.interpret import Executable
from tests.program.validating import validate
from tests.tracing.witnesses import witness_of


def test_the_case_computes_what_it_did_alone() -> None:
    case = witness_of(lambda x: torch.floor(x / 3), torch.tensor([-7.0, 7.0]))
    around = host(0)
    whole, own = embedded(case, around)
    indices = [index for index, node in enumerate(whole.graph.nodes) if node.id in own]
    assert [whole.graph.nodes[index].op for index in indices] == [node.op for node in case.graph.nodes]
    assert indices[0] > 10 and indices[-1] < len(whole.graph.nodes) - 10, "in the middle"
    validate(whole.graph)
    found = [leaf for _, leaf in leaves(Executable(whole.graph, whole.constants).run(whole.tensors))]
    assert torch.equal(found[-1], torch.tensor([[-3.0, 2.0], [-3.0, 2.0]]))
    alone = [leaf for _, leaf in leaves(Executable(around.graph, around.constants).run(around.tensors))]
    assert all(torch.equal(a, b) for a, b in zip(alone, found))
