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
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import msgspec

from mindgap import __version__
from mindgap.errors import FutureProgram, UsageError
from mindgap.program.codec import pack
from mindgap.reading.files import refusing, size
from mindgap.reading.limits import MANIFEST_BYTES, PART_BYTES, TENSOR_BYTES
from mindgap.reading.packed import survey
from mindgap.reading.zips import Archive
from mindgap.records.files import write_whole

T = TypeVar("T")

FORMAT: Final = "mindgap.pack"
VERSION: Final = 2
"""2 describes outcomes by a typed record; packs of programs are the same as in 1."""
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


class Part(msgspec.Struct, frozen=True):
    """What the manifest says about one part."""

    bytes: int
    blake2b: str


class Manifest(msgspec.Struct, frozen=True):
    """What an archive says about itself; each kind has some of these."""

    format: str
    version: int
    kind: str
    parts: dict[str, Part]
    mindgap: str = ""
    plan: str = ""
    campaign: str = ""
    platforms: dict[str, tuple[str, str]] = {}
    """Version and device of each platform that results are of."""


class Reading:
    """An archive whose parts are checked one by one as they are read. It is opened where its content may do no harm."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
        self._archive = Archive(path, path.name, "a pack of mindgap")
        content = self._archive.read(MANIFEST, MANIFEST_BYTES)
        with refusing(f"{path.name} is not a pack of mindgap", path):
            self.about = msgspec.json.decode(content, type=Manifest)
            if self.about.format != FORMAT:
                raise ValueError(f"its format is {self.about.format[:40]!r}")
        if self.about.version > VERSION:
            raise FutureProgram(
                f"{path.name} was written by a newer mindgap",
                where=str(path),
                hint=f"install mindgap {self.about.mindgap[:20]} or newer",
            )
        if kind == "results" and self.about.version < 2:
            raise UsageError(
                f"{path.name} was written by an older mindgap",
                where=str(path),
                hint="run the pack again with this one: mindgap run",
            )
        if self.about.kind != kind:
            raise UsageError(f"{path.name} holds {self.about.kind[:40]}, not {kind}", where=str(path))

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.__exit__(kind, error, trace)

    def rows(self, stem: str, row: type[T]) -> Iterator[T]:
        """The rows of a list, part by part."""
        for name in sorted(name for name in self.about.parts if name.startswith(f"{stem}-")):
            content = self.part(name)
            with self.damaged(name):
                survey(content)
                rows = msgspec.msgpack.decode(content, type=list[row])  # type: ignore[valid-type]
            yield from rows

    def part(self, name: str) -> bytes:
        content = self._archive.read(name, PART_BYTES)
        listed = self.about.parts[name]
        with self.damaged(name):
            if len(content) != listed.bytes:
                raise ValueError("its size is not the one in the manifest")
            if _hash(content) != listed.blake2b:
                raise ValueError("its hash is not the one in the manifest")
        return content

    def unpack_weights(self, directory: Path) -> None:
        """Constants that no seed gives, under the digests that programs name them by."""
        left = TENSOR_BYTES
        for name in self.about.parts:
            found = re.fullmatch(r"weights/([0-9a-f]{24})", name)
            if found is not None:
                content = self.part(name)
                left -= len(content)
                with self.damaged(name):
                    if left < 0:
                        raise ValueError(f"its weights have more than {size(TENSOR_BYTES)}")
                directory.mkdir(exist_ok=True)
                write_whole(directory / found[1], content)

    def damaged(self, name: str) -> AbstractContextManager[None]:
        """What is raised inside is a damaged part."""
        return refusing(f"{self.path.name} is damaged", name)


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
