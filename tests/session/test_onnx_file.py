"""`mindgap check model.onnx`: the file as it is on runtimes that read it, and files that mean harm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.corpus.load import load
from mindgap.errors import CorruptModel, ModelError, UsageError
from mindgap.platforms.config import load_config
from mindgap.records.source import Source
from mindgap.records.verdict import Conclusion
from mindgap.report.summary import check_document, check_facts
from mindgap.session.session import Session

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from tests.verdicts.test_onnx_runner import saved  # noqa: E402


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


def test_a_file_is_judged_by_float64_and_noise(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime's sigmoid is 0 far below zero, where the standard's is a number."""
    monkeypatch.chdir(tmp_path)
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"], name="gate")]
    saved(tmp_path / "m.onnx", nodes, {"x": [2, 3]}, ["a", "y"], {"w": weights})
    torch.save({"x": torch.full((2, 3), 20.0)}, tmp_path / "far.pt")
    near = session.check("m.onnx", on=["onnxruntime", "onnxruntime@noopt", "openvino", "inductor"])
    assert near.baseline == "onnx-reference" and near.eager.ok and near.nodes == 2 and near.parameters == 12
    quiet = (Conclusion.AGREES, Conclusion.ROUNDING)
    assert all(near.platforms[name].verdict.conclusion in quiet for name in ("onnxruntime", "openvino"))
    refused = near.platforms["inductor"]
    assert refused.verdict.conclusion is Conclusion.FAILED and "reads no .onnx files" in refused.outcome.message
    assert "baseline: onnx-reference" in check_facts(near)
    assert check_document([near])["baseline"] == "onnx-reference"
    far = session.check("m.onnx", "far.pt", on=["onnxruntime"])
    verdict = far.platforms["onnxruntime"].verdict
    assert verdict.conclusion is Conclusion.DIVERGES and verdict.worst is not None and verdict.worst.startswith("y")
    assert "eager" not in verdict.sentence
    why = session.explain("m.onnx", "onnxruntime", tmp_path / "out", "far.pt")
    assert [step.op for step in why.operators] == ["onnx.Sigmoid"] and why.operators[0].where == "gate"
    assert why.proof.survived and why.script.reproduces, why.script
    assert why.proof.operators == ("onnx.Sigmoid",) and len(why.trace) == 2
    assert [node.op_type for node in onnx.load(tmp_path / "out" / "witness.onnx").graph.node] == ["Sigmoid"]
    assert why.proof.elements == 1 and why.layer is not None and why.layer.name == "runtime", why
    short = (tmp_path / "out" / "short.py").read_text()
    assert len(short.splitlines()) <= 15 and "onnx.parser.parse_model" in short and "mindgap" not in short
    issue = (tmp_path / "out" / "issue.md").read_text()
    assert issue.startswith("# onnxruntime: ONNX Sigmoid") and "seen in 3 of 3 fresh processes" in issue
    with pytest.raises(UsageError, match="there is nothing to explain"):
        session.explain("m.onnx", "onnxruntime", tmp_path / "out")


ROOT = Path(__file__).resolve().parents[2]
FUSING = """
[platform.fusing]
adapter = "tests.explanation.fusing:Fusing"
env = {{ PYTHONPATH = "{root}" }}
"""


def test_nodes_that_are_wrong_only_together_become_a_witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Mul", ["a", "w"], ["b"], name="scale"),
        helper.make_node("Add", ["b", "x"], ["c"], name="shift"),
        helper.make_node("Abs", ["c"], ["d"]),
        helper.make_node("Neg", ["d"], ["y"]),
    ]
    saved(tmp_path / "m.onnx", nodes, {"x": [4]}, ["y"], {"w": np.full(4, 3, np.float32)})
    (tmp_path / "mindgap.toml").write_text(FUSING.format(root=ROOT))
    with Session(load_config(tmp_path / "mindgap.toml")) as session:
        why = session.explain("m.onnx", "fusing", tmp_path / "out")
    assert why.is_together and [step.where for step in why.operators] == ["scale", "shift"], why
    assert why.operator == "onnx.Mul + onnx.Add" and "only together" in why.cause.remark
    assert why.proof.survived and why.proof.operators == ("onnx.Mul", "onnx.Add")
    graph = onnx.load(tmp_path / "out" / "witness.onnx").graph
    assert [node.op_type for node in graph.node] == ["Mul", "Add"] and [w.name for w in graph.initializer] == ["w"]
    assert (tmp_path / "out" / "issue.md").read_text().startswith("# fusing: ONNX Mul + Add gives")


