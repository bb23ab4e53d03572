"""Platform names: `runtime[:device][@profile]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

RUNTIME: Final = r"[A-Za-z][A-Za-z0-9_.-]*"
_NAME: Final = re.compile(
    rf"(?P<runtime>{RUNTIME})(?::(?P<device>[A-Za-z][A-Za-z0-9_]*(?:[:.][0-9]+)?))?(?:@(?P<profile>[A-Za-z0-9_.-]+))?"
)


@dataclass(frozen=True, slots=True)
class Name:
    """The three parts of a platform's name."""

    runtime: str
    device: str | None = None
    """`cuda`, or one of several: `cuda:1`, `GPU.1`."""
    profile: str | None = None

    @property
    def device_kind(self) -> str | None:
        """The device without the number of one of several."""
        return None if self.device is None else re.split("[:.]", self.device)[0]

    def __str__(self) -> str:
        device = f":{self.device}" if self.device else ""
        return f"{self.runtime}{device}" + (f"@{self.profile}" if self.profile else "")


def parse_name(text: str) -> Name | None:
    """The parts of a name, or None when it is not one."""
    found = _NAME.fullmatch(text)
    return None if found is None else Name(found["runtime"], found["device"], found["profile"])
