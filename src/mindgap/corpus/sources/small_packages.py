"""`small:PACKAGE.NAME`: models of small packages, which bring operators that the large ones do not use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import torch

from mindgap.corpus import library
from mindgap.corpus.catalogue import Packaged, PackagedModels
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.registry import register

Inputs: TypeAlias = Callable[[int], tuple[Any, ...]]
Build: TypeAlias = Callable[[Any], Any]
Named: TypeAlias = Iterator[tuple[str, Packaged]]

EXTRA: Final = "small"


def _random(*shapes: tuple[int, ...]) -> Inputs:
    return lambda seed: tuple(floats(seed, f"input {index}", shape) for index, shape in enumerate(shapes))


def _tokens(length: int, below: int) -> Inputs:
    return lambda seed: (integers(seed, "tokens", (1, length), 1, below),)


def _call(name: str, *args: Any, **kwargs: Any) -> Build:
    return lambda module: getattr(module, name)(*args, **kwargs)


def _configured(name: str, config: str, **settings: Any) -> Build:
    """For classes that take a configuration object."""
    return lambda module: getattr(module, name)(getattr(module, config)(**settings))


def _kornia() -> Named:
    """Local descriptors, dense features and filters."""
    patch, gray, colour = _random((2, 1, 32, 32)), _random((1, 1, 48, 48)), _random((1, 3, 64, 64))
    for name, inputs, arguments in (
        ("HardNet", patch, {"pretrained": False}), ("HardNet8", patch, {"pretrained": False}),
        ("HyNet", patch, {"pretrained": False}), ("SOSNet", patch, {"pretrained": False}),
        ("TFeat", patch, {"pretrained": False}), ("OriNet", patch, {"pretrained": False}),
        ("SIFTDescriptor", patch, {"patch_size": 32}), ("MKDDescriptor", patch, {"patch_size": 32}),
        ("PatchAffineShapeEstimator", _random((2, 1, 19, 19)), {}), ("DenseSIFTDescriptor", gray, {}),
        ("KeyNet", gray, {"pretrained": False}), ("BlobHessian", gray, {}), ("CornerHarris", gray, {"k": 0.04}),
        ("XFeatModel", colour, {}), ("DISK", colour, {}),
    ):  # fmt: skip
        yield name, Packaged("kornia.feature", "vision", _call(name, **arguments), inputs)
    for name, filter_arguments in (
        ("BilateralBlur", ((3, 3), 0.1, (1.5, 1.5))), ("BlurPool2D", (3,)), ("BoxBlur", ((3, 3),)), ("Canny", ()),
        ("EdgeAwareBlurPool2D", (3,)), ("GaussianBlur2d", ((3, 3), (1.5, 1.5))), ("Laplacian", (3,)),
        ("MaxBlurPool2D", (3,)), ("MedianBlur", ((3, 3),)), ("MotionBlur", (3, 35.0, 0.5)), ("Sobel", ()),
        ("SpatialGradient", ()), ("UnsharpMask", ((3, 3), (1.5, 1.5))),
    ):  # fmt: skip
        yield name, Packaged("kornia.filters", "vision", _call(name, *filter_arguments), colour)


def _tabular() -> Named:
    rows, categories = _random((4, 6)), (3, 4)

    def mixed(seed: int) -> tuple[Any, ...]:
        return floats(seed, "numbers", (4, 6)), integers(seed, "categories", (4, len(categories)), 0, min(categories))

    def transformer(module: Any) -> Any:
        small = {**module.FTTransformer.get_default_kwargs(), "n_blocks": 2, "d_block": 32}
        return module.FTTransformer(n_cont_features=6, cat_cardinalities=list(categories), d_out=2, **small)

    rtdl = "rtdl_revisiting_models"
    yield "FTTransformer", Packaged(rtdl, "tabular", transformer, mixed)
    yield "MLP", Packaged(rtdl, "tabular", _call("MLP", d_in=6, d_out=2, n_blocks=2, d_block=16, dropout=0.0), rows)
    sizes = {"d_in": 6, "d_out": 2, "n_blocks": 2, "d_block": 16, "d_hidden": 32, "d_hidden_multiplier": None}
    yield "ResNet", Packaged(rtdl, "tabular", _call("ResNet", **sizes, dropout1=0.0, dropout2=0.0), rows)
    numbers = "rtdl_num_embeddings"
    yield "LinearEmbeddings", Packaged(numbers, "tabular", _call("LinearEmbeddings", 6, 8), rows)
    yield "LinearReLUEmbeddings", Packaged(numbers, "tabular", _call("LinearReLUEmbeddings", 6, 8), rows)
    yield "PeriodicEmbeddings", Packaged(numbers, "tabular", _call("PeriodicEmbeddings", 6, 8, lite=False), rows)
    tabnet = "pytorch_tabnet.tab_network"
    for mask in ("sparsemax", "entmax"):
        build = _call("TabNet", 6, 2, mask_type=mask, group_attention_matrix=torch.eye(6))
        yield f"TabNet-{mask}", Packaged(tabnet, "tabular", build, rows)


def _recommendation() -> Named:
    """Click models on three categories and two numbers."""

    def build_with(name: str, pair: bool) -> Build:
        def build(module: Any) -> Any:
            inputs = library.import_library("deepctr_torch.inputs", EXTRA)
            columns = [inputs.SparseFeat(f"kind{index}", 8, embedding_dim=8) for index in range(3)]
            columns += [inputs.DenseFeat(f"number{index}", 1) for index in range(2)]
            return getattr(module, name)(*([columns] * (2 if pair else 1)), device="cpu")

        return build

    def row(seed: int) -> tuple[Any, ...]:
        return (torch.cat([integers(seed, "kinds", (4, 3), 0, 8).float(), floats(seed, "numbers", (4, 2))], dim=1),)

    single = ("PNN",)
    for name in ("AFM", "AFN", "AutoInt", "CCPM", "DCN", "DCNMix", "DIFM", "DeepFM", "FiBiNET", "IFM", "MLR", "NFM",
                 "ONN", "PNN", "WDL", "xDeepFM"):  # fmt: skip
        yield name, Packaged("deepctr_torch.models", "recommendation", build_with(name, name not in single), row)


def _images() -> Named:
    for name in ("A2nModel", "AwsrnModel", "CarnModel", "DdbpnModel", "DrlnModel", "EdsrModel", "HanModel", "MdsrModel",
                 "MsrnModel", "PanModel", "RcanModel", "RnanModel", "SmsrModel"):  # fmt: skip
        yield (
            name,
            Packaged(
                "super_image", "vision", _configured(name, f"{name[:-5]}Config", scale=2), _random((1, 3, 24, 24))
            ),
        )
    for size in range(5):

        def from_name(module: Any, size: int = size) -> Any:
            return module.EfficientNet.from_name(f"efficientnet-b{size}")

        yield f"b{size}", Packaged("efficientnet_pytorch", "vision", from_name, _random((1, 3, 64, 64)))


def _sequences() -> Named:
    for name in ("Mamba", "Mamba2"):
        build = _configured(name, f"{name}Config", d_model=32, n_layers=2)
        yield name, Packaged(f"mambapy.{name.lower()}", "language", build, _random((1, 16, 32)))
    options: dict[str, dict[str, Any]] = {
        "plain": {}, "rotary": {"rotary_pos_emb": True, "ff_swish": True, "ff_glu": True, "use_rmsnorm": True},
        "alibi": {"alibi_pos_bias": True}, "grouped": {"attn_kv_heads": 2, "sandwich_norm": True},
        "t5-bias": {"rel_pos_bias": True}, "talking-heads": {"attn_pre_talking_heads": True},
        "shift-tokens": {"shift_tokens": 1}, "macaron": {"macaron": True}, "qk-norm": {"attn_qk_norm": True},
        "residual-attention": {"residual_attn": True}, "scale-norm": {"use_scalenorm": True},
        "gated-residual": {"gate_residual": True}, "sparse": {"attn_sparse_topk": 4},
    }  # fmt: skip

    def wrapper(kind: str, given: dict[str, Any]) -> Build:
        def build(module: Any) -> Any:
            layers = getattr(module, kind)(dim=32, depth=2, heads=4, attn_dim_head=8, **given)
            return module.TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers)

        return build

    for kind in ("Decoder", "Encoder"):
        for name, given in options.items():
            yield f"{kind}-{name}", Packaged("x_transformers", "language", wrapper(kind, given), _tokens(16, 64))


def _policies() -> Named:
    """Networks of actors and critics, without the random choice of an action."""

    class Policy(torch.nn.Module):
        def __init__(self, policy: Any) -> None:
            super().__init__()
            self.policy = policy

        def forward(self, observation: torch.Tensor) -> Any:
            features = self.policy.extract_features(observation)
            actor, critic = self.policy.mlp_extractor(features)
            return self.policy.action_net(actor), self.policy.value_net(critic)

    def build_with(name: str, pixels: bool) -> Build:
        def build(module: Any) -> Any:
            spaces = library.import_library("gymnasium.spaces", EXTRA)
            box = spaces.Box(0, 255, (3, 64, 64), dtype="uint8") if pixels else spaces.Box(-1, 1, (6,))
            return Policy(getattr(module, name)(box, spaces.Discrete(4), lambda _: 1e-3))

        return build

    policies = "stable_baselines3.common.policies"
    yield "MlpPolicy", Packaged(policies, "rl", build_with("ActorCriticPolicy", False), _random((4, 6)))
    yield "CnnPolicy", Packaged(policies, "rl", build_with("ActorCriticCnnPolicy", True), _random((1, 3, 64, 64)))


def _speech() -> Named:
    lobes, frames = "speechbrain.lobes.models", _random((1, 30, 40))
    ecapa = _call("ECAPA_TDNN", 40, channels=[32] * 4 + [96], attention_channels=16, lin_neurons=16)
    yield "ECAPA_TDNN", Packaged(f"{lobes}.ECAPA_TDNN", "audio", ecapa, frames)
    yield "Xvector", Packaged(f"{lobes}.Xvector", "audio", _call("Xvector", in_channels=40, tdnn_blocks=2,
                           tdnn_channels=[32, 32], tdnn_kernel_sizes=[3, 1], tdnn_dilations=[1, 1],
                           lin_neurons=16), frames)  # fmt: skip
    yield "CRDNN", Packaged(f"{lobes}.CRDNN", "audio", _call("CRDNN", input_shape=[1, 30, 40], cnn_blocks=1,
                         cnn_channels=[8], rnn_layers=1, rnn_neurons=16, dnn_neurons=16), frames)  # fmt: skip


def _series() -> Named:
    nbeats, series = "pytorch_forecasting.models.nbeats.sub_modules", _random((4, 24))
    sizes = {"units": 16, "thetas_dim": 4, "num_block_layers": 2, "backcast_length": 24, "forecast_length": 8}
    yield "NBEATSGenericBlock", Packaged(nbeats, "time series", _call("NBEATSGenericBlock", **sizes), series)
    yield "NBEATSTrendBlock", Packaged(nbeats, "time series", _call("NBEATSTrendBlock", **sizes), series)
    del sizes["thetas_dim"]
    yield "NBEATSSeasonalBlock", Packaged(nbeats, "time series", _call("NBEATSSeasonalBlock", **sizes), series)


_GROUPS: Final = (
    _kornia, _tabular, _recommendation, _images, _sequences, _policies, _speech, _series,
)  # fmt: skip
MODELS: Final = dict(sorted((f"{model.package}.{name}", model) for group in _GROUPS for name, model in group()))


@register
class SmallPackageModel(PackagedModels):
    """A model of a package that offers only a few."""

    forms = ("small:PACKAGE.NAME",)
    prefix = "small"
    packages = tuple(sorted({model.package for model in MODELS.values()}))
    extra = EXTRA
    table = MODELS
