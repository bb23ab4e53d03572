"""The one line of an exception that a person needs.

What holds for every runtime is here; each runtime adds its own `MessageRules` in its own folder.
"""

from __future__ import annotations

import functools
import re
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

LIMIT: Final = 300
"""Characters of a message: what a table cell or a JUnit line can still show."""


@dataclass(frozen=True, slots=True)
class MessageRules:
    """How to read a runtime's exceptions; all patterns are regular expressions, and those of words ignore case."""

    summaries: tuple[tuple[str, str], ...] = ()
    """Found anywhere in the message, across lines: the replacement stands for the whole message."""
    rewrites: tuple[tuple[str, str], ...] = ()
    """Replaced in each line, one after the other."""
    noise: tuple[str, ...] = ()
    """How lines begin that say nothing of the fault: headings, advice, frames."""
    telling: tuple[str, ...] = ()
    """What the line says that names the fault, best first; without one of them the first line counts."""

    def __add__(self, other: MessageRules) -> MessageRules:
        """Both sets of rules; where order matters those of `other` come last."""
        return MessageRules(
            self.summaries + other.summaries,
            self.rewrites + other.rewrites,
            self.noise + other.noise,
            self.telling + other.telling,
        )


NO_RULES: Final = MessageRules()

_OPERATOR: Final = re.compile(r"\b(aten(?:\.|::)\w+)")
_TORCH_AND_MINDGAP: Final = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
_STANDARD_LIBRARY: Final = sysconfig.get_path("stdlib")

_REWRITES: Final = (
    (r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07?|[\x00-\x1f\x7f]", ""),  # colours
    (r"(?<![\w.:/])(?:/|[A-Za-z]:\\)(?:[\w.+@~-]+[/\\])+(?=[\w.+@~-])", ""),  # directories
    (r"\b0x[0-9a-fA-F]{6,}", "0x…"),  # addresses, which change from run to run
)
_NOISE: Final = (
    r"Traceback \(most recent", r'File "', r"During handling", r"The above exception", r"If you believe", r"Please ",
    r"To (?:avoid|fix)", r"Hint:", r"[\W_]*$", r".*:$",
)  # fmt: skip
_TELLING: Final = (r"not[ _]implemented", r"not supported|unsupported", r"\berror: ")


def first_cause(error: BaseException, rules: MessageRules = NO_RULES) -> str:
    """The innermost cause in one line, without machine paths, colours or advice."""
    cause = innermost(error)
    patterns = _compiled(rules)
    said = patterns.summary(str(cause))
    lines = [patterns.tidy(line) for line in said.splitlines()]
    lines = [line for line in lines if line and not patterns.noise.match(line)]
    if not lines:
        return type(cause).__name__
    hits = (line for words in patterns.telling for line in lines if words.search(line))
    line = next(hits, lines[0])
    text = line if " " in line else f"{type(cause).__name__}: {line}"  # KeyError: 'x'
    return text if len(text) <= LIMIT else text[: LIMIT - 1].rstrip() + "…"


def line_of(error: BaseException) -> str:
    """The innermost line of the model's own code in a traceback: not of torch, of mindgap or of Python itself."""
    frames = traceback.extract_tb(innermost(error).__traceback__)
    own = [frame for frame in frames if _is_of_a_model(frame.filename)]
    if not own:
        return ""
    last = own[-1]
    return f"{Path(last.filename).name}:{last.lineno} in {last.name}"


def _is_of_a_model(filename: str) -> bool:
    if filename.startswith(("<", *_TORCH_AND_MINDGAP)):
        return False
    return "site-packages" in filename or not filename.startswith(_STANDARD_LIBRARY)


def innermost(error: BaseException) -> BaseException:
    """The exception at the bottom of a chain of causes that still says something."""
    chain = [item for item in _chain(error) if str(item).strip()]
    return chain[-1] if chain else error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "inner_exception", None) or error.__cause__


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Rules, compiled, together with those that hold for every runtime."""

    summaries: tuple[tuple[re.Pattern[str], str], ...]
    rewrites: tuple[tuple[re.Pattern[str], str], ...]
    noise: re.Pattern[str]
    telling: tuple[re.Pattern[str], ...]

    def summary(self, message: str) -> str:
        hits = ((pattern.search(message), template) for pattern, template in self.summaries)
        return next((hit.expand(template) for hit, template in hits if hit is not None), message)

    def tidy(self, line: str) -> str:
        line = " ".join(line.split())
        for pattern, replacement in self.rewrites:
            line = pattern.sub(replacement, line).strip()
        return line


@functools.lru_cache(maxsize=64)
def _compiled(rules: MessageRules) -> _Patterns:
    return _Patterns(
        tuple((re.compile(pattern, re.DOTALL), template) for pattern, template in rules.summaries),
        tuple((re.compile(pattern), replacement) for pattern, replacement in (*_REWRITES, *rules.rewrites)),
        re.compile("|".join((*_NOISE, *rules.noise)), re.IGNORECASE),
        tuple(re.compile(words, re.IGNORECASE) for words in (*rules.telling, *_TELLING)),
    )


def operators_in(message: str) -> list[str]:
    """Every operator that a message names, as `aten.name`."""
    return [name.replace("::", ".") for name in dict.fromkeys(_OPERATOR.findall(message))]
