"""Running a program or a callable with a hook around every operator call."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mindgap.program import ops
from mindgap.program.build import named_results
from mindgap.program.convert import changed_inputs
from mindgap.program.graph import Node, Program, Tensors, leaves, map_leaves
from mindgap.program.inputs import Inputs
from mindgap.program.interpret import Executable
from mindgap.program.operators import base_name
from mindgap.program.precision import in_float64, widen, widen_any
from mindgap.program.state import BUFFER, ModuleState, seed_python
from mindgap.records.tensors import TensorMeta, same_bits
from mindgap.verdicts.traps import divides, safe_arguments

Runnable: TypeAlias = "tuple[Program, Tensors] | ModelFile | Callable[..., Any]"
"""A program with its constants, or the user's own function or module."""


@dataclass(slots=True)
class Call:
    """One operator call that is about to be made."""

    op: str
    """ATen overload name: `aten.add.Tensor`."""
    function: Callable[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]
    key: int
    """Identifies the same call in another run of the same model."""
    where: str = ""
    note: Any = None
    """What a rule saw before the call and needs after it."""

    @property
    def name(self) -> str:
        """The operator without namespace, overload and in-place mark: `add`."""
        return base_name(self.op)

    @property
    def is_operator(self) -> bool:
        return isinstance(self.function, torch._ops.OpOverload)

    @property
    def inplace(self) -> bool:
        """Whether the result is an argument that the call writes to."""
        return self.is_operator and ops.declares_writes(self.op)

    def make(self) -> Any:
        """What the operator returns; divisions that would end the process get another divisor."""
        args = safe_arguments(self.op, self.args, self.kwargs) if divides(self.op) else self.args
        return self.function(*args, **self.kwargs)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument, however it was given; the schema's default where it was not."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor among the arguments."""
        return tensors_in([self.args, self.kwargs])

    def mutated(self) -> list[torch.Tensor]:
        """The tensors that the call writes to."""
        if not self.is_operator:
            return []
        return tensors_in([self.argument(position, name) for position, name in ops.mutated_arguments(self.op)])


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor of nested arguments or results."""
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


Hook: TypeAlias = Callable[[Call], Any]
"""Makes a call its own way and returns what the rest of the run sees.

A hook that leaves most operators alone can say so, and those cost nothing: `wants(node)` tells whether it handles the
call of a node, `keys` lists single calls that it needs as well. `quick(key, function, args, kwargs)` may make a call
without building a `Call`, or return NotImplemented.
"""


Run: TypeAlias = Callable[[Hook], dict[str, torch.Tensor]]
"""Runs a model with a hook; its outputs by name."""


class HookedRunner(ABC):
    """A model with its inputs; every run starts from the same state."""

    def __init__(self, inputs: Inputs, seed: int) -> None:
        self.inputs = inputs
        self.seed = seed

    def run(self, hook: Hook, wide: bool = False, seed: int | None = None) -> dict[str, torch.Tensor]:
        """Outputs by name, then every input that may have changed as `input:NAME`.

        With `wide`, the model runs in float64; with `seed`, from other random numbers.
        """
        seed = self.seed if seed is None else seed
        tensors = self.inputs.copies()
        if wide:
            tensors = [widen(tensor) for tensor in tensors]
        torch.default_generator.manual_seed(seed)
        seed_python(seed)
        with torch.no_grad(), default_dtype(torch.float64) if wide else contextlib.nullcontext():
            result = self.call(tensors, hook, wide)
        found = dict(named(result))
        for position, (item, tensor) in enumerate(zip(self.inputs.tensors, tensors)):
            if self.writes(position, widen(item.tensor) if wide else item.tensor, tensor):
                found[f"input:{item.name}"] = compact(tensor)
        return found

    def elements(self) -> int | None:
        """How many elements all results have together, where that is known beforehand."""
        return None

    @abstractmethod
    def writes(self, position: int, before: torch.Tensor, after: torch.Tensor) -> bool:
        """Whether the model may write to this input, or did."""

    @abstractmethod
    def call(self, tensors: Sequence[torch.Tensor], hook: Hook, wide: bool) -> Any:
        """What the model returns for these tensors, every operator call made by the hook."""


class ProgramRunner(HookedRunner):
    """Runs a program operator by operator."""

    def __init__(self, program: Program, constants: Tensors, inputs: Inputs, seed: int) -> None:
        super().__init__(inputs, seed)
        self._program = program
        self._constants = constants
        self._executable = Executable(program, constants)
        self._wanted: dict[Callable[[Node], bool], frozenset[int]] = {}

    def elements(self) -> int:
        metas = [meta for node in self._program.nodes for _, meta in leaves(node.meta)]
        return sum(math.prod(meta.shape) for meta in metas if isinstance(meta, TensorMeta))

    @functools.cached_property
    def _wide(self) -> Executable:
        return Executable(*in_float64(self._program, self._constants))

    @functools.cached_property
    def _writable(self) -> frozenset[int]:
        found = set(changed_inputs(self._program))
        return frozenset(i for i, item in enumerate(self._program.inputs) if item.id in found)

    def writes(self, position: int, before: torch.Tensor, after: torch.Tensor) -> bool:
        return position in self._writable

    def call(self, tensors: Sequence[torch.Tensor], hook: Hook, wide: bool) -> Any:
        executable = self._wide if wide else self._executable

        quick = getattr(hook, "quick", None)

        def caller(node: Node, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
            if quick is not None:
                result = quick(node.id, function, args, kwargs)
                if result is not NotImplemented:
                    return result
            return hook(Call(node.op, function, args, kwargs, node.id, node.where))

        return executable.run(tensors, caller=caller, called=self._called(hook))

    def _called(self, hook: Hook) -> frozenset[int] | None:
        """The nodes whose calls a hook wants to make; None is all of them."""
        wants = getattr(hook, "wants", None)
        if wants is None:
            return None
        if wants not in self._wanted:
            self._wanted[wants] = frozenset(n.id for n in self._program.nodes if divides(n.op) or wants(n))
        return self._wanted[wants] | getattr(hook, "keys", frozenset())


class CallableRunner(HookedRunner):
    """Runs the user's own function or module; a dispatch mode sees its operator calls."""

    def __init__(self, function: Callable[..., Any], inputs: Inputs, seed: int) -> None:
        super().__init__(inputs, seed)
        self._function = function

    @functools.cached_property
    def _wide(self) -> Callable[..., Any]:
        if not isinstance(self._function, torch.nn.Module):
            return self._function
        return copy.deepcopy(self._function).double()

    def writes(self, position: int, before: torch.Tensor, after: torch.Tensor) -> bool:
        return not same_bits(before, after)

    def call(self, tensors: Sequence[torch.Tensor], hook: Hook, wide: bool) -> Any:
        function = self._wide if wide else self._function
        args, kwargs = self.inputs.call(tensors)
        state = ModuleState(function)
        try:
            with _Dispatch(hook, wide):
                result = function(*args, **kwargs)
            return {"": result, **{f"{BUFFER}{name}": t.clone() for name, t in sorted(state.changed().items())}}
        finally:
            state.restore()


