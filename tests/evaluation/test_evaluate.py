"""An evaluation from the images on the disk to the verdict, in real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mindgap.bench.evaluation import trained
from mindgap.errors import CorruptFile, UsageError
from mindgap.evaluation.samples import kept_sample
from mindgap.evaluation.spelling import Wanted
from mindgap.platforms.config import load_config
from mindgap.records.evaluation import TaskVerdict
from mindgap.report.evaluation import closing_line, evaluation_document, lines_of, rows
from mindgap.session.session import Session

ROOT = Path(__file__).resolve().parents[2]
Image = pytest.importorskip("PIL.Image")

AS_THEY_ARE = Wanted(crop=1.0, mean=(0.0,), std=(1.0,))
"""The images have the size that the model takes, and values from 0 to 1."""

CONFIG = """
[platform.regressing]
adapter = "tests.evaluation.planted:Regressing"
env = {{ PYTHONPATH = "{root}" }}
"""

MODEL = """
import torch
from pathlib import Path
from safetensors.torch import load_file
from torch import nn


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 48)
        self.second = nn.Linear(48, 10)

    def forward(self, x):
        return self.second(torch.relu(self.first(x.flatten(1))))


def build():
    model = Digits().eval()
    model.load_state_dict(load_file(Path(__file__).parent / "digits.safetensors"))
    return model, (torch.zeros(1, 1, 8, 8),)


