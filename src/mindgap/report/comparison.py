"""Two campaigns, checks or operator sweeps next to each other: what an upgrade changed. Pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mindgap.errors import UsageError
from mindgap.records.check import CheckResult
from mindgap.records.verdict import Conclusion
from mindgap.report.documents import NOT_EXERCISED
from mindgap.report.results import BAD, QUIET, Result, Results, lines_of, results_of
from mindgap.report.summary import many

APPEARED, FIXED, CHANGED, MISSING = "appeared", "fixed", "changed", "not run"
KINDS: Final = (APPEARED, CHANGED, FIXED, MISSING)
FACTOR: Final = 10.0
"""An error that is so much larger or smaller than before is another one; noise moves it by less (docs/verdicts.md)."""


@dataclass(frozen=True, slots=True)
class Change:
    """One subject on one platform that is not the same in both."""

    what: str
    subject: str
    platform: str
    old: Result | None
    new: Result | None

    @property
    def said(self) -> str:
        shown = self.new if self.new is not None and (self.what != FIXED) else self.old
        return shown.said if shown is not None else ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is not the same in two of a kind."""

    old: Results
    new: Results
    changes: tuple[Change, ...]
    """What appeared first, then what changed, what was fixed, what was not run in one of them."""
    same: int
    """Lines that say the same in both."""

    def count(self, what: str) -> int:
        return sum(change.what == what for change in self.changes)

    @property
    def changed_versions(self) -> Mapping[str, tuple[str, str]]:
        """Packages whose version is not the same, with both."""
        before, after = dict(self.old.versions), dict(self.new.versions)
        names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
        return {name: (before.get(name, "-"), after.get(name, "-")) for name in names}

    @property
    def sentence(self) -> str:
        """The comparison in one sentence."""
        if not self.changes:
            return f"Nothing changed: {many(self.same, 'result')} are the same in both."
        words = {APPEARED: "appeared", FIXED: "were fixed", CHANGED: "changed", MISSING: "were not run in one of them"}
        counts = {what: self.count(what) for what in KINDS}
        told = ", ".join(f"{count:,} {words[what] if count != 1 else words[what].replace('were', 'was')}"
                         for what, count in counts.items() if count)  # fmt: skip
        start = "Nothing new is wrong" if not counts[APPEARED] else f"{many(counts[APPEARED], 'new problem')}"
        return f"{start}: {told}; {self.same:,} are the same."


def compare(old: Results, new: Results) -> Comparison:
    """What appeared, was fixed, changed, or was not run in one of them."""
    if old.subject != new.subject:
        raise UsageError(
            f"{old.name} is of another kind than {new.name}",
            cause=f"the first is a {_noun(old)}, the second a {_noun(new)}",
            hint="compare two campaigns, two checks or two operator sweeps",
        )
    before, after = _by_place(old.lines), _by_place(new.lines)
    if not before.keys() & after.keys():  # otherwise a wrong file would pass for an upgrade without a problem
        raise UsageError(
            f"{old.name} and {new.name} have nothing in common",
            cause=f"{many(len(before), 'result')} in the first and {many(len(after), 'result')} in the second, "
            "none of the same model or program on the same platform",
            hint="compare the same models, campaigns of the same seed and corpus, sweeps of the same operators",
        )
    changes, same = [], 0
    for place in dict.fromkeys((*after, *before)):
        what = _what(before.get(place), after.get(place))
        if what is None:
            same += 1
        else:
            changes.append(Change(what, *place, before.get(place), after.get(place)))
    return Comparison(old, new, tuple(sorted(changes, key=_rank)), same)


def _noun(results: Results) -> str:
    return {"operators": "sweep over operators"}.get(results.subject, results.subject)


def _by_place(lines: Sequence[Result]) -> dict[tuple[str, str], Result]:
    return {(line.subject, line.platform): line for line in lines}


def _what(old: Result | None, new: Result | None) -> str | None:
    ran_before, ran_now = (line is not None and line.word != NOT_EXERCISED for line in (old, new))
    if not ran_before and not ran_now:
        return None
    if old is None or new is None or not (ran_before and ran_now):
        return MISSING
    if new.word in BAD and old.word not in BAD:
        return APPEARED
    if old.word in BAD and new.word in QUIET:
        return FIXED
    if old.word in QUIET and new.word in QUIET:
        return None
    differs = (old.word, old.kind) != (new.word, new.kind) or _is_other(old.error, new.error)
    return CHANGED if differs else None


def _is_other(old: float | None, new: float | None) -> bool:
    if old is None or new is None or math.isnan(old) or math.isnan(new):
        return (old is None or math.isnan(old)) != (new is None or math.isnan(new))
    if math.isinf(old) or math.isinf(new):
        return old != new
    low, high = sorted((abs(old), abs(new)))
    return high > FACTOR * max(low, 1.0)


def _rank(change: Change) -> tuple[int, str, str]:
    return KINDS.index(change.what), change.platform, change.subject


def summary_rows(comparison: Comparison) -> list[list[str]]:
    """A row per platform: how many appeared, changed, were fixed, were not run."""
    counts = Counter((change.platform, change.what) for change in comparison.changes)
    platforms = dict.fromkeys(change.platform for change in comparison.changes)
    return [[name, *(str(counts[name, what]) for what in KINDS)] for name in sorted(platforms)]


@dataclass(frozen=True, slots=True)
class Baseline:
    """An earlier check: what it has as well is no news."""

    name: str
    lines: Mapping[tuple[str, str], Result]

    @classmethod
    def read(cls, path: Path) -> Baseline:
        found = results_of(path)
        if found.subject != "check":
            raise UsageError(
                f"--baseline {path} is a {_noun(found)}", hint="mindgap check MODEL --json FILE writes one"
            )
        return cls(path.name, _by_place(found.lines))

    def has(self, line: Result) -> bool:
        """Whether a result was like this before."""
        old = self.lines.get((line.subject, line.platform))
        return old is not None and _what(old, line) is None

    def marked(self, result: CheckResult) -> CheckResult:
        """A check whose platforms say that the baseline has it too."""
        old = {line.platform for line in lines_of(result) if line.word not in QUIET and self.has(line)}
        return replace(
            result,
            platforms={
                name: replace(item, known=item.known or f"in {self.name}") if name in old else item
                for name, item in result.platforms.items()
            },
        )

    def excuses(self, result: CheckResult, failing: Collection[Conclusion]) -> bool:
        """Whether eager could not run it before either, and nothing else is new."""
        words = {item.value for item in failing}
        return all(self.has(line) or line.known or line.word not in words for line in lines_of(result))
