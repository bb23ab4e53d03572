"""A training step as a program: the gradients that autograd gives, by name, also in float64."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from mindgap.bench.faults import MARK, PLANTED
from mindgap.corpus.backward import Gradients, joint_program, load_gradients, loss_of, with_gradients
from mindgap.corpus.casing import case_of
from mindgap.corpus.loaded import Loaded
from mindgap.errors import ModelError
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.program.case import Case
from mindgap.program.graph import references
from mindgap.program.interpret import Executable
from mindgap.program.state import ModuleState
from mindgap.records.outcome import Ran
from mindgap.records.source import Source
from mindgap.records.verdict import Conclusion
from mindgap.session.session import Session, import_paths
from mindgap.tracing.examine import Examiner
from mindgap.tracing.trace import trace
from mindgap.verdicts.surveyor import survey
from tests.corpus.wrong_backward import WRONG_BACKWARD
from tests.tracing.witnesses import plant


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1, bias=False)  # normalised away, its gradient would be noise
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Linear(4, 2)
        self.unused = nn.Parameter(torch.zeros(3))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.norm(self.first(image))).mean((2, 3)))


def loaded(model: nn.Module | None = None) -> Loaded:
    torch.manual_seed(0)
    return Loaded("net", (torch.randn(2, 3, 6, 6),), {}, model=model or Net().eval())


def expected(step: Gradients, image: torch.Tensor) -> dict[str, torch.Tensor]:
    """By autograd itself."""
    image = image.clone().requires_grad_(True)
    loss = loss_of(step.model(image), step.seed)
    wanted = {**{f"grad:{n}": p for n, p in step.model.named_parameters()}, "grad:input:image": image}
    found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    return {"loss": loss.detach()} | {n: g for n, g in zip(wanted, found) if g is not None}


@pytest.mark.parametrize("training", [False, True])
def test_both_ways_give_autograds_gradients(training: bool) -> None:
    model = with_gradients(loaded(Net().train(training)))
    assert isinstance(model.model, Gradients)
    image = model.args[0]
    right = expected(Gradients(copy.deepcopy(model.model.model), 0), image)
    assert "grad:first.weight" in right and "grad:unused" not in right
    program, constants = joint_program(model)
    state = ModuleState(model.model)
    with torch.no_grad():
        own = model.model(image)
    changed = state.changed()
    result = Executable(program, constants).run([image.clone()])
    returned = result[""] if training else result
    assert list(own) == list(right) == list(returned)
    for name, value in right.items():
        assert torch.equal(own[name], value), name
        assert torch.allclose(returned[name], value, rtol=1e-6, atol=1e-7), name
    statistics = ["norm.num_batches_tracked", "norm.running_mean", "norm.running_var"] if training else []
    assert sorted(changed) == statistics
    assert [name for name in result if name.startswith("buffer:")] == [f"buffer:{name}" for name in statistics]
    assert all(torch.allclose(result[f"buffer:{name}"].float(), changed[name].float()) for name in statistics)
    assert [item.name for item in program.inputs] == ["image"]


def test_gradients_are_judged_like_any_output() -> None:
    case = case_of(with_gradients(loaded()), None, 0)
    assert case.program is not None, case.export_failure
    found = survey((case.program, case.constants), case.inputs)
    weights = found.output("grad:first.weight")
    assert weights is not None and weights.reference is not None and not weights.distrust
    assert weights.spread is not None and 0 < float(weights.spread.max()) < 1e-3


def test_a_wrong_backward_is_found_and_named() -> None:
    """The derivative of tanh loses its sign on a planted platform; the forward pass is right."""
    case = case_of(with_gradients(loaded()), None, 0)
    assert case.program is not None, case.export_failure
    with Pool(import_paths()) as pool:
        examiner = Examiner(pool, resolve("eager"), PLANTED)
        operator = next(node.op for node in case.program.nodes if "tanh_backward" in node.op)
        witness, node = plant(case, operator.rpartition(".")[0], "sign_lost")
        found = examiner.examine(witness)
        assert found.symptom is not None
        wrong = {name for name, item in found.comparisons.items() if item.conclusion is Conclusion.DIVERGES}
        assert "grad:first.weight" in wrong and "loss" not in wrong and "grad:second.weight" not in wrong
        assert trace(examiner, witness, found.symptom, lambda what: None).culprits == (node,)


class Gated(nn.Module):
    """Adds a bias to what was normalised, and multiplies with an exponential that its own gradient needs again."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.tanh(((self.norm(image) + self.bias) / 4).exp() + image)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(import_paths()) as workers:
        yield workers


