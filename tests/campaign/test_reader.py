"""What a campaign's reader makes of its ledger; most of it is tested where campaigns run."""

from __future__ import annotations

from mindgap.campaign.reader import _reasons


def test_a_reason_is_told_without_what_stands_in_brackets() -> None:
    said = (
        "output: not judged: there is no reference to judge by (no survey of this program: compared with eager alone)"
    )
    assert _reasons(iter([(said,), ("[3]: not judged: it is ill-conditioned: 4e9",)])) == {
        "there is no reference to judge by": 1,
        "it is ill-conditioned": 1,
    }
