"""A worker runs in an interpreter that has torch, numpy, msgpack and msgspec, and nothing else of mindgap's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mindgap
from mindgap.execution.process import Death
from mindgap.platforms.config import load_config
from mindgap.platforms.registry import resolve
from tests.loaded import loaded_modules

TORCH_AND_ITS_NEEDS = (
    "torch", "torchgen", "functorch", "numpy", "msgpack", "msgspec", "typing_extensions", "sympy", "mpmath", "networkx",
    "jinja2", "markupsafe", "fsspec", "filelock",
)  # fmt: skip


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second virtual environment, made of links so that it costs nothing."""
    folder = tmp_path_factory.mktemp("foreign")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    for name in TORCH_AND_ITS_NEEDS:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            continue
        origin = Path(found.origin)
        linked = origin.parent if origin.name == "__init__.py" else origin
        (site / linked.name).symlink_to(linked)
        for libraries in linked.parent.glob(f"{name}.libs"):
            (site / libraries.name).symlink_to(libraries)
    for metadata in Path(torch.__file__).parents[1].glob("torch-*.dist-info"):
        (site / metadata.name).symlink_to(metadata)
    return folder / "venv" / "bin" / "python"


def norm_of(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (8,))


def test_two_interpreters_side_by_side(interpreter: Path, tmp_path: Path) -> None:
    lacking = subprocess.run([interpreter, "-c", "import mindgap, rich"], capture_output=True, check=False)
    assert lacking.returncode != 0
    (tmp_path / "mindgap.toml").write_text(
        f'[platform.other]\nruntime = "eager"\npython = "{interpreter}"\n\n'
        f'[platform.other-scalar]\nruntime = "eager"\nprofile = "scalar"\npython = "{interpreter}"\n'
    )
    config = load_config(tmp_path / "mindgap.toml")
    result = mindgap.check(norm_of, [torch.randn(4, 8)], on=["other", "other-scalar"], config=config)
    assert {item.outcome.status.value for item in result.platforms.values()} == {"ok"}
    assert result.platforms["other"].verdict.conclusion.value == "agrees"
    assert "default" in result.platforms["other-scalar"].probe.device.lower()


def test_a_foreign_worker_loads_five_folders_to_run_a_program(interpreter: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    (tmp_path / "mindgap.toml").write_text(
        f'[platform.other]\nruntime = "eager"\npython = "{interpreter}"\nenv = {{ PYTHONPATH = "{root}" }}\n'
    )
    with mindgap.Session(load_config(tmp_path / "mindgap.toml")) as session:
        result = session.check(norm_of, [torch.randn(4, 8)], on=["other"], program=True)
        loaded = session.pool.ask(resolve("other", session.config), loaded_modules, None)
    assert result.platforms["other"].outcome.ok
    assert not isinstance(loaded, Death)
    folders = {name.split(".")[1] for name in loaded}
    assert folders == {"errors", "records", "reading", "program", "execution", "platforms"}, loaded
