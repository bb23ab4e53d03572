"""Making, renewing and removing the environments of runtimes, with pip, so that the user's own index settings count.

An environment is made where it stays and counts as installed only when its marker is written, as the last step. What an
interrupted install leaves has no marker, and the next install removes it; pip's cache keeps what was downloaded,
Debian packages too.

torch and whatever else this interpreter has in the pinned version is linked into it, distribution by distribution:
nothing else of this interpreter can be imported there, so its numpy or protobuf never wins over a pin.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, TypeAlias

from mindgap.errors import NoSpace, UsageError
from mindgap.platforms.environments import MARKER, Environment, damage, directory, find, home_of, record
from mindgap.platforms.pip_output import doing, failure
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.sharing import key, link, shared
from mindgap.platforms.unpacking import FULL, fetch, kept, unpack

Tell: TypeAlias = Callable[[str], None]
"""Hears what is being done."""

WORKER_NEEDS: Final = ("torch", "numpy", "msgpack", "msgspec")
"""What every worker imports."""

ROOM: Final = 2.2
"""Free space needed over the final size, generously: the wheels lie in pip's temporary directory while they are
unpacked."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an install would do here."""

    recipe: Recipe
    linked: tuple[metadata.Distribution, ...]
    """Distributions that this interpreter has."""
    wanted: tuple[str, ...]
    """Requirements that pip is asked for."""

    @property
    def size(self) -> str:
        return f"about {self.recipe.size_mb:,} MB"


def plan(recipe: Recipe) -> Plan:
    """What is shared and what is downloaded."""
    pins = {key(pin.partition("==")[0]): pin for pin in recipe.pins}
    base = shared(WORKER_NEEDS) if recipe.torch is None else shared(WORKER_NEEDS[1:])
    linked: dict[str, metadata.Distribution] = {}
    for name, found in {**base, **{name: found for name in pins if (found := _installed(name)) is not None}}.items():
        pin = pins.get(name)
        if pin is None or pin.partition("==")[2] == found.version:
            linked[name] = found
    wanted = [pin for name, pin in pins.items() if name not in linked]
    if recipe.torch is not None:
        wanted.append(f"torch=={recipe.torch}")
    missing = [name for name in WORKER_NEEDS[1:] if name not in linked and name not in pins]
    if recipe.torch is None and "torch" not in linked:
        missing.append(f"torch=={metadata.version('torch').partition('+')[0]}")  # a distribution's own packaging
    return Plan(recipe, tuple(linked.values()), (*wanted, *missing))


def _installed(name: str) -> metadata.Distribution | None:
    return shared((name,), needs=False).get(name)


def install(recipe: Recipe, tell: Tell, again: bool = False) -> Environment:
    """The environment of a recipe, made now unless it is there, whole and by the same recipe; `again` makes it anew."""
    home = home_of(recipe)
    with _saying_when_full(recipe), contextlib.ExitStack() as only:
        _make_directory(home)
        only.enter_context(_alone(home))
        found = find(recipe)
        if found is not None and not again and found.digest == recipe.digest and not damage(found):
            return found
        steps = plan(recipe)
        _require_room(home, recipe)
        root = _new_root(home, recipe)
        start = time.monotonic()
        try:
            made = _make(root, steps, tell)
            size = _size_mb(root)
            environment = Environment(
                root,
                recipe.digest,
                made,
                size,
                round(time.monotonic() - start, 1),
                datetime.now(timezone.utc).strftime("%Y-%m-%d"),
                _distributions(root, steps),
                tuple(f"{item.metadata['Name']}=={item.version}" for item in steps.linked),
            )
            record(recipe, environment)
        except BaseException:  # also Ctrl-C: what is half made must not lie around
            shutil.rmtree(root, ignore_errors=True)
            raise
        _remove_others(home, root)
        return environment


def remove(recipe: Recipe) -> bool:
    """Remove an environment, whole or not; whether there was one. The marker goes first."""
    home = home_of(recipe)
    if not home.is_dir():
        return False
    with _alone(home):
        was = (home / MARKER).exists()
        (home / MARKER).unlink(missing_ok=True)
        shutil.rmtree(home)
    return was


