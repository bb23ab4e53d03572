"""`mindgap corpus` as people use it."""

from __future__ import annotations

import json
from pathlib import Path

from mindgap.corpus.operator_table import read_table
from tests.cli.conftest import Run

MODELS = {
    "good.py": "import torch\ndef model(x):\n    return x.sin() @ x\ndef inputs():\n    return [torch.ones(3, 3)]\n",
    "same.py": "import torch\ndef model(y):\n    return y.sin() @ y\ndef inputs():\n    return [torch.ones(3, 3)]\n",
    "bad.py": "import torch\ndef model(x):\n    return x[x > 0]\ndef inputs():\n    return [torch.ones(3, 3)]\n",
}


def test_every_library_is_listed_with_a_count_or_a_reason(mindgap: Run) -> None:
    done = mindgap("corpus", "list", "--source", "smoke,timm,torchaudio", "--json")
    libraries = json.loads(done.stdout)["libraries"]
    assert done.returncode == 0 and set(libraries) == {"smoke", "timm", "torchaudio"}
    for name, library in libraries.items():
        assert library["models"] or (library["reason"] and library["install"]), name


def test_own_models_are_built_once_and_failures_say_why(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name, text in MODELS.items():
        (tmp_path / "own" / name).write_text(text)
    first = mindgap("corpus", "build", "--source", "own", "-o", "store", "--jobs", "1")
    assert first.returncode == 0, first.stderr
    assert "1 built, 1 duplicate, 1 failed" in first.stdout
    again = mindgap("corpus", "build", "--source", "own", "-o", "store")
    assert "0 built, 0 duplicate, 0 failed" in again.stdout
    stats = json.loads(mindgap("corpus", "stats", "store", "--json").stdout)
    assert stats["built"] == 1
    assert "data" in json.dumps(stats["causes"])
    mindgap("corpus", "stats", "store", "-o", "page.md", "--models", "models.tsv", "--operators", "operators.json")
    assert "| own | 1 | 1 | 1 |" in (tmp_path / "page.md").read_text()
    listed = (tmp_path / "models.tsv").read_text().splitlines()
    assert len(listed) == 2 and listed[1].endswith(".py")
    (operators,) = read_table(tmp_path / "operators.json").by_model().values()
    assert "aten.sin.default" in operators

    chosen = mindgap("corpus", "core", "store", "-o", "core")
    assert chosen.returncode == 2 and "licence, mostly" in chosen.stderr and not (tmp_path / "core").exists()

    replayed = mindgap("corpus", "replay", "store")
    assert replayed.returncode == 0 and "1 of 1 programs give their source's bits" in replayed.stdout
    for name in ("good.py", "same.py"):  # whichever of the two was kept is another model now
        (tmp_path / "own" / name).write_text(MODELS[name].replace("sin", "cos"))
    changed = mindgap("corpus", "replay", "store")
    assert changed.returncode == 1 and "output" in changed.stdout and "0 of 1" in changed.stdout


def test_an_unknown_library_and_an_absent_store_are_said(mindgap: Run) -> None:
    unknown = mindgap("corpus", "build", "--source", "tim", "-o", "store")
    assert unknown.returncode == 2 and "tim" in unknown.stderr
    absent = mindgap("corpus", "stats", "nowhere")
    assert absent.returncode == 2 and "nowhere" in absent.stderr


def test_a_smoke_program_can_be_checked(mindgap: Run) -> None:
    done = mindgap("check", "smoke:language-bert", "--on", "eager@scalar", "--json", "-")
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["platforms"]["eager@scalar"]["ran"] == "program"
    assert document["platforms"]["eager@scalar"]["verdict"] in ("agrees", "rounding")
