"""Optional model libraries: imported when asked for, quiet, and kept from downloading."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import logging
import re
import socket
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from mindgap.corpus import compiled_parts
from mindgap.corpus.inputs import first_line
from mindgap.errors import ModelError


class Offline(OSError):
    """A model wanted to fetch something."""


def import_library(name: str, extra: str | None = None, at_least: str | None = None) -> ModuleType:
    """The library, or a ModelError with the command that installs it in a version that fits."""
    top = name.partition(".")[0]
    install = f"pip install 'mindgap[{extra or top}]'"
    try:
        compiled_parts.make_importable()
        with warnings.catch_warnings(), _no_lookups():  # some packages look for updates
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or top).partition(".")[0]
        what = f"{top} is not installed" if missing == top else f"{top} needs {missing}, which is not installed"
        raise ModelError(what, cause=first_line(error), hint=install) from error
    except Exception as error:  # a library that does not fit this torch fails in any way
        raise ModelError(
            f"{top} is installed, but cannot be imported",
            cause=f"{type(error).__name__}: {first_line(error)}",
            hint=f"{install} in a fresh environment",
        ) from error
    if at_least is not None and (found := version_of(module, top)) is not None and numbers(found) < numbers(at_least):
        raise ModelError(f"{top} {found} is too old", cause=f"mindgap needs {at_least} or newer", hint=install)
    if top == "transformers":
        module.utils.logging.set_verbosity_error()
        module.utils.logging.disable_progress_bar()
    return module


def version_of(module: ModuleType, top: str) -> str | None:
    """A package's version, as it or its distribution says."""
    stated = getattr(module, "__version__", None)
    if isinstance(stated, str):
        return stated
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(top)
    return None


def numbers(version: str) -> tuple[int, ...]:
    """The release part of a version, for comparison."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in release.group().split(".")) if release else ()


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """No downloads inside: hub clients refuse, and no host name is looked up."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_no_lookups())
        with contextlib.suppress(ModuleNotFoundError):
            stack.enter_context(_hub_offline(importlib.import_module("huggingface_hub.constants")))
        yield


@contextlib.contextmanager
def _hub_offline(constants: Any) -> Iterator[None]:
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextlib.contextmanager
def _no_lookups() -> Iterator[None]:
    look_up = socket.getaddrinfo

    def refuse(host: Any, *args: Any, **kwargs: Any) -> Any:
        raise Offline(f"it wanted to reach {host}, and models are built without network")

    socket.getaddrinfo = refuse
    try:
        yield
    finally:
        socket.getaddrinfo = look_up


@contextlib.contextmanager
def quiet(logger_name: str = "huggingface_hub", level: int = logging.ERROR) -> Iterator[None]:
    """Hide what libraries say about their own defaults: users of mindgap cannot act on it."""
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
