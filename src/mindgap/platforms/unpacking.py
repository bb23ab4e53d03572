"""Debian packages without root: fetched, checked against their pinned digest, unpacked into an environment.

They are kept in pip's cache, next to the wheels: an install that was interrupted does not fetch them again.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from mindgap.errors import UsageError
from mindgap.platforms.recipe import DebianFile

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a disk without room, or a user without quota, answers."""

_CHUNK = 1 << 20
TIMEOUT_S = 60.0


@functools.cache
def archives() -> tuple[str, ...]:
    """The archives that apt is set up for here, each with a slash at its end."""
    if shutil.which("apt-get") is None:
        return ()
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = dict.fromkeys(line.strip() for line in done.stdout.splitlines() if "://" in line)
    return tuple(uri if uri.endswith("/") else f"{uri}/" for uri in found)


def fetch(file: DebianFile, folder: Path, places: Sequence[str] | None = None) -> Path:
    """The package on this disk, from the first of apt's archives that has it; one with another digest is refused.

    One that is there already is not fetched again. A full disk is an OSError like any other.
    """
    path = folder / file.path.rsplit("/", 1)[-1]
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256:
        return path
    places = archives() if places is None else places
    if not places:
        cause = "apt-get names no archive: this is not Debian, or its package lists are missing"
        raise UsageError(f"cannot download the Debian package {file.name}", cause=cause, hint="apt-get update")
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    causes = []
    for place in places:
        try:
            found = _download(place + file.path, part)
            if found == file.sha256:
                return part.replace(path)
        except OSError as error:  # urllib's own are of this kind
            if error.errno in FULL:
                raise
            causes.append(str(getattr(error, "reason", error)))
            continue
        finally:
            part.unlink(missing_ok=True)
        causes.append(f"SHA-256 {found}, not {file.sha256}: not the package that was pinned")
    raise UsageError(
        f"cannot download the Debian package {file.name}",
        where=f"{file.path} in {', '.join(places)}",
        cause="; ".join(dict.fromkeys(causes)),
        hint="connect, or set http_proxy",
    )


def _download(url: str, path: Path) -> str:
    """The digest of what came."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, path.open("wb") as out:
        while chunk := answer.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def kept(otherwise: Path) -> Path:
    """Where packages stay: in pip's cache; where pip keeps none, in a folder that goes away with the install."""
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = done.stdout.strip()
    return Path(found) / "mindgap" if done.returncode == 0 and found else otherwise


def unpack(package: Path, target: Path) -> None:
    """Its files below `target`; none of its scripts runs."""
    if shutil.which("dpkg-deb") is None:
        raise UsageError(f"cannot unpack {package.name}", cause="dpkg-deb is not installed")
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["dpkg-deb", "-x", str(package), str(target)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if "No space left on device" in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
    if done.returncode:
        raise UsageError(f"cannot unpack {package.name}", cause=done.stderr.strip()[-300:])
