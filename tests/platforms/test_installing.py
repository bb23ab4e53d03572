"""Environments of runtimes, made with the real pip from wheels on this disk."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mindgap.cli.platforms import install as install_command
from mindgap.errors import NoSpace, PlatformUnavailable, UsageError
from mindgap.execution.pool import Pool
from mindgap.platforms import environments, installing
from mindgap.platforms.aten.runtimes import Mlx
from mindgap.platforms.environments import MARKER, damage, find, home_of
from mindgap.platforms.installing import install, plan, remove
from mindgap.platforms.onnx.tract import Tract
from mindgap.platforms.pip_output import doing, failure
from mindgap.platforms.probing import probe, require
from mindgap.platforms.recipe import DebianFile, Recipe
from mindgap.platforms.registry import resolve
from mindgap.platforms.sharing import link, shared
from mindgap.platforms.unpacking import fetch, kept
from mindgap.report.summary import DAMAGED, standing, why_not

TOY = Recipe("toy:fast", "a toy", pins=("toyrt==1.0",), size_mb=1)


def wheel(folder: Path, name: str = "toyrt", version: str = "1.0", tag: str = "py3-none-any") -> Path:
    """The smallest wheel that pip takes."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"VERSION = {version!r}\n",
        f"{name}/kernels.py": "ONE = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as out:
        for member, text in {**files, f"{info}/RECORD": record}.items():
            out.writestr(member, text)
    return path


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index that is a directory, and a place for environments."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("MINDGAP_PLATFORMS", str(tmp_path / "platforms"))
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the last step, which imports torch: for tests of the steps before."""
    run = installing._run
    monkeypatch.setattr(
        installing, "_run", lambda command, *rest: None if "import torch" in command[-1] else run(command, *rest)
    )


def test_an_environment_shares_torch_and_nothing_else(wheels: Path) -> None:
    wheel(wheels)
    said: list[str] = []
    made = install(TOY, said.append)
    assert find(TOY) == made and not damage(made)
    assert made.distributions == ("toyrt==1.0",) and made.torch == torch.__version__
    assert any(item.startswith("numpy==") for item in made.linked)
    code = "import toyrt, torch, sys; print(toyrt.VERSION, torch.__version__, torch.__file__)\nimport rich"
    done = subprocess.run([str(made.python), "-c", code], capture_output=True, text=True)
    version, its_torch, file = done.stdout.split()
    assert (version, its_torch) == ("1.0", torch.__version__)
    assert Path(file).is_relative_to(made.root), "found in the environment itself, through a link"
    assert "No module named 'rich'" in done.stderr, "only what was pinned or torch needs can be imported"
    assert said[0] == "making an environment" and "unpacking" in said
    assert "toy-fast" in str(made.root), "a colon would end a path in PYTHONPATH"


@pytest.mark.usefixtures("quick")
def test_installed_once_stays_unless_asked_or_damaged(wheels: Path) -> None:
    wheel(wheels)
    first = install(TOY, lambda what: None)
    assert install(TOY, lambda what: None) == first
    (first.packages / "toyrt" / "kernels.py").unlink()
    assert damage(first) == "toyrt/kernels.py of toyrt==1.0 is gone"
    second = install(TOY, lambda what: None)
    assert second.root != first.root and not first.root.exists() and not damage(second)
    assert install(TOY, lambda what: None, again=True).root != second.root
    assert remove(TOY) and find(TOY) is None and not remove(TOY)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("lost", "told"),
    [("bin/python", "its interpreter"), ("lib", "is gone"), ("{packages}/toyrt-1.0.dist-info", "toyrt==1.0 is gone")],
)
def test_half_removed_by_hand(wheels: Path, lost: str, told: str) -> None:
    wheel(wheels)
    made = install(TOY, lambda what: None)
    path = made.root / lost.format(packages=made.packages)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert told in damage(made)


@pytest.mark.usefixtures("quick")
def test_a_shared_package_that_went_away(wheels: Path) -> None:
    wheel(wheels)
    made = install(TOY, lambda what: None)
    (made.packages / "gone").symlink_to(wheels / "nowhere")
    assert damage(made) == f"it shares gone with {wheels}, where that is gone"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("at", ["reading toyrt", "unpacking", "importing torch"])
def test_an_interrupted_install_leaves_nothing(wheels: Path, at: str) -> None:
    wheel(wheels)

    def interrupt(what: str) -> None:
        if what.startswith(at):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(TOY, interrupt)
    assert find(TOY) is None and not list(home_of(TOY).iterdir())


@pytest.mark.usefixtures("quick")
def test_what_a_killed_install_left_is_not_installed_and_goes_away(wheels: Path) -> None:
    wheel(wheels)
    left = home_of(TOY) / f"{TOY.digest}-1"
    (left / "bin").mkdir(parents=True)
    (left / "bin" / "python").touch()
    assert find(TOY) is None
    made = install(TOY, lambda what: None)
    assert made.root != left and not left.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"root": "x"}', '{"root": 1, "distributions": 3, "linked": []}'])
def test_a_damaged_marker_is_no_install(wheels: Path, content: str) -> None:
    home_of(TOY).mkdir(parents=True)
    (home_of(TOY) / MARKER).write_text(content)
    assert find(TOY) is None


def test_no_room(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing.shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    with pytest.raises(NoSpace, match="no room to install toy:fast") as caught:
        install(TOY, lambda what: None)
    assert "2 MB are needed" in str(caught.value) and "1 MB are free" in str(caught.value)
    assert not list(home_of(TOY).iterdir())


def test_a_disk_that_fills_up_while_packages_are_linked(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own call says it, through the real error."""
    wheel(wheels)

    def full(self: Path, *args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "symlink_to", full)
    with pytest.raises(NoSpace, match="no space left while installing toy:fast") as caught:
        install(TOY, lambda what: None)
    assert "free some space" in str(caught.value) and find(TOY) is None
    assert not list(home_of(TOY).iterdir())


