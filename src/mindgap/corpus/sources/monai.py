"""`monai:CLASS`: a network class of monai, small, for volumes or images."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, Final

import torch

from mindgap.corpus import signatures
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.registry import register

CLASSES: Final = 4
WIDTHS: Final = (8, 16, 32)

_IMAGES: Final = (
    "x", "x_in", "inputs", "input", "images", "i", "moving", "fixed", "concatenated_pairs", "controlnet_cond",
    "input_images",
)  # fmt: skip
_GIVEN: Final = ("spatial_dims", "dimensions", "in_channels", "init_filters", "hidden_size", "num_heads", "pretrained")
"""Optional parameters that are given where a class has them."""
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
"""What parameter names alone do not tell about these classes; `sizes` and `input` are for the call."""


@register
class MonaiNetwork(Catalogue):
    """A class of `monai.networks.nets` for which every required parameter has a known small value."""

    forms = ("monai:CLASS",)
    prefix = "monai"
    packages = ("monai",)
    extra = "monai"
    domain = "vision"

    def models(self) -> dict[str, Any]:
        nets = self.imported("monai.networks.nets")
        return signatures.buildable(nets, sorted(vars(nets)), settings(3, 32), (*_IMAGES, "timesteps", "seg"))

    def attempts(self, name: str, model: Any, seed: int) -> Iterator[Attempt]:
        exception = dict(_EXCEPTIONS.get(name, {}))
        sizes, form = exception.pop("sizes", (32, 64, 96)), exception.pop("input", "image")
        takes = signatures.parameters(model.__init__)
        kept = {*signatures.required(model.__init__), *exception, *_GIVEN}
        model_names = ["efficientnet-b0", "resnet18"] if "model_name" in takes else [""]
        for size, dimensions, model_name in itertools.product(sizes, (3, 2), model_names):
            values = {**settings(dimensions, size), **exception}
            given = signatures.arguments(model.__init__, {**values, "model_name": model_name}, kept)
            if signatures.takes_any(model.__init__):  # handed on to a parent class that needs them
                given |= {name: values[name] for name in ("spatial_dims", "in_channels") if name not in takes}
            call = _inputs(model, form, values, (size,) * values.get("spatial_dims", dimensions), seed)
            yield Attempt(functools.partial(model, **given), (), call)


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
