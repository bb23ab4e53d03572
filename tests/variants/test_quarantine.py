"""A call that ends the process is made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mindgap.program.graph import Ref
from mindgap.variants.quarantine import Quarantine, keep
from mindgap.variants.rules import Refused, RuleTable
from mindgap.variants.values import of_tensor

CALL = "rules.evaluate('aten.relu.default', (Ref(0),), {}, lambda _: of_tensor(torch.ones(3)))"
SCRIPT = f"""
import os, sys, torch
from pathlib import Path
from mindgap.program.graph import Ref
from mindgap.program import ops
from mindgap.variants.quarantine import Quarantine
from mindgap.variants.rules import RuleTable
from mindgap.variants.values import of_tensor
ops.resolve = lambda name: (lambda *a: os.abort())
rules = RuleTable(Quarantine(Path(sys.argv[1])))
{CALL}
"""


def test_the_next_process_refuses_what_ended_the_last(tmp_path: Path) -> None:
    path = tmp_path / "quarantine"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, timeout=100, check=False)
    assert done.returncode < 0, done.stderr
    assert "aten.relu" in keep(path)
    rules = RuleTable(Quarantine(path))
    with pytest.raises(Refused, match="crashed a process"):
        rules.evaluate("aten.relu.default", (Ref(0),), {}, lambda _: of_tensor(torch.ones(3)))
    rules.evaluate("aten.relu.default", (Ref(0),), {}, lambda _: of_tensor(torch.ones(4)))
    assert "aten.relu" in path.read_text() and len(path.read_text().splitlines()) == 1


def test_what_came_back_is_not_kept(tmp_path: Path) -> None:
    first = Quarantine(tmp_path / "q")
    first.enter("a call")
    first.leave()
    assert not keep(tmp_path / "q") and "a call" not in Quarantine(tmp_path / "q")


def test_a_process_that_was_killed_from_outside_accuses_nothing(tmp_path: Path) -> None:
    Quarantine(tmp_path / "q").enter("a call")  # and nobody calls `keep`
    assert "a call" not in Quarantine(tmp_path / "q")
