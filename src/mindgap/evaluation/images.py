"""Images as a model takes them: by timm's own transform where it comes from timm, by ImageNet's usual one elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.corpus.library import import_library
from mindgap.errors import CorruptFile, UsageError
from mindgap.evaluation.spelling import Wanted

MEAN: Final = (0.485, 0.456, 0.406)
STD: Final = (0.229, 0.224, 0.225)
CROP: Final = 0.875
"""224 of 256 pixels: what torchvision's models were trained for."""
PIXELS: Final = 178_956_970
"""The largest image that is opened, as Pillow's own limit: 536 MB in three channels."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """From an image file to a tensor."""

    size: tuple[int, int]
    """Height and width that the model takes."""
    channels: int = 3
    crop: float = CROP
    """The share of the shorter side that is kept."""
    interpolation: str = "bilinear"
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD
    timm: Mapping[str, Any] = field(default_factory=dict)
    """timm's data config of the model; then its own transform is used."""

    def told(self) -> str:
        """In words, for a report."""
        whose = "timm's data config" if self.timm else "ImageNet's usual"
        height, width = self.size
        mean, std = (", ".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        return f"{whose}: {self.interpolation}, crop {self.crop:g}, {height} x {width}, mean {mean}, std {std}"


def preprocessing_of(model: Any, shape: tuple[int, ...], wanted: Wanted) -> Preprocessing:
    """How a model that takes images of this shape (N, C, H, W) wants them."""
    channels, size = shape[1], (shape[2], shape[3])
    if channels not in (1, 3):
        raise UsageError(f"the model takes images of {channels} channels", hint="give .npz or .safetensors instead")
    known: dict[str, Any] = {"mean": MEAN, "std": STD} if channels == 3 else {"mean": (0.5,), "std": (0.5,)}
    config: dict[str, Any] = {}
    if getattr(model, "pretrained_cfg", None) and type(model).__module__.startswith("timm."):
        config = _timm_config(model, shape)
        known |= {name: config[name] for name in ("mean", "std", "interpolation")} | {"crop": config["crop_pct"]}
    known |= wanted.given()
    for name in ("mean", "std"):
        if len(known[name]) != channels:
            raise UsageError(f"--{name} has {len(known[name])} values for {channels} channels")
    if 0.0 in known["std"]:
        raise UsageError("--std has a zero, by which nothing can be divided")
    if config:
        changes = {"mean": known["mean"], "std": known["std"], "interpolation": known["interpolation"]}
        config |= changes | {"crop_pct": known["crop"]}
    return Preprocessing(size, channels, **known, timm=config)


def _timm_config(model: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """timm's own words about the model, at the size that the model has here."""
    data = import_library("timm.data", "timm")
    found = dict(data.resolve_data_config({}, model=model)) | {"input_size": tuple(shape[1:])}
    return {name: found[name] for name in ("input_size", "interpolation", "mean", "std", "crop_pct", "crop_mode")}


class ImageReader:
    """Reads images for one kind of preprocessing."""

    def __init__(self, how: Preprocessing) -> None:
        self.how = how
        self._transform: Callable[[Any], torch.Tensor] = functools.partial(_usual, how)
        if how.timm:
            config = {**how.timm, "input_size": tuple(how.timm["input_size"])}
            made = import_library("timm.data", "timm").create_transform(**config, is_training=False)
            self._transform = lambda image: torch.as_tensor(made(image))

    def read(self, path: Path) -> torch.Tensor:
        """One image as the model takes it; raises CorruptFile when it cannot be read."""
        pillow = _pillow()
        try:
            with pillow.open(path) as image:
                if image.width * image.height > PIXELS:
                    raise ValueError(f"it has {image.width} x {image.height} pixels")
                converted = image.convert("RGB" if self.how.channels == 3 else "L")
            return self._transform(converted)
        except MemoryError:
            raise
        except Exception as error:  # decoders raise many types on damaged files
            told = " ".join(str(error).split())[:200] or type(error).__name__
            raise CorruptFile(f"{path.name} cannot be read as an image", where=str(path), cause=told) from error


def _usual(how: Preprocessing, image: Any) -> torch.Tensor:
    """Resize the shorter side, crop the middle, normalise: what torchvision's presets do."""
    pillow = _pillow()
    height, width = how.size
    scale = max(round(height / how.crop) / image.height, round(width / how.crop) / image.width)
    resized = image.resize(
        (max(width, round(image.width * scale)), max(height, round(image.height * scale))),
        getattr(pillow.Resampling, how.interpolation.upper()),
    )
    left, top = round((resized.width - width) / 2), round((resized.height - height) / 2)
    pixels = np.asarray(resized.crop((left, top, left + width, top + height)), dtype=np.float32) / 255.0
    tensor = torch.from_numpy(pixels.reshape(height, width, how.channels)).permute(2, 0, 1).contiguous()
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (how.mean, how.std))
    return (tensor - mean) / std


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise UsageError("reading images needs Pillow", hint="pip install 'mindgap[images]'") from error
    Image.MAX_IMAGE_PIXELS = PIXELS
    return Image
