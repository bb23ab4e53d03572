from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mindgap.corpus.catalogue import Packaged, PackagedModels
from mindgap.errors import ModelError
from mindgap.records.source import Source

BUILD = "import torch\ndef build():\n    return torch.nn.Linear(3, 1)\n"


def row(seed: int) -> tuple[torch.Tensor, ...]:
    return (torch.ones(1, 3),)


class MadeUp(PackagedModels):
    forms = ("made:NAME",)
    prefix = "made"
    packages = ("made_file", "made_package", "made_namespace", "made_missing")
    extra = "made"
    table = {
        "file": Packaged("made_file", "vision", lambda module: module.build(), row),
        "package": Packaged("made_package.inner", "vision", lambda module: module.build(), row),
        "namespace": Packaged("made_namespace.inner", "vision", lambda module: module.build(), row),
        "folder": Packaged(
            "made_package", "audio", lambda folder: torch.load(folder / "whole.pt", weights_only=False), row, False
        ),
        "missing": Packaged("made_missing", "vision", lambda module: module.build(), row),
    }


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "made_file.py").write_text(BUILD)
    for name in ("made_package", "made_namespace"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inner.py").write_text(BUILD)
    (tmp_path / "made_package" / "__init__.py").touch()
    torch.save(torch.nn.Linear(3, 1), tmp_path / "made_package" / "whole.pt")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith("made_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["file", "package", "namespace", "folder"])
def test_every_kind_of_package_is_found(name: str) -> None:
    loaded = MadeUp().load(Source(f"made:{name}"))
    assert isinstance(loaded.model, torch.nn.Linear) and not loaded.model.training


@pytest.mark.usefixtures("installed")
def test_a_missing_package_takes_only_its_own_models_away() -> None:
    assert [offer.spec for offer in MadeUp().offers()] == ["made:file", "made:package", "made:namespace", "made:folder"]
    with pytest.raises(ModelError, match=r"made_missing is not installed[^$]*mindgap\[made\]"):
        MadeUp().load(Source("made:missing"))


def test_without_any_package_nothing_is_offered() -> None:
    with pytest.raises(ModelError, match="no package with made: models is installed"):
        list(MadeUp().offers())
