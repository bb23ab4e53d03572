"""`hub:org/name` or a local directory: a published model with its own weights."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus import files, library
from mindgap.corpus.inputs import first_line
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import ModelSource, register
from mindgap.corpus.sources.transformers.models import first_fitting_call
from mindgap.errors import MindgapError, ModelError, Untrusted
from mindgap.records.source import Source

PREFIX: Final = "hub:"
_PICKLED_WEIGHTS: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt")


@register
class HubModel(ModelSource):
    """What `from_pretrained` gives: real code and trained weights, by name or from a directory."""

    forms = ("hub:org/name", "directory/")

    def claims(self, spec: str, directory: Path) -> bool:
        return spec.startswith(PREFIX) or (directory / spec / "config.json").is_file()

    def load(self, source: Source) -> Loaded:
        transformers = library.import_library("transformers")
        name = source.spec.removeprefix(PREFIX)
        folder = Path(source.directory) / Path(name).expanduser()
        is_local = folder.is_dir()
        if is_local and not source.trust:
            _refuse_pickles(folder)
        with library.quiet(), contextlib.nullcontext() if is_local or _is_reachable() else library.offline():
            name = str(folder) if is_local else name
            config, model = _from_pretrained(transformers, name, is_local, source)
            call = first_fitting_call(model, config, source.seed)
        return Loaded(source.spec, (), call, model=model)


def _is_reachable() -> bool:
    """Whether the hub's address is known here; its client would retry for half a minute to find out."""
    if any(name.lower() in ("https_proxy", "all_proxy") for name in os.environ):
        return True
    try:
        socket.getaddrinfo("huggingface.co", 443)
        return True
    except OSError:
        return False


def _refuse_pickles(folder: Path) -> None:
    """Only safetensors are read without trust: other weights are pickles."""
    pickles = sorted(path for pattern in _PICKLED_WEIGHTS for path in folder.glob(pattern))
    if pickles and not any(folder.glob("*.safetensors")):
        raise files.refuse(pickles[0], "the weights are a Python pickle, and there are no safetensors")


def _from_pretrained(transformers: Any, name: str, is_local: bool, source: Source) -> tuple[Any, torch.nn.Module]:
    where = {"local_files_only": is_local, "trust_remote_code": source.trust}
    try:
        config = transformers.AutoConfig.from_pretrained(name, **where)
        safe = {} if source.trust else {"use_safetensors": True}
        model = _class_of(transformers, config).from_pretrained(name, config=config, **where, **safe)
    except MindgapError:
        raise
    except Exception as error:  # a damaged file, no network, code of the model's own
        raise _explained(error, name, is_local) from error
    return config, model.eval()


def _class_of(transformers: Any, config: Any) -> Any:
    """The class that the model was saved from, where transformers has it."""
    names = getattr(config, "architectures", None) or ()
    known = next((name for name in names if hasattr(transformers, name)), None)
    return getattr(transformers, known) if known else transformers.AutoModel


def _explained(error: Exception, name: str, is_local: bool) -> MindgapError:
    text = str(error)
    if "trust_remote_code" in text:
        return Untrusted(
            f"{name} brings code of its own",
            cause="its configuration names Python files that would be executed",
            hint="if you trust where the model comes from, add --trust",
        )
    if is_local:
        return ModelError(f"the model in {Path(name).name} cannot be read", where=name, cause=first_line(error))
    return ModelError(
        f"{name} cannot be read from the hub",
        cause=first_line(error),
        hint="check the name and the network, or give a local directory with config.json",
    )
