"""`monai:CLASS`: a network class of monai, small, for volumes or images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from mindgap.corpus import attempts, library, signatures
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.records.source import Source

CLASSES: Final = 4
WIDTHS: Final = (8, 16, 32)

_IMAGES: Final = (
    "x", "x_in", "inputs", "input", "images", "i", "moving", "fixed", "concatenated_pairs", "controlnet_cond",
    "input_images",
)  # fmt: skip
_EXCEPTIONS: Final[dict[str, dict[str, Any]]] = {
    "AutoencoderKL": {"channels": WIDTHS, "num_res_blocks": (1, 1, 1), "attention_levels": (False, False, True)},
    "BasicUNet": {"features": (8, 8, 16, 32, 64, 8)},
    "BasicUNetPlusPlus": {"features": (8, 8, 16, 32, 64, 8)},
    "DecoderOnlyTransformer": {"input": "tokens"},
    "FullyConnectedNet": {"in_channels": 32, "hidden_channels": WIDTHS, "input": "features"},
    "VarFullyConnectedNet": {"in_channels": 32, "input": "features"},
    "VoxelMorphUNet": {"in_channels": 2},
    "LocalNet": {"extract_levels": (0, 1)},
    "HoVerNet": {"in_channels": 3, "spatial_dims": 2, "sizes": (256,)},
    "SegResNetDS2": {"dsdepth": 1},
    "SwinUNETR": {"feature_size": 12, "sizes": (64,)},
    "MILModel": {"pretrained": False, "input": "bag"},
}
"""What these classes need that their parameters' names do not tell; `sizes` and `input` are for the call."""


@register
class MonaiNetwork(Library):
    """A class of `monai.networks.nets` for which every required parameter has a known small value."""

    forms = ("monai:CLASS",)
    prefix = "monai"
    packages = ("monai",)
    extra = "monai"

    def offers(self) -> Iterator[Offer]:
        for name, kind in self._classes().items():
            yield Offer(f"monai:{name}", "vision", kind.__module__.rpartition(".")[2])

    def load(self, source: Source) -> Loaded:
        classes = self._classes()
        name = attempts.known(source.spec.removeprefix("monai:"), list(classes), self.prefix)
        return attempts.first_that_runs(source, _attempts(name, classes[name], source.seed))

    def _classes(self) -> dict[str, type[torch.nn.Module]]:
        nets = library.import_library("monai.networks.nets", self.extra)
        found = signatures.modules_of(nets, sorted(vars(nets)))
        values, inputs = settings(3, 32), (*_IMAGES, "timesteps", "seg")
        return {name: kind for name, kind in found.items() if signatures.can_be_built(kind, values, inputs)}


def settings(dimensions: int, size: int) -> dict[str, Any]:
    """Small values by parameter name."""
    shape = (size,) * dimensions
    return {
        "spatial_dims": dimensions, "dimensions": dimensions, "in_channels": 1, "n_input_channels": 1,
        "out_channels": 2, "num_classes": CLASSES, "classes": CLASSES, "channels": WIDTHS, "strides": (2, 2),
        "num_channels": WIDTHS, "norm_num_groups": 4, "init_filters": 8, "num_res_blocks": 1, "num_head_channels": 8,
        "in_shape": (1, *shape), "out_shape": (CLASSES,), "latent_shape": (1, *shape), "start_shape": (8, 8, 8),
        "img_size": shape, "image_size": list(shape), "input_image_size": shape, "input_shape": list(shape),
        "patch_size": (size // 4,) * dimensions, "hidden_size": 48, "mlp_dim": 96, "num_layers": 2, "num_heads": 4,
        "decoder_hidden_size": 48, "decoder_mlp_dim": 96, "decoder_num_layers": 1, "decoder_num_heads": 4,
        "feature_size": 8, "kernel_size": [3, 3, 3], "upsample_kernel_size": [2, 2], "num_channel_initial": 4,
        "depth": 2, "model_name": "efficientnet-b0", "backbone": "resnet18", "latent_size": 8,
        "encode_channels": WIDTHS, "decode_channels": WIDTHS, "label_nc": CLASSES, "num_tokens": 64,
        "max_seq_len": 32, "attn_layers_dim": 32, "attn_layers_depth": 2, "attn_layers_heads": 4,
        "num_d": 2, "num_layers_d": 2, "unet_out_channels": 8, "final_conv_channels": (8,), "pretrained": False,
        "extract_levels": (0, 1), "num_embeddings": 32, "embedding_dim": 8, "latent_channels": 4,
    }  # fmt: skip


def _attempts(name: str, kind: type[torch.nn.Module], seed: int) -> Iterator[Attempt]:
    exception = dict(_EXCEPTIONS.get(name, {}))
    sizes, form = exception.pop("sizes", (32, 64, 96)), exception.pop("input", "image")
    takes = signatures.parameters(kind.__init__)
    kept = set(signatures.required(kind.__init__)) | set(exception)
    kept |= {"spatial_dims", "dimensions", "in_channels", "init_filters", "hidden_size", "num_heads", "pretrained"}
    for size in sizes:
        for dimensions in (3, 2):
            values = {**settings(dimensions, size), **exception}
            names = ["efficientnet-b0", "resnet18"] if "model_name" in takes else [""]
            for model_name in names:
                given = signatures.arguments(kind.__init__, {**values, "model_name": model_name}, kept)
                if signatures.takes_any(kind.__init__):  # handed on to a parent class that needs them
                    given |= {name: values[name] for name in ("spatial_dims", "in_channels") if name not in takes}
                call = _inputs(kind, form, values, (size,) * values.get("spatial_dims", dimensions), seed)
                yield Attempt(lambda given=given: kind(**given), (), call)  # type: ignore[misc]


def _inputs(
    kind: type[torch.nn.Module], form: str, values: dict[str, Any], shape: tuple[int, ...], seed: int
) -> dict[str, Any]:
    takes = signatures.parameters(kind.__init__)
    in_channels = takes.get("in_channels") or takes.get("n_input_channels")
    channels = values["in_channels"] if in_channels is not None else 1
    call: dict[str, Any] = {}
    for name in signatures.required(kind.forward):
        if name == "timesteps":
            call[name] = torch.tensor([3])
        elif name == "seg":
            call[name] = floats(seed, name, (1, CLASSES, *shape))
        elif form == "tokens":
            call[name] = integers(seed, name, (1, 16), 0, 64)
        elif form == "features":
            call[name] = floats(seed, name, (2, channels))
        elif form == "bag":
            call[name] = floats(seed, name, (1, 4, 3, *shape[:2]))
        else:
            call[name] = floats(seed, name, (1, channels, *shape))
    return call
