"""Small random programs: a few operators each, for calibrating verdicts by the thousand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.program.graph import Argument, Constant, Input, Node, Program, Ref, digest, map_leaves
from mindgap.program.inputs import Inputs
from mindgap.records.tensors import NamedTensor, TensorMeta

LARGEST: Final = 1e4  # values beyond it would turn into infinities a few operators later
LEAST: Final = 1e-12  # and values that all vanish leave nothing to compare

UNARY: Final = (
    "aten.relu.default", "aten.sigmoid.default", "aten.tanh.default", "aten.gelu.default", "aten.silu.default",
    "aten.erf.default", "aten.sin.default", "aten.cos.default", "aten.exp.default", "aten.neg.default",
    "aten.abs.default", "aten.softplus.default", "aten.elu.default", "aten.rsqrt.default", "aten.log1p.default",
)  # fmt: skip
BINARY: Final = ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.maximum.default")


@dataclass(frozen=True)
class SmallProgram:
    """A program with its constants and inputs."""

    program: Program
    constants: dict[str, torch.Tensor]
    inputs: Inputs


def small_program(seed: int) -> SmallProgram:
    """The program of a seed: 3 to 10 operators on one or two small inputs, finite everywhere."""
    return _Maker(random.Random(seed), torch.Generator().manual_seed(seed), f"small-{seed}").make()


@dataclass
class _Maker:
    random: random.Random
    generator: torch.Generator
    name: str
    values: dict[int, torch.Tensor] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    next_id: int = 0

    def make(self) -> SmallProgram:
        shapes = [(2, 4, 6, 6), (5, 24), (3, 7, 8)]
        shape = self.random.choice(shapes)
        given = []
        for number in range(self.random.choice((1, 2))):
            tensor = self.numbers(shape)
            item = Input(self.new_id(tensor), f"x{number}", TensorMeta.of(tensor))
            self.inputs.append(item)
            given.append(NamedTensor(item.name, tensor))
        wanted = self.random.randint(3, 10)
        for _ in range(10 * wanted):  # some choices do not fit, or leave the range
            if len(self.nodes) == wanted:
                break
            self.random.choice(STEPS)(self)
        outputs = tuple(Ref(node.id) for node in self.nodes[-2:])
        program = Program(self.name, tuple(self.inputs), tuple(self.constants), tuple(self.nodes), outputs)
        arguments = tuple(Ref(number) for number in range(len(given)))
        return SmallProgram(program, self.tensors, Inputs(arguments, {}, tuple(given)))

    def numbers(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator)

    def new_id(self, tensor: torch.Tensor) -> int:
        self.values[self.next_id] = tensor
        self.next_id += 1
        return self.next_id - 1

    def some(self) -> tuple[Ref, torch.Tensor]:
        """A value to go on with: recent ones are likelier, so that programs become deep."""
        identity = max(self.random.choice(list(self.values)) for _ in range(2))
        return Ref(identity), self.values[identity]

    def weight(self, shape: tuple[int, ...], fan: int) -> Ref:
        tensor = self.numbers(shape) / max(1, fan) ** 0.5
        constant = Constant(self.new_id(tensor), f"w{self.next_id}", TensorMeta.of(tensor), digest(tensor))
        del self.values[constant.id]  # weights are arguments only of the operator that they were made for
        self.constants.append(constant)
        self.tensors[constant.digest] = tensor
        return Ref(constant.id)

    def add(self, op: str, *args: Argument) -> None:
        """Append a node if it runs and stays in range."""
        known = {**self.values, **{c.id: self.tensors[c.digest] for c in self.constants}}

        def look_up(leaf: Any) -> Any:
            return known[leaf] if isinstance(leaf, Ref) else leaf

        try:
            result = ops.resolve(op)(*map_leaves(args, look_up))
        except (RuntimeError, IndexError):
            return
        size = float(result.abs().max()) if result.numel() else 0.0
        if not torch.isfinite(result).all() or not LEAST < size < LARGEST:
            return
        self.nodes.append(Node(self.new_id(result), op, args, {}, TensorMeta.of(result), ""))


def _unary(make: _Maker) -> None:
    make.add(make.random.choice(UNARY), make.some()[0])


def _binary(make: _Maker) -> None:
    make.add(make.random.choice(BINARY), make.some()[0], make.some()[0])


def _linear(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim() >= 2:
        width = value.shape[-1]
        make.add("aten.linear.default", ref, make.weight((make.random.choice((8, 24)), width), width))


def _attention(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim() >= 2:
        make.add("aten.matmul.default", ref, make.weight((value.shape[-1], value.shape[-1]), value.shape[-1]))


def _convolution(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim() == 4:
        channels = value.shape[1]
        make.add("aten.conv2d.default", ref, make.weight((6, channels, 3, 3), 9 * channels), None, [1, 1], [1, 1])


def _normalise(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim() >= 2 and value.shape[-1] > 2:
        make.add("aten.layer_norm.default", ref, [value.shape[-1]])


def _softmax(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim():
        make.add("aten.softmax.int", ref, make.random.randrange(value.dim()))


def _reduce(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim() > 1:
        name = make.random.choice(("aten.sum.dim_IntList", "aten.mean.dim", "aten.amax.default"))
        make.add(name, ref, [make.random.randrange(value.dim())], make.random.random() < 0.5)


def _pool(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim() == 4:
        make.add("aten.avg_pool2d.default", ref, [2, 2])


def _transpose(make: _Maker) -> None:
    ref, value = make.some()
    if value.dim() > 1:
        make.add("aten.transpose.int", ref, 0, value.dim() - 1)


STEPS: Final[tuple[Callable[[_Maker], None], ...]] = (
    _unary, _unary, _unary, _binary, _binary, _linear, _attention, _convolution, _normalise, _softmax, _reduce,
    _pool, _transpose,
)  # fmt: skip
