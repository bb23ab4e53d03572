"""The user's own line, and nothing about the machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from mindgap.program import build, codec
from mindgap.program.graph import Program
from mindgap.program.lines import source_line


def stack(*frames: str) -> str:
    return "\n".join(f'  File "{path}", line {number}, in forward\n    x' for number, path in enumerate(frames, 1))


TORCH = f"{Path(torch.__file__).parent}/nn/modules/linear.py"


@pytest.mark.parametrize(
    "frames, expected",
    [
        (["/home/me/net.py", TORCH], "me/net.py:1"),
        (["/home/me/net.py", "/env/lib/python3.11/site-packages/timm/layers/mlp.py", TORCH], "me/net.py:1"),
        (["/env/lib/site-packages/timm/models/a.py", "/env/dist-packages/timm/layers/mlp.py"], "timm/layers/mlp.py:2"),
        (["/elsewhere/lib/site-packages/torch/nn/functional.py"], ""),
        ([f"{Path(__file__).parents[2]}/nets/own.py", "/usr/x/site-packages/a.py"], "nets/own.py:1"),
        ([pytest.__file__, "<eval_with_key>.3"], "pytest/__init__.py:1"),
        ([f"{Path(sys.modules['contextlib'].__file__ or '')}"], ""),
        ([], ""),
    ],
)
def test_the_innermost_line_of_the_user_wins(frames: list[str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert source_line(stack(*frames)) == expected


def test_no_stack_is_no_line() -> None:
    assert source_line(None) == "" == source_line('File "x", line a')


class Own(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return y // 2


def built() -> Program:
    exported = torch.export.export(Own().eval(), (torch.randn(2, 3),), strict=False)
    return build.build(exported, "own")[0]


def test_a_program_knows_its_lines_and_keeps_them() -> None:
    program = built()
    (linear, division) = program.nodes
    lines = Path(__file__).read_text().splitlines()
    for node, code in ((linear, "y = self.linear(x)"), (division, "return y // 2")):
        path, _, number = node.line.rpartition(":")
        assert path.endswith("test_lines.py") and lines[int(number) - 1].strip() == code
    assert codec.decode(codec.encode(program)) == program


def test_a_program_without_lines_can_still_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    program = built()
    monkeypatch.setattr(codec, "_packed_node", lambda node: codec.pack(codec._node_row(node)[:6]))
    monkeypatch.setattr(codec, "VERSION", 3)
    old = codec.encode(program)
    monkeypatch.undo()
    assert [node.line for node in codec.decode(old).nodes] == ["", ""]
