from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from mindgap.errors import BadConfig, UnknownPlatform
from mindgap.platforms import spelling
from mindgap.platforms.registry import catalogue, resolve, runtimes
from mindgap.platforms.spelling import Spelled, refuse_unknown, spelled


def test_the_text_of_the_adapters_tells_what_importing_them_tells() -> None:
    imported = {name: Spelled(tuple(cls.profiles), tuple(cls.devices)) for name, cls in runtimes().items()}
    assert dict(spelled()) == imported


def test_no_known_name_is_refused() -> None:
    refuse_unknown([spec.name for spec in catalogue()] + ["eager:cuda:1", "openvino:GPU.1", "inductor:cuda:0"], None)


@pytest.mark.parametrize(
    "name", ["openvine", "eager@vector", "inductor:coda", "onnxruntime:cuda", "", "ea ger", "a:b:c"]
)
def test_what_is_refused_early_would_be_refused_later_in_the_same_words(name: str) -> None:
    with pytest.raises(UnknownPlatform) as early:
        refuse_unknown([name], None)
    with pytest.raises(UnknownPlatform) as late:
        resolve(name)
    assert str(early.value) == str(late.value)


def test_platforms_of_the_user_are_known(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[platform.mine]\nruntime = "eager"\n')
    refuse_unknown(["mine"], file)
    with pytest.raises(UnknownPlatform, match="mine"):
        refuse_unknown(["mina"], file)
    file.write_text("[platform")
    with pytest.raises(BadConfig, match="not valid TOML"):
        refuse_unknown([], file)


def test_only_importing_tells_what_another_package_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "their_package:Theirs", spelling.ENTRY_POINTS)
    monkeypatch.setattr(spelling, "entry_points", lambda group: (point,))
    refuse_unknown(["whatever"], None)
