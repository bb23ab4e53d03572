"""Optional model libraries: imported when asked for, quiet, and kept from downloading."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator
from types import ModuleType

from mindgap.corpus import torchvision_ops
from mindgap.corpus.inputs import first_line
from mindgap.errors import ModelError


def import_library(name: str) -> ModuleType:
    """The library, or a ModelError with the command that installs it."""
    try:
        torchvision_ops.make_importable()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{name} is not installed", cause=first_line(error), hint=f"pip install 'mindgap[{name}]'"
        ) from error
    except Exception as error:  # a library that does not fit this torch fails in any way
        raise ModelError(
            f"{name} is installed, but cannot be imported",
            cause=f"{type(error).__name__}: {first_line(error)}",
            hint=f"pip install 'mindgap[{name}]' in a fresh environment",
        ) from error
    if name == "transformers":
        module.utils.logging.set_verbosity_error()
        module.utils.logging.disable_progress_bar()
    return module


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Nothing is fetched meanwhile: a model that would be asks the hub, and the hub client refuses."""
    try:
        constants = importlib.import_module("huggingface_hub.constants")
    except ModuleNotFoundError:
        yield
        return
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before  # type: ignore[attr-defined]


@contextlib.contextmanager
def quiet(logger_name: str = "huggingface_hub", level: int = logging.ERROR) -> Iterator[None]:
    """Warnings of libraries about their own defaults are not news for a user of mindgap."""
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
