"""Sound files of every kind that mindgap reads: what attacks and fuzzing start from."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
import torch

from mindgap.campaign.archive import Writing
from mindgap.campaign.dossier import Dossier, NumberedVariant
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.packing import identity_of
from mindgap.campaign.plan import Plan
from mindgap.campaign.remote import RemoteOutcome
from mindgap.execution.arena import digest_of
from mindgap.execution.parcel import Parcel
from mindgap.program import codec
from mindgap.program.graph import Constant, Input, Node, Program, Ref, digest
from mindgap.program.made import Held, Made, Planted, Whole, recreate
from mindgap.records.finding import Ids
from mindgap.records.outcome import Outcome, Stage, Status, StoredTensor
from mindgap.records.tensors import NamedTensor, TensorMeta, byte_view
from mindgap.records.variant import Provenance
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict

META = TensorMeta((2, 3), "float32", (3, 1))
PLAN = Plan(("eager",), 4, seed=3)
OPTIONS = {"dtype": torch.float32, "device": torch.device("cpu"), "memory_format": torch.contiguous_format}
SIGNATURE = "divergence | wrong | value | candidate |  | run | "
TOML = b"""
[defaults]
cpu_s = 100
memory_mb = 2048

[platform.other]
runtime = "eager"
profile = "scalar"
python = "./python"
env = { MODE = "x", OMP_NUM_THREADS = 2 }
options = { mkldnn = false }

[platform.mine]
adapter = "package.module:Class"
options = { anything = [1, 2.5, "x"] }
"""


def program() -> Program:
    """With every kind of recipe, argument and meta."""
    recipes = (Made(1, "w", -1.0, 1.0), Held(bytes(24)), Whole(2, "i", 0, 4))
    constants = tuple(
        Constant(number + 2, f"c{number}", META, digest(recreate(recipe, META)), recipe)
        for number, recipe in enumerate(recipes)
    )
    nodes = (
        Node(10, "aten.add.Tensor", (Ref(0), Ref(2)), {"alpha": 2}, META, "layer.0"),
        Node(11, "aten.split.Tensor", (Ref(10), 1), {}, (META, META)),
        Node(12, "operator.getitem", (Ref(11), 0), {}, META),
        Node(13, "aten.cat.default", ([Ref(12), Ref(3), Ref(4)],), {}, TensorMeta((5, 3), "float32", (3, 1))),
        Node(14, "aten.to.dtype_layout", (Ref(13),), OPTIONS, TensorMeta((5, 3), "float32", (3, 1))),
    )
    example = (Made(3, "x", -1.0, 1.0), Planted(Made(4, "y", 0.0, 1.0), 5, (float("nan"), 1), 3))
    inputs = (Input(0, "x", META), Input(1, "y", META))
    return Program("sample", inputs, constants, nodes, {"a": Ref(14), "b": [(Ref(1), None), 1.5]}, example)


def mgp() -> bytes:
    return codec.encode(program())


class Net(torch.nn.Module):
    """Small, with sizes that are expressions, a buffer and a literal."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": self.layer(x) + self.shift * x.shape[0], "b": y * torch.tensor([1.0, 2.0])}


def pt2() -> bytes:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=2, max=64)
    inputs = (torch.ones(4, 3), torch.ones(2))
    exported = torch.export.export(Net(), inputs, dynamic_shapes=({0: batch}, None), strict=False)
    content = io.BytesIO()
    torch.export.save(exported, content)
    return content.getvalue()


def onnx() -> bytes:
    """A branch with a constant inside, and a weight."""
    from onnx import TensorProto, helper

    value = helper.make_tensor("value", TensorProto.FLOAT, [2], [1.0, 2.0])
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, [2])
    branch = helper.make_graph([helper.make_node("Constant", [], ["r"], value=value)], "branch", [], [result])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["b"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["b", "w"], ["y"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [3.0, 4.0])
    graph = helper.make_graph(nodes, "graph", [given], [made], [weight])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())


def pack(path: Path) -> Path:
    """A packed campaign of two programs."""
    weight = torch.arange(6, dtype=torch.float32)
    about = {"plan": PLAN.to_text(), "campaign": identity_of(PLAN), "variants": 2}
    with Writing(path, "a campaign", about) as writing:
        writing.add_rows("programs", [[n, f"{n:032x}", f"v{n}", mgp(), 0, ""] for n in range(2)])
        writing.add(f"weights/{digest(weight)}", byte_view(weight).numpy().tobytes())
    return path


def remote_outcomes() -> list[RemoteOutcome]:
    """One that ran, one that failed."""
    output = NamedTensor("a", torch.arange(6, dtype=torch.float32).reshape(2, 3))
    ran = Outcome("npu", Status.OK, Stage.RUN, seconds={"run": 0.5}, digest=digest_of([output]),
                  stored=(StoredTensor("a", META, 0),))  # fmt: skip
    values = (byte_view(output.tensor).numpy().tobytes(),)
    failed = Outcome("npu", Status.UNSUPPORTED, Stage.COMPILE, "no kernel", "a log")
    return [RemoteOutcome(0, f"{0:032x}", ran, values), RemoteOutcome(1, f"{1:032x}", failed)]


def results(path: Path, rows: list[RemoteOutcome] | None = None, **about: object) -> Path:
    """What another machine did with the pack."""
    told = {"campaign": identity_of(PLAN), "platforms": {"npu": ["1.0", "npu:0"]}, **about}
    with Writing(path, "results", told) as writing:
        given = remote_outcomes() if rows is None else rows
        writing.add_rows("outcomes", [msgspec.msgpack.encode(row) for row in given])
    return path


def ledger(directory: Path) -> Path:
    """A campaign with a finding that has an id."""
    platforms = replace(PLAN, platforms=("eager", "wrong"))
    with Ledger(directory) as written:
        written.set_meta(plan=platforms.to_text())
        written.begin_run({"torch": "2.13.0"})
        written.add_platforms({"eager": ("2.13.0", "cpu"), "wrong": ("1.0", "cpu")})
        for number in range(3):
            variant = NumberedVariant(number, f"{number:032x}", f"v{number}", 5, Parcel(mgp()),
                                      Provenance("base", "base", number))  # fmt: skip
            outcomes = {
                "eager": Outcome("eager", Status.OK, Stage.RUN, digest="00" * 16, seconds={"run": 0.1}),
                "wrong": Outcome("wrong", Status.OK, Stage.RUN, digest="11" * 16, seconds={"run": 0.1}),
            }
            verdict = Verdict(
                "wrong", Conclusion.DIVERGES, "a is wrong", Kind.VALUE, Blame.CANDIDATE, error_over_bound=1e6
            )
            dossier = Dossier(variant, outcomes, {"eager", "wrong"}, verdicts={"wrong": verdict})
            written.write([dossier])
        written.write_ids(Ids({SIGNATURE: "F-01"}, {"F-01": (0, "wrong", "")}))
    return directory / "ledger.sqlite"
