"""Program files, pickled modules, and what `load` says about everything else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mindgap.corpus import registry
from mindgap.corpus.export import export
from mindgap.corpus.inputs import floats
from mindgap.corpus.load import load
from mindgap.corpus.loaded import Loaded
from mindgap.errors import CorruptProgram, ModelError, Untrusted
from mindgap.program import codec
from mindgap.records.source import Source


def model(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i] * 2


@pytest.fixture
def program_file(tmp_path: Path) -> Path:
    program, constants = export(Loaded("net", (torch.ones(4, 3).t(), torch.zeros(2, dtype=torch.int64)), {}, model))
    codec.save(tmp_path / "net.mgp", program, constants)
    return tmp_path / "net.mgp"


def test_a_program_file_brings_inputs_that_fit(program_file: Path) -> None:
    loaded = load(Source("net.mgp", seed=5, directory=str(program_file.parent)))
    assert loaded.model is None and loaded.program is not None
    assert loaded.args[0].stride() == (1, 3) and torch.equal(loaded.args[0], torch.ones(3, 4))
    assert torch.equal(loaded.args[1], torch.zeros(2, dtype=torch.int64))


def test_a_seed_draws_random_inputs_anew(tmp_path: Path) -> None:
    x = floats(0, "x", (64, 128))
    program, constants = export(Loaded("net", (x, torch.tensor([63, 5])), {}, model))
    codec.save(tmp_path / "net.mgp", program, constants)
    own, other = (load(Source(str(tmp_path / "net.mgp"), seed=seed)).args for seed in (0, 6))
    assert torch.equal(own[0], x) and torch.equal(other[0], floats(6, "x", (64, 128)))
    assert own[1].tolist() == other[1].tolist() == [63, 5]


def test_a_program_without_an_example_gets_inputs_from_its_specs(program_file: Path) -> None:
    program, constants = codec.load(program_file)
    codec.save(program_file, replace(program, example=()), constants)
    loaded = load(Source("net.mgp", seed=5, directory=str(program_file.parent)))
    assert loaded.args[0].shape == (3, 4) and loaded.args[0].stride() == (1, 3)
    assert loaded.args[1].min() >= 0 and loaded.args[1].max() < 4
    other = load(Source(str(program_file), seed=6))
    assert not torch.equal(loaded.args[0], other.args[0])


def test_a_program_file_in_another_precision_is_refused(program_file: Path) -> None:
    with pytest.raises(ModelError, match="it cannot become bfloat16"):
        load(Source(str(program_file), dtype="bfloat16"))


def test_an_unreadable_program_file(tmp_path: Path) -> None:
    (tmp_path / "bad.mgp").write_bytes(b"\x00garbage")
    with pytest.raises(CorruptProgram):
        load(Source(str(tmp_path / "bad.mgp")))


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".ckpt", ".pkl"])
def test_a_pickle_is_refused_unread(tmp_path: Path, suffix: str) -> None:
    torch.save(Evil(tmp_path / "executed"), tmp_path / f"net{suffix}")
    with pytest.raises(Untrusted, match=r"would execute code from it[^$]*--trust"):
        load(Source(f"net{suffix}", directory=str(tmp_path)))
    assert not (tmp_path / "executed").exists()


def test_a_trusted_pickle_is_a_model_without_inputs(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 3), tmp_path / "net.pt")
    loaded = load(Source(str(tmp_path / "net.pt"), trust=True, dtype="float16"))
    assert isinstance(loaded.model, torch.nn.Linear) and loaded.args == ()
    assert loaded.model.weight.dtype == torch.float16


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.nn.Linear(2, 3).state_dict(), "holds weights without a model"),
        ([1, 2], "holds a list, not a torch.nn.Module"),
    ],
)
def test_a_trusted_pickle_of_something_else(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "net.pt")
    with pytest.raises(ModelError, match=message):
        load(Source(str(tmp_path / "net.pt"), trust=True))


def test_a_trusted_pickle_that_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"garbage")
    with pytest.raises(ModelError, match="cannot be read"):
        load(Source(str(tmp_path / "net.pt"), trust=True))


@pytest.mark.parametrize("spec", ["model.zip", "resnet18", "", "keras:resnet"])
def test_other_forms_list_those_that_work(spec: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(Source(spec))
    forms = str(caught.value.hint)
    assert all(form in forms for form in ("timm:NAME", "transformers:TYPE:HEAD", "hub:org/name", "file.py:factory"))
    assert all(form in forms for form in ("model.pt2", "model.mgp", "model.pt"))


def test_a_directory_or_file_that_is_no_model_says_why(tmp_path: Path) -> None:
    (tmp_path / "model.zip").touch()
    with pytest.raises(ModelError, match=r"files that end in \.zip are not models"):
        load(Source("model.zip", directory=str(tmp_path)))
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load(Source(".", directory=str(tmp_path)))
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ModelError, match="is a directory"):
        load(Source("folder.py", directory=str(tmp_path)))


@pytest.mark.parametrize("name", ["net.mgp", "net.pt2", "net.pt", "net.py"])
def test_missing_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match=f"there is no file {name}"):
        load(Source(name, directory=str(tmp_path)))


def test_every_spec_has_one_source() -> None:
    specs = ("timm:a.py", "transformers:b", "hub:c/d.pt2", "e.py", "f.py:g", "h.pt2", "i.mgp", "j.pt")
    for spec in specs:
        claiming = [type(item).__name__ for item in registry.discover() if item.claims(spec, Path())]
        assert claiming, spec
        if ":" not in spec:
            assert len(claiming) == 1, (spec, claiming)


def test_importing_load_imports_no_model_library() -> None:
    code = (
        "import sys, mindgap.corpus.load, mindgap.corpus.registry as r; r.discover();"
        "print([m for m in ('timm', 'transformers', 'torchvision', 'safetensors') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
