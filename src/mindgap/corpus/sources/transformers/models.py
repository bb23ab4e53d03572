"""`transformers:TYPE` and `transformers:TYPE:HEAD`: an architecture made tiny, with living weights."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from mindgap.corpus import attempts, files, library
from mindgap.corpus.inputs import first_line
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.corpus.sources.transformers import inputs, shrink
from mindgap.corpus.spelling import unknown_name
from mindgap.errors import ModelError
from mindgap.records.source import Source

PREFIX: Final = "transformers:"
MOST_PARAMETERS: Final = 200_000_000
"""A configuration that could not be made tiny is used only when the model stays below this."""
_RECIPES: Final[tuple[Callable[[Any], dict[str, Any]], ...]] = (
    shrink.shrink,
    shrink.with_sections,
    shrink.completed,
    shrink.shallow,
    dict,
)
"""Ways to make a configuration, the smallest first; the last takes it as published."""


@register
class TransformersModel(Library):
    """A configuration of transformers, shrunk by recipe; nothing is downloaded."""

    forms = ("transformers:TYPE", "transformers:TYPE:HEAD")
    prefix = "transformers"
    packages = ("transformers",)
    extra = "transformers"
    spelled_in = ("models/auto", r'\("([\w-]+)", "\w+Config"\)')

    def offers(self) -> Iterator[Offer]:
        transformers = library.import_library("transformers", self.extra)
        auto = transformers.models.auto.modeling_auto
        domains = domains_by_type(auto)
        for kind, heads in sorted(heads_by_type(transformers).items()):
            for name in sorted(set(heads.values())):
                yield Offer(f"{PREFIX}{kind}:{name}", domains.get(kind) or _domain_by_name(kind), kind)

    def load(self, source: Source) -> Loaded:
        transformers = library.import_library("transformers", self.extra, at_least="5.0")
        kind, _, head = source.spec.removeprefix(PREFIX).partition(":")
        config_class, model_class = _find(transformers, kind, head)
        with library.quiet(), library.offline():
            model, call = _first_that_runs(config_class, model_class, source)
        return Loaded(source.spec, (), call, model=model)


def _find(transformers: Any, kind: str, head: str) -> tuple[Any, Any]:
    """The configuration and model classes of a type and a head, or a ModelError with the nearest name."""
    types = heads_by_type(transformers)
    if kind not in types:
        raise unknown_name(kind, sorted(types), TransformersModel.prefix)
    heads = types[kind]
    wanted = head.replace("_", "-").lower()
    name = head if head in heads.values() else heads.get(wanted) if head else next(iter(heads.values()))
    if name is None:
        whole = f"{PREFIX}{kind}:"
        hint = files.did_you_mean(wanted, heads, whole) or files.did_you_mean(head, heads.values(), whole)
        raise ModelError(f"transformers has no head {head!r} for {kind}", cause=f"it has {', '.join(heads)}", hint=hint)
    return _classes(transformers, kind, name)


def _classes(transformers: Any, kind: str, name: str) -> tuple[Any, Any]:
    """The classes of a head and of its configuration, which may be only a part of the type's."""
    auto = transformers.models.auto
    of_type = transformers.AutoConfig.for_model(kind).__class__
    try:
        model_class = getattr(transformers, name)
    except AttributeError:  # listed, and not exported by the package itself
        folder = auto.configuration_auto.model_type_to_module_name(kind)
        module = importlib.import_module(f"transformers.models.{folder}")
        try:
            model_class = auto.auto_factory.getattribute_from_module(module, name)
        except ValueError as error:
            raise ModelError(f"transformers lists {name} for {kind}, but does not define it") from error
    wanted = getattr(model_class, "config_class", None)
    return (of_type if wanted is None or issubclass(of_type, wanted) else wanted), model_class


_TABLES_BY_DOMAIN: Final = (
    ("time series", r"TIME_SERIES"),
    ("multimodal", r"IMAGE_TEXT_TO_TEXT|VISUAL_QUESTION|DOCUMENT_QUESTION|ZERO_SHOT"),
    ("audio", r"AUDIO|CTC|SPEECH|RNNT|TDT|WAVEFORM|SPECTROGRAM"),
    ("multimodal", r"MULTIMODAL"),
    ("vision", r"IMAGE|BACKBONE|DEPTH|SEGMENTATION|DETECTION|KEYPOINT|VIDEO|MASK_GENERATION|NORMAL|POSE|POINTMAP"),
    ("vision", r"TEXT_RECOGNITION|TABLE_RECOGNITION"),
)
"""The first of these tables that lists a type gives its domain; the rest is language."""
_NAMES_BY_DOMAIN: Final = (
    ("rl", r"decision_transformer"),
    ("time series", r"time|informer|autoformer|patchts"),
    ("audio", r"audio|speech|codec|wav|voice|mimi|dac|asr|clap|vits|univnet|music|hubert|tts"),
    ("vision", r"vision|image|video|vit|visual|detr|dino|sam|depth|siglip|swin|convnext|vqgan|vqvae|vq"),
)
"""For types that only the table of base models lists."""


