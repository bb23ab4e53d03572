"""`ultralytics:NAME`: a model from the configuration files that ship with ultralytics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch

from mindgap.corpus.attempts import Attempt, with_images
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.registry import register

SIZES: Final = (64, 128, 224)
_TASKS: Final = {
    "classify": "ClassificationModel", "segment": "SegmentationModel", "pose": "PoseModel", "obb": "OBBModel",
    "detect": "DetectionModel",
}  # fmt: skip
_OTHER_HEADS: Final = {"RTDETRDecoder": "RTDETRDetectionModel", "WorldDetect": "WorldModel", "YOLOE": "YOLOEModel"}
"""Model classes by the head's name where the task is not enough."""


@register
class UltralyticsModel(Catalogue):
    """A network at one of the scales that its file names, as it is exported for other runtimes."""

    forms = ("ultralytics:NAME",)
    prefix = "ultralytics"
    packages = ("ultralytics",)
    extra = "ultralytics"

    domain = "vision"

    def models(self) -> dict[str, tuple[Path, str]]:
        """Every file at every scale that it has, under the name that ultralytics gives it: `yolov8n-seg`."""
        package = self.imported("ultralytics")
        found: dict[str, tuple[Path, str]] = {}
        for path in sorted(Path(str(package.__file__)).parent.glob("cfg/models/**/*.yaml")):
            scales = re.findall(r"^\s+([nsmlxbtce]): *\[", path.read_text(), re.MULTILINE) or [""]
            for scale in scales:
                name = re.sub(r"(\d+)(?=\D*$)", rf"\g<1>{scale}", path.stem, count=1)
                found[name if name != path.stem or not scale else f"{path.stem}{scale}"] = (path, scale)
        return dict(sorted(found.items()))

    def family(self, name: str, model: tuple[Path, str]) -> str:
        return model[0].stem

    def attempts(self, name: str, model: tuple[Path, str], seed: int) -> Iterator[Attempt]:
        import yaml

        path, scale = model
        tasks = self.imported("ultralytics.nn.tasks")
        settings = {**yaml.safe_load(path.read_text()), "scale": scale}
        head = str(settings["head"][-1][2])
        other = next((name for part, name in _OTHER_HEADS.items() if part in head), None)
        kind = getattr(tasks, other or _TASKS[tasks.guess_model_task(settings)])
        yield from with_images(lambda: _exportable(kind(settings, verbose=False)), seed, SIZES)


def _exportable(model: torch.nn.Module) -> torch.nn.Module:
    """The model with heads that keep no anchors between calls."""
    for part in model.modules():
        if hasattr(part, "export") and hasattr(part, "format"):
            part.export, part.format = True, "onnx"  # type: ignore[assignment]
    return model
