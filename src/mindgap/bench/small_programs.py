"""Small random programs: a few operators each, for calibrating verdicts by the thousand."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Argument, Constant, Input, Node, Program, Ref, digest, map_leaves
from mindgap.records.tensors import TensorMeta

LARGEST: Final = 1e4  # values beyond it would turn into infinities a few operators later
LEAST: Final = 1e-12  # and values that all vanish leave nothing to compare

UNARY: Final = (
    "aten.relu.default", "aten.sigmoid.default", "aten.tanh.default", "aten.gelu.default", "aten.silu.default",
    "aten.erf.default", "aten.sin.default", "aten.cos.default", "aten.exp.default", "aten.neg.default",
    "aten.abs.default", "aten.softplus.default", "aten.elu.default", "aten.rsqrt.default", "aten.log1p.default",
)  # fmt: skip
BINARY: Final = ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.maximum.default")


STEPS: Final = (
    "unary", "unary", "unary", "binary", "binary", "linear", "matmul", "convolution", "layer_norm", "softmax", "reduce",
    "pool", "transpose",
)  # fmt: skip
LEAST_DIMS: Final = {
    "linear": 2, "matmul": 2, "convolution": 4, "layer_norm": 2, "softmax": 1, "reduce": 2, "pool": 4, "transpose": 2,
}  # fmt: skip
"""Dimensions that a value needs."""


def small_program(seed: int) -> Case:
    """The program of a seed: 3 to 10 operators on one or two small inputs, finite everywhere."""
    return _Maker(random.Random(seed), torch.Generator().manual_seed(seed), f"small-{seed}").make()


@dataclass
class _Maker:
    random: random.Random
    generator: torch.Generator
    name: str
    values: dict[int, torch.Tensor] = field(default_factory=dict)
    constants: list[Constant] = field(default_factory=list)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    next_id: int = 0

    def make(self) -> Case:
        shape = self.random.choice([(2, 4, 6, 6), (5, 24), (3, 7, 8)])
        given = [self.numbers(shape) for _ in range(self.random.choice((1, 2)))]
        inputs = tuple(Input(self.new_id(t), f"x{number}", TensorMeta.of(t)) for number, t in enumerate(given))
        wanted = self.random.randint(3, 10)
        for _ in range(10 * wanted):  # some choices do not fit, or leave the range
            if len(self.nodes) == wanted:
                break
            self.step(self.random.choice(STEPS))
        outputs = tuple(Ref(node.id) for node in self.nodes[-2:])
        program = Program(self.name, inputs, tuple(self.constants), tuple(self.nodes), outputs)
        return Case.of(program, self.tensors, given)

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

    def step(self, kind: str) -> None:
        """Append an operator of this kind, if it fits the value that was drawn."""
        if kind == "unary":
            return self.add(self.random.choice(UNARY), self.some()[0])
        if kind == "binary":
            return self.add(self.random.choice(BINARY), self.some()[0], self.some()[0])
        ref, value = self.some()
        dims = value.dim()
        if dims < LEAST_DIMS[kind]:
            return None
        width = value.shape[-1]
        if kind == "linear":
            self.add("aten.linear.default", ref, self.weight((self.random.choice((8, 24)), width), width))
        elif kind == "matmul":
            self.add("aten.matmul.default", ref, self.weight((width, width), width))
        elif kind == "convolution":
            channels = value.shape[1]
            self.add("aten.conv2d.default", ref, self.weight((6, channels, 3, 3), 9 * channels), None, [1, 1], [1, 1])
        elif kind == "layer_norm" and width > 2:
            self.add("aten.layer_norm.default", ref, [width])
        elif kind == "softmax":
            self.add("aten.softmax.int", ref, self.random.randrange(dims))
        elif kind == "reduce":
            name = self.random.choice(("aten.sum.dim_IntList", "aten.mean.dim", "aten.amax.default"))
            self.add(name, ref, [self.random.randrange(dims)], self.random.random() < 0.5)
        elif kind == "pool":
            self.add("aten.avg_pool2d.default", ref, [2, 2])
        elif kind == "transpose":
            self.add("aten.transpose.int", ref, 0, dims - 1)
        return None
