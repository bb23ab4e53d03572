"""A bisection over versions as a table and as a document."""

from __future__ import annotations

from typing import Any, Final

from mindgap.records.bisection import Bisection
from mindgap.report.summary import finite

BISECTION_SCHEMA: Final = "mindgap.bisection/1"


def bisection_rows(found: Bisection) -> list[list[str]]:
    """Every version that was tried, the oldest first."""
    return [
        [item.version, item.told, item.verdict.sentence if item.verdict is not None else item.problem]
        for item in found.tried
    ]


def bisection_document(found: Bisection) -> dict[str, Any]:
    """Everything, for programs."""
    facts = ("model", "platform", "baseline", "package", "of", "last_before", "first_after", "appeared", "sentence")
    return {
        "schema": BISECTION_SCHEMA,
        **{name: getattr(found, name) for name in facts},
        "between": list(found.between),
        "tried": [
            {
                "version": item.version,
                "verdict": item.told,
                "wrong": item.is_wrong,
                "error_over_bound": finite(item.verdict.error_over_bound) if item.verdict is not None else None,
                "sentence": item.verdict.sentence if item.verdict is not None else "",
                "problem": item.problem,
            }
            for item in found.tried
        ],
        "versions": dict(found.versions),
        "seconds": round(found.seconds, 3),
    }
