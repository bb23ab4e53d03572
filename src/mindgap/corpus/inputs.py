"""What a model is called with: made from a seed, or read from a file, and checked against the model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus import casting, files
from mindgap.corpus.loaded import Loaded
from mindgap.errors import CorruptModel, ModelError
from mindgap.program.examples import UNIT, floats, from_metas, integers, of_program
from mindgap.program.graph import Program
from mindgap.reading.files import read_file
from mindgap.reading.limits import TENSOR_BYTES
from mindgap.records.tensors import DTYPES, with_stride

__all__ = ["UNIT", "as_call", "check_fit", "floats", "from_metas", "integers", "of_program",
           "read_inputs", "with_inputs"]  # fmt: skip


def read_inputs(path: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments from a file: `.safetensors` holds keyword arguments, `.pt` a list, a dict or one tensor."""
    path = files.resolve(path.name, str(path.parent))
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ModelError(f"{path.name} is not a file of inputs", where=str(path), hint="give .safetensors or .pt")
    return as_call(reader(path), str(path))


def _read_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(read_file(path, TENSOR_BYTES, CorruptModel))
    except (SafetensorError, ValueError) as error:
        raise ModelError(f"{path.name} cannot be read", where=str(path), cause=str(error)) from error


def _read_pt(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged archives raise many types
        raise ModelError(
            f"{path.name} cannot be read without executing code from it",
            where=str(path),
            cause=first_line(error),
            hint="save plain tensors: torch.save([x, y], path) or torch.save({'x': x}, path)",
        ) from error


_READERS: Final = {".safetensors": _read_safetensors, ".pt": _read_pt, ".pth": _read_pt}


def as_call(given: Any, where: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a user wrote for inputs as arguments: a dict is keywords, a list or tuple positions."""
    if isinstance(given, Mapping):
        if not all(isinstance(key, str) for key in given):
            raise ModelError("the inputs are a dict whose keys are not argument names", where=where)
        return (), {key: plain_containers(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return tuple(plain_containers(value) for value in given), {}
    if isinstance(given, torch.Tensor):
        return (given,), {}
    raise ModelError(
        f"the inputs are a {type(given).__name__}",
        where=where,
        hint="give a list or tuple of positional arguments, or a dict of keyword arguments",
    )


def plain_containers(value: Any) -> Any:
    """The same nesting with plain dicts, lists and tuples; anything else is a leaf."""
    if isinstance(value, Mapping):
        return {key: plain_containers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_containers(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain_containers(item) for item in value)
    return value


def with_inputs(loaded: Loaded, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: str | None = None) -> Loaded:
    """The model with the user's inputs instead of its own, checked against it."""
    if dtype is not None:
        args, kwargs = casting.cast_inputs(tuple(args), kwargs, casting.precision(dtype))
    if loaded.program is not None:
        given = _by_position(loaded.program, args, kwargs)
        return replace(loaded, args=_check_metas(loaded.program, given), kwargs={})
    if loaded.file:
        return replace(loaded, kwargs=_for_file(loaded, args, kwargs))
    changed = replace(loaded, args=tuple(args), kwargs=dict(kwargs))
    check_fit(changed)
    return changed


def check_fit(loaded: Loaded) -> None:
    """Raises ModelError when the model cannot be called with the inputs that it was given."""
    if loaded.program is not None:
        _check_metas(loaded.program, _by_position(loaded.program, loaded.args, loaded.kwargs))
        return
    signature = signature_of(loaded.model)
    if signature is None:
        return
    try:
        signature.bind(*loaded.args, **loaded.kwargs)
    except TypeError as error:
        nothing = not loaded.args and not loaded.kwargs
        raise ModelError(
            f"{loaded.name} has no inputs" if nothing else f"the inputs do not fit {loaded.name}",
            where=f"expected {_shown(signature)}, given {_given(loaded.args, loaded.kwargs)}",
            cause=str(error),
            hint="define inputs() beside the model, or give --inputs FILE" if nothing else None,
        ) from error


def _for_file(loaded: Loaded, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs of a model file by name; sizes may be others than those of its example."""
    expected = dict(loaded.kwargs)
    given = {**dict(zip(expected, args)), **kwargs}
    if len(args) > len(expected) or set(given) != set(expected):
        raise ModelError(
            f"the inputs do not fit {loaded.name}",
            where=f"expected ({', '.join(expected)}), given {_given(args, kwargs)}",
        )
    for name, value in given.items():
        own = expected[name]
        if not isinstance(value, torch.Tensor) or value.dtype != own.dtype or value.dim() != own.dim():
            raise ModelError(
                f"input {name!r} does not fit {loaded.name}",
                cause=f"expected {str(own.dtype).removeprefix('torch.')} of {own.dim()} dimensions, "
                f"given {_describe(value)}",
            )
    return {name: given[name] for name in expected}


def signature_of(model: Any) -> inspect.Signature | None:
    """What a model takes; None for built-in functions, which do not say."""
    function = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def first_line(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _by_position(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of a program in the order of its inputs."""
    expected = [item.name for item in program.inputs]
    rest = expected[len(args) :]
    unknown = sorted(set(kwargs) - set(rest))
    missing = [name for name in rest if name not in kwargs]
    if len(args) > len(expected) or unknown or missing:
        twice = [name for name in unknown if name in expected]
        unknown_cause = f"it has no input {unknown[0]!r}" if unknown else f"it takes {len(expected)} inputs"
        raise ModelError(
            f"the inputs do not fit {program.name}",
            where=f"expected ({', '.join(expected)}), given {_given(args, kwargs)}",
            cause=f"input {twice[0]!r} is given twice" if twice else
            f"input {missing[0]!r} is missing" if missing and not unknown else unknown_cause,
        )  # fmt: skip
    return [*args, *(kwargs[name] for name in rest)]


def _check_metas(program: Program, given: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """The tensors in the layout that the program was exported with; shape and dtype must be the same."""
    tensors = []
    for item, value in zip(program.inputs, given):
        is_tensor = isinstance(value, torch.Tensor)
        if not is_tensor or tuple(value.shape) != item.meta.shape or value.dtype != DTYPES[item.meta.dtype]:
            raise ModelError(
                f"input {item.name!r} does not fit {program.name}",
                cause=f"expected {item.meta}, given {_describe(value)}",
            )
        same = tuple(value.stride()) == item.meta.stride
        tensors.append(value if same else with_stride(value, item.meta.stride))
    return tuple(tensors)


def _shown(signature: inspect.Signature) -> str:
    return "(" + ", ".join(
        name if parameter.default is parameter.empty else f"{name}=..."
        for name, parameter in signature.parameters.items()
    ) + ")"  # fmt: skip


def _given(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    shown = [_describe(value) for value in args]
    shown += [f"{key}={_describe(value)}" for key, value in kwargs.items()]
    return f"({', '.join(shown)})" if shown else "nothing"


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__
