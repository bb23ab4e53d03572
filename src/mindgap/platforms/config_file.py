"""mindgap.toml as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mindgap.errors import BadConfig
from mindgap.reading.files import parse_toml, read_file
from mindgap.reading.limits import TEXT_BYTES

FILE_NAME: Final = "mindgap.toml"


def find_config(path: Path | str | None) -> Path | None:
    """The file that the user named, or `./mindgap.toml` if it exists."""
    if path is not None:
        return Path(path)
    return Path(FILE_NAME) if Path(FILE_NAME).exists() else None


def parse_config(file: Path) -> dict[str, Any]:
    """The file's tables; raises BadConfig where it cannot be read or is not TOML."""
    return parse_toml(read_file(file, TEXT_BYTES, BadConfig), file, BadConfig)
