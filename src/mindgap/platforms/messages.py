"""The one line of an exception that a person needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LIMIT: Final = 300
"""Characters of a message: what a table cell or a JUnit line can still show."""

_REWRITES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07?|[\x00-\x1f\x7f]", ""),  # colours
        (r"(?<![\w.:/])(?:/|[A-Za-z]:\\)(?:[\w.+@~-]+[/\\])+(?=[\w.+@~-])", ""),  # directories
        (r"\b0x[0-9a-fA-F]{6,}", "0x…"),  # addresses, which change from run to run
        (r"(?:kernel, )?\b[a-z0-9]{40,}[\w.]*:\d+, ", ""),  # where inductor keeps a kernel
        (r"\[ONNXRuntimeError\] : \d+ : (\w+) : ", r"\1: "),
        (r"<?OpOverload\(op='([\w.]+)', overload='(\w+)'\)>?", r"\1.\2"),
        (r".*: got \w+\((['\"])(.*)\1\)$", r"\2"),  # dynamo quotes the real error in its explanation
        (r"^(?:<class '[\w.]+'>: |--+ |Explanation: )", ""),
    )
)
_NOISE: Final = re.compile(
    r"Traceback \(most recent|File \"|During handling|The above exception|Set TORCH|You can suppress|"
    r"from user code|Developer debug|Hint:|For more details|For even more|⬆|⬇|Context:|Exception from src/|"
    r"Check '|If you believe|Please |To (?:avoid|fix)|#|\w+ when making fake tensor call|"
    r"backend='\w+' raised|[\W_]*$|.*:$",
    re.IGNORECASE,
)
"""Lines that say nothing of the fault: headings, advice, frames."""

_DETAILED: Final = re.compile(r"-- (\S+) with a message:\n.*?OpConversionFailure:\n(?:\[[^\]]*\] )?([^\n]+)", re.DOTALL)
"""OpenVINO's report of an operator that it knows and still could not convert."""

_TELLING: Final = (
    r"no conversion rule", r"no onnx function", r"unsupported operation", r"could not find an implementation",
    r"type error: type", r"not[ _]implemented", r"not supported|unsupported", r"\berror: ",
)  # fmt: skip
"""What a line says that names the fault, best first; otherwise the first line does."""


def first_cause(error: BaseException) -> str:
    """The innermost cause in one line, without machine paths, colours or advice."""
    cause = innermost(error)
    detailed = _DETAILED.search(str(cause))
    said = f"{detailed[1]}: {detailed[2]}" if detailed else str(cause)
    lines = [_tidy(line) for line in said.splitlines()]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    if not lines:
        return type(cause).__name__
    hits = (line for words in _TELLING for line in lines if re.search(words, line, re.IGNORECASE))
    line = next(hits, lines[0])
    text = line if " " in line else f"{type(cause).__name__}: {line}"  # KeyError: 'x'
    return text if len(text) <= LIMIT else text[: LIMIT - 1].rstrip() + "…"


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


def _tidy(line: str) -> str:
    line = " ".join(line.split())
    for pattern, replacement in _REWRITES:
        line = pattern.sub(replacement, line).strip()
    return line
