"""What can be known of a command is told before torch is imported and before a worker starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

MISTAKES = {
    "check model.py --on openvine": "the nearest: openvino",
    "check model.py --on eager@vector": "eager has the profiles scalar, nomkldnn",
    "check model.py --on inductor:coda": "inductor has the devices cuda",
    "check model.py --on ,": "--on is empty",
    "check model.py --dtype float23": "one of float32, float16, bfloat16, float64",
    "check model.py --config none.toml": "cannot read none.toml",
    "check model.py --inputs none.pt": "there is no file none.pt",
    "check model.py --json no/where.json": "there is no directory no",
    "check model.py --svg .": "it is a directory",
    "show model.py -o .": "it is a directory",
    "show F-01": "--campaign is missing for F-01",
    "show F-01 --campaign none": "there is no campaign in none",
    "compare a.py none.json": "there is no none.json",
    "check none.py": "there is no file none.py",
    "check modle.py:build": "did you mean model.py?",
    "check model.py:bild": "did you mean build?",
    "check a.py": "a.py does not define model",
    "check broken.py": "broken.py:1",
    "check none.onnx": "there is no file none.onnx",
    "check none.mgp": "there is no file none.mgp",
    "check resnet18": "does not name a model",
    "check tim:resnet18": "did you mean timm:resnet18?",
    "check timm:resnet81": "did you mean timm:resnet18?",
    "check transformers:bertt": "did you mean transformers:bert?",
    "check smoke:vision-nothing": "smoke has no model 'vision-nothing'",
    "check core:vision-nothing": "core has no model 'vision-nothing'",
    "explain none.py --on openvino": "there is no file none.py",
    "explain model.py --on openvine": "the nearest: openvino",
    "explain model.py": "needs a model and a platform",
    "explain F-01 -o none": "there is no campaign in none",
    "hunt --on openvine -o new": "the nearest: openvino",
    "hunt": "use -o DIR to start a campaign",
    "hunt --resume none": "there is no campaign in none",
    "hunt --corpus smoke:nothing -o new": "there is no program smoke:nothing",
    "hunt --corpus cores -o new": "there is no program cores",
    "study --on openvine -o new": "the nearest: openvino",
    "study --models cores -o new": "there is no program cores",
    "hunt --known none.toml -o new": "there is no file none.toml",
    "save none.py -o x.mgp": "there is no file none.py",
    "save model.py -o x.pt": "does not end in .mgp",
    "ops": "nothing to do: use --declared",
    "ops --declared --on openvine": "the nearest: openvino",
    "ops --declared --package none.whl": "there is no file none.whl",
    "ops --declared --baseline none.json": "there is no file none.json",
    "ops --declared --models none": "there is no corpus in none",
    "ops none.py": "there is no file none.py",
    "ops --dtype float23 -o new": "--dtype does not know 'float23'",
    "pack none": "there is no campaign in none",
    "run none.mgz --on eager@scalar": "there is no file none.mgz",
    "run a.py --on openvine": "the nearest: openvino",
    "evaluate model.py:build --data none": "there is no none",
    "evaluate model.py:build --data .": "holds no images",
    "evaluate model.py:build --data . --task nothing": "there is no task 'nothing'",
    "evaluate model.py:build --data . --task model.py:score": "executes code from model.py",
    "evaluate model.py:build --data . --crop 7": "the share that a crop keeps is from 0.1 to 1",
    "evaluate model.py:build --data . --mean a,b": "--mean takes numbers with commas between them",
    "explain --sample 3 -o out": "--sample takes its model from an evaluation",
    "explain --sample 3 --on eager -o none": "there is no evaluation in none",
    "bisect model.py:build --on onnxruntime": "give either --versions or --pythons",
    "bisect model.py:build --on onnxruntime --pythons none/python": "there is no interpreter none/python",
    "merge none results.mgz": "there is no campaign in none",
    "export none": "there is no campaign in none",
    "platforms --config none.toml": "cannot read none.toml",
    "corpus list --source tim": "did you mean timm?",
    "corpus build --source none": "there is no library and no file none",
    "corpus build --only none.txt": "there is no file none.txt",
    "corpus core none -o new": "there is no corpus in none",
    "corpus stats none": "there is no corpus in none",
    "corpus replay none": "there is no corpus in none",
    "variants make none.mgp": "there is no program none.mgp",
    "variants make --corpus none": "there is no corpus in none",
    "variants show none.mgp": "there is no file none.mgp",
    "variants stats none.mgp": "there is no program none.mgp",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_told_without_torch(mindgap: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    (tmp_path / "model.py").write_text("def build(): ...\nmodel = build\n")
    (tmp_path / "broken.py").write_text("def model(:\n")
    before = sorted(tmp_path.iterdir())
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "torch.py").write_text("raise ImportError('torch was imported')\n")
    done = mindgap(*command.split(), PYTHONPATH=str(trap))
    assert done.returncode == 2, done.stdout + done.stderr
    assert MISTAKES[command] in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr and "torch was imported" not in done.stderr
    assert sorted(path for path in tmp_path.iterdir() if path != trap) == before, "nothing is left behind"


def test_what_is_right_goes_on_to_torch(mindgap: Run, tmp_path: Path) -> None:
    """The trap of the test above does spring."""
    (tmp_path / "model.py").write_text("def build(): ...\nmodel = build\n")
    (tmp_path / "torch.py").write_text("raise ImportError('torch was imported')\n")
    done = mindgap("check", "model.py:build", "--on", "eager", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3 and "torch was imported" in done.stderr