class _Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operator call below it to a hook."""

    def __init__(self, hook: Hook, wide: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._hook = hook
        self._wide = wide
        self._count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = ops.name_of(function)
        call = Call(name or str(function), function, list(args), dict(kwargs or {}), self._count)
        self._count += 1
        if self._wide:
            call = widened(call)
        return self._hook(call) if name else call.make()


def widened(call: Call, copies: bool = False) -> Call:
    """The same call in float64; tensors that it writes to stay as they are, or become copies."""
    written = {id(tensor) for tensor in call.mutated()}

    def change(leaf: Any) -> Any:
        if id(leaf) not in written:
            return widen_any(leaf)
        if not copies:
            return leaf
        wide = widen(leaf)
        return leaf.clone() if wide is leaf else wide

    return replace(call, args=map_leaves(call.args, change), kwargs=map_leaves(call.kwargs, change))


class ModelFile(ABC):
    """A model that is a file of a format of its own."""

    @abstractmethod
    def runner(self, inputs: Inputs, seed: int) -> HookedRunner:
        """Runs it operator by operator."""


def runner_of(model: Runnable, inputs: Inputs, seed: int) -> HookedRunner:
    """The runner for this kind of model."""
    if isinstance(model, ModelFile):
        return model.runner(inputs, seed)
    if isinstance(model, tuple):
        return ProgramRunner(*model, inputs, seed)
    return CallableRunner(model, inputs, seed)


def named(result: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Outputs by the path that platforms give them."""
    for name, leaf in named_results(result):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            yield name, compact(leaf)


def compact(tensor: torch.Tensor) -> torch.Tensor:
    """The values in a contiguous tensor without pending conjugation."""
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg() or tensor.requires_grad):
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """torch's default dtype inside the block, restored after it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@dataclass
class Capture:
    """Keeps the first argument of chosen calls: the values that an index output points into."""

    hook: Hook
    wanted: frozenset[int]
    values: dict[int, torch.Tensor] = field(default_factory=dict)

    @property
    def keys(self) -> frozenset[int]:
        return self.wanted | getattr(self.hook, "keys", frozenset())

    @property
    def wants(self) -> Callable[[Node], bool] | None:
        return getattr(self.hook, "wants", None)

    @property
    def quick(self) -> Callable[..., Any] | None:
        return None if self.wanted else getattr(self.hook, "quick", None)

    def __call__(self, call: Call) -> Any:
        if call.key in self.wanted and call.key not in self.values:
            self.values[call.key] = call.args[0].detach().clone()
        return self.hook(call)
