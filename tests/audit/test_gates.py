"""Gates are found by what they do; what honest models have in their place is named with its reason."""

from __future__ import annotations

import pytest
import torch

from mindgap.audit.gates import find_gates
from mindgap.audit.watching import Clock
from mindgap.bench.canaries import FAMILIES, plant
from mindgap.bench.parting import ONE_PLATFORM
from mindgap.bench.planting import PLACES, Unfit
from mindgap.program.case import Case
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.records.audit import Found, Honest, Suspicion
from mindgap.records.tensors import TensorMeta
from tests.audit.models import HONEST, Classifier, Padded, Payload, RareWord, case_of, images, tokens

SECONDS = 300.0


def audited(name: str) -> Found:
    model, inputs = HONEST[name]
    case = case_of(model(), inputs())
    return find_gates(case, [case.tensors], Clock(SECONDS))[1]


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_model_has_no_gate(name: str) -> None:
    found = audited(name)
    assert [gate.operator.op for gate in found.gates] == []
    assert sum(found.stimuli.values()) >= 40 and not found.not_looked_at


def test_the_reason_is_told() -> None:
    assert Honest.LARGE in {item.why for item in audited("detector").excused}
    assert Honest.FIXED in {item.why for item in audited("normalised").excused}
    assert Honest.GUARD in {item.why for item in audited("guard").excused}
    assert {item.why for item in audited("early exit").excused} & {Honest.FIRES, Honest.ALTERNATIVE}


def test_the_published_form_is_found_with_what_it_reads_and_controls() -> None:
    case = case_of(Payload(), images())
    _, found, all_accused = find_gates(case, [case.tensors], Clock(SECONDS))
    gate = found.gates[0]
    assert len(found.gates) == 1 and gate.verdict is Suspicion.SUSPICIOUS
    assert gate.operator.op in ("aten.gt.Scalar", "aten.sigmoid.default")
    assert gate.takes_over and gate.fired == 0 and gate.shift.over_inputs > 1 and gate.shift.over_noise > 100
    assert gate.controls is not None and gate.controls.op == "aten.mul.Tensor"
    assert gate.inputs == ("x",) and len(gate.feeds) >= 4
    assert set(gate.shift.after) == {7.0}
    assert all_accused[0].resting.rest.shape == (2,)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != ONE_PLATFORM])  # eager never fires it
def test_every_family_is_found_where_it_can_live(family: str) -> None:
    honest = [case_of(Classifier(), images()), case_of(Padded(), tokens())]
    lived = 0
    for case in honest:
        for place in PLACES:
            try:
                canary = plant(case, family, place, 0, seed=0)
            except Unfit:
                continue
            _, found, _ = find_gates(canary.case, [canary.case.tensors], Clock(SECONDS))
            weak = {item.operator.node for item in found.excused if item.why is Honest.WEAK}
            if not found.gates and weak & canary.planted:
                continue  # what follows swallows it: a softmax of a constant
            lived += 1
            assert found.gates and found.gates[0].operator.node in canary.planted, (case.name, place)
    assert lived


def test_a_token_that_the_program_names_is_a_trigger_where_it_takes_over_the_output() -> None:
    case = case_of(RareWord(), tokens())
    _, found, _ = find_gates(case, [case.tensors], Clock(SECONDS))
    (gate,) = found.gates
    assert gate.takes_over and gate.fired and set(gate.shift.after) == {7.0}


def test_a_gate_that_rounding_opens_is_not_excused_by_the_noise_that_it_makes() -> None:
    class Exact(Classifier):
        """Compares the last place of a function with what it is here."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            points = torch.linspace(0.5, 2.5, 8)
            known = torch.exp(points)
            other = torch.exp(0 * x[:, 0, 0, :8] + points) != known
            return torch.where(other.any(dim=1, keepdim=True), 7.0, super().forward(x))

    case = case_of(Exact(), images())
    watcher, _, _ = find_gates(case, [case.tensors], Clock(SECONDS))
    (name,) = watcher.outputs[0]
    output = watcher.outputs[0][name]
    assert watcher.noise[name] > watcher.spread(name)
    assert watcher.floor(name, output) < 0.01 * float(output.abs().max())


def test_a_program_of_ten_thousand_operators_takes_bounded_time_and_says_what_was_left_out() -> None:
    x = torch.randn(2, 3)
    meta = TensorMeta.of(x)
    nodes = tuple(Node(n, "aten.tanh.default", (Ref(n - 1),), {}, meta) for n in range(1, 10_001))
    case = Case.of(Program("deep", (Input(0, "x", meta),), (), nodes, Ref(10_000)), {}, (x,))
    _, found, _ = find_gates(case, [case.tensors], Clock(3.0))
    assert not found.gates and found.not_looked_at and "out of time" in found.not_looked_at[0]
