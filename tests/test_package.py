"""What the package offers at its top."""

from __future__ import annotations

import mindgap


def test_the_main_jobs_are_at_the_top():
    from mindgap.campaign.hunt import hunt
    from mindgap.pipeline import check

    assert mindgap.check is check
    assert mindgap.hunt is hunt
