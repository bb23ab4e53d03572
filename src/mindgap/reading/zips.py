"""Zip archives of other people: nothing is extracted, and no part is larger than it may be."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Final

from mindgap.errors import CorruptFile, MindgapError
from mindgap.reading.files import refusing, size
from mindgap.reading.limits import PARTS

_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """The parts of an archive by name; every error is of one kind and names the part."""

    def __init__(self, source: Path | bytes, name: str, what: str, kind: type[MindgapError] = CorruptFile) -> None:
        self._name = name
        self._kind = kind
        with refusing(f"{name} is not {what}", source if isinstance(source, Path) else None, kind):
            self._zip = zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source))
        infos = self._zip.infolist()
        self._parts = {info.filename: info for info in infos}
        # torch's own reader does not tell capitals from small letters.
        if len(infos) > PARTS or len({part.lower() for part in self._parts}) < len(infos):
            self._zip.close()
            raise kind(f"{name} is damaged", cause="it has too many parts, or two of one name")

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        return list(self._parts)

    def stored_bytes(self) -> int | None:
        """Of all parts together; None when one of them is compressed."""
        infos = self._parts.values()
        plain = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
        return sum(info.file_size for info in infos) if plain else None

    def read(self, part: str, most: int) -> bytes:
        """The content of a part of at most so many bytes."""
        with refusing(f"{self._name} is damaged", part, self._kind):
            if part not in self._parts:
                raise ValueError("it is missing")
            info = self._parts[part]
            if info.compress_type not in _METHODS or info.flag_bits & 1:
                raise ValueError("it is compressed in a way that mindgap does not write, or encrypted")
            if info.file_size > most:
                raise ValueError(f"it has more than {size(most)}")
            with self._zip.open(info) as file:
                content = file.read(info.file_size + 1)
            if len(content) != info.file_size:
                raise ValueError("it has another size than the archive says")
            return content
