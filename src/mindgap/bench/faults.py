"""A platform that is wrong at one node, in one of ten ways: what explanations are measured with.

The node is marked behind its module path, which an explanation only uses to cut a program: `layers.1 planted:FAULT`.
Each fault is a function of the call that it spoils, of torch alone, so that its source can stand in a script for the
faulty platform.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock, StageFailure
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.torch_run import Placement, TorchRun, own_program
from mindgap.program.case import Case
from mindgap.program.graph import Node, Program, Ref
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.platform import PlatformSpec, Probe

MARK: Final = " planted:"

Call = Callable[..., Any]


def scaled(function: Call, args: Any, kwargs: Any) -> Any:
    """2048 units in the last place too large."""
    result = function(*args, **kwargs)
    return result * (1 + 2048 * torch.finfo(result.dtype).eps)


def nan_dropped(function: Call, args: Any, kwargs: Any) -> Any:
    """Zero where NaN is due."""
    return function(*args, **kwargs).nan_to_num(nan=0.0, posinf=float("inf"), neginf=float("-inf"))


def wrong_dim(function: Call, args: Any, kwargs: Any) -> Any:
    """Along the first dimension instead of the last: the input is turned before, the result after."""
    turned = args[0].transpose(0, -1).contiguous()
    return function(turned, *args[1:], **kwargs).transpose(0, -1).contiguous()


def in_bfloat16(function: Call, args: Any, kwargs: Any) -> Any:
    """Rounded to bfloat16."""
    result = function(*args, **kwargs)
    return result.to(torch.bfloat16).to(result.dtype)


def narrow_integer(function: Call, args: Any, kwargs: Any) -> Any:
    """Computed in 8 bits."""
    result = function(*args, **kwargs)
    return result.to(torch.int8).to(result.dtype)


def tail_lost(function: Call, args: Any, kwargs: Any) -> Any:
    """The last element is not computed."""
    result = function(*args, **kwargs).clone(memory_format=torch.contiguous_format)
    result.view(-1)[-1] = 0
    return result


def stale_view(function: Call, args: Any, kwargs: Any) -> Any:
    """A copy where a view is due: later writes are not seen."""
    return function(*args, **kwargs).clone()


def sign_lost(function: Call, args: Any, kwargs: Any) -> Any:
    """Negative results become positive."""
    return function(*args, **kwargs).abs()


def nan_made(function: Call, args: Any, kwargs: Any) -> Any:
    """NaN in place of the largest value."""
    result = function(*args, **kwargs).clone(memory_format=torch.contiguous_format)
    flat = result.view(-1)
    flat[flat.abs().nan_to_num(-1.0).argmax()] = float("nan")
    return result


def strides_ignored(function: Call, args: Any, kwargs: Any) -> Any:
    """Memory is read in order, whatever the strides say."""

    def in_order(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.is_contiguous():
            return value
        room = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
        return room[value.storage_offset() : value.storage_offset() + value.numel()].reshape(value.shape)

    return function(*[in_order(value) for value in args], **kwargs)


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to be wrong, where it can be, and the kinds of cause that are right for it."""

    spoil: Callable[[Call, Any, Any], Any]
    classes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.spoil.__name__


FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault(scaled, ("operator implementation", "instruction scheduling")),
        Fault(nan_dropped, ("exceptional values",)),
        Fault(wrong_dim, ("operator implementation",)),
        Fault(in_bfloat16, ("precision policy",)),
        Fault(narrow_integer, ("precision policy",)),
        Fault(tail_lost, ("operator implementation",)),
        Fault(stale_view, ("layout or aliasing",)),
        Fault(sign_lost, ("operator implementation",)),
        Fault(nan_made, ("exceptional values",)),
        Fault(strides_ignored, ("layout or aliasing",)),
    )
}

PLANTED: Final = PlatformSpec(name="planted", adapter=f"{__name__}:Planted")


class Planted(Platform):
    """Eager, but for the marked node."""

    runtime = "planted"
    summary = "eager with one planted fault"
    faults: ClassVar[Mapping[str, Fault]] = FAULTS

    def probe(self) -> Probe:
        return Probe(True, "1", "CPU")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.LOAD):
            executable = Executable(own_program(case, Placement()), case.constants)

        def call(node: Node, function: Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
            fault = self.faults.get(node.where.partition(MARK)[2])
            if fault is None or not self.spoils(node, case.graph):
                return function(*args, **kwargs)
            return fault.spoil(function, args, kwargs)

        def run(tensors: Sequence[torch.Tensor]) -> Any:
            return executable.run(tensors, caller=call)

        return TorchRun(case, Placement(), Ran.PROGRAM, run)

    def spoils(self, node: Node, program: Program) -> bool:
        """Whether a marked node is wrong in this program."""
        return True

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        """A stand-in for the faulty platform: eager whose calls of one operator are spoilt."""
        fault = FAULTS.get(str(spec.options.get("fault")))
        if fault is None:
            return super().reproducer(spec)
        source = re.sub(r": (Call|Any)\b| -> Any", "", inspect.getsource(fault.spoil))
        return ReproducerText(_STAND_IN.format(source=source, name=fault.name, op=spec.options["op"]))


class Opaque(Planted):
    """The same as a runtime that nobody can look into: it returns one tensor, and refuses a program that has more.

    With the option `fused` the marked node is wrong only where its result is not what is returned, as an operator is
    that a compiler fuses with those that read it.
    """

    runtime = "opaque"
    summary = "eager with one planted fault, of programs that return one tensor"

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        returned = len([leaf for _, leaf in case.graph.output_leaves() if isinstance(leaf, Ref)])
        if returned > 1:
            with clock(Stage.CONVERT):
                raise StageFailure(Status.ERROR, f"the program returns {returned} tensors; one can be returned")
        return super().prepare(case, clock)

    def spoils(self, node: Node, program: Program) -> bool:
        shown = [int(leaf) for _, leaf in program.output_leaves() if isinstance(leaf, Ref)]
        return node.id not in shown if self.spec.options.get("fused") else True


OPAQUE: Final = PlatformSpec(name="opaque", adapter=f"{__name__}:Opaque")


_STAND_IN: Final = '''
{source}

class FaultyPlatform(torch.overrides.TorchFunctionMode):
    """Stands in for a platform that is wrong at one operator."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "").split(".")[0] == "{op}":
            return {name}(function, list(args), kwargs or {{}})
        return function(*args, **(kwargs or {{}}))


def on_platform(model, inputs):
    with FaultyPlatform():
        return as_list(model(*inputs))
'''
