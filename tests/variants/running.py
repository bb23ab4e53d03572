"""Runs a program as a worker would: from its bytes alone."""

from __future__ import annotations

from typing import Any

import torch

from mindgap.program import codec
from mindgap.program.graph import Program, leaves
from mindgap.program.interpret import Executable
from mindgap.program.made import recreate


def run(program: Program) -> list[Any]:
    """The outputs of a program that was encoded and decoded first."""
    shipped = codec.decode(codec.encode(program))
    constants = {c.digest: recreate(c.made, c.meta) for c in shipped.constants if c.made is not None}
    inputs = [recreate(recipe, item.meta) for recipe, item in zip(shipped.example, shipped.inputs)]
    with torch.no_grad():
        return [leaf for _, leaf in leaves(Executable(shipped, constants).run(inputs))]
