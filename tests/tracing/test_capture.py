"""Values are seen as they are at their time, and nothing that comes later has to run."""

from __future__ import annotations

import torch

from mindgap.tracing.capture import capture
from mindgap.tracing.extract import units
from tests.tracing.witnesses import run_here, witness_of


def changing(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    z = y * 2
    y.add_(1)
    return y + z


def test_a_value_that_is_written_to_is_seen_before_and_after() -> None:
    x = torch.tensor([1.0, 2.0])
    witness = witness_of(changing, x)
    parts = {node.op.split(".")[1]: (node.id,) for node in witness.graph.nodes}
    before, after = capture(run_here, witness, [parts["mul"], parts["add"]])
    assert any(torch.equal(torch.as_tensor(value), x) for value in before.values())
    assert any(torch.equal(torch.as_tensor(value), x + 1) for value in after.values())


def test_what_eager_refuses_does_not_hide_its_own_arguments() -> None:
    """Behind a write, and before the next one."""
    witness = witness_of(lambda i: torch.arange(4.0).add_(1)[i], torch.tensor([0, 3]))
    refused = witness.with_tensors([torch.tensor([0, 9])])
    indexing = [node.id for node in refused.program.nodes if "index" in node.op]
    (last,) = [part for part in units(refused.program) if part[0] in indexing]
    (values,) = capture(run_here, refused, [last])
    assert any(torch.equal(value, torch.arange(4.0) + 1) for value in values.values() if torch.is_tensor(value))
