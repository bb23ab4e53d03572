"""Debian packages without root: fetched, checked against their pinned digest, unpacked into an environment."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from mindgap.errors import UsageError
from mindgap.platforms.recipe import DebianFile

_CHUNK = 1 << 20
TIMEOUT_S = 60.0


def fetch(file: DebianFile, folder: Path) -> Path:
    """The package on this disk; one with another digest is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file.url.rsplit("/", 1)[-1]
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT_S) as answer, path.open("wb") as out:
            while chunk := answer.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
    except (urllib.error.URLError, OSError) as error:
        raise UsageError(
            f"cannot download the Debian package {file.name}",
            where=file.url,
            cause=str(getattr(error, "reason", error)),
            hint="connect, or set http_proxy",
        ) from error
    if digest.hexdigest() != file.sha256:
        raise UsageError(
            f"the Debian package {file.name} is not the one that was pinned",
            where=file.url,
            cause=f"SHA-256 {digest.hexdigest()}, not {file.sha256}",
        )
    return path


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
