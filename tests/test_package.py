"""What the package offers at its top."""

from __future__ import annotations

import mindgap


def test_the_main_jobs_are_at_the_top():
    from mindgap.pipeline import check

    from mindgap.campaign.hunt import hunt

    assert mindgap.check is check
    assert mindgap.hunt is hunt
