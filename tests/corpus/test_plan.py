from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.corpus.plan import in_turn, libraries, likely_size, listed_models, normalised, plan, second_names
from mindgap.corpus.registry import Offer
from mindgap.errors import ModelError


def offers(library: str, *names: str, domain: str = "vision") -> list[Offer]:
    return [Offer(f"{library}:{name}", domain, name.rstrip("0123456789")) for name in names]


def test_libraries_and_families_take_turns() -> None:
    planned = plan(
        {"timm": offers("timm", "resnet18", "resnet34", "vit1", "vit2"), "monai": offers("monai", "unet1", "unet2")}
    )
    assert [offer.spec for _, offer in planned] == [
        "timm:resnet18", "monai:unet1", "timm:vit1", "monai:unet2", "timm:resnet34", "timm:vit2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        ["timm:vit_tiny_patch16_224", "timm:vit_small_patch16_224", "timm:vit_base_patch16_224", "timm:vit_huge_p14"],
        ["smp:unet:resnet18", "smp:unet:resnet50", "smp:unet:resnet101"],
        ["ultralytics:yolo11n", "ultralytics:yolo11s", "ultralytics:yolo11m", "ultralytics:yolo11x"],
        ["timm:efficientnet_b0", "timm:efficientnet_b3", "timm:efficientnet_b7"],
    ],
)
def test_small_models_of_a_family_come_first(names: list[str]) -> None:
    planned = plan({"one": [Offer(name, "vision", "one") for name in reversed(names)]})
    assert [offer.spec for _, offer in planned] == names
    assert [likely_size(name) for name in names] == sorted(likely_size(name) for name in names)


def test_the_same_name_in_a_later_library_comes_last() -> None:
    given_offers = {
        "timm": offers("timm", "resnet18", "vit"),
        "torchvision": offers("torchvision", "ResNet_18", "vit"),
        "audio": offers("audio", "resnet18", domain="audio"),
    }
    planned = [offer.spec for _, offer in plan(given_offers)]
    assert planned[-1] == "torchvision:ResNet_18" and len(planned) == 5
    named = [(library, offer) for library, items in given_offers.items() for offer in items]
    assert second_names(named) == {"torchvision:ResNet_18": "timm:resnet18"}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("timm:resnet18", "resnet18"),
        ("pytorchcv:ResNet-18", "resnet18"),
        ("transformers:bert:masked-lm", None),
        ("vit_pytorch:vit", None),
        ("/home/me/model1.py", None),
    ],
)
def test_only_a_name_with_a_number_names_one_model(spec: str, name: str | None) -> None:
    assert normalised(spec) == name


@given(st.lists(st.lists(st.integers(), max_size=5), max_size=5))
def test_turns_use_everything_once(groups: list[list[int]]) -> None:
    assert sorted(in_turn(groups)) == sorted(item for group in groups for item in group)


def test_a_list_has_one_model_per_line_alone_or_in_the_last_column(tmp_path: Path) -> None:
    listed = tmp_path / "models.tsv"
    listed.write_text("fingerprint\tnodes\tmodel\n0123\t7\ttimm:resnet18\n\n transformers:bert:BertModel \n")
    assert listed_models(listed) == {"timm:resnet18", "transformers:bert:BertModel"}
    listed.write_text("resnet18\n")
    with pytest.raises(ModelError, match="names no models"):
        listed_models(listed)


def test_preferred_libraries_come_first_and_the_smoke_corpus_is_one() -> None:
    names = list(libraries())
    assert names[0] == "timm" and "smoke" in names
