from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from mindgap.corpus.load import load
from mindgap.errors import ModelError
from mindgap.records.source import Source

GOOD = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.layer(x)
def build():
    return Net()
def pair():
    return Net(), {"x": torch.randn(4, 3)}
model = Net()
def inputs():
    return [torch.randn(1, 3)]
"""


def write(folder: Path, text: str, name: str = "net.py") -> str:
    (folder / name).write_text(text)
    return name


def test_a_factory_with_inputs_beside_it(tmp_path: Path) -> None:
    loaded = load(Source(write(tmp_path, GOOD) + ":build", directory=str(tmp_path)))
    assert loaded.name == "net.py:build"
    assert isinstance(loaded.model, torch.nn.Module) and loaded.model(*loaded.args).shape == (1, 2)


def test_a_factory_that_returns_its_inputs(tmp_path: Path) -> None:
    loaded = load(Source(write(tmp_path, GOOD) + ":pair", directory=str(tmp_path)))
    assert loaded.args == () and loaded.kwargs["x"].shape == (4, 3)


def test_a_plain_file_and_an_absolute_path(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    loaded = load(Source(str(tmp_path / "net.py")))
    assert loaded.name == "net.py" and callable(loaded.model)


def test_the_seed_decides_weights_and_inputs(tmp_path: Path) -> None:
    spec = write(tmp_path, GOOD) + ":build"
    first, again, other = (load(Source(spec, seed=seed, directory=str(tmp_path))) for seed in (1, 1, 2))
    assert torch.equal(first.model.layer.weight, again.model.layer.weight)  # type: ignore[union-attr]
    assert torch.equal(first.args[0], again.args[0])
    assert not torch.equal(first.args[0], other.args[0])


def test_dtype_casts_module_and_floating_inputs(tmp_path: Path) -> None:
    text = GOOD + "def inputs():\n    return [torch.randn(1, 3)], \n"
    loaded = load(Source(write(tmp_path, text) + ":build", dtype="bfloat16", directory=str(tmp_path)))
    assert loaded.model.layer.weight.dtype == torch.bfloat16  # type: ignore[union-attr]
    assert loaded.args[0][0].dtype == torch.bfloat16


def test_a_function_has_only_its_inputs_cast(tmp_path: Path) -> None:
    text = "import torch\ndef model(x, i): return x[i]\ndef inputs(): return torch.ones(2), torch.tensor([0])\n"
    loaded = load(Source(write(tmp_path, text), dtype="float16", directory=str(tmp_path)))
    assert [tensor.dtype for tensor in loaded.args] == [torch.float16, torch.int64]


def test_neighbours_can_be_imported_and_the_path_is_restored(tmp_path: Path) -> None:
    write(tmp_path, "import torch\ndef double(x): return 2 * x\n", "neighbour_of_net.py")
    text = "from neighbour_of_net import double as model\nimport torch\ndef inputs(): return [torch.ones(1)]\n"
    before = list(sys.path)
    assert callable(load(Source(write(tmp_path, text), directory=str(tmp_path))).model)
    assert sys.path == before


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, f"def model(): return {name!r}\n")
    results = [load(Source(f"{name}/net.py", directory=str(tmp_path))).model() for name in ("one", "two")]  # type: ignore[misc]
    assert results == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "factory", "message", "line"),
    [
        ("def build():\n    x = 1\n    raise ValueError('no such thing')\n", ":build", "raised ValueError", 3),
        ("import nowhere_to_be_found\n", "", "importing it raised ModuleNotFoundError", 1),
        ("x = 1\ndef (:\n", "", "SyntaxError", 2),
        ("import sys\nsys.exit(4)\n", "", r"called sys.exit\(4\)", 2),
        ("def model(x): return x\ndef inputs():\n    return 1 / 0\n", "", "ZeroDivisionError", 3),
    ],
)
def test_what_the_users_code_raises_names_the_line(
    tmp_path: Path, text: str, factory: str, message: str, line: int
) -> None:
    name = write(tmp_path, text)
    with pytest.raises(ModelError, match=message) as caught:
        load(Source(name + factory, directory=str(tmp_path)))
    assert caught.value.where == f"{tmp_path / name}:{line}"


@pytest.mark.parametrize(
    ("text", "factory", "message"),
    [
        ("x = 1\n", "", "does not define model"),
        ("def build(): return 1\n", ":buidl", r"does not define buidl[^$]*did you mean build\?"),
        ("build = 3\n", ":build", "is a int, not a function"),
        ("def build(): return 1\n", ":build", "returned a int, which cannot be called"),
        ("import torch\nmodel = torch.nn.ReLU\n", "", r"the class ReLU, not a model[^$]*make one: ReLU\(\)"),
        ("def model(x): return x\ndef inputs(): return 3\n", "", "the inputs are a int"),
    ],
)
def test_files_without_a_model(tmp_path: Path, text: str, factory: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(Source(write(tmp_path, text) + factory, directory=str(tmp_path)))


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    with pytest.raises(ModelError, match=r"there is no file nte\.py[^$]*did you mean net\.py\?"):
        load(Source("nte.py:build", directory=str(tmp_path)))
    with pytest.raises(ModelError, match="there is no directory"):
        load(Source("nowhere/net.py", directory=str(tmp_path)))


def test_a_file_that_fails_leaves_no_module_behind(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        load(Source(write(tmp_path, "1 / 0\n", "fails_at_once.py"), directory=str(tmp_path)))
    assert not [name for name in sys.modules if "fails_at_once" in name]
