"""What a script says where neither eager nor the platform runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mindgap.explanation.script import _main_failures

ATTEMPT = "import sys\n\ndef attempt(who):\n    return {{'eager': {0!r}, 'deadly': {1!r}}}[who], 'something'\n\n"


@pytest.mark.parametrize(
    ("eager", "platform", "shared", "said"),
    [
        ("dies", "dies", True, "BOTH DIE"),
        ("dies", "dies", False, "no difference"),
        ("runs", "dies", False, "DIFFERS"),
        ("refuses", "dies", True, "DIFFERS"),
        ("runs", "runs", True, "no difference"),
    ],
)
def test_a_death_that_eager_shares_is_shown_where_that_is_asked_for(
    eager: str, platform: str, shared: bool, said: str
) -> None:
    text = ATTEMPT.format(eager, platform) + _main_failures("deadly", shared)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == said, done.stderr
    assert done.returncode == (said != "no difference")
