"""A training step as a model: the loss, and the gradients of parameters and inputs, as outputs to compare.

The user's own code runs forward and through autograd (`Gradients`); the program is the joint graph that autograd makes
of it (`joint_program`), operator by operator, so that whatever takes a program can be asked about gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from mindgap.corpus.export import as_module, export, positional_names, prepare
from mindgap.corpus.inputs import signature_of
from mindgap.corpus.load import load_model
from mindgap.corpus.loaded import Loaded
from mindgap.errors import ModelError
from mindgap.program.build import named_results
from mindgap.program.examples import floats
from mindgap.program.graph import Program, map_leaves
from mindgap.program.inputs import Inputs
from mindgap.program.state import BUFFER, Wrapper
from mindgap.records.source import Source
from mindgap.records.tensors import same_bits

LOADER: Final = "mindgap.corpus.backward:load_gradients"
LOSS: Final = "loss"


class Gradients(Wrapper):
    """A model with its gradients: called like the model, it returns the loss and a gradient per parameter and input.

    What the model changes meanwhile, such as running statistics, is compared like any state (`ModuleState`).

    The loss is the output itself where the model returns one number, otherwise a fixed random projection of all
    floating outputs: every element counts, each with its own weight.
    """

    def __init__(self, model: torch.nn.Module, seed: int) -> None:
        super().__init__(model.requires_grad_(True))
        self.seed = seed

    @torch.compiler.disable(recursive=False)  # type: ignore[no-untyped-call, untyped-decorator]
    def forward(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        """What compilers compile is the user's model, and autograd runs the backward pass that they made of it."""
        with torch.enable_grad():
            args, kwargs = _leaves(args, kwargs)
            found: dict[str, torch.Tensor] = self._step(self.model(*args, **kwargs), args, kwargs)
            return found

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _step(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
        taken = Inputs.of(args, kwargs, positional_names(signature_of(self.model), len(args)))
        names, given = zip(*((item.name, item.tensor) for item in taken.tensors))
        return _gradients(loss_of(result, self.seed), dict(self.model.named_parameters()), names, given)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a model is called with, as tensors that have gradients."""
    return map_leaves(args, _leaf), {key: map_leaves(item, _leaf) for key, item in kwargs.items()}


def _leaf(value: Any) -> Any:
    """A tensor that has a gradient; anything else as it is."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    return value.detach().requires_grad_(True)


def loss_of(result: Any, seed: int) -> torch.Tensor:
    """One number that depends on every floating element of what a model returns."""
    outputs = [
        (name, tensor)
        for name, tensor in named_results(result)
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.requires_grad
    ]
    if not outputs:
        raise ModelError("no output depends on a parameter or an input by a gradient")
    if len(outputs) == 1 and outputs[0][1].numel() == 1:
        return outputs[0][1].reshape(())
    parts = []
    for name, tensor in outputs:
        weights = floats(seed, f"loss of {name}", tuple(tensor.shape)).to(tensor.dtype)
        parts.append((tensor * weights).sum())
    return torch.stack(parts).sum() if len(parts) > 1 else parts[0]


def _gradients(
    loss: torch.Tensor, parameters: Mapping[str, torch.Tensor], names: Sequence[str], given: Sequence[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """By name; what the loss does not depend on has none."""
    wanted = {f"grad:{name}": tensor for name, tensor in parameters.items() if tensor.requires_grad}
    wanted |= {f"grad:input:{name}": tensor for name, tensor in zip(names, given) if tensor.requires_grad}
    found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    return {LOSS: loss.detach()} | {name: value for name, value in zip(wanted, found) if value is not None}


def with_gradients(loaded: Loaded) -> Loaded:
    """The training step of a loaded model; raises ModelError where it has no gradients."""
    if not isinstance(loaded.model, torch.nn.Module):
        if loaded.model is None:
            raise ModelError(
                f"{loaded.name} holds no model that can be trained", cause="a program or a file has no gradients",
                hint="give the model itself: file.py:factory",
            )  # fmt: skip
        loaded = replace(loaded, model=as_module(loaded.model))
    assert isinstance(loaded.model, torch.nn.Module)
    inputs = prepare(loaded)
    floating = any(item.tensor.is_floating_point() for item in inputs.tensors)
    if not floating and not any(True for _ in loaded.model.parameters()):
        raise ModelError(f"{loaded.name} has neither parameters nor floating inputs", hint="leave --backward out")
    return replace(loaded, model=Gradients(loaded.model, loaded.seed))


def load_gradients(source: Source) -> Callable[..., Any]:
    """The training step, made again in a process of a torch platform (`Source.loader`)."""
    model = load_model(replace(source, loader="mindgap.corpus.load:load_model"))
    return Gradients(as_module(model), source.seed)


def joint_program(loaded: Loaded) -> tuple[Program, dict[str, torch.Tensor]]:
    """Forward and backward as one program; `loaded` is a training step."""
    step = loaded.model
    assert isinstance(step, Gradients)
    inputs = prepare(replace(loaded, model=step.model))
    names = [item.name for item in inputs.tensors]
    parameters = dict(step.model.named_parameters())
    buffers = {name: tensor.clone() for name, tensor in step.model.named_buffers()}
    after: dict[str, torch.Tensor] = {}

    def training_step(given: list[torch.Tensor], held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        args, kwargs = inputs.call(given)
        state = {**held, **{name: tensor.clone() for name, tensor in buffers.items()}}
        result = torch.func.functional_call(step.model, state, args, kwargs)
        after.update((name, state[name]) for name in sorted(buffers))
        found = _gradients(loss_of(result, step.seed), held, names, given)
        return found | {f"{BUFFER}{name}": tensor for name, tensor in after.items()}

    with torch.enable_grad():
        leaves = [_leaf(tensor) for tensor in inputs.copies()]
        held = {name: tensor.detach().clone().requires_grad_(True) for name, tensor in parameters.items()}
        graph = make_fx(training_step, tracing_mode="real")(leaves, held)
    joint = replace(loaded, model=_Joint(graph, held, len(leaves)), args=tuple(inputs.copies()), kwargs={})
    program, constants = export(joint)
    named = tuple(replace(item, name=name) for item, name in zip(program.inputs, names))
    changed = [name for name, tensor in after.items() if not same_bits(tensor.detach(), buffers[name])]
    return replace(program, inputs=named, outputs=_apart(program.outputs, changed)), constants


def _apart(outputs: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """What a training step returns, and next to it the buffers that it changes, as in any program."""
    returned = {name: value for name, value in outputs.items() if not name.startswith(BUFFER)}
    buffers = {f"{BUFFER}{name}": outputs[f"{BUFFER}{name}"] for name in changed}
    return {"": returned, **buffers} if buffers else returned


class _Joint(torch.nn.Module):
    """The graph of a training step with its parameters inside."""

    def __init__(self, graph: torch.nn.Module, parameters: Mapping[str, torch.Tensor], inputs: int) -> None:
        super().__init__()
        self.graph = graph
        self.names = tuple(parameters)
        self.inputs = inputs
        for number, tensor in enumerate(parameters.values()):
            self.register_buffer(f"p{number}", tensor.detach())

    def forward(self, *tensors: torch.Tensor) -> Any:
        held = {name: getattr(self, f"p{number}") for number, name in enumerate(self.names)}
        return self.graph(list(tensors), held)
