"""Debian packages without root: fetched, checked against their pinned digest, unpacked into an environment."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from mindgap.errors import UsageError
from mindgap.platforms.recipe import DebianFile

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
    """The package on this disk, from the first of apt's archives that has it; one with another digest is refused."""
    places = archives() if places is None else places
    if not places:
        cause = "apt-get names no archive: this is not Debian, or its package lists are missing"
        raise UsageError(f"cannot download the Debian package {file.name}", cause=cause, hint="apt-get update")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file.path.rsplit("/", 1)[-1]
    causes = []
    for place in places:
        try:
            found = _download(place + file.path, path)
        except (urllib.error.URLError, OSError) as error:
            causes.append(str(getattr(error, "reason", error)))
            continue
        if found == file.sha256:
            return path
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


def unpack(package: Path, target: Path) -> None:
    """Its files below `target`; none of its scripts runs."""
    if shutil.which("dpkg-deb") is None:
        raise UsageError(f"cannot unpack {package.name}", cause="dpkg-deb is not installed")
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["dpkg-deb", "-x", str(package), str(target)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise UsageError(f"cannot unpack {package.name}", cause=done.stderr.strip()[-300:])
    package.unlink()
