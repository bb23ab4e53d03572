"""The ONNX exporter's shortcuts give its own model, byte for byte."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice

import pytest

from mindgap.execution.parcel import Constants
from mindgap.platforms.base import StageClock
from mindgap.platforms.onnx import quick_export
from mindgap.platforms.onnx.export import export_onnx
from mindgap.program.case import Case
from mindgap.program.examples import of_program
from mindgap.program.graph import Program
from mindgap.variants.base import load_bases
from mindgap.variants.synthesis import Synthesis


def test_the_model_is_that_of_the_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program twice with shortcuts: what the first learned serves the second."""
    bases = [base for base in load_bases() if base.name in ("graph-gcn", "recommendation-gru4rec", "vision-resnet")]
    programs = [base.program for base in bases]
    programs += [variant.program for variant in islice(Synthesis(load_bases(), 3, invalid_share=0.0), 4)]
    quick = [[_model(program) for _ in range(2)] for program in programs]
    assert quick_export._shapes and quick_export._signatures
    monkeypatch.setattr("mindgap.platforms.onnx.export.quick_export", _not_at_all)
    for program, models in zip(programs, quick):
        assert models == [_model(program)] * 2, program.name
    assert sum(models[0] is not None for models in quick) >= 4, "most of these can be exported"


@contextlib.contextmanager
def _not_at_all() -> Iterator[None]:
    yield


def _model(program: Program) -> bytes | None:
    case = Case.of(program, Constants().of(program, ""), of_program(program, 0))
    try:
        proto = export_onnx(case, StageClock(), remembered=True).proto
    except Exception:  # refused: with shortcuts and without
        return None
    content: bytes = proto.SerializeToString(deterministic=True)
    return content
