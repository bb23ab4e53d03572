"""`ultralytics:NAME`: a model from the configuration files that ship with ultralytics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.inputs import floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.records.source import Source

SIZES: Final = (64, 128, 224)
_TASKS: Final = {
    "classify": "ClassificationModel", "segment": "SegmentationModel", "pose": "PoseModel", "obb": "OBBModel",
    "detect": "DetectionModel",
}  # fmt: skip
_OTHER_HEADS: Final = {"RTDETRDecoder": "RTDETRDetectionModel", "WorldDetect": "WorldModel", "YOLOE": "YOLOEModel"}
"""Model classes by the head's name where the task alone does not tell."""


@register
class UltralyticsModel(Library):
    """A network at one of the scales that its file names, as it is exported for other runtimes."""

    forms = ("ultralytics:NAME",)
    prefix = "ultralytics"
    packages = ("ultralytics",)
    extra = "ultralytics"

    def offers(self) -> Iterator[Offer]:
        for name, (path, _) in sorted(self._configurations().items()):
            yield Offer(f"ultralytics:{name}", "vision", path.stem)

    def load(self, source: Source) -> Loaded:
        configurations = self._configurations()
        name = attempts.known(source.spec.removeprefix("ultralytics:"), sorted(configurations), self.prefix)
        tasks = library.import_library("ultralytics.nn.tasks", self.extra)
        return attempts.first_that_runs(source, _attempts(tasks, *configurations[name], source.seed))

    def _configurations(self) -> dict[str, tuple[Path, str]]:
        """Every file at every scale that it has, under the name that ultralytics gives it: `yolov8n-seg`."""
        package = library.import_library("ultralytics", self.extra)
        found: dict[str, tuple[Path, str]] = {}
        for path in sorted(Path(str(package.__file__)).parent.glob("cfg/models/**/*.yaml")):
            scales = re.findall(r"^\s+([nsmlxbtce]): *\[", path.read_text(), re.MULTILINE) or [""]
            for scale in scales:
                name = re.sub(r"(\d+)(?=\D*$)", rf"\g<1>{scale}", path.stem, count=1)
                found[name if name != path.stem or not scale else f"{path.stem}{scale}"] = (path, scale)
        return found


def _attempts(tasks: Any, path: Path, scale: str, seed: int) -> Iterator[Attempt]:
    import yaml

    settings = {**yaml.safe_load(path.read_text()), "scale": scale}
    head = str(settings["head"][-1][2])
    other = next((name for part, name in _OTHER_HEADS.items() if part in head), None)
    kind = getattr(tasks, other or _TASKS[tasks.guess_model_task(settings)])
    for size in SIZES:
        yield Attempt(lambda: _exportable(kind(settings, verbose=False)), (floats(seed, "image", (1, 3, size, size)),))


def _exportable(model: torch.nn.Module) -> torch.nn.Module:
    """The model with its heads told not to keep anchors of an earlier call."""
    for part in model.modules():
        if hasattr(part, "export") and hasattr(part, "format"):
            part.export, part.format = True, "onnx"  # type: ignore[assignment]
    return model
