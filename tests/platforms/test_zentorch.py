"""AMD's plug-in: where it can work, what it says of its share, and what its scripts import."""

from __future__ import annotations

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.execution.serve import load_adapter
from mindgap.platforms.registry import adapter_class, resolve
from mindgap.platforms.running import run_here
from mindgap.platforms.torch.zentorch import Zentorch
from mindgap.program.build import build
from mindgap.program.case import Case
from tests.platforms.running import require_installed


def test_a_processor_without_avx_512_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    found = load_adapter(resolve("zentorch")).probe()
    assert not found.available and "AVX-512" in found.reason and "AVX2" in found.reason


def test_scripts_import_what_brings_the_compiler() -> None:
    spec = resolve("zentorch")
    assert adapter_class(spec) is Zentorch
    text = Zentorch.reproducer(spec)
    assert "import zentorch" in text.text and "backend='zentorch'" in text.text
    assert text.short[0] == "import zentorch" and text.packages == ("zentorch",)


def test_it_says_which_share_it_took_over() -> None:
    require_installed(resolve("zentorch"))
    inputs = (torch.randn(2, 8),)
    exported = torch.export.export(torch.nn.Linear(8, 4).eval(), inputs, strict=False)
    program, constants = build(exported, "product")
    case = Case.of(program, constants, inputs)
    with Pool() as pool:
        outcome = run_here(pool, resolve("zentorch"), case)
    assert outcome.ok and outcome.note.startswith("zentorch took over 1 of"), outcome.message or outcome.note
