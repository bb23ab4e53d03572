"""`mindgap audit` as users run it: its budget, and a program that is too large for it."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import torch

from mindgap.program import codec
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.records.tensors import TensorMeta
from tests.cli.conftest import Run

OPERATORS = 10_000
CPU_S = 240.0
"""What the command may take at most: a budget of seconds, and ten times what starting, loading and one run of the
program cost on a busy machine."""


def test_a_budget_of_zero_is_refused(mindgap: Run) -> None:
    done = mindgap("audit", "smoke:rl-actor-critic", "--budget", "0")
    assert done.returncode == 2 and "--budget" in done.stderr and "Traceback" not in done.stderr


def test_of_ten_thousand_operators_it_says_what_was_not_looked_at(mindgap: Run, tmp_path: Path) -> None:
    meta = TensorMeta.of(torch.zeros(2, 3))
    nodes = tuple(Node(n, "aten.tanh.default", (Ref(n - 1),), {}, meta) for n in range(1, OPERATORS + 1))
    codec.save(tmp_path / "deep.mgp", Program("deep", (Input(0, "x", meta),), (), nodes, Ref(OPERATORS)), {})
    before = _cpu_of_children()
    done = mindgap("audit", "deep.mgp", "--budget", "2", "--json", "audit.json")
    assert _cpu_of_children() - before < CPU_S
    assert done.returncode == 0, done.stderr
    assert "not looked at: " in done.stdout and "out of time" in done.stdout
    document = json.loads((tmp_path / "audit.json").read_text())
    assert document["nodes"] == OPERATORS and document["verdict"] == "none found"
    assert any("out of time" in what for what in document["not_looked_at"])


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
