from __future__ import annotations

import importlib.util

import pytest

from mindgap.corpus import torchvision_ops


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
def test_torchvision_can_be_imported() -> None:
    torchvision_ops.make_importable()
    import torchvision

    assert torchvision.ops.nms is not None


def test_without_torchvision_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    torchvision_ops.make_importable.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert torchvision_ops.make_importable() is False
    torchvision_ops.make_importable.cache_clear()


def test_a_library_that_cannot_load_is_passed_over(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "_C.so").write_bytes(b"not a library")
    assert torchvision_ops._compiled_part_loads(str(folder)) is False
