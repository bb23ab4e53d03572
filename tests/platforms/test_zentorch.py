"""AMD's plug-in: where it can work, what it says of its share, and what its scripts import."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.execution.serve import load_adapter
from mindgap.platforms.registry import adapter_class, resolve
from mindgap.platforms.running import run_here
from mindgap.platforms.torch.zentorch import Zentorch
from mindgap.program.build import build
from mindgap.program.case import Case
from mindgap.records.platform import Probe
from mindgap.report.summary import INSTALLABLE, NEEDS_HARDWARE, standing, why_not
from tests.platforms.running import require_installed


def test_a_processor_without_avx_512_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    found = load_adapter(resolve("zentorch")).probe()
    assert not found.available and "AVX-512" in found.reason and "AVX2" in found.reason


@pytest.mark.parametrize("python", [None, "/somewhere/bin/python"])
def test_it_needs_hardware_whether_it_is_installed_or_not(monkeypatch: pytest.MonkeyPatch, python: str | None) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    spec = replace(resolve("zentorch"), python=python)
    found = Probe(False, reason="it optimises only with AVX-512")
    assert spec.hardware == "a processor with AVX-512"
    assert standing(spec, found) == NEEDS_HARDWARE
    assert why_not(spec, found).startswith("a processor with AVX-512, which this machine has not")
    with pytest.raises(pytest.skip.Exception, match="needs a processor with AVX-512"):
        require_installed(spec)


def test_with_avx_512_it_is_installable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    spec = replace(resolve("zentorch"), python=None)
    assert not spec.hardware and standing(spec, Probe(False, reason="zentorch is not installed")) == INSTALLABLE


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
