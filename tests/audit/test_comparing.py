"""A copy next to its original: exactly what was planted is shown, and nothing of what exporters change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from mindgap.audit.comparing import compare
from mindgap.audit.watching import Clock
from mindgap.bench.canaries import FAMILIES, plant
from mindgap.bench.planting import PLACES, Unfit
from mindgap.program.build import build
from mindgap.program.case import Case
from mindgap.program.graph import Program, Ref, changed_leaves, map_leaves
from mindgap.records.audit import Difference, Likeness
from tests.audit.models import Branch, Classifier, Padded, Payload, case_of, features, images, tokens

SECONDS = 300.0


def compared(copy: Case, original: Case) -> Difference:
    return compare(copy, original, Clock(SECONDS))


@functools.cache
def classifier() -> Case:
    return case_of(Classifier(), images())


@functools.cache
def attention() -> Case:
    return case_of(Padded(), tokens())


@functools.cache
def normed() -> Case:
    return case_of(Normed(), images())


def renamed(case: Case) -> Case:
    """The same program with other ids and names."""
    program = case.graph
    new = {item.id: 1000 - 7 * number for number, item in enumerate((*program.given(), *program.nodes))}

    def change(leaf: object) -> object:
        return Ref(new[int(leaf)]) if isinstance(leaf, Ref) else leaf

    nodes = tuple(replace(changed_leaves(n, change), id=new[n.id], where="", line="") for n in program.nodes)
    inputs = tuple(replace(item, id=new[item.id], name=f"in{item.id}") for item in program.inputs)
    constants = tuple(replace(item, id=new[item.id], name=f"w{item.id}") for item in program.constants)
    renewed = Program("renamed", inputs, constants, nodes, map_leaves(program.outputs, change))
    return Case.of(renewed, case.constants, case.tensors)


HONEST: dict[str, Callable[[], Case]] = {
    "classifier": lambda: case_of(Classifier(), images()),
    "attention": lambda: case_of(Padded(), tokens()),
    "branch": lambda: case_of(Branch(), images()),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_export_made_again_and_renamed_shows_nothing(name: str) -> None:
    case = HONEST[name]()
    for copy in (HONEST[name](), renamed(case)):
        found = compared(copy, case)
        assert found.is_alike and found.share == 1.0 and found.likeness is Likeness.WRITTEN
        assert found.matched == found.nodes > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_exactly_the_planted_operators_are_shown(family: str) -> None:
    lived = 0
    for case in (classifier(), attention()):
        for place in PLACES:
            try:
                canary = plant(case, family, place, 0, seed=0)
            except Unfit:
                continue
            lived += 1
            found = compared(canary.case, case)
            shown = {operator.node for region in found.only_here for operator in region.operators}
            assert shown == canary.planted, (case.name, place)
            assert len(found.only_here) == 1 and not found.only_there and not found.weights
            region = found.only_here[0]
            assert (region.controls or region.outputs) and (region.inputs or region.reads)
            assert len(region.replaces) == 1
    assert lived


class Normed(nn.Module):
    """Convolutions with batch normalisation, and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.other = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)
        for norm in (self.norm, self.other):
            nn.init.uniform_(norm.weight, 0.5, 2)
            nn.init.normal_(norm.bias)
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.first(x)))
        x = functional.relu(x + self.other(self.second(x)))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


def folded() -> Normed:
    model = Normed().eval()
    model.first, model.norm = fuse_conv_bn_eval(model.first, model.norm), nn.Identity()
    model.second, model.other = fuse_conv_bn_eval(model.second, model.other), nn.Identity()
    return model


def test_a_normalisation_that_was_folded_into_its_convolution_is_no_difference() -> None:
    original, copy = normed(), case_of(folded(), images())
    assert len(copy.graph.nodes) < len(original.graph.nodes)
    for found in (compared(copy, original), compared(original, copy)):
        assert found.is_alike and found.likeness is Likeness.FOLDED


