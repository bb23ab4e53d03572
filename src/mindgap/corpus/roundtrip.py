"""Whether a model, its program and the decoded program give identical bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.corpus.export import export, prepare
from mindgap.corpus.inputs import first_line
from mindgap.corpus.load import load
from mindgap.program import codec
from mindgap.program.build import plain
from mindgap.program.graph import Program, leaves
from mindgap.program.inputs import Inputs
from mindgap.program.interpret import Executable
from mindgap.program.made import recreate
from mindgap.records.source import Source
from mindgap.records.tensors import NamedTensor, same_bits

_TIMM: Final = (
    "resnet18", "regnetx_002", "mobilenetv3_small_050", "efficientnet_b0", "ghostnet_100", "densenet121",
    "dla46_c", "convnext_atto", "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "mixer_s32_224",
    "poolformer_s12", "pvt_v2_b0", "xcit_nano_12_p16_224", "levit_128s", "mobilevit_xxs",
    "edgenext_xx_small", "repvgg_a0", "coat_lite_tiny", "efficientvit_b0",
)  # fmt: skip
_TRANSFORMERS: Final = (
    "bert:masked-lm", "distilbert:sequence-classification", "albert", "deberta-v2", "xlnet",
    "gpt2:causal-lm", "llama:causal-lm", "gemma2:causal-lm", "falcon", "mixtral", "mamba", "t5", "bart",
    "vit:image-classification", "swin", "segformer:semantic-segmentation", "clip", "wav2vec2", "whisper",
    "patchtst",
)  # fmt: skip

FORTY: Final = (*(f"timm:{name}" for name in _TIMM), *(f"transformers:{name}" for name in _TRANSFORMERS))
"""Twenty small image models and twenty tiny ones of language, vision, sound and time series."""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """How far one model came on the way to a program and back."""

    name: str
    built: bool
    exact: bool
    nodes: int = 0
    bytes: int = 0
    """Size of the encoded graph, without weights."""
    reason: str = ""
    """Why it was not built, or what differs."""


def roundtrip(source: Source) -> RoundTrip:
    """Load, export, encode, decode and interpret a model, and compare bits with the model itself."""
    try:
        loaded = load(source)
        inputs = prepare(loaded)
        program, constants = export(loaded)
        encoded = codec.encode(program)
        decoded = codec.decode(encoded)
    except Exception as error:  # torch.export raises any type; the reason is what this is about
        return RoundTrip(source.spec, False, False, reason=f"{type(error).__name__}: {first_line(error)}")
    size = len(program.nodes), len(encoded)
    try:
        runs = [run_call(inputs, source.seed, Executable(item, constants).run) for item in (program, decoded)]
        if loaded.model is not None:
            runs.append(run_source(inputs, source.seed, loaded.model))
    except Exception as error:  # a model may refuse its own inputs
        return RoundTrip(source.spec, True, False, *size, reason=f"{type(error).__name__}: {first_line(error)}")
    different = next((found for run in runs[1:] if (found := difference(runs[0], run))), "")
    return RoundTrip(source.spec, True, not different, *size, reason=different)


def as_example(inputs: Inputs, program: Program) -> Inputs:
    """The inputs that everyone who reads the program will make."""
    tensors = tuple(
        NamedTensor(item.name, recreate(recipe, item.meta)) for recipe, item in zip(program.example, program.inputs)
    )
    return Inputs(inputs.args, inputs.kwargs, tensors)


def difference(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> str:
    """The first tensor whose bits differ; empty when all are the same."""
    if list(left) != list(right):
        return f"outputs are {', '.join(left)} and {', '.join(right)}"
    return next((name for name in left if not same_bits(left[name], right[name])), "")


def run_call(inputs: Inputs, seed: int, run: Callable[[list[torch.Tensor]], Any]) -> dict[str, torch.Tensor]:
    """Every tensor that a run returns or leaves in its inputs."""
    tensors = inputs.copies()
    torch.manual_seed(seed)
    with torch.no_grad():
        outputs = plain(run(tensors))
    found = {name or "output": leaf for name, leaf in leaves(outputs) if isinstance(leaf, torch.Tensor)}
    return {**found, **{f"input:{item.name}": tensor for item, tensor in zip(inputs.tensors, tensors)}}


def run_source(inputs: Inputs, seed: int, model: Callable[..., Any]) -> dict[str, torch.Tensor]:
    """The same for the source model itself, on the kernels that an exported model uses.

    Even without gradients, `matmul` takes another path for weights that want them, and attention layers take a fused
    one that tracing cannot see; both round differently, and neither is a fault of the program.
    """
    if isinstance(model, torch.nn.Module):
        model.requires_grad_(False)
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)

    def call(tensors: list[torch.Tensor]) -> Any:
        args, kwargs = inputs.call(tensors)
        return model(*args, **kwargs)

    try:
        return run_call(inputs, seed, call)
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