def score(outputs, labels):
    return (outputs["output"].argmax(1) == labels).double()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model and images in class folders, as PNG files."""
    folder = tmp_path_factory.mktemp("evaluate")
    model, images, labels = trained()
    save_file(model.state_dict(), folder / "digits.safetensors")
    (folder / "model.py").write_text(MODEL)
    for number, (pixels, label) in enumerate(zip(images[:60], labels)):
        target = folder / "val" / str(int(label)) / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 255).round().to(torch.uint8).numpy()).save(target)
    np.savez(folder / "val.npz", x=images[:60, None].numpy(), labels=labels[:60].numpy())
    return folder


@pytest.fixture(scope="module")
def session(place: Path) -> Iterator[Session]:
    (place / "mindgap.toml").write_text(CONFIG.format(root=ROOT))
    with Session(load_config(place / "mindgap.toml")) as session:
        yield session


@pytest.fixture(autouse=True)
def there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def test_a_regression_is_told_from_another_instruction_set(session: Session, place: Path) -> None:
    counted: list[tuple[str, int, int]] = []
    found = session.evaluate(
        "model.py:build", place / "val", ["eager@scalar", "regressing"], batch=16, folder=place / "out",
        preprocessing=AS_THEY_ARE, count=lambda *said: counted.append(said),
    )  # fmt: skip
    assert found.samples == 60 and found.eager["top-1"] > 0.9
    assert counted[-1] == ("samples", 60, 60)
    assert found.platforms["eager@scalar"].verdict in (TaskVerdict.AGREES, TaskVerdict.JITTER)
    bad = found.platforms["regressing"]
    assert bad.verdict is TaskVerdict.REGRESSION and found.regresses
    assert bad.changed == len(bad.flips) > 2 and bad.beyond == bad.changed
    assert bad.metrics["top-1"] < found.eager["top-1"] and bad.difference is not None and bad.interval is not None
    assert bad.interval[0] <= bad.difference <= bad.interval[1]
    assert all(flip.candidate.startswith("6") for flip in bad.flips)
    assert "regression" in lines_of("regressing", bad)[0] and "regressing" in closing_line(found)
    assert len(rows(found)) == 3
    assert json.loads(json.dumps(evaluation_document(found)))["platforms"]["regressing"]["verdict"] == "regression"
    kept = kept_sample(place / "out", bad.flips[0].sample)
    assert kept.inputs.is_file() and kept.model == str(place / "model.py:build")
    with pytest.raises(UsageError, match="kept no sample 100000"):
        kept_sample(place / "out", 100000)

    # What was finished is not repeated: half a line is cut off, and the batch that it was of is run again.
    lines = (place / "out" / "batches.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    (place / "out" / "batches.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:40])
    counted.clear()
    again = session.evaluate(
        "model.py:build", place / "val", ["eager@scalar", "regressing"], batch=16, folder=place / "out",
        preprocessing=AS_THEY_ARE, count=lambda *said: counted.append(said),
    )  # fmt: skip
    assert [done for _, done, _ in counted] == [48, 60]
    assert again.platforms == found.platforms
    with pytest.raises(UsageError, match="holds another evaluation") as error:
        session.evaluate(
            "model.py:build", place / "val", ["eager@scalar", "regressing"], folder=place / "out", seed=1,
            preprocessing=AS_THEY_ARE,
        )  # fmt: skip
    assert error.value.cause == "seed: 0, now 1"
    (place / "out" / "batches.jsonl").write_bytes(b"{}\n")
    with pytest.raises(CorruptFile, match="line 1 of batches"):
        session.evaluate(
            "model.py:build", place / "val", ["eager@scalar", "regressing"], folder=place / "out",
            preprocessing=AS_THEY_ARE,
        )  # fmt: skip


def test_an_onnx_file_as_it_is(session: Session, place: Path) -> None:
    """Batches of any size, or of the one that the file fixes."""
    onnx = pytest.importorskip("onnx")
    from tests.verdicts.test_onnx_runner import saved

    weights = load_file(place / "digits.safetensors")
    layers = [
        onnx.helper.make_node("Flatten", ["x"], ["flat"]),
        onnx.helper.make_node("Gemm", ["flat", "first.weight", "first.bias"], ["a"], transB=1),
        onnx.helper.make_node("Relu", ["a"], ["b"]),
        onnx.helper.make_node("Gemm", ["b", "second.weight", "second.bias"], ["output"], transB=1),
    ]
    constants = {name: tensor.numpy() for name, tensor in weights.items()}
    for name, shape in (("any", ["n", 1, 8, 8]), ("one", [1, 1, 8, 8]), ("open", ["n", 1, "h", "w"])):
        saved(place / f"{name}.onnx", layers, {"x": shape}, ["output"], constants)
    found = session.evaluate(
        "any.onnx", place / "val", ["onnxruntime", "regressing"], preprocessing=AS_THEY_ARE, folder=place / "file"
    )
    assert found.baseline == rows(found)[0][0] == "onnx-reference" and found.batch == 16
    assert found.samples == 60 and found.eager["top-1"] > 0.9
    assert found.platforms["onnxruntime"].verdict in (TaskVerdict.AGREES, TaskVerdict.JITTER)
    bad = found.platforms["regressing"]
    assert bad.verdict is TaskVerdict.REGRESSION and bad.beyond == bad.changed
    kept = kept_sample(place / "file", bad.flips[0].sample)
    assert kept.model == str(place / "any.onnx") and next(iter(load_file(kept.inputs).values())).shape[0] == 1
    single = session.evaluate("one.onnx", place / "val.npz", ["onnxruntime"], limit=20)
    assert single.batch == 1 and single.samples == 20 and single.eager["top-1"] > 0.8
    with pytest.raises(UsageError, match="images of any size"):
        session.evaluate("open.onnx", place / "val", ["onnxruntime"])
    saved(place / "any.onnx", layers, {"x": ["n", 1, 8, 8]}, ["output"], {**constants, "unused": np.zeros(3)})
    with pytest.raises(UsageError, match="holds another evaluation") as error:
        session.evaluate(
            "any.onnx", place / "val", ["onnxruntime", "regressing"], preprocessing=AS_THEY_ARE, folder=place / "file"
        )
    assert error.value.cause == "the model or its weights changed"


def test_arrays_and_a_function_of_the_user(session: Session, place: Path) -> None:
    found = session.evaluate(
        "model.py:build", place / "val.npz", ["regressing"], task="model.py:score", trust=True, limit=40
    )
    assert found.samples == 40 and found.eager["score"] > 0.9
    assert found.platforms["regressing"].verdict is TaskVerdict.REGRESSION
    with pytest.raises(UsageError, match="executes code from"):
        session.evaluate("model.py:build", place / "val.npz", ["regressing"], task="model.py:score")


def test_data_that_do_not_fit(session: Session, place: Path) -> None:
    np.savez(place / "wide.npz", x=np.zeros((4, 1, 9, 9), dtype=np.float32))
    with pytest.raises(UsageError, match="the data do not fit the model"):
        session.evaluate("model.py:build", place / "wide.npz", ["eager@scalar"])
    np.savez(place / "labels.npz", x=np.zeros((4, 1, 8, 8), dtype=np.float32), labels=np.array([0, 1, 2, 10]))
    with pytest.raises(UsageError, match="label 10, and the model has 10 outputs") as error:
        session.evaluate("model.py:build", place / "labels.npz", ["eager@scalar"])
    assert error.value.hint == "labels that count from 1 need --first-label 1"


def test_an_image_that_cannot_be_read_is_named_or_counted(session: Session, place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "val"
    (folder / "1").mkdir(parents=True)
    source = next((place / "val" / "1").iterdir())
    (folder / "1" / "good.png").write_bytes(source.read_bytes())
    (folder / "1" / "torn.png").write_bytes(source.read_bytes()[:60])
    with pytest.raises(CorruptFile, match=r"torn\.png cannot be read") as error:
        session.evaluate("model.py:build", folder, ["eager@scalar"])
    assert "--skip-unreadable" in str(error.value.hint)
    found = session.evaluate("model.py:build", folder, ["eager@scalar"], skip_unreadable=True)
    assert found.samples == 1 and found.skipped[0].startswith("1/torn.png: ")
