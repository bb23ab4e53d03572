"""Messages of one cause look alike once sizes, names and addresses are taken out."""

from __future__ import annotations

import re
from typing import Final

from mindgap.platforms.messages import operators_in

LONGEST: Final = 160

_REWRITES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\s+", " "),
        (r"0x[0-9a-f…]+", "ADDRESS"),
        (r"\[[\d\s,.;:x()-]*\]|\([\d\s,]*\d[\d\s,]*\)", "[…]"),  # shapes and sizes
        (r"(?<=[A-Za-z])_\d+\b", "_N"),  # numbered names of nodes
        (r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*[a-z])", "N"),
        (r"'(?:[^']{0,40}\d[^']{0,40})'", "'…'"),
    )
)


def message_class(message: str) -> str:
    """The first line of a message without what differs from program to program."""
    text = message.strip().splitlines()[0] if message.strip() else ""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def operator_in(message: str) -> str | None:
    """The operator that a message names, as `aten.name`."""
    return next(iter(operators_in(message)), None)