@pytest.mark.parametrize(
    ("model", "op", "fault", "wrong"),
    [
        (Net, "aten.native_batch_norm.", "momentum_turned", {"buffer:norm.running_mean", "buffer:norm.running_var"}),
        (Gated, "aten.native_layer_norm_backward", "weight_left_out", {"grad:input:image"}),
        (Gated, "aten.sum.dim_IntList", "mean_for_sum", {"grad:bias"}),
        (
            Gated,
            "aten.add.Tensor@exp",
            "saved_overwritten",
            {"grad:bias", "grad:norm.weight", "grad:norm.bias", "grad:input:image"},
        ),
    ],
)
def test_faults_that_leave_the_loss_alone_are_found_and_named(
    pool: Pool, model: type[nn.Module], op: str, fault: str, wrong: set[str]
) -> None:
    torch.manual_seed(0)
    step = with_gradients(loaded(filled(model().train())))
    case = case_of(step, None, 0)
    assert case.program is not None, case.export_failure
    witness, node = plant_at(case, op, fault)
    examiner = Examiner(pool, resolve("eager"), WRONG_BACKWARD)
    found = examiner.examine(witness)
    assert found.symptom is not None
    assert {n for n, item in found.comparisons.items() if item.conclusion is Conclusion.DIVERGES} == wrong
    traced = trace(examiner, witness, found.symptom, lambda what: None)
    if fault == "saved_overwritten":  # alone its result is right: it shows next to who reads the operand after it
        assert not traced.culprits and node in traced.together, traced
    else:
        assert traced.culprits == (node,)


def filled(model: nn.Module) -> nn.Module:
    """With weights that make a difference."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return model


def plant_at(case: Case, op: str, fault: str) -> tuple[Case, int]:
    """The case with a fault at the first node of an operator, or at the first that reads another: `op@other`."""
    op, _, other = op.partition("@")
    read = {node.id for node in case.graph.nodes if other and node.op.startswith(f"aten.{other}.")}
    found = [n for n in case.graph.nodes if n.op.startswith(op) and (not other or read & set(references(n)))]
    marked = replace(found[0], where=f"{MARK}{fault}")
    nodes = tuple(marked if node.id == marked.id else node for node in case.graph.nodes)
    return case.with_program(replace(case.graph, nodes=nodes)), marked.id


def test_a_session_compares_training_steps() -> None:
    with Session() as session:
        model = loaded()
        assert model.model is not None
        on = ["eager@scalar", "aot_eager", "onnxruntime"]
        found = session.check(model.model.train(), list(model.args), on=on, backward=True)
    assert found.eager.ok, found.eager
    names = {item.name for item in found.eager.outputs}
    assert {"loss", "grad:second.bias", "grad:input:image", "buffer:norm.running_mean"} <= names
    quiet = (Conclusion.AGREES, Conclusion.ROUNDING)
    for name in ("eager@scalar", "aot_eager"):
        assert found.platforms[name].verdict.conclusion in quiet, found.platforms[name]
        assert found.platforms[name].outcome.ran is Ran.SOURCE
        assert {item.name for item in found.platforms[name].outcome.outputs} == names
    told = found.platforms["onnxruntime"]  # what cannot train says so, or gives the same
    assert told.verdict.conclusion in (*quiet, Conclusion.FAILED), told
    assert told.outcome.ok or told.outcome.message


def test_what_has_no_gradients(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="neither parameters nor floating inputs"):
        with_gradients(Loaded("m", (torch.tensor([1]),), {}, model=nn.Identity()))
    with pytest.raises(ModelError, match="holds no model that can be trained"):
        with_gradients(Loaded("m", (), {"x": torch.ones(1)}, file="m.onnx"))
    with pytest.raises(ModelError, match="no output depends"):
        loss_of({"label": torch.tensor([1])}, 0)


def test_a_worker_makes_the_same_step_again(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nmodel = torch.nn.Linear(2, 2)\ndef inputs(): return [torch.ones(1, 2)]\n"
    )
    step = load_gradients(Source("m.py", directory=str(tmp_path)))
    assert isinstance(step, Gradients) and list(step(torch.ones(1, 2))) == [
        "loss", "grad:weight", "grad:bias", "grad:input:input",
    ]  # fmt: skip
