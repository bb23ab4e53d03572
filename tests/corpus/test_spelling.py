from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.corpus import library
from mindgap.corpus.plan import libraries
from mindgap.corpus.registry import discover, find
from mindgap.corpus.spelling import all_forms, library_prefixes, refuse_unknown
from mindgap.errors import ModelError
from mindgap.records.source import Source
from tests.corpus.requiring import require


def test_the_text_of_the_sources_tells_what_importing_them_tells() -> None:
    assert sorted(all_forms()) == sorted(form for source in discover() for form in source.forms)
    assert set(library_prefixes()) == set(libraries())


def test_no_name_of_timm_is_refused(tmp_path: Path) -> None:
    require(libraries()["timm"])
    timm = library.import_library("timm")
    names = [*timm.list_models(), *timm.models.get_deprecated_models(), "resnet18.a1_in1k"]
    for name in names:
        refuse_unknown(f"timm:{name}", tmp_path)


def test_no_type_of_transformers_is_refused(tmp_path: Path) -> None:
    require(libraries()["transformers"])
    offers = libraries()["transformers"].offers()
    for kind in sorted({offer.spec.split(":")[1] for offer in offers}):
        refuse_unknown(f"transformers:{kind}", tmp_path)
    refuse_unknown("transformers:bert:masked-lm", tmp_path)


@pytest.mark.parametrize("spec", ["", "resnet18", "tim:resnet18", "no:such", "none.zip", "no/none"])
def test_what_is_refused_early_would_not_be_found_later(spec: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        refuse_unknown(spec, tmp_path)
    with pytest.raises(ModelError):
        find(Source(spec, directory=str(tmp_path)))


@pytest.mark.parametrize("text", [
    "def build(): ...",
    "build = lambda: None",
    "from elsewhere import build",
    "from elsewhere import other as build",
    "if True:\n    async def build(): ...",
    "for build in [1]: ...",
    "from elsewhere import *",
    "globals()['bu' + 'ild'] = 1",
    "exec('build = 1')",
    "def __getattr__(name): ...",
    "import sys\nsetattr(sys.modules[__name__], 'bu' 'ild', 1)",
    "(build := 3)",
])  # fmt: skip
def test_a_name_that_a_file_may_define_is_not_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.py").write_text(text)
    refuse_unknown("m.py:build", tmp_path)


def test_files_and_directories_that_exist_are_left_to_whoever_reads_them(tmp_path: Path) -> None:
    (tmp_path / "some.thing").touch()
    (tmp_path / "folder").mkdir()
    for spec in ("some.thing", "folder", "hub:org/name"):
        refuse_unknown(spec, tmp_path)


@pytest.mark.parametrize(("missing", "suggested"), [
    ("nope.py", None), ("modle.py", "model.py"), ("unet.pt2", "unet.py"), ("uent.py", "unet.py"),
])  # fmt: skip
def test_only_names_that_are_alike_are_suggested(tmp_path: Path, missing: str, suggested: str | None) -> None:
    for name in ("unet.py", "model.py", "data.csv"):
        (tmp_path / name).touch()
    with pytest.raises(ModelError) as error:
        refuse_unknown(missing, tmp_path)
    assert error.value.hint == (f"did you mean {suggested}?" if suggested else None)
