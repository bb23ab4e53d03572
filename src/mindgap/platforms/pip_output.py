"""What pip prints, as progress and as errors that say what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from mindgap.errors import MindgapError, NoSpace, UsageError
from mindgap.platforms.recipe import Recipe

_OFFLINE: Final = (
    "NewConnectionError", "Temporary failure in name resolution", "Name or service not known", "Max retries exceeded",
    "Network is unreachable", "Connection refused", "ConnectTimeoutError", "ProxyError", "Connection aborted",
)  # fmt: skip
_LAST: Final = 6
"""Lines of an error that nothing here knows."""


def doing(line: str) -> str:
    """A line of pip as what is being done; empty when it says nothing of that."""
    line = line.strip()
    if found := re.match(r"Downloading (\S+) \(([\d.]+ \w+)\)", line):
        return f"downloading {_distribution(found[1])} ({found[2]})"
    if found := re.match(r"(?:Processing|Using cached|Downloading) (\S+)", line):
        return f"reading {_distribution(found[1])}"
    if found := re.match(r"Collecting (\S+)", line):
        return f"looking for {found[1]}"
    if line.startswith("Installing collected packages"):
        return "unpacking"
    return ""


def _distribution(address: str) -> str:
    return address.rsplit("/", 1)[-1].split("-")[0]


def failure(recipe: Recipe, printed: Sequence[str]) -> MindgapError:
    """Why an install ended, and what next."""
    text = "\n".join(printed)
    wanted = re.findall(r"No matching distribution found for (\S+)", text)
    where = f"environment {recipe.name}"
    if "No space left on device" in text:
        return NoSpace(f"no space left while installing {recipe.name}", hint="free some space and run it again")
    if any(words in text for words in _OFFLINE):
        missing = wanted[0] if wanted else _collected(printed) or recipe.pins[0]
        return UsageError(
            f"cannot install {recipe.name}: the package index cannot be reached",
            where=where,
            cause=f"{missing} is missing; it needs {', '.join(recipe.pins)}",
            hint="connect, or download these wheels elsewhere and set PIP_FIND_LINKS to their directory",
        )
    if wanted:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        offered = re.search(r"from versions: ([^)]*)\)", text)
        known = offered[1] if offered and offered[1] != "none" else "none, or it cannot be reached"
        return UsageError(
            f"cannot install {recipe.name}: no wheel of {wanted[0]} fits this Python {version} and system",
            where=where,
            cause=f"the index offers for them: {known[-200:]}",
            hint="run mindgap with another Python, or point pip to an index that has it",
        )
    errors = [line for line in printed if line.lower().startswith("error")] or list(printed[-_LAST:])
    return UsageError(f"cannot install {recipe.name}", where=where, cause="; ".join(errors)[:600] or "it said nothing")


def _collected(printed: Sequence[str]) -> str:
    """What pip was looking for when it ended."""
    found = [line.split()[1] for line in printed if line.startswith("Collecting ")]
    return found[-1] if found else ""