def domains_by_type(auto: Any) -> dict[str, str]:
    """The domain of each type that a table of heads lists."""
    domains: dict[str, str] = {}
    tables = [name for name in dir(auto) if re.fullmatch(r"MODEL_FOR_\w+_MAPPING_NAMES", name)]
    for domain, pattern in (*_TABLES_BY_DOMAIN, ("language", r"_LM_|CLASSIFICATION|ANSWERING|CHOICE|TEXT_ENCODING")):
        for table in tables:
            if re.search(pattern, table.removeprefix("MODEL_FOR")):
                for kind in getattr(auto, table):
                    domains.setdefault(kind, domain)
    return domains


def _domain_by_name(kind: str) -> str:
    return next((domain for domain, pattern in _NAMES_BY_DOMAIN if re.search(pattern, kind)), "language")


def heads_by_type(transformers: Any) -> dict[str, dict[str, str]]:
    """Model classes by type and short head name, the base model first, from the library's own tables."""
    auto = transformers.models.auto.modeling_auto
    tables = [name for name in dir(auto) if re.fullmatch(r"MODEL(_FOR_\w+)?_MAPPING_NAMES", name)]
    tables.sort(key=lambda name: name != "MODEL_MAPPING_NAMES")
    types: dict[str, dict[str, str]] = {}
    for table in tables:
        head = table.removeprefix("MODEL_").removesuffix("MAPPING_NAMES").removeprefix("FOR_")
        for kind, names in getattr(auto, table).items():
            first, *others = [names] if isinstance(names, str) else names
            types.setdefault(kind, {}).setdefault(head.strip("_").replace("_", "-").lower() or "base", first)
            for name in (first, *others):
                types[kind].setdefault(short_name(name), name)
    return types


def short_name(class_name: str) -> str:
    """`BertForMaskedLM` as `masked-lm`; a class without a head is `base`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", class_name.partition("For")[2])
    return words.lower() or "base"


def _first_that_runs(config_class: Any, model_class: Any, source: Source) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The smallest configuration with the likeliest inputs that really runs."""
    failure: Exception | None = None
    _require_tensors(model_class, source.spec)
    for recipe in _RECIPES:
        try:
            config = _configured(config_class, recipe)
            model = _build(model_class, config, source.seed)
        except Exception as error:  # a configuration whose numbers do not fit each other
            failure = failure or error
            continue
        try:
            return model, first_fitting_call(model, config, source.seed)
        except ModelError as error:
            failure = failure or error
    raise ModelError(
        f"{source.spec} could not be made small",
        cause=getattr(failure, "cause", None) or (first_line(failure) if failure else None),
        hint="write a factory with a configuration of your own, and name it: file.py:factory",
    ) from failure


def _require_tensors(model_class: Any, spec: str) -> None:
    """Raises ModelError for classes that are not functions of tensors."""
    if model_class.forward is torch.nn.Module.forward:
        raise ModelError(f"{spec} has no forward", cause="it only groups models that are called separately")
    if "inference_session" in inspect.signature(model_class.forward).parameters:
        raise ModelError(f"{spec} keeps a session between frames", cause="it is not a function of tensors")


def first_fitting_call(model: torch.nn.Module, config: Any, seed: int) -> dict[str, Any]:
    """The likeliest inputs that a model accepts; raises ModelError when none does."""
    failure: Exception | None = None
    calls = inputs.calls(model, config, seed)
    call = next(calls, None)
    while call is not None:
        try:
            torch.manual_seed(seed)
            with torch.no_grad():
                model(**call)
            return call
        except Exception as error:  # a wrong guess raises whatever the model's code raises
            failure = failure or error
            call = inputs.with_named(model, config, seed, call, str(error)) or next(calls, None)
    name = type(model).__name__
    raise ModelError(
        f"no inputs could be made for {name}",
        cause=first_line(failure) if failure else None,
        hint="give them with --inputs",
    ) from failure


def _configured(config_class: Any, recipe: Callable[[Any], dict[str, Any]]) -> Any:
    published = config_class().to_dict()
    if recipe is shrink.completed:
        published |= {
            name: part().to_dict()
            for name, part in getattr(config_class, "sub_configs", {}).items()
            if published.get(name, ...) is None and hasattr(part, "to_dict")
        }
    settings = recipe(published)
    try:
        config = config_class.from_dict(settings)
    except Exception:  # private entries are derived ones, which some classes do not take back
        public = {key: value for key, value in settings.items() if not key.startswith("_")}
        config = config_class.from_dict(public)
    for part in _parts(config):
        part.use_cache = False
        # The default calls another kernel when it is traced, and an operator of transformers' own.
        part._experts_implementation = "batched_mm"
        for name in ("pad_token_id", "eos_token_id", "bos_token_id", "sep_token_id"):
            token, size = getattr(part, name, None), getattr(part, "vocab_size", None)
            if isinstance(token, int) and isinstance(size, int) and token >= size:
                setattr(part, name, 0)
    return config


def _parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside it."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None and not isinstance(part, dict):
            yield from _parts(part)


def _build(model_class: Any, config: Any, seed: int) -> torch.nn.Module:
    build = functools.partial(model_class, config)
    attempts.refuse_large(attempts.count_parameters(build), MOST_PARAMETERS)
    model = attempts.built(build, seed)
    _export_what_runs(model)
    return model


def _export_what_runs(model: torch.nn.Module) -> None:
    """Export what users run: gated delta rules unroll a triangular solve under export, which rounds differently."""
    for name in {type(part).__module__ for part in model.modules()}:
        module = sys.modules[name]
        if any("chunk_gated_delta_rule" in entry for entry in vars(module)):
            vars(module)["is_torchdynamo_exporting"] = bool
