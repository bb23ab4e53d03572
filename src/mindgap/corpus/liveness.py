"""Whether anything is left to see behind each operator: values that are finite and not all the same.

A dead branch (a constant) or a poisoned one (NaN, infinity) hides every fault in front of it. What does not carry
the model's own numbers is not counted: masks, position tables, initial states, tensors that only borrow a shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from mindgap.program.graph import Node, Program, Tensors, leaves, references
from mindgap.program.made import Made
from mindgap.program.operators import traits


@dataclass(frozen=True, slots=True)
class Liveness:
    """How many operators carry the model's numbers, and how many of those are dead."""

    counted: int
    constant: int
    """Results with more than one element that are all the same."""
    nonfinite: int
    """Results with a NaN, or with an infinity that did not come in from a mask."""
    example: str = ""
    """The first dead operator and where it stands."""

    @property
    def died_by_chance(self) -> bool:
        """Whether other weights may help: the first dead operator clips, and all of a few numbers lay beyond."""
        return not self.nonfinite and self.constant > 0 and traits(self.example.split()[0]).clips

    @property
    def alive(self) -> bool:
        return not self.constant and not self.nonfinite


@dataclass
class LivenessObserver:
    """An observer for `Executable.run` that takes notes and changes nothing."""

    program: Program
    constants: Tensors
    inputs: list[torch.Tensor]
    _carriers: set[int] = field(default_factory=set)
    """Values that depend on living weights or inputs."""
    _blank: set[int] = field(default_factory=set)
    """Initial states: tensors that the program itself fills with one number, and what follows from them alone."""
    _single: set[int] = field(default_factory=set)
    """Values of one element, also expanded: they are all the same and still not dead."""
    _partly_blank: set[int] = field(default_factory=set)
    """Values with padding, one side of a mask or an initial state somewhere in them, and what follows from them."""
    _infinite: set[int] = field(default_factory=set)
    _counted: int = 0
    _constant: int = 0
    _nonfinite: int = 0
    _example: str = ""

    def __post_init__(self) -> None:
        given = [(item.id, tensor) for item, tensor in zip(self.program.inputs, self.inputs)]
        for item in self.program.constants:
            if isinstance(item.made, Made) and item.made.low < item.made.high and math.prod(item.meta.shape) > 1:
                self._carriers.add(item.id)  # drawn from a range: finite, and not all the same
            else:
                given.append((item.id, self.constants[item.digest]))
        for identity, tensor in given:
            if tensor.is_floating_point() and tensor.numel():
                if not bool(torch.isfinite(tensor).all()):
                    self._infinite.add(identity)
                elif tensor.numel() == 1 or not _same(tensor):
                    self._carriers.add(identity)
                    self._single |= {identity} if tensor.numel() == 1 else set()

    def __call__(self, node: Node, result: Any) -> Any:
        known = traits(node.op)
        operands = references(node)[: 1 if known.lends else None]
        if known.borrows or not any(r in self._carriers for r in operands):
            for tensor in _floating(result):
                if not bool(torch.isfinite(tensor).all()):
                    self._infinite.add(node.id)
                elif _same(tensor):
                    self._blank.add(node.id)
            return result
        self._carriers.add(node.id)
        expanded = all(r in self._single for r in operands if r in self._carriers)
        masked = any(r in self._infinite for r in operands) or any(map(_is_infinite, _literals(node)))
        blank = any(r in self._blank for r in operands)
        if blank or known.blanks or any(r in self._partly_blank for r in operands):
            self._partly_blank.add(node.id)
            blank = blank or known.selects  # where it is all the same, the blank part was taken
        for tensor in _floating(result):
            self._counted += 1
            finite = bool(torch.isfinite(tensor).all())
            if not finite:
                self._infinite.add(node.id)
            if bool(torch.isnan(tensor).any()) or (not finite and not masked):
                self._nonfinite += 1
            elif tensor.numel() == 1:
                self._single.add(node.id)
                continue
            elif not _same(tensor):
                continue
            elif expanded or _has_no_choice(node, tensor):
                self._single.add(node.id)
                continue
            elif blank:
                self._blank.add(node.id)
                continue
            else:
                self._constant += 1
            self._example = self._example or f"{node.op} {node.where}".strip()
        return result

    def found(self) -> Liveness:
        return Liveness(self._counted, self._constant, self._nonfinite, self._example)


def _floating(result: Any) -> Iterator[torch.Tensor]:
    for _, leaf in leaves(result):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel():
            yield leaf.detach()


def _same(tensor: torch.Tensor) -> bool:
    low, high = torch.aminmax(tensor.float() if tensor.element_size() == 1 else tensor)
    return bool(low == high)


def _has_no_choice(node: Node, result: torch.Tensor) -> bool:
    """Whether a single element was shared out or normalised: the result is the same whatever came in."""
    if traits(node.op).shares:
        return result.shape[node.args[1]] == 1
    return node.op.startswith("aten.layer_norm.") and math.prod(node.args[1]) == 1


def _literals(node: Node) -> Iterator[Any]:
    for argument in (*node.args, *node.kwargs.values()):
        yield from (leaf for _, leaf in leaves(argument))


def _is_infinite(leaf: Any) -> bool:
    return isinstance(leaf, float) and math.isinf(leaf)
