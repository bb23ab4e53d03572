"""`mindgap check` as people use it, and what it says when they make a mistake."""

from __future__ import annotations

import json
import os
import pickle
import signal
from pathlib import Path

import pytest
import torch

from tests.cli.conftest import Run, all_gone, children, start

GOOD = """
import torch
def model(x):
    return {"y": torch.softmax(x, -1), "n": x.sum()}
def inputs():
    return [torch.arange(12.0).reshape(3, 4)]
"""

INTEGER = """
import torch
def model(x, y):
    return torch.div(x, y, rounding_mode="trunc")
def inputs():
    return [torch.tensor([2147483647, 2147483646], dtype=torch.int32), torch.tensor([1, 1], dtype=torch.int32)]
"""

BRANCHES = """
import torch
def model(x):
    if x.sum() > 0:
        x = x * 2
    return x + 1
def inputs():
    return [torch.ones(4)]
"""


def test_agreeing_platforms_end_with_zero(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(GOOD)
    done = mindgap("check", "m.py", "--on", "eager,eager@scalar", "--json", "out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["schema"] == "mindgap.check/1"
    assert set(document["platforms"]) == {"eager", "eager@scalar"}
    row = document["platforms"]["eager@scalar"]
    assert row["outcome"] == "ok" and row["verdict"] in ("agrees", "rounding") and row["ran"] == "source"
    assert document["program_exact"] is True
    assert "Nothing diverges." in done.stdout
    assert "\x1b[" not in done.stdout + done.stderr


def test_a_divergence_ends_with_one_and_says_who_is_wrong(mindgap: Run, tmp_path: Path) -> None:
    """onnxruntime divides these integers in float32 and loses their last bits."""
    (tmp_path / "m.py").write_text(INTEGER)
    done = mindgap("check", "m.py", "--on", "eager@scalar,onnxruntime", "--json", "-")
    assert done.returncode == 1, done.stdout + done.stderr
    platforms = json.loads(done.stdout)["platforms"]
    assert platforms["eager@scalar"]["verdict"] == "agrees"
    wrong = platforms["onnxruntime"]
    assert (wrong["verdict"], wrong["kind"], wrong["blame"]) == ("diverges", "integer", "candidate")
    assert wrong["ran"] == "program"
    assert wrong["sentence"]


def test_a_model_that_cannot_be_exported_is_checked_where_its_source_runs(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(BRANCHES)
    done = mindgap("check", "m.py", "--on", "eager@scalar,onnxruntime", "--json", "-")
    document = json.loads(done.stdout)
    assert document["platforms"]["eager@scalar"]["verdict"] == "agrees"
    failed = document["platforms"]["onnxruntime"]
    assert (failed["verdict"], failed["stage"]) == ("failed", "export")
    assert failed["message"] and document["export_failure"]
    assert document["nodes"] is None
    assert done.returncode == 1


def test_what_is_known_or_not_asked_for_does_not_keep_ci_red(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(BRANCHES)
    arguments = ("check", "m.py", "--on", "eager@scalar,onnxruntime")
    assert mindgap(*arguments, "--fail-on", "diverges,unstable").returncode == 0
    (tmp_path / "known.toml").write_text('[[known]]\nid = "branches"\npattern = "onnxruntime.*m.py"\n')
    done = mindgap(*arguments, "--known", "known.toml")
    assert done.returncode == 0 and "known as branches" in done.stdout, done.stdout + done.stderr


def test_several_dtypes_and_the_program_everywhere(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(GOOD)
    arguments = ("check", "m.py", "--on", "eager@scalar", "--dtype", "float32,bfloat16", "--program")
    done = mindgap(*arguments, "--json", "out.json")
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert [run["dtype"] for run in runs] == ["float32", "bfloat16"]
    assert {run["platforms"]["eager@scalar"]["ran"] for run in runs} == {"program"}
    assert done.returncode == 0, done.stdout


def test_a_saved_program_can_be_checked(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(GOOD)
    assert mindgap("save", "m.py", "-o", "m.mgp").returncode == 0
    done = mindgap("check", "m.mgp", "--on", "eager@scalar", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["platforms"]["eager@scalar"]["ran"] == "program"


def test_inputs_from_a_file(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(GOOD)
    torch.save([torch.ones(2, 5)], tmp_path / "inputs.pt")
    done = mindgap("check", "m.py", "--on", "eager", "--inputs", "inputs.pt", "--json", "-")
    assert json.loads(done.stdout)["inputs"] == {"x": "float32[2, 5]"}


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.system, ("touch owned",))


def write_bad_files(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    (folder / "nothing.py").write_text("x = 1\n")
    (folder / "raises.py").write_text("def build():\n    raise ValueError('no weights')\n")
    (folder / "exits.py").write_text("import sys\nsys.exit(0)\nmodel = None\n")
    (folder / "dies.py").write_text("import os\nos.abort()\nmodel = None\n")
    (folder / "broken.mgp").write_bytes(b"\x93\x01\x02")
    (folder / "m.pt").write_bytes(pickle.dumps(Evil()))
    torch.save([torch.ones(2), torch.ones(3)], folder / "two.pt")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["good.py", "--on", "inducter"], ["inducter", "inductor"]),
        (["good.py", "--on", "eager:cuda"], ["eager:cuda", "cannot be used here", "next"]),
        (["good.py", "--on", ","], ["--on"]),
        (["good.py", "--fail-on", "diverge"], ["diverge", "diverges, hazard"]),
        (["good.py", "--known", "absent.toml"], ["absent.toml"]),
        (["good.py", "--dtype", "float31"], ["float31", "float16"]),
        (["god.py"], ["god.py", "good.py"]),
        (["nothing.py"], ["nothing.py", "model"]),
        (["raises.py:build"], ["no weights", "raises.py:2"]),
        (["exits.py"], ["exits.py", "sys.exit"]),
        (["dies.py"], ["dies.py", "SIGABRT"]),
        (["good.py", "--inputs", "two.pt"], ["do not fit"]),
        (["good.py", "--inputs", "absent.pt"], ["absent.pt"]),
        (["m.pt"], ["m.pt", "--trust"]),
        (["broken.mgp"], ["broken.mgp"]),
        (["nonsense"], ["nonsense", "timm:"]),
        (["good.py", "--json", "no/such/dir/x.json"], ["no/such/dir"]),
        (["good.py", "--config", "absent.toml"], ["absent.toml"]),
        (["timm:resnet19"], ["resnet19", "resnet18"]),
        (["--on"], ["--on"]),
    ],
)
def test_a_mistake_is_explained_and_ends_with_two(
    mindgap: Run, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    write_bad_files(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    on = [] if "--on" in arguments else ["--on", "eager"]
    done = mindgap("check", *arguments, *on)
    assert done.returncode == 2, done.stdout + done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    written = {path.name for path in tmp_path.iterdir() if path.name != "__pycache__"}
    assert sorted(written) == before


def test_a_scratch_directory_that_cannot_be_used_is_explained(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(GOOD)
    done = mindgap("check", "m.py", "--on", "eager", MINDGAP_SCRATCH=str(tmp_path / "no-such-directory"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "MINDGAP_SCRATCH" in done.stderr


def test_names_from_a_model_cannot_control_the_terminal(mindgap: Run, tmp_path: Path) -> None:
    text = GOOD.replace('"y"', '"[red]\\x1b]0;owned\\x07y"')
    (tmp_path / "m.py").write_text(text)
    done = mindgap("check", "m.py", "--on", "eager@scalar")
    assert "\x1b" not in done.stdout and "\x07" not in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_whatever_ends_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Also where the model has been loaded and a worker is deep in a platform; a second signal changes nothing."""
    (tmp_path / "m.py").write_text("import time\ntime.sleep(600)\nmodel = None\n")
    process = start(tmp_path, "check", "m.py", "--on", "eager,eager@scalar")
    assert process.stderr is not None
    assert "load" in process.stderr.readline()
    workers = children(process.pid)
    process.send_signal(number)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "interrupted" in errors and "Traceback" not in errors
    assert workers and all_gone(workers)
    assert not list(Path("/dev/shm").glob(f"mindgap-work-{process.pid}-*"))


def test_a_terminal_that_closes_does_not_end_what_nohup_protects(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(GOOD)
    process = start(tmp_path, "check", "m.py", "--on", "eager", before=["nohup"])
    assert process.stderr is not None
    while "load" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    assert process.returncode == 0