def test_a_branch_in_a_folded_copy_is_all_that_is_shown() -> None:
    canary = plant(case_of(folded(), images()), "published mask", "middle", 0, seed=0)
    found = compared(canary.case, normed())
    shown = {operator.node for region in found.only_here for operator in region.operators}
    assert shown == canary.planted and not found.only_there


def test_a_branch_between_a_convolution_and_its_normalisation_is_all_that_is_shown() -> None:
    case = normed()
    for seed in range(8):
        canary = plant(case, "where on a feature", "middle", 0, seed=seed)
        found = compared(canary.case, case)
        assert {o.node for region in found.only_here for o in region.operators} == canary.planted
        assert not found.only_there


class Parts(nn.Module):
    """What `Whole` computes, in other operators, with views that change nothing, and in place."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.norm, self.last = nn.Linear(12, 8), nn.LayerNorm(8), nn.Linear(8, 3)


class Whole(Parts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(functional.silu(self.norm(self.linear(x))))  # type: ignore[no-any-return]


class Pieces(Parts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.mm(x.reshape(2, 24).view(4, 12), self.linear.weight.t())
        x = self.norm(x.add_(self.linear.bias).clone() * 1).contiguous()
        x = functional.dropout(x * torch.sigmoid(x), 0.5, False) + 0
        return torch.addmm(self.last.bias, x.unsqueeze(0).squeeze(0), self.last.weight.transpose(0, 1))


def test_operators_that_were_taken_apart_or_do_nothing_are_no_difference() -> None:
    whole, pieces = case_of(Whole(), features()), case_of(Pieces(), features())
    found = compared(pieces, whole)
    assert found.is_alike and found.likeness is not Likeness.WRITTEN


def test_a_decomposed_export_is_no_difference() -> None:
    model = Padded().eval()
    exported = torch.export.export(model, (tokens(),), strict=False).run_decompositions()
    copy = Case.of(*build(exported, "decomposed"), (tokens(),))
    assert compared(copy, attention()).is_alike


def test_other_weights_are_named_and_nothing_else() -> None:
    model = Classifier()
    with torch.no_grad():
        model.body[2].weight[0, 0, 0, 0] += 1e-3
    found = compared(case_of(model, images()), classifier())
    assert [(item.name, item.original) for item in found.weights] == [("body.2.weight", "body.2.weight")]
    assert 0 < found.weights[0].far < 0.1 and not found.only_here and not found.only_there and not found.is_alike


class Gelu(Classifier):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        middle = functional.gelu(self.body[0](x))
        return self.head(functional.adaptive_avg_pool2d(self.body[2:](middle), 1).flatten(1))  # type: ignore[no-any-return]


def test_an_operator_in_the_place_of_another_is_shown_on_both_sides() -> None:
    found = compared(case_of(Gelu(), images()), classifier())
    (region,) = found.only_here
    assert [item.op for item in region.operators] == ["aten.gelu.default"]
    assert [item.op for item in found.only_there] == ["aten.relu.default"] == [item.op for item in region.replaces]
    assert found.matched == found.nodes - 1


def test_a_write_through_a_view_does_not_hide() -> None:
    class Overwritten(Classifier):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            y[:, 0].mul_((x.amax(dim=(1, 2, 3)) < 5).to(y.dtype))
            return y

    found = compared(case_of(Overwritten(), images()), classifier())
    (region,) = found.only_here
    assert "aten.mul_.Tensor" in [item.op for item in region.operators] and region.inputs == ("x",)


def test_the_published_form_is_one_region_that_stands_for_the_output() -> None:
    found = compared(case_of(Payload(), images()), classifier())
    (region,) = found.only_here
    assert region.inputs == ("x",) and region.outputs == ("output",)
    assert [item.op for item in region.replaces] == ["aten.linear.default"] == [item.op for item in region.reads]
    assert found.matched == len(classifier().graph.nodes)
    assert region.picture and {w.operator.node for w in region.picture} & {o.node for o in region.operators}


def test_out_of_time_is_told() -> None:
    case = classifier()
    canary = plant(case, "published mask", "middle", 0, seed=0)
    found = compare(canary.case, case, Clock(-1.0))
    assert found.only_here and any("out of time" in what for what in found.not_looked_at)
