"""A platform on a machine that cannot see this one: packed, run there, merged, as if all had run together."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mindgap.campaign.archive import Reading
from mindgap.campaign.hunt import hunt, merge
from mindgap.campaign.packing import pack_campaign
from mindgap.campaign.remote import PackedProgram, run_pack
from mindgap.errors import CorruptFile, UsageError
from tests.campaign import programs
from tests.campaign.comparing import content

ROOT = Path(__file__).resolve().parents[2]
COUNT = 16

REMOTE = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("typer", "rich", "safetensors", "click", "onnx", "timm", "transformers", "ray"):
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Blocked())
from mindgap.campaign.remote import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A campaign of eager alone, and its pack."""
    directory = tmp_path_factory.mktemp("packed")
    hunt(
        directory,
        programs.plan(count=COUNT),
        config=programs.config(),
        numbering=programs.numbering(),
        jobs=1,
        explain_s=0,
    )
    pack = directory / "campaign.mgz"
    assert pack_campaign(directory, pack, numbering=programs.numbering()) == COUNT
    return directory, pack


def test_pack_run_merge_gives_the_verdicts_of_a_direct_run(packed: tuple[Path, Path], tmp_path: Path) -> None:
    directory, pack = packed
    toml = tmp_path / "mindgap.toml"
    toml.write_text(f'[platform.wrong]\nadapter = "tests.campaign.planted:Wrong"\nenv = {{ PYTHONPATH = "{ROOT}" }}\n')
    results = tmp_path / "results.mgz"
    arguments = [str(pack), "--on", "wrong", "-o", str(results), "--config", str(toml)]
    done = subprocess.run([sys.executable, "-c", REMOTE, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ending = merge(directory, results, config=programs.config(), numbering=programs.numbering(), jobs=1, explain_s=0)
    assert ending.complete and ending.campaign.findings

    direct = tmp_path / "direct"
    hunt(
        direct,
        programs.plan("wrong", count=COUNT),
        config=programs.config(),
        numbering=programs.numbering(),
        jobs=1,
        explain_s=0,
    )
    merged, together = content(directory), content(direct)
    assert merged["outcomes"] == together["outcomes"]
    without_suspects = [[row[:-1] for row in side["verdicts"]] for side in (merged, together)]
    assert without_suspects[0] == without_suspects[1]


def test_results_of_another_campaign_are_refused(packed: tuple[Path, Path], tmp_path: Path) -> None:
    results = tmp_path / "results.mgz"
    run_pack(packed[1], ["eager@scalar"], results)
    other = tmp_path / "other"
    hunt(
        other,
        programs.plan(count=2, seed=7),
        config=programs.config(),
        numbering=programs.numbering(),
        jobs=1,
        explain_s=0,
    )
    with pytest.raises(UsageError, match="another campaign"):
        merge(other, results, config=programs.config(), numbering=programs.numbering(), explain_s=0)
    with pytest.raises(UsageError, match="not results"):
        merge(packed[0], packed[1], config=programs.config(), numbering=programs.numbering(), explain_s=0)


def test_a_damaged_pack_is_refused(packed: tuple[Path, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(packed[1]) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    broken = tmp_path / "broken.mgz"
    with zipfile.ZipFile(broken, "w") as archive:
        for name, data in parts.items():
            changed = name.startswith("programs") and bytes([data[0], data[1] ^ 1, *data[2:]])
            archive.writestr(name, changed or data)
    with Reading(broken, "a campaign") as reading, pytest.raises(CorruptFile, match="damaged"):
        list(reading.rows("programs", PackedProgram))
    (tmp_path / "none.mgz").write_bytes(b"no archive")
    with pytest.raises(CorruptFile, match="not a pack"):
        Reading(tmp_path / "none.mgz", "a campaign")


def test_eager_is_not_run_elsewhere(packed: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="compared with"):
        run_pack(packed[1], ["eager"], tmp_path / "results.mgz")
