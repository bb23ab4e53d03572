"""Programs put together from remembered calls are what torch's own path makes of them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch

from mindgap.execution.parcel import Constants
from mindgap.platforms.base import Platform, StageClock
from mindgap.platforms.exported import LOWERING, REMEMBERED
from mindgap.platforms.lowering import Decomposition, Lowered, Lowering
from mindgap.platforms.onnx.export import exporter
from mindgap.platforms.onnx.onnxruntime import OnnxRuntime
from mindgap.platforms.openvino import OpenVino
from mindgap.platforms.openvino import lowering as openvino_lowering
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import one_run
from mindgap.program.case import Case
from mindgap.program.convert import to_exported
from mindgap.program.examples import of_program
from mindgap.program.graph import Input, Node, Program, Ref, TensorMeta, leaves
from mindgap.program.ops import resolve as find
from mindgap.records.tensors import same_outputs
from mindgap.variants.base import load_bases
from mindgap.variants.synthesis import Synthesis
from tests.tracing.witnesses import witness_of


def lowering() -> Lowering:
    table = torch.export.default_decompositions()
    return Lowering(Decomposition(lambda exported: exported.run_decompositions(table), lambda: set(table)))


def targets(exported: torch.export.ExportedProgram) -> list[str]:
    calls = [node for node in exported.graph.nodes if node.op == "call_function"]
    return [str(node.target) for node in calls if node.target is not operator.getitem]


def both_ways(case: Case, learned: Lowering) -> tuple[Lowered | None, list[str]]:
    stock = to_exported(case.graph, case.constants, case.tensors).run_decompositions()
    return learned.lowered(case.graph, case.constants), targets(stock)


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    q, k = torch.nn.functional.linear(x, w).chunk(2, dim=-1)
    scores = torch.softmax(q @ k.transpose(-1, -2) / 3, dim=-1)
    return torch.nn.functional.layer_norm(scores @ torch.relu_(x * 2), [8])


def overwriting(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y[0].mul_(2)
    return y


def writing_to_its_input(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1).sigmoid()


def test_a_program_calls_what_torch_decomposes_it_to() -> None:
    learned = lowering()
    case = witness_of(attention, torch.randn(2, 4, 8), torch.randn(16, 8))
    lowered, expected = both_ways(case, learned)
    assert lowered is not None and targets(lowered) == expected
    known = dict(learned.pieces)
    assert learned.lowered(case.graph, case.constants) is not None and learned.pieces == known, "nothing to learn"


def test_a_write_to_an_input_is_returned_as_torch_returns_it() -> None:
    case = witness_of(writing_to_its_input, torch.randn(3))
    lowered, expected = both_ways(case, lowering())
    assert lowered is not None and targets(lowered) == expected
    (x,) = case.inputs.copies()
    result = lowered.module()(x)
    assert torch.equal(result[0], torch.sigmoid(case.tensors[0] + 1)) and torch.equal(result[1], case.tensors[0] + 1)


def test_a_write_through_a_view_reaches_what_it_shows() -> None:
    case = witness_of(overwriting, torch.randn(3, 2))
    lowered, expected = both_ways(case, lowering())
    assert lowered is not None and set(expected) <= set(targets(lowered)), "what torch makes of it, and a copy"
    (result,) = lowered.module()(*case.inputs.copies())
    assert torch.equal(result, overwriting(case.tensors[0]))


def test_a_view_that_was_written_to_is_read_from_what_it_shows() -> None:
    """Nobody reads the whole afterwards, but torch's own path reads the view from it, and fused code rounds by that."""

    def clamping_a_part(x: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(x, (0, 2))
        return padded[:, :3].relu_().mean(dim=1)

    lowered, expected = both_ways(witness_of(clamping_a_part, torch.randn(2, 3)), lowering())
    assert lowered is not None and "aten.slice_scatter.default" in expected
    made, wanted = ([name for name in names if "clone" not in name] for names in (targets(lowered), expected))
    assert made == wanted, "the same but for copies"


def test_a_call_that_torch_refuses_is_left_to_torch_and_hides_no_other() -> None:
    def refuse_log(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        if "aten.logit.default" in targets(exported):
            raise RuntimeError("no logit here")
        return exported.run_decompositions()

    table = torch.export.default_decompositions()
    learned = Lowering(Decomposition(refuse_log, lambda: set(table)))
    refused = witness_of(lambda x: torch.logit(torch.nn.functional.silu(x)), torch.rand(3))
    accepted = witness_of(lambda x: torch.nn.functional.silu(x), torch.rand(3))
    assert learned.lowered(refused.graph, refused.constants) is None
    assert learned.lowered(accepted.graph, accepted.constants) is not None


@pytest.mark.parametrize("platform", [OnnxRuntime, OpenVino], ids=lambda item: item.runtime)
def test_variants_give_the_same_bits_both_ways(platform: type[Platform]) -> None:
    spec = resolve(platform.runtime)
    bases = [base for base in load_bases() if base.name in ("rl-actor-critic", "recommendation-gru4rec", "graph-gcn")]
    programs = [base.program for base in bases]
    programs += [variant.program for variant in islice(Synthesis(bases, 5, invalid_share=0.0), 9)]
    compared = sum(_same_both_ways(platform(spec), _remembering(platform), program) for program in programs)
    assert compared >= 6, "most of these run"


def _remembering(platform: type[Platform]) -> Platform:
    from dataclasses import replace

    spec = resolve(platform.runtime)
    return platform(replace(spec, options={**spec.options, LOWERING: REMEMBERED}))


def _same_both_ways(stock: Platform, remembering: Platform, program: Program) -> bool:
    """Whether both ran it; then they agree."""
    case = Case.of(program, Constants().of(program, ""), of_program(program, 0))
    found = []
    for platform in (stock, remembering):
        clock = StageClock()
        try:
            found.append(one_run(platform.prepare(case, clock), case, clock))
        except Exception:  # both must refuse it
            found.append(None)
    first, second = found
    assert (first is None) == (second is None), program.name
    if first is None or second is None:
        return False
    assert same_outputs(first, second), program.name
    return True


def test_what_many_programs_call_is_traced_together(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = lowering()
    traced: list[int] = []
    trace = Lowering._traced

    def counted(self: Lowering, crowd: Program) -> torch.fx.Graph:
        traced.append(len(crowd.nodes))
        return trace(self, crowd)

    monkeypatch.setattr(Lowering, "_traced", counted)
    x = torch.ones(3, 4)
    cases = [witness_of(f, x) for f in (torch.nn.functional.silu, torch.nn.functional.hardswish, torch.var)]
    learned.learn(case.graph for case in cases)
    assert len(traced) == 1
    for case in cases:
        found, stock = both_ways(case, learned)
        assert found is not None and targets(found) == stock
    assert len(traced) == 1


def test_a_call_that_cannot_be_traced_costs_its_neighbours_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = lowering()
    good = witness_of(torch.nn.functional.silu, torch.ones(3, 4))
    (node,) = good.graph.nodes
    bad = replace(good.graph, nodes=(replace(node, op="aten.logsumexp.default", args=(node.args[0], [7])),))
    sizes: list[int] = []
    learn = Lowering._learn_together

    def counted(self: Lowering, new: Sequence[Any], lower: Any) -> None:
        sizes.append(len(new))
        learn(self, new, lower)

    monkeypatch.setattr(Lowering, "_learn_together", counted)
    learned.learn([bad, good.graph])
    assert learned.lowered(good.graph, good.constants) is not None and learned.lowered(bad, {}) is None
    assert max(sizes) == 1  # only the good one was traced, once


def test_a_call_with_a_side_effect_leaves_its_neighbours_their_own_results() -> None:
    """Torch hands a token through `linalg.inv`, which checks its matrix: one more input and one more result."""
    learned = lowering()
    x = torch.eye(4) + torch.ones(4, 4)
    cases = [witness_of(f, x) for f in (torch.nn.functional.silu, torch.linalg.inv, torch.nn.functional.hardswish)]
    learned.learn(case.graph for case in cases)
    for case in (cases[0], cases[2]):
        found, stock = both_ways(case, learned)
        assert found is not None and targets(found) == stock
    assert learned.lowered(cases[1].graph, cases[1].constants) is None  # torch's own path keeps the token


@pytest.mark.parametrize("platform", [OnnxRuntime, OpenVino], ids=lambda item: item.runtime)
def test_what_is_taken_to_stay_as_it_is_does_so(platform: type[Platform]) -> None:
    """Each operator of the smoke corpus that is not traced, traced."""
    learned = exporter().lowering if platform is OnnxRuntime else openvino_lowering()
    calls: dict[str, Program] = {}
    for base in load_bases():
        for node in base.program.nodes:
            function = find(node.op)
            if isinstance(function, torch._ops.OpOverload) and learned._stays(node.op) and node.op not in calls:
                calls[node.op] = _alone(base.program, node)
    assert len(calls) > 50
    traced, kept = learned._traced, learned._kept
    wrong = [op for op, program in calls.items() if _called(traced(program)) != _called(kept(program))]
    assert wrong == []


def _alone(program: Program, node: Node) -> Program:
    """One call of a program, with all that it reads as inputs."""
    metas = {item.id: item.meta for item in (*program.given(), *program.nodes)}
    read = list(dict.fromkeys(int(leaf) for _, leaf in leaves((node.args, dict(node.kwargs))) if isinstance(leaf, Ref)))
    inputs = tuple(Input(identity, f"x{identity}", metas[identity]) for identity in read)
    return Program("alone", inputs, (), (node,), Ref(node.id))


def _called(graph: torch.fx.Graph) -> list[Any]:
    """Each call, and how its arguments are spelled: converters read them by position, or by name."""
    calls = [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    return [(node.target, len(node.args), sorted(node.kwargs)) for node in calls]


@pytest.mark.parametrize("op, args, kwargs", [
    ("aten.slice.Tensor", (0, 1), {"step": 2}), ("aten.slice.Tensor", (), {"start": 1}),
    ("aten.slice.Tensor", (0, 0, None, 1), {}), ("aten.sub.Tensor", (2.0,), {"alpha": 1}),
    ("aten.add.Tensor", (2.0,), {"alpha": 1.0}), ("aten.sum.dim_IntList", (), {"dim": [0], "keepdim": True}),
    ("aten.constant_pad_nd.default", ([1, 0], 0), {}), ("aten.cumsum.default", (0,), {"dtype": torch.float64}),
])  # fmt: skip
def test_arguments_are_spelled_as_a_tracer_spells_them(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    learned = openvino_lowering()
    given = torch.randn(6, 3)
    result = find(op)(given, *args, **kwargs)
    node = Node(1, op, (Ref(0), *args), kwargs, TensorMeta.of(result))
    program = Program("alone", (Input(0, "x", TensorMeta.of(given)),), (), (node,), Ref(1))
    assert learned._stays(op) and _called(learned._traced(program)) == _called(learned._kept(program))
