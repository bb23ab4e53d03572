"""Whether a platform's name can be right, told before torch is imported: a misspelt name should cost no time."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from mindgap.errors import UnknownPlatform
from mindgap.platforms.config_file import find_config, parse_config
from mindgap.platforms.names import Name, parse_name
from mindgap.records.declared import declared

ENTRY_POINTS: Final = "mindgap.platforms"
"""The entry-point group under which other packages offer platforms."""


@dataclass(frozen=True, slots=True)
class Spelled:
    """What may follow the name of a runtime."""

    profiles: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    def allows(self, name: Name) -> bool:
        known_device = name.device_kind is None or name.device_kind in self.devices
        return known_device and (name.profile is None or name.profile in self.profiles)


@functools.cache
def spelled() -> Mapping[str, Spelled]:
    """The runtimes of this build, as the text of their adapters declares them."""
    found = declared("mindgap.platforms", "runtime")
    return {item["runtime"]: Spelled(item.get("profiles", ()), item.get("devices", ())) for item in found}


def refuse_unknown(names: Sequence[str], config: Path | None) -> None:
    """Raises UnknownPlatform for a name that nothing declares; with platforms of other packages only they can tell."""
    file = find_config(config)
    content = parse_config(file) if file is not None else {}
    own = content.get("platform")
    own = own if isinstance(own, dict) else {}
    if entry_points(group=ENTRY_POINTS):
        return
    for name in names:
        parsed = parse_name(name)
        runtime = spelled().get(parsed.runtime) if parsed is not None else None
        if name not in own and (parsed is None or runtime is None or not runtime.allows(parsed)):
            raise unknown_platform(name, [*all_names(), *own], spelled())


def all_names() -> list[str]:
    """Every name without a number of a device, those of this processor first."""
    here = [
        str(Name(runtime, profile=profile)) for runtime, item in spelled().items() for profile in (None, *item.profiles)
    ]
    return here + [str(Name(runtime, device)) for runtime, item in spelled().items() for device in item.devices]


def unknown_platform(name: str, known: Collection[str], runtimes: Mapping[str, Spelled]) -> UnknownPlatform:
    """The error for a name, with the nearest ones and what its runtime offers."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    cause = [f"the nearest: {', '.join(near)}"] if near else []
    parsed = parse_name(name)
    runtime = runtimes.get(parsed.runtime) if parsed else None
    if parsed is not None and runtime is not None:
        unknown_device = parsed.device_kind is not None and parsed.device_kind not in runtime.devices
        what, offered = ("devices", runtime.devices) if unknown_device else ("profiles", runtime.profiles)
        cause.append(
            f"{parsed.runtime} has the {what} {', '.join(offered)}" if offered else f"{parsed.runtime} has no {what}"
        )
    return UnknownPlatform(
        f"no platform is named {name!r}", cause="; ".join(cause) or None, hint="mindgap platforms lists every name"
    )