def test_a_disk_that_fills_up_while_a_debian_package_is_downloaded(tmp_path: Path) -> None:
    """/dev/full is a disk without room: writing to it is refused by the system."""
    (tmp_path / "toy.deb").write_bytes(b"x" * 100_000)
    place, target = f"{tmp_path.as_uri()}/", tmp_path / "in"
    target.mkdir()
    (target / f"toy.deb.{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        fetch(DebianFile("toy", "toy.deb", "0" * 64), target, [place])
    assert caught.value.errno == errno.ENOSPC and not list(target.iterdir())
    with pytest.raises(NoSpace, match="no space left while installing toy:fast"), installing._saying_when_full(TOY):
        raise caught.value
    with pytest.raises(PermissionError), installing._saying_when_full(TOY):
        raise PermissionError


def test_a_debian_package_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    content = b"not a package"
    whole = DebianFile("toy", "toy.deb", hashlib.sha256(content).hexdigest())
    (tmp_path / "toy.deb").write_bytes(content)
    place = f"{tmp_path.as_uri()}/"
    fetch(whole, tmp_path / "kept", [place])
    (tmp_path / "toy.deb").unlink()
    assert fetch(whole, tmp_path / "kept", [place]).read_bytes() == content
    (tmp_path / "kept" / "toy.deb").write_bytes(b"half")
    with pytest.raises(UsageError, match="cannot download"):
        fetch(whole, tmp_path / "kept", [place])


def test_debian_packages_are_kept_where_wheels_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    assert kept(tmp_path / "root") == tmp_path / "cache" / "mindgap"
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    assert kept(tmp_path / "root") == tmp_path / "root"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("others", [(), ("mlx",)])
def test_what_is_installed_and_not_ready_is_a_failure(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others: tuple[str, ...]
) -> None:
    """Of several too: the environment of tract holds no tract, so its probe fails."""
    wheel(wheels)
    hollow = replace(TOY, name="tract")
    monkeypatch.setattr(Tract, "recipes", {"": hollow})
    monkeypatch.setattr(Mlx, "recipes", {"": replace(TOY, name="mlx", lacks="tests.platforms.test_installing:lacking")})
    with pytest.raises(UsageError, match="is not installed"):
        install_command(["tract", *others])
    assert find(hollow) is not None, "it stays"
    assert ("mlx: left out, it needs a quantum computer" in capsys.readouterr().out) is bool(others)


def lacking() -> str:
    return "a quantum computer"


def test_offline_says_what_is_missing(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(UsageError, match="the package index cannot be reached") as caught:
        install(TOY, lambda what: None)
    assert "toyrt==1.0" in str(caught.value) and "PIP_FIND_LINKS" in str(caught.value)
    assert find(TOY) is None


def test_a_wheel_for_another_python(wheels: Path) -> None:
    wheel(wheels, tag="cp27-cp27m-win32")
    with pytest.raises(UsageError, match=r"no wheel of toyrt==1\.0 fits this Python 3\.\d+"):
        install(TOY, lambda what: None)


def test_two_at_once_are_refused(wheels: Path) -> None:
    home_of(TOY).mkdir(parents=True)
    with installing._alone(home_of(TOY)), pytest.raises(UsageError, match="by another process"):
        install(TOY, lambda what: None)


def test_a_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINDGAP_PLATFORMS", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot write to") as caught:
        install(TOY, lambda what: None)
    assert "MINDGAP_PLATFORMS" in str(caught.value)


def test_pins_of_another_version_are_fetched_and_equal_ones_linked() -> None:
    numpy = shared(("numpy",))["numpy"]
    same = plan(Recipe("a", "", pins=(f"numpy=={numpy.version}", "ml_dtypes==0.0.1"), size_mb=1))
    assert same.wanted == ("ml_dtypes==0.0.1",)
    other = plan(Recipe("a", "", pins=("numpy==1.0.0",), size_mb=1))
    assert other.wanted == ("numpy==1.0.0",)
    assert "numpy" not in [item.metadata["Name"] for item in other.linked]
    own = plan(Recipe("a", "", pins=(), size_mb=1, torch="2.9.1"))
    assert "torch==2.9.1" in own.wanted and "torch" not in [item.metadata["Name"] for item in own.linked]


def test_links_into_a_folder_that_another_package_shares(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for path in (source / "google" / "protobuf" / "message.py", target / "google" / "api" / "rule.py"):
        path.parent.mkdir(parents=True)
        path.touch()
    item = SimpleNamespace(files=[Path("google/protobuf/message.py"), Path("../bin/x")], locate_file=source.joinpath)
    link(item, target)  # type: ignore[arg-type]
    assert (target / "google" / "protobuf").is_symlink() and not (target / "google").is_symlink()
    assert not list((source / "google").glob("api")), "nothing is ever written to where the links lead"


def test_a_debian_package_is_checked_wherever_apt_finds_it(tmp_path: Path) -> None:
    content = b"not a package"
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "toy.deb").write_bytes(content)
    places = [f"{(tmp_path / name).as_uri()}/" for name in ("security", "mirror")]
    whole = DebianFile("toy", "toy.deb", hashlib.sha256(content).hexdigest())
    assert fetch(whole, tmp_path / "in", places).read_bytes() == content, "the first archive has no such package"
    with pytest.raises(UsageError, match="not the package that was pinned"):
        fetch(replace(whole, sha256="0" * 64), tmp_path / "in", places)
    with pytest.raises(UsageError, match="cannot download the Debian package toy"):
        fetch(replace(whole, path="missing.deb"), tmp_path / "in", places)
    with pytest.raises(UsageError, match="apt-get names no archive"):
        fetch(whole, tmp_path / "elsewhere", [])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Collecting jax==0.10.2", "looking for jax==0.10.2"),
        ("  Downloading https://x/jaxlib-0.10.2-cp311.whl (81.2 MB)", "downloading jaxlib (81.2 MB)"),
        ("Installing collected packages: a, b", "unpacking"),
        ("WARNING: something", ""),
    ],
)
def test_pip_as_progress(line: str, told: str) -> None:
    assert doing(line) == told


