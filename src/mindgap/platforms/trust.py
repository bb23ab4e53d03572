"""Which mindgap.toml may run programs: those that the user confirmed once, by their content.

A configuration that is found in the current directory may be anybody's. What it names as interpreter, environment or
adapter is code, and so are options that hold text, such as the compiler of inductor. It is used only after `mindgap
trust`, which remembers the place and the content of the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mindgap.errors import UsageError
from mindgap.records.files import write_whole

CODE: Final = ("python", "adapter", "env", "options")
"""Keys of a platform that decide what is executed."""


def code_in(platforms: Mapping[str, Any]) -> list[str]:
    """What a configuration would execute, key by key."""
    return [
        f"platform.{name}.{key} = {_shown(body[key])}"
        for name, body in platforms.items()
        if isinstance(body, dict)
        for key in CODE
        if key in body and not (key == "options" and _is_numbers(body[key]))
    ]


def is_trusted(path: Path, content: bytes) -> bool:
    """Whether the user confirmed this file, as it is now."""
    return _record(path, content).is_file()


def trust(path: Path, content: bytes) -> Path:
    """Remember a file as it is now; where that is remembered."""
    record = _record(path, content)
    try:
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"cannot write to {record.parent}", cause=error.strerror) from error
    write_whole(record, f"{path.absolute()}\n")
    return record


def forget(path: Path, content: bytes) -> bool:
    """Forget a file; whether it was trusted."""
    found = is_trusted(path, content)
    _record(path, content).unlink(missing_ok=True)
    return found


def _record(path: Path, content: bytes) -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    folder = (Path(base) if base else Path.home() / ".config") / "mindgap" / "trusted"
    place = os.fsencode(path.absolute())
    return folder / hashlib.blake2b(place + b"\0" + content, digest_size=16).hexdigest()


def _is_numbers(value: Any) -> bool:
    """Switches and numbers can name nothing that is executed."""
    if isinstance(value, dict):
        return all(map(_is_numbers, value.values()))
    return isinstance(value, bool | int | float)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
