from __future__ import annotations

import pytest

from mindgap.explanation.markdown import inline, inside_fence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("logits[0, 3] is off by 7 times", "logits[0, 3] is off by 7 times"),
        ("<img src=x onerror=alert(1)>", r"\<img src=x onerror=alert(1)>"),
        ("[click](http://example.com)", r"\[click]\(http://example.com)"),
        ("![x](y)", r"\![x]\(y)"),
        ("**loud** `code`", r"\*\*loud\*\* \`code\`"),
        ("# a title\n\n## another", r"\# a title ## another"),
        ("a\x1b[31mb\x00c\u202ed", "a [31mb c d"),
        ("", ""),
    ],
)
def test_text_stays_text_in_a_sentence(text: str, expected: str) -> None:
    assert inline(text) == expected


def test_a_block_cannot_be_ended_from_inside() -> None:
    assert "```" not in inside_fence("before\n```\n# outside\n````")
