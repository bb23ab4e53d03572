from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindgap.corpus import compiled_parts
from mindgap.corpus.plan import libraries
from tests.corpus.requiring import require


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    compiled_parts.make_importable.cache_clear()
    yield
    compiled_parts.make_importable.cache_clear()


def test_torchvision_can_be_imported() -> None:
    require(libraries()["torchvision"])
    compiled_parts.make_importable()
    import torchvision

    assert torchvision.ops.nms is not None


def test_without_the_packages_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert compiled_parts.make_importable() == ()


def test_a_compiled_part_that_cannot_load_is_stood_in_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torchaudio"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text("from torchaudio._extension import fail_if_no_align\n")
    (package / "lib" / "_torchaudio.so").write_bytes(b"not a library")
    for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert "torchaudio" in compiled_parts.make_importable()
        import torchaudio

        with pytest.raises(RuntimeError, match="needs the compiled part"):
            torchaudio.fail_if_no_align(print)()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
            del sys.modules[name]


def test_a_torchvision_without_a_compiled_part_has_its_operators_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").touch()
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "torchvision" in compiled_parts.make_importable()
