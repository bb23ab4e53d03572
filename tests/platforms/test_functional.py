"""Programs that write through views, as programs of values."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.platforms.lowering import Decomposition, Lowering
from tests.tracing.witnesses import witness_of

TABLE = torch.export.default_decompositions()
LEARNED = Lowering(Decomposition(lambda exported: exported.run_decompositions(TABLE), lambda: set(TABLE)))
"""Shared by all examples: what one has learned the next need not."""

VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda t: t[0],
    lambda t: t[1:],
    lambda t: t[..., ::2],
    lambda t: t.transpose(0, -1),
    lambda t: t.permute(*reversed(range(t.dim()))),
    lambda t: t.unsqueeze(0),
    lambda t: t.flatten(),
    lambda t: t.view(t.shape),
    lambda t: t.detach(),
    lambda t: t.narrow(0, 0, 1),
    lambda t: t.chunk(2, -1)[0],
    lambda t: t.split(1)[-1],
    lambda t: t.unbind()[0],
    lambda t: t.squeeze(),
    lambda t: t.reshape(-1),
    lambda t: t.to(torch.float32),
]
WRITES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda t: t.mul_(2),
    lambda t: t.add_(1),
    lambda t: t.copy_(t.flip(0) if t.dim() else t),
    lambda t: t.zero_(),
    lambda t: t.relu_(),
]
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, len(VIEWS) - 1), st.integers(-3, len(WRITES) - 1)))


def scribble(steps: list[tuple[int, int, int]]) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """Views of views of one tensor, some of which are written to; all of them are returned at the end."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        known, read = [x + 1], []
        for which, view, write in steps:
            source = known[which % len(known)]
            if source.dim() and min(source.shape) > 1:
                known.append(VIEWS[view](source))
            if write >= 0:
                WRITES[write](known[-1])
            read.append(known[which % len(known)] * 1)
        return (*(value * 1 for value in known), *read)

    return run


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_whatever_was_written_is_read_everywhere(steps: list[tuple[int, int, int]]) -> None:
    case = witness_of(scribble(steps), torch.arange(24.0).reshape(2, 3, 4) - 7)
    lowered = LEARNED.lowered(case.graph, case.constants)
    assert lowered is not None
    for found, expected in zip(lowered.module()(*case.inputs.copies()), scribble(steps)(case.tensors[0].clone())):
        assert torch.equal(found, expected)


def test_a_write_through_a_view_without_an_inverse_is_left_to_torch() -> None:
    def strided(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.as_strided((2,), (3,)).mul_(2)
        return y

    case = witness_of(strided, torch.ones(2, 3))
    assert LEARNED.lowered(case.graph, case.constants) is None