def test_an_error_nobody_knows_is_told_in_pips_words() -> None:
    assert "strange things" in str(failure(TOY, ["Collecting a", "ERROR: strange things"]))
    assert isinstance(failure(TOY, ["OSError: [Errno 28] No space left on device"]), NoSpace)


def test_the_default_directory_is_the_users_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINDGAP_PLATFORMS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert environments.directory() == Path("/data/mindgap/platforms")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert environments.directory() == Path.home() / ".local/share/mindgap/platforms"


def test_a_digest_follows_what_is_installed_only() -> None:
    assert Recipe("a", "x", ("b==1",), 3).digest == Recipe("a", "y", ("b==1",), 4).digest
    assert Recipe("a", "x", ("b==1",), 3).digest != Recipe("a", "x", ("b==2",), 3).digest
    assert len(json.dumps(TOY.digest)) == 14


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("harm", "told"), [("die", "SIGABRT"), ("lose", "its environment is damaged: its interpreter")]
)
def test_what_is_there_and_does_not_work_is_renewed(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, harm: str, told: str
) -> None:
    """`install` leaves alone what looks whole, so a runtime that dies when it is imported needs `update`."""
    wheel(wheels)
    recipe = replace(TOY, name="tract")  # a platform that mindgap knows, in an environment of its name
    made = install(recipe, lambda what: None)
    monkeypatch.setattr(Tract, "recipes", {"": recipe})
    if harm == "die":
        (made.packages / "dies.pth").write_text("import os; os.abort()\n")
    else:
        made.python.unlink()
    spec = resolve("tract")
    with Pool() as pool:
        found = probe(pool, [spec])["tract"]
        with pytest.raises(PlatformUnavailable) as caught:
            require(pool, spec)
    verb = "update" if harm == "die" else "install"
    assert not found.available and told in found.reason
    assert standing(spec, found) == DAMAGED and f"mindgap platforms {verb} tract" in why_not(spec, found)
    assert told in str(caught.value.cause) and caught.value.hint == f"mindgap platforms {verb} tract"
