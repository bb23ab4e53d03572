"""From a loaded model to a program, and to the inputs that fit both."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from mindgap.corpus.inputs import check_fit, plain_containers, signature_of
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.recipes import with_recipes
from mindgap.errors import ModelError, UnsupportedConstruct
from mindgap.platforms.exported import quiet
from mindgap.program.build import build, plain
from mindgap.program.graph import Program
from mindgap.program.inputs import Inputs
from mindgap.records.tensors import DTYPE_NAMES, TensorMeta


def prepare(loaded: Loaded) -> Inputs:
    """The model's inputs taken apart, in the order of its program's inputs, named as in its signature.

    Raises ModelError when they do not fit the model.
    """
    check_fit(loaded)
    if loaded.program is not None:
        return Inputs.of(loaded.args, {}, [item.name for item in loaded.program.inputs])
    signature = signature_of(loaded.model)
    args = tuple(plain_containers(value) for value in loaded.args)
    kwargs = {key: plain_containers(value) for key, value in _in_order(loaded.kwargs, signature).items()}
    inputs = Inputs.of(args, kwargs, positional_names(signature, len(args)))
    for item in inputs.tensors:
        if item.tensor.layout is not torch.strided or item.tensor.is_nested or item.tensor.dtype not in DTYPE_NAMES:
            raise ModelError(
                f"input {item.name} is a {_kind_of(item.tensor)} tensor, which cannot be handed to a worker",
                hint="give the model dense tensors, and let it make the others from them",
            )
    return inputs


def _kind_of(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        return "nested"
    return str(tensor.dtype if tensor.layout is torch.strided else tensor.layout).removeprefix("torch.")


def export(loaded: Loaded) -> tuple[Program, dict[str, torch.Tensor]]:
    """A program and its constants by digest; its inputs are those of `prepare`, in order and by name.

    Raises UnsupportedConstruct for what a program cannot express; exceptions of torch.export pass through.
    """
    if loaded.program is not None:
        return loaded.program, dict(loaded.constants)
    assert loaded.model is not None
    inputs = prepare(loaded)
    args, kwargs = inputs.call(inputs.copies())
    module = as_module(loaded.model)
    # torch.export refuses results of classes that it does not know.
    unpacking = module.register_forward_hook(lambda _module, _args, result: plain(result))
    try:
        # Where it fails it prints the graph so far, in names that nobody wrote.
        with torch.no_grad(), quiet(), contextlib.redirect_stderr(io.StringIO()):
            exported = torch.export.export(module, args, kwargs, strict=False)
    finally:
        unpacking.remove()
    program, constants = build(exported, loaded.name)
    named = _with_names(program, inputs)
    return with_recipes(named, constants, loaded.made, inputs, loaded.seed), constants


def as_module(model: torch.nn.Module | Callable[..., Any]) -> torch.nn.Module:
    """The model as a module: a function becomes the forward of one."""
    return model if isinstance(model, torch.nn.Module) else FunctionModule(model)


class FunctionModule(torch.nn.Module):
    """A function as a module with the same signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if signature_of(function) is None:  # a built-in: exporting needs a signature
            self.forward = lambda *args, **kwargs: function(*args, **kwargs)
        else:
            self.forward = function


def _with_names(program: Program, inputs: Inputs) -> Program:
    """The program with its inputs named as the caller knows them; raises when they are other inputs."""
    given = [TensorMeta.of(item.tensor) for item in inputs.tensors]
    expected = [item.meta for item in program.inputs]
    if given != expected:
        raise UnsupportedConstruct(
            "the exported graph takes other inputs than the model was given",
            cause=f"exported {', '.join(map(str, expected))}; given {', '.join(map(str, given))}",
        )
    named = tuple(replace(item, name=tensor.name) for item, tensor in zip(program.inputs, inputs.tensors))
    return replace(program, inputs=named)


def _in_order(kwargs: Mapping[str, Any], signature: inspect.Signature | None) -> dict[str, Any]:
    """Keyword arguments in the order of the signature; what goes into **kwargs follows."""
    names = list(signature.parameters) if signature is not None else []
    known = [name for name in names if name in kwargs]
    return {name: kwargs[name] for name in [*known, *(name for name in kwargs if name not in known)]}


def positional_names(signature: inspect.Signature | None, count: int) -> list[str]:
    """What a model calls its first arguments."""
    if signature is None:
        return []
    names: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return names + [f"{name}{index}" for index in range(count - len(names))]
        names.append(name)
    return names
