"""Names and messages of models and runtimes inside Markdown: text stays text."""

from __future__ import annotations

import re


def inline(text: str) -> str:
    """Text in a sentence: no markup, no link, no other paragraph."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    plain = re.sub(r"[\\`*<]", r"\\\g<0>", plain).replace("](", r"]\(")
    return plain if not plain or plain[0].isalnum() or plain[0] == "\\" else f"\\{plain}"


def inside_fence(text: str) -> str:
    """Text in a block between three backticks, which it cannot end."""
    return text.replace("```", "'''")
