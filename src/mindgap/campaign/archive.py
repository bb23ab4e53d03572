"""`.mgz` files: what travels between machines that cannot see each other.

A zip archive of msgpack parts and raw weights, with a manifest of sizes and hashes. Reading one checks every part
before it is looked at, writes nothing but weights named by their digest, and executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from mindgap import __version__
from mindgap.errors import CorruptProgram, FutureProgram, UsageError
from mindgap.program.codec import pack, unpack

FORMAT: Final = "mindgap.pack"
VERSION: Final = 2
"""2 describes outcomes by a typed record; packs of programs are the same as in 1."""
MOST_PART_BYTES: Final = 1 << 30
"""A part that claims to be larger is a file made to fill the memory."""
MANIFEST: Final = "manifest.json"


class Writing:
    """A new archive, moved into place when it is complete. Use it as a context manager."""

    def __init__(self, path: Path, kind: str, about: dict[str, Any]) -> None:
        self._path = path
        self._about = {"format": FORMAT, "version": VERSION, "mindgap": __version__, "kind": kind, **about}
        self._parts: dict[str, dict[str, Any]] = {}
        try:
            handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        except OSError as error:
            raise UsageError(f"cannot write {path}", cause=error.strerror) from error
        os.close(handle)
        self._temporary = Path(temporary)
        self._zip = zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1)

    def __enter__(self) -> Writing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            manifest = {**self._about, "parts": self._parts}
            self._zip.writestr(MANIFEST, json.dumps(manifest, indent=1))
        self._zip.close()
        if kind is None:
            self._temporary.replace(self._path)
        else:
            self._temporary.unlink(missing_ok=True)

    def add(self, name: str, content: bytes) -> None:
        self._zip.writestr(name, content)
        self._parts[name] = {"bytes": len(content), "blake2b": _hash(content)}

    def add_rows(self, stem: str, rows: Sequence[Any]) -> None:
        """Rows of plain data as one more part of a list."""
        number = sum(name.startswith(f"{stem}-") for name in self._parts)
        self.add(f"{stem}-{number:05d}.msgpack", pack(list(rows)))


class Reading:
    """An archive whose parts are checked one by one as they are read."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
            self.about: dict[str, Any] = json.loads(self._zip.read(MANIFEST))
            self._parts: dict[str, dict[str, Any]] = self.about["parts"]
        except FileNotFoundError as error:
            raise UsageError(f"there is no file {path}") from error
        except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
            raise CorruptProgram(f"{path.name} is not a pack of mindgap", where=str(path), cause=str(error)) from error
        if self.about.get("format") != FORMAT or not isinstance(self.about.get("version"), int):
            raise CorruptProgram(f"{path.name} is not a pack of mindgap", where=str(path))
        if self.about["version"] > VERSION:
            raise FutureProgram(
                f"{path.name} was written by a newer mindgap",
                where=str(path),
                hint=f"install mindgap {self.about.get('mindgap')} or newer",
            )
        if kind == "results" and self.about["version"] < 2:
            raise UsageError(
                f"{path.name} was written by an older mindgap",
                where=str(path),
                hint="run the pack again with this one: mindgap run",
            )
        if self.about.get("kind") != kind:
            raise UsageError(f"{path.name} holds {self.about.get('kind')}, not {kind}", where=str(path))

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def rows(self, stem: str) -> Iterator[Any]:
        """The rows of a list, part by part."""
        for name in sorted(name for name in self._parts if name.startswith(f"{stem}-")):
            try:
                rows = unpack(self.part(name))
            except CorruptProgram:
                raise
            except Exception as error:  # msgpack raises many types on damaged data
                raise self._damaged(name, str(error)) from error
            if not isinstance(rows, list):
                raise self._damaged(name, "it holds no list")
            yield from rows

    def part(self, name: str) -> bytes:
        listed = self._parts[name]
        try:
            info = self._zip.getinfo(name)
            if info.file_size != listed["bytes"] or info.file_size > MOST_PART_BYTES:
                raise self._damaged(name, "its size is not the one in the manifest")
            content = self._zip.read(name)
        except (KeyError, OSError, zipfile.BadZipFile, TypeError) as error:
            raise self._damaged(name, str(error)) from error
        if _hash(content) != listed.get("blake2b"):
            raise self._damaged(name, "its hash is not the one in the manifest")
        return content

    def unpack_weights(self, directory: Path) -> None:
        """Constants that no seed gives, under the digests that programs name them by."""
        for name in self._parts:
            found = re.fullmatch(r"weights/([0-9a-f]{24})", name)
            if found is not None:
                directory.mkdir(exist_ok=True)
                (directory / found[1]).write_bytes(self.part(name))

    def _damaged(self, name: str, cause: str) -> CorruptProgram:
        return CorruptProgram(f"{self.path.name} is damaged", where=name, cause=cause)


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
