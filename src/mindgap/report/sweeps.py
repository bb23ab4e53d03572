"""Operator sweeps wherever they lie: the directory of `mindgap ops`, also while it is written, or its JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindgap.campaign.directory import FILE
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.reader import open_ledger, plan_of
from mindgap.operators.answering import declared_answer, with_observed
from mindgap.operators.document import document
from mindgap.operators.universe import models_of
from mindgap.report.documents import OperatorsDocument, as_operators, read_document


def is_campaign(path: Path) -> bool:
    """Whether a ledger lies there: of a hunt or of a sweep."""
    return path.is_dir() and (path / FILE).is_file()


def is_sweep(path: Path) -> bool:
    """Whether the ledger there is of `mindgap ops`."""
    with open_ledger(path) as data:
        return plan_of(data, path).sweep is not None


def operators_document(path: Path) -> dict[str, Any]:
    """What the platforms of a sweep declare, and what was observed there."""
    with open_ledger(path) as data:
        platforms = [name for name in plan_of(data, path).platforms if name != BASELINE]
    return document(with_observed(declared_answer(platforms, models_of()), path))


def operators_of(path: Path) -> OperatorsDocument | None:
    """The sweep in a directory or a file; None where something else lies there."""
    if is_campaign(path) and is_sweep(path):
        return as_operators(operators_document(path))
    found = read_document(path) if path.is_file() else None
    return found if isinstance(found, OperatorsDocument) else None
