"""Where a campaign lies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mindgap.errors import UsageError

FILE: Final = "ledger.sqlite"


def ledger_of(directory: Path) -> Path:
    """The ledger of the campaign in a directory; raises UsageError where there is none."""
    path = directory / FILE
    if not path.is_file():
        raise UsageError(f"there is no campaign in {directory}", hint="mindgap hunt -o DIR starts one")
    return path