def test_versions_of_a_runtime_on_a_file(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "m.onnx", [helper.make_node("Sigmoid", ["x"], ["y"])], {"x": [2]}, ["y"])
    torch.save({"x": torch.full((2,), -20.0)}, tmp_path / "far.pt")
    (tmp_path / "python").symlink_to(sys.executable)
    pythons = [sys.executable, str(tmp_path / "python")]
    found = session.bisect("m.onnx", "onnxruntime", pythons=pythons, inputs="far.pt")
    assert found.baseline == "onnx-reference" and found.tried[0].told == "diverges"
    told = found.tried[0].verdict
    assert told is not None and "onnx-reference" in told.sentence and "eager" not in told.sentence
    assert "differs from onnx-reference" in found.sentence, "the other interpreter has no packages: it ran nothing"


def test_the_same_sample_in_another_batch_of_a_file(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    for name, batch in (("open", "n"), ("fixed", 2)):
        weights = {"w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}
        saved(tmp_path / f"{name}.onnx", nodes, {"x": [batch, 3]}, ["y"], weights)
        found = session.check(f"{name}.onnx", on=["onnxruntime"], invariance=True).invariance["onnxruntime"]
        asked = {item.relation for item in found}
        assert asked == ({"alone", "neighbours", "permuted", "twice"} - ({"alone"} if name == "fixed" else set()))
        assert all(item.verdict.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING) for item in found), found


def test_weights_beside_the_file(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = external(tmp_path)
    found = session.check(path.name, on=["onnxruntime", "openvino"])
    assert found.eager.ok
    assert all(item.outcome.ok for item in found.platforms.values())


def external(folder: Path) -> Path:
    """A model whose weights lie beside it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inside = saved(folder / "inside.onnx", nodes, {"x": [2, 64]}, ["y"], {"w": np.ones((64, 64), np.float32)})
    path = folder / "beside.onnx"
    onnx.save_model(onnx.load(inside), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def relocated(path: Path, **entries: str) -> Path:
    model = onnx.load(path, load_external_data=False)
    held = {item.key: item.value for item in model.graph.initializer[0].external_data} | entries
    del model.graph.initializer[0].external_data[:]
    for key, value in held.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"location": "../secret"}, "outside its directory"),
        ({"location": "/etc/passwd"}, "outside its directory"),
        ({"location": "link"}, "outside its directory"),
        ({"location": ""}, "outside its directory"),
        ({"location": "gone.bin"}, "lacks its weights"),
        ({"offset": "4096"}, "are cut off"),
        ({"length": "99999999999"}, "are cut off"),
        ({"offset": "-4"}, "are cut off"),
        ({"offset": "four"}, "is not an ONNX model"),
    ],
)
def test_weights_stay_inside_the_directory(tmp_path: Path, entries: dict[str, str], said: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"x" * 65536)
    (folder / "link").symlink_to(tmp_path / "secret")
    relocated(external(folder), **entries)
    with pytest.raises(CorruptModel, match=said):
        load(Source("beside.onnx", directory=str(folder)))


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x09", b"\x0a\xff\xff\xff\x7f"])
def test_what_is_no_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(CorruptModel, match=r"m\.onnx is not an ONNX model"):
        load(Source("m.onnx", directory=str(tmp_path)))


def test_inputs_that_do_not_fit(tmp_path: Path) -> None:
    from mindgap.corpus.inputs import with_inputs

    saved(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], {"x": ["batch", 3]}, ["y"])
    loaded = load(Source("m.onnx", directory=str(tmp_path)))
    assert loaded.kwargs["x"].shape == (2, 3)
    assert with_inputs(loaded, (torch.zeros(5, 3),), {}).kwargs["x"].shape == (5, 3)
    with pytest.raises(ModelError, match="the inputs do not fit"):
        with_inputs(loaded, (), {"z": torch.zeros(5, 3)})
    with pytest.raises(ModelError, match="input 'x' does not fit"):
        with_inputs(loaded, (torch.zeros(5, 3, dtype=torch.int64),), {})
    with pytest.raises(ModelError, match="its own precision"):
        load(Source("m.onnx", dtype="float16", directory=str(tmp_path)))


def test_an_input_that_nobody_can_make(tmp_path: Path) -> None:
    text = helper.make_tensor_value_info("t", TensorProto.STRING, [1])
    made = helper.make_tensor_value_info("y", TensorProto.STRING, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["t"], ["y"])], "g", [text], [made])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="the input t is no tensor of numbers"):
        load(Source("m.onnx", directory=str(tmp_path)))
