from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from mindgap.corpus import torchaudio_ops


def test_without_torchaudio_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    torchaudio_ops.make_importable.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert torchaudio_ops.make_importable() is False
    torchaudio_ops.make_importable.cache_clear()


def test_a_compiled_part_that_cannot_load_is_declared_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torchaudio"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text("from torchaudio._extension import fail_if_no_align\n")
    (package / "lib" / "_torchaudio.so").write_bytes(b"not a library")
    for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    torchaudio_ops.make_importable.cache_clear()
    try:
        assert torchaudio_ops.make_importable() is True
        import torchaudio

        with pytest.raises(RuntimeError, match="needs the compiled part"):
            torchaudio.fail_if_no_align(print)()
    finally:
        torchaudio_ops.make_importable.cache_clear()
        for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
            del sys.modules[name]