def _make(root: Path, steps: Plan, tell: Tell) -> str:
    """Build everything below `root`; the version of torch there."""
    recipe = steps.recipe
    tell("making an environment")
    with_pip = find_spec("pip") is None  # then ensurepip gives it one of its own
    _run([sys.executable, "-m", "venv", *([] if with_pip else ["--without-pip"]), str(root)], recipe, tell)
    python = root / "bin" / "python"
    if steps.wanted:
        pip = [str(python), "-m", "pip"] if with_pip else [sys.executable, "-m", "pip", "--python", str(python)]
        options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check",
                   "--no-warn-script-location", "--progress-bar", "off"]  # fmt: skip
        _run([*pip, "install", *options, *steps.wanted], recipe, tell)
    packages = next((root / "lib").glob("python3.*/site-packages"))
    for item in steps.linked:
        link(item, packages)
    packages_at = kept(root / "debian") if recipe.debian else root / "debian"
    for file in recipe.debian:
        tell(f"unpacking {file.name}")
        unpack(fetch(file, packages_at), root / "system")
    shutil.rmtree(root / "debian", ignore_errors=True)
    if recipe.prepare is not None:
        tell("preparing")
        module, _, function = recipe.prepare.partition(":")
        getattr(__import__(module, fromlist=[function]), function)(root)
    tell("importing torch")
    _run([str(python), "-c", "import torch, msgpack, msgspec"], recipe, tell)
    return recipe.torch or metadata.version("torch")


def _run(command: Sequence[str], recipe: Recipe, tell: Tell) -> None:
    """One step; what it prints becomes progress, and a failure an error that says what is missing."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    printed: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=env,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                printed.append(line.rstrip())
                if now := doing(line):
                    tell(now)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # pip works in a process of its own, which would go on writing
            process.stdout.read()  # until the last of them is gone
            raise
    if process.returncode:
        raise failure(recipe, printed)


def _make_directory(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise UsageError(
            f"cannot write to {directory()}", cause=error.strerror, hint="set MINDGAP_PLATFORMS to another directory"
        ) from error


@contextlib.contextmanager
def _saying_when_full(recipe: Recipe) -> Iterator[None]:
    """A disk that fills up while something is written or linked is told as that, wherever it happens."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise NoSpace(
            f"no space left while installing {recipe.name}",
            where=str(error.filename or directory()),
            hint="free some space and run it again: what was downloaded stays",
        ) from error


def _require_room(home: Path, recipe: Recipe) -> None:
    free = shutil.disk_usage(home).free / 1e6
    needed = recipe.size_mb * ROOM
    if free < needed:
        raise NoSpace(
            f"no room to install {recipe.name}",
            where=str(directory()),
            cause=f"{needed:,.0f} MB are needed while it is installed, and {free:,.0f} MB are free",
            hint="free some space, or set MINDGAP_PLATFORMS to a directory on another disk",
        )


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Two installs of one platform at the same time would remove each other's files."""
    lock: IO[str]
    with (home.parent / f".{home.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"{home.name} is being installed or removed by another process", hint="wait for it to end"
            ) from error
        yield


def _new_root(home: Path, recipe: Recipe) -> Path:
    """A directory that no environment has: what runs in the one before goes on while the next is made."""
    names = {path.name for path in home.iterdir()}
    number = next(number for number in range(1, 10_000) if f"{recipe.digest}-{number}" not in names)
    return home / f"{recipe.digest}-{number}"


def _remove_others(home: Path, root: Path) -> None:
    for path in home.iterdir():
        if path != root and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def _distributions(root: Path, steps: Plan) -> tuple[str, ...]:
    """What pip really put there, read back."""
    packages = next((root / "lib").glob("python3.*/site-packages"))
    ours = {item.metadata["Name"] for item in steps.linked}
    found = ((item.metadata["Name"], item.version) for item in metadata.distributions(path=[str(packages)]))
    return tuple(sorted(f"{name}=={version}" for name, version in found if name not in ours))


def _size_mb(root: Path) -> int:
    """Space on the disk, links not followed."""
    total = sum(path.lstat().st_blocks for path in root.rglob("*")) * 512
    return max(1, round(total / 1e6))
