"""Where workers import from, what they leave behind, and starts that go wrong."""

from __future__ import annotations

import ast
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.errors import NoSpace, PlatformUnavailable
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.process import Death
from mindgap.execution.scratch import LOCK, PREFIX, Scratch
from mindgap.execution.trees import BEYOND, bytes_below, remove_tree
from mindgap.records.platform import Limits, PlatformSpec
from tests.security.misdeeds import misbehave

ROOT = Path(__file__).resolve().parents[2]
SPEC = replace(HOST, name="worker", env={"PYTHONPATH": str(ROOT)})
TRAPS = ("msgpack", "msgspec", "torch", "numpy", "json", "struct", "mmap", "mindgap", "triton", "optree", "scratch")


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory holds modules that tell when they are imported."""
    for name in TRAPS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nothing_is_imported_from_the_current_directory(trapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f":{ROOT}:")  # an empty part would be the current directory
    with Pool(import_paths=[str(trapped)]) as pool:
        answer = pool.ask(replace(SPEC, env={}), misbehave, "look_around")
    assert not isinstance(answer, Death), answer
    path, _, _ = ast.literal_eval(answer)
    assert str(trapped) not in path and "" not in path
    assert not (trapped / "sprung").exists()


def test_an_interpreter_without_safe_paths_is_cleaned_too(trapped: Path, tmp_path: Path) -> None:
    """Python 3.10 does not know PYTHONSAFEPATH: the worker removes what it put first by itself."""
    old = tmp_path / "python"
    old.write_text(f'#!/bin/sh\nunset PYTHONSAFEPATH\nexec "{sys.executable}" "$@"\n')
    old.chmod(0o755)
    with Pool() as pool:
        answer = pool.ask(replace(SPEC, python=str(old)), misbehave, "look_around")
    assert not isinstance(answer, Death), answer
    path = ast.literal_eval(answer)[0]
    assert not [item for item in path if item.endswith("mindgap/execution") or item in ("", str(trapped))]
    assert not (trapped / "sprung").exists()


def test_the_users_modules_come_last_and_only_for_adapters_of_his_own(tmp_path: Path) -> None:
    own = PlatformSpec("own", "tests.execution.planted:Planted", env={"PYTHONPATH": str(ROOT)})
    with Pool(import_paths=[str(tmp_path)]) as pool:
        answer = pool.ask(own, misbehave, "look_around")
    assert not isinstance(answer, Death)
    assert ast.literal_eval(answer)[0][-1] == str(tmp_path)


def test_every_worker_has_a_temporary_directory_of_its_own() -> None:
    with Pool() as pool:
        found = [str(pool.ask(replace(SPEC, worker=name), misbehave, "look_around")) for name in ("a", "b")]
        folders = {Path(ast.literal_eval(answer)[1]) for answer in found}
        assert len(folders) == 2 and all(folder.is_dir() for folder in folders)
    assert not any(folder.parent.exists() for folder in folders)


def failing(folder: Path, times: int) -> Path:
    """An interpreter that is killed while it starts, so many times."""
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nfor n in $(seq {times}); do mkdir "{folder}/killed$n" 2>/dev/null && kill -9 $$; done\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return script


def test_a_worker_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    with Pool() as pool:
        answer = pool.ask(replace(SPEC, python=str(failing(tmp_path, 6))), misbehave, "look_around")
    assert not isinstance(answer, Death), answer


def test_a_worker_whose_children_compute_does_not_hang() -> None:
    """Time of children that have ended counts: otherwise the sum of those that live goes up and down."""
    with Pool() as pool:
        assert pool.ask(replace(SPEC, limits=Limits(idle_s=3.0)), misbehave, "compute_in_children") == "done"


def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path) -> None:
    with Pool() as pool, pytest.raises(PlatformUnavailable, match="cannot be started"):
        pool.ask(replace(SPEC, python=str(tmp_path / "none")), misbehave, "look_around")


def test_scratch_that_somebody_removes_is_made_again() -> None:
    with Pool() as pool:
        assert not isinstance(pool.ask(SPEC, misbehave, "look_around"), Death)
        first = pool.scratch.path
        shutil.rmtree(first)
        shutil.rmtree(pool.scratch._temporary.path)
        assert not isinstance(pool.ask(SPEC, misbehave, "look_around"), Death)
        pool.retire(SPEC)
        assert not isinstance(pool.ask(SPEC, misbehave, "look_around"), Death)
        second = pool.scratch.new_file("case").parent.parent
        assert second != first and second.is_dir()
    assert not second.exists()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Scratch on a file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs rights")
    monkeypatch.setenv("MINDGAP_SCRATCH", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 12)):
                pass
        except OSError:
            return filler
    raise AssertionError


def test_a_full_disk_while_a_worker_starts_is_a_pause(small: Path) -> None:
    paused: list[NoSpace] = []
    with Pool() as pool:
        filler = fill(small)
        with pytest.raises(NoSpace, match="no space left"):
            pool.ask(SPEC, misbehave, "look_around")

        def wait(reason: NoSpace) -> None:
            paused.append(reason)
            filler.unlink()

        pool.on_pause = wait
        assert not isinstance(pool.ask(SPEC, misbehave, "look_around"), Death)
    assert len(paused) == 1 and list(small.iterdir()) == []


def test_directories_are_swept_by_their_locks_not_by_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that share a mount do not see each other's processes."""
    monkeypatch.setenv("MINDGAP_SCRATCH", str(tmp_path))
    unseen, gone, unlocked = (tmp_path / f"{PREFIX}{name}-x" for name in ("999999999", "1", "999999998"))
    for folder in (unseen, gone, unlocked):
        folder.mkdir()
    (gone / LOCK).touch()
    with (unseen / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scratch = Scratch()
        assert unseen.exists() and not gone.exists() and not unlocked.exists()
        assert scratch.path.exists()
        Scratch().remove()
        assert scratch.path.exists()
        scratch.remove()
    Scratch().remove()
    assert list(tmp_path.iterdir()) == []


def test_a_fork_does_not_remove_what_is_not_its_own() -> None:
    scratch = Scratch()
    child = os.fork()
    if child == 0:
        scratch.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert scratch.path.exists()
    scratch.remove()
    assert not scratch.path.exists()


def test_trees_are_measured_and_removed_whatever_they_hold(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "a" / "b" / "c").mkdir(parents=True)
    (top / "a" / "file").write_bytes(b"x" * 8192)
    (top / "link").symlink_to("/")
    assert 8192 <= bytes_below(str(top)) < 1 << 20
    (top / "a" / "b").chmod(0)
    here = Path.cwd()
    os.chdir(top)
    for _ in range(1200):
        os.mkdir("deeper")  # noqa: PTH102
        os.chdir("deeper")
    os.chdir(here)
    assert bytes_below(str(top)) == BEYOND
    remove_tree(top)
    assert not top.exists() and Path("/").exists()
