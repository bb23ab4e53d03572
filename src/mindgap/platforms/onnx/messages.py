"""How torch's ONNX exporter and ONNX Runtime word their errors."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.messages import MessageRules
from mindgap.platforms.torch.messages import TORCH

EXPORTER: Final = TORCH + MessageRules(
    rewrites=((r"^<class '[\w.]+'>: ", ""),), noise=(r"⬆", r"⬇", r"#"), telling=(r"no onnx function",)
)
"""What every runtime needs that reads an exported ONNX model."""

ONNXRUNTIME: Final = EXPORTER + MessageRules(
    rewrites=((r"\[ONNXRuntimeError\] : \d+ : (\w+) : ", r"\1: "),),
    telling=(r"could not find an implementation", r"type error: type"),
)
