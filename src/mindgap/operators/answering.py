"""The answers of `mindgap ops`: open this first."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from mindgap.operators.beside import beside
from mindgap.operators.declared import REFERENCE, counts, declarations, taken
from mindgap.operators.document import Answer
from mindgap.operators.models import Prospect, needs, prospect, reach
from mindgap.operators.native import installed_version, native_operators
from mindgap.operators.observed import Observed, read_sweep, shares
from mindgap.operators.proving import proofs
from mindgap.operators.universe import Models, chosen
from mindgap.records.variant import SAMPLES, SAMPLES_NEED


def declared_answer(
    platforms: Sequence[str],
    models: Models,
    packages: Sequence[Path] = (),
    asked: Sequence[str] = (),
    dtypes: Sequence[str] = (),
) -> Answer:
    """What platforms declare, next to the reference, and which real models that would let run. Nothing is executed."""
    operators = chosen(asked, list(native_operators())) if asked else []
    found, unknown = declarations([*platforms, REFERENCE], packages)
    reference = next(item for item in found if item.platform == REFERENCE)
    shown = [item for item in found if item.platform in platforms]
    weights = models.counts
    return Answer(
        declared=tuple(shown),
        own=tuple(counts(shown, reference, own_only=True)),
        any_way=tuple(counts(shown, reference, own_only=False)),
        taken=tuple(taken(shown, dtypes, operators)),
        unknown=unknown,
        reaches=tuple(reach(models, item.platform, item.has) for item in shown if item.is_complete and not asked),
        models=f"{models.where} ({len(models.operators):,} models, {len(weights)} operators)",
        weights=weights,
        operators=tuple(operators),
        versions={name: version for name in ("torch",) if (version := installed_version(name))},
    )


def model_answer(answer: Answer, model: str, operators: Collection[str]) -> Answer:
    """Only what one model needs: what would be missing on each platform, and what could replace it."""
    found = {item.platform: needs(operators, item) for item in answer.declared}
    return replace(answer, model=model, needs=found, reaches=(), operators=tuple(sorted(operators)))


def with_observed(answer: Answer, directory: Path) -> Answer:
    """The same with what ran in a sweep, beside what is declared."""
    found = read_sweep(directory)
    if answer.operators:
        found = found.only(answer.operators)
    versions = {**(answer.versions or {}), **found.versions}
    return replace(
        answer,
        observed=found,
        shares=tuple(shares(found, answer.weights or {})),
        beside=tuple(beside(answer.declared, found, answer.weights or {}, native_operators())),
        proofs=tuple(proofs(directory)),
        versions=versions,
        without_samples=_without_samples(found),
    )


def _without_samples(found: Observed) -> str:
    """Why a sweep that asks for torch's own samples has none."""
    if SAMPLES not in found.sweep.kinds or found.kinds.get(SAMPLES):
        return ""
    if importlib.util.find_spec(SAMPLES_NEED) is None:
        return f"they need the package {SAMPLES_NEED}: pip install 'mindgap[ops]'"
    return "their turn has not come, or torch has none of these operators"


def is_missing(answer: Answer) -> bool:
    """Whether a platform lacks an operator of the model and nothing could replace it."""
    return any(prospect(found) is Prospect.NO for found in (answer.needs or {}).values())
