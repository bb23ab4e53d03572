"""Building a corpus: diverse, isolated, resumable after a kill at any point."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mindgap.corpus.building import build_corpus, list_libraries
from mindgap.corpus.stats import summarise
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import ModelError, UsageError
from mindgap.program.interpret import Executable
from mindgap.report.corpus import collected_lines

GOOD = """
import torch
model = torch.nn.Sequential(torch.nn.Linear({width}, 4), torch.nn.Tanh())
def inputs():
    return [torch.linspace(-1, 1, {width}).reshape(1, {width})]
"""
PLANTED = {
    "a_crash.py": "import os\nos.abort()\n",
    "b_eats.py": "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 26))\n",
    "c_branch.py": "def model(x):\n    return x if x.sum() > 0 else -x\n"
    "def inputs():\n    import torch\n    return [torch.ones(2)]\n",
    "a_hang.py": "import time\ntime.sleep(3600)\n",
}
# Wall time bounds the planted hang; everything else takes a second or two of CPU on its own.
DRIVER = """
import sys
from pathlib import Path
from mindgap.corpus.building import build_corpus
from mindgap.records.platform import Limits
if __name__ == "__main__":
    done = build_corpus(Path(sys.argv[2]), sources=[sys.argv[1]], limits=Limits(cpu_s=60, wall_s=15, memory_mb=1200))
    print(done)
"""


def write_models(folder: Path, count: int) -> None:
    folder.mkdir()
    for width in range(1, count + 1):
        (folder / f"m{width}.py").write_text(GOOD.format(width=width))


def start(folder: Path, store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(folder), str(store)], start_new_session=True)


def finished(store: Path) -> list[Entry]:
    try:
        with Store(store) as opened:
            return opened.entries()
    except (UsageError, sqlite3.Error):  # not there yet
        return []


def test_kills_lose_no_finished_model_and_repeat_none(tmp_path: Path) -> None:
    folder, store = tmp_path / "models", tmp_path / "store"
    write_models(folder, 8)
    (folder / "same_as_m3.py").write_text(GOOD.format(width=3))
    for name, text in PLANTED.items():
        (folder / name).write_text(text)
    chance = random.Random(0)
    before: dict[str, Entry] = {}
    for goal in (2, 6):
        process = start(folder, store)
        deadline = time.monotonic() + 120
        while len(finished(store)) < goal and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 0.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        entries = {entry.spec: entry for entry in finished(store)}
        assert len(entries) >= goal
        assert all(entries[spec] == entry for spec, entry in before.items())
        before = entries
    assert start(folder, store).wait(timeout=200) == 0
    with Store(store) as opened:
        entries = {entry.spec: entry for entry in opened.entries()}
        by_status = {status: [Path(s).name for s, e in entries.items() if e.status is status] for status in Status}
        assert len(by_status[Status.BUILT]) == 8 and len(by_status[Status.DUPLICATE]) == 1
        assert sorted(by_status[Status.FAILED]) == sorted(PLANTED)
        assert all(entries[spec] == entry for spec, entry in before.items()), "a finished model was tried again"
        assert {opened.attempts(spec) for spec in entries} == {1}
        for entry in entries.values():
            if entry.status is Status.BUILT:
                program, constants = opened.load(entry.fingerprint)
                assert len(program.nodes) == entry.nodes and Executable(program, constants)
        reasons = {Path(spec).name: (entry.stage, entry.reason) for spec, entry in entries.items()}
        assert reasons["a_crash.py"][0] == "crash" and "SIGABRT" in reasons["a_crash.py"][1]
        assert reasons["b_eats.py"] == ("load", "out of memory")
        assert reasons["c_branch.py"][0] == "export" and "data-dependent" in reasons["c_branch.py"][1]
        assert reasons["a_hang.py"][0] == "timeout"
        stats = summarise(opened.entries(), opened.size_bytes())
        assert (stats.built, stats.alive, len(stats.causes)) == (8, 8, 4)
    assert {path.stem for path in (store / "programs").iterdir()} == {
        entry.fingerprint for entry in entries.values() if entry.status is Status.BUILT
    }


def test_a_target_is_met_exactly_and_the_next_build_goes_on(tmp_path: Path) -> None:
    folder, store = tmp_path / "models", tmp_path / "store"
    write_models(folder, 4)
    first = build_corpus(store, models=2, sources=[str(folder)], jobs=2)
    assert (first.built, first.total, first.left) == (2, 2, 2)
    again = build_corpus(store, models=2, sources=[str(folder)])
    assert (again.built, again.total) == (0, 2)
    said: list[str] = []
    rest = build_corpus(store, sources=[str(folder)], jobs=1, progress=lambda who, what: said.append(what))
    assert (rest.built, rest.total, rest.left) == (2, 4, 0)
    assert "3 built" in said[-2] and "1 to try" in said[-2]
    assert "4 built" in said[-1] and ", 0 s left; " in said[-1]


def test_only_the_models_of_a_list_are_built(tmp_path: Path) -> None:
    folder, store = tmp_path / "models", tmp_path / "store"
    write_models(folder, 3)
    names = [str(folder / "m2.py"), "timm:no_such_model"]
    found = build_corpus(store, sources=[str(folder)], only=names, jobs=1)
    assert (found.built, found.left, found.unknown) == (1, 0, ("timm:no_such_model",))
    assert "not offered here: timm:no_such_model" in collected_lines(found, "store")


def test_what_failed_is_tried_again_only_when_asked(tmp_path: Path) -> None:
    model, store = tmp_path / "m.py", tmp_path / "store"
    model.write_text("raise RuntimeError('no luck')\n")
    assert build_corpus(store, sources=[str(model)]).failed == 1
    model.write_text(GOOD.format(width=2))
    assert build_corpus(store, sources=[str(model)]).built == 0
    assert build_corpus(store, sources=[str(model)], retry_failed=True).built == 1


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no library and no file"):
        build_corpus(tmp_path / "store", sources=["tinm"])
    with Store(tmp_path / "store", writing=True), pytest.raises(UsageError, match="another build"):
        build_corpus(tmp_path / "store", sources=["smoke"])
    with pytest.raises(UsageError, match="no corpus"):
        Store(tmp_path / "nothing")


def test_the_smoke_corpus_is_listed_without_any_package() -> None:
    (smoke,) = list_libraries(["smoke"])
    assert len(smoke.offers) >= 40 and not smoke.reason
