"""`file.py:factory` and a plain `file.py` that defines `model` and `inputs()`: the user's own code."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from mindgap.corpus import files
from mindgap.corpus.inputs import as_call, first_line
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import ModelSource, register
from mindgap.corpus.spelling import PYTHON_FILE, undefined
from mindgap.errors import MindgapError, ModelError
from mindgap.records.source import Source

_INPUTS: Final = ("inputs", "example_inputs")


@register
class PythonFile(ModelSource):
    """A Python file of the user's."""

    forms = ("file.py:factory", "file.py")

    def claims(self, spec: str, directory: Path) -> bool:
        return PYTHON_FILE.match(spec) is not None

    def load(self, source: Source) -> Loaded:
        match = PYTHON_FILE.match(source.spec)
        assert match is not None
        path = files.resolve(match["path"], source.directory).resolve()
        name = path.name if match["factory"] is None else f"{path.name}:{match['factory']}"
        files.make_importable(source)
        with _importable(path.parent):
            module = _import(path)
            given = _made(module, path, match["factory"])
            model, inputs = given if _is_pair(given) else (given, None)
            _require_model(model, name, path, match["factory"])
            torch.manual_seed(source.seed)
            inputs = _given_inputs(module, path) if inputs is None else inputs
        args, kwargs = as_call(inputs, str(path))
        return Loaded(name, args, kwargs, model=model)


def function_in(spec: str, source: Source) -> Callable[..., Any]:
    """The function that `file.py:name` names; the file is executed, so somebody must trust it."""
    match = PYTHON_FILE.match(spec)
    assert match is not None
    path = files.resolve(match["path"], source.directory).resolve()
    files.make_importable(source)
    with _importable(path.parent):
        module = _import(path)
    name = match["factory"] or ""
    if not callable(found := getattr(module, name, None)):
        raise undefined(path, name, list(vars(module)))
    return found  # type: ignore[no-any-return]


def _made(module: ModuleType, path: Path, factory: str | None) -> Any:
    """What the factory returns, or the file's `model`."""
    name = factory or "model"
    if not hasattr(module, name):
        raise undefined(path, factory, list(vars(module)))
    value = getattr(module, name)
    if factory is None:
        return value
    if not callable(value):
        raise ModelError(f"{factory} in {path.name} is a {type(value).__name__}, not a function", where=str(path))
    return _call(value, path, f"{factory}()")


def _given_inputs(module: ModuleType, path: Path) -> Any:
    """What the file's `inputs()` returns; nothing when it has none."""
    found = next((getattr(module, name) for name in _INPUTS if hasattr(module, name)), ())
    return _call(found, path, "inputs()") if callable(found) else found


def _is_pair(given: Any) -> bool:
    """Whether a factory returned `(model, inputs)`."""
    return isinstance(given, tuple) and len(given) == 2 and callable(given[0])


def _require_model(model: Any, name: str, path: Path, factory: str | None) -> None:
    what = f"{factory}() returned" if factory else "model is"
    if isinstance(model, type):
        raise ModelError(
            f"{what} the class {model.__name__}, not a model",
            where=str(path),
            hint=f"make one: {model.__name__}()",
        )
    if not callable(model):
        raise ModelError(
            f"{what} a {type(model).__name__}, which cannot be called",
            where=str(path),
            hint="a model is a torch.nn.Module or a function of tensors",
        )


def _import(path: Path) -> ModuleType:
    """The file as a module of its own name, always read afresh."""
    unique = hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()
    name = f"mindgap_model_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{unique}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        _call(lambda: spec.loader.exec_module(module), path, "importing it")  # type: ignore[union-attr]
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _call(function: Callable[[], Any], path: Path, what: str) -> Any:
    """Run the user's code; what it raises becomes a ModelError that names the line."""
    try:
        return function()
    except MindgapError:
        raise
    except SystemExit as error:
        raise ModelError(
            f"{path.name} ended the program: {what} called sys.exit({error.code!r})",
            where=_place(error, path),
            hint="put what runs as a script under if __name__ == '__main__':",
        ) from error
    except Exception as error:
        raise ModelError(
            f"{path.name} failed: {what} raised {type(error).__name__}",
            where=_place(error, path),
            cause=first_line(error),
        ) from error


def _place(error: BaseException, path: Path) -> str:
    """The line of the user's file where it went wrong."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


@contextlib.contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """The file's own directory comes first on the import path, so that its neighbours can be imported."""
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(directory))
