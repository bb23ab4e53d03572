"""Bisecting a difference over versions of a runtime: an environment per version, and the same case in each."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from mindgap.errors import MindgapError, UsageError
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.installing import install
from mindgap.platforms.probing import require
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.registry import adapter_class
from mindgap.platforms.running import run
from mindgap.records.bisection import TriedVersion
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.verdicts.judging import Comparing, Question, ask_judge, speaking_of

MOST_VERSIONS: Final = 200
INDEX_S: Final = 120.0
"""For the list of versions."""

Ask = Callable[[str], TriedVersion]


def number(version: str) -> tuple[int, ...]:
    """A version as numbers, for their order."""
    found = re.match(r"\d+(\.\d+)*", version)
    if found is None:
        raise UsageError(f"{version!r} is no version", hint="1.20.1, or a range: 1.20..1.31")
    return tuple(int(part) for part in found[0].split("."))


def chosen(text: str, offered: Callable[[], Sequence[str]]) -> list[str]:
    """The versions of `--versions`, the oldest first: a list as it is, a range of those that are offered."""
    first, dots, last = text.partition("..")
    if not dots:
        listed = sorted({part.strip() for part in text.split(",") if part.strip()}, key=number)
        if len(listed) < 2:
            raise UsageError("--versions needs two versions at least", hint="1.20.1,1.31.1 or a range: 1.20..1.31")
        return listed
    least, most = number(first), number(last)
    known = [item for item in offered() if re.fullmatch(r"\d+(\.\d+)*", item)]
    inside = [item for item in known if least <= number(item) and number(item)[: len(most)] <= most]
    if len(inside) < 2:
        told = f"{known[0]} to {known[-1]}" if known else "none"
        raise UsageError(f"the index offers fewer than two versions in {text}", cause=f"it offers {told}")
    return inside[-MOST_VERSIONS:]


def offered_versions(package: str) -> list[str]:
    """What pip finds for this Python, the oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--disable-pip-version-check"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INDEX_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"the package index did not list {package} within {INDEX_S:.0f} s") from error
    found = re.search(r"Available versions: (.+)", done.stdout)
    if found is None:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(
            f"the package index does not list {package}", cause=last, hint="list them: --versions 1.20.1,1.31.1"
        )
    return sorted((item.strip() for item in found[1].split(",")), key=number)


def bisect(versions: Sequence[str], ask: Ask) -> tuple[list[TriedVersion], tuple[int, int] | None]:
    """Ask as few versions as tell where it changes: those that were asked, and the two neighbours with other answers.

    The oldest and the newest that say anything are asked first. A version that says nothing is replaced by the next one
    towards the middle, and then by all others, before the search gives up.
    """
    answers: dict[int, TriedVersion] = {}

    def asked(index: int) -> TriedVersion:
        if index not in answers:
            answers[index] = ask(versions[index])
        return answers[index]

    order = range(len(versions))
    low = next((index for index in order if asked(index).is_wrong is not None), None)
    high = next((index for index in reversed(order) if asked(index).is_wrong is not None), None)
    found: tuple[int, int] | None = None
    if low is not None and high is not None and asked(low).is_wrong != asked(high).is_wrong:
        found = low, high
        while (
            middle := next((i for i in _from_the_middle(*found) if asked(i).is_wrong is not None), None)
        ) is not None:
            same = asked(middle).is_wrong == asked(found[0]).is_wrong
            found = (middle, found[1]) if same else (found[0], middle)
    return [answers[index] for index in sorted(answers)], found


def _from_the_middle(low: int, high: int) -> list[int]:
    """What lies between two versions, the middle first."""
    return sorted(range(low + 1, high), key=lambda index: abs(index - (low + high) / 2))


def recipe_of(spec: PlatformSpec, version: str) -> Recipe:
    """The environment of a platform with another version of its package."""
    cls = adapter_class(spec)
    if cls is None or cls.versioned is None or spec.device is not None:
        raise UsageError(
            f"{spec.name} cannot be installed in another version by mindgap", hint="give interpreters: --pythons A,B"
        )
    package = cls.versioned.package
    return Recipe(
        f"{package}-{version}",
        f"{package} {version} on this CPU",
        (*([] if package == "torch" else [f"{package}=={version}"]), *cls.versioned.pins),
        cls.versioned.size_mb,
        torch=version if package == "torch" else None,
        prepare=cls.versioned.prepare,
    )


def installed(spec: PlatformSpec, version: str, tell: Callable[[str, str], None]) -> PlatformSpec:
    """The platform in an environment with that version."""
    made = install(recipe_of(spec, version), lambda what: tell(version, what))
    return replace(spec, python=str(made.python), worker=version)


def judged_in(pool: Pool, spec: PlatformSpec, version: str, parcel: Parcel, eager: Outcome) -> TriedVersion:
    """What a version does with a case, next to the baseline."""
    try:
        require(pool, spec)
    except MindgapError as error:
        return TriedVersion(version, None, "; ".join(filter(None, [error.what, error.cause])))
    outcome = opened(run(pool, spec, parcel, 2))
    question = Question(parcel, (Comparing(eager, (outcome,)),))
    verdict = speaking_of(ask_judge(pool, question), eager.platform).verdicts[spec.name]
    discarded(outcome)
    pool.retire(spec)
    return TriedVersion(version, verdict, "" if outcome.ok else outcome.message)
