"""Every command has help that teaches, and the documents name every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindgap.cli.reference import helps, pages
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]


def test_every_command_has_help_that_teaches() -> None:
    for name, text in helps().items():
        assert name in text and len(text) > 300, name


@pytest.mark.parametrize("group", ["", "bench", "corpus", "variants", "platforms"])
def test_no_summary_is_cut(mindgap: Run, group: str) -> None:
    shown = mindgap(*group.split(), "--help", COLUMNS="80").stdout
    listed = shown.partition("Commands:")[2].strip().splitlines()
    assert len(listed) >= 3 and all(line.endswith(".") and not line.endswith("...") for line in listed), shown


@pytest.mark.parametrize("page", ["commands.md", "mutations.md", "unspecified.md"])
def test_the_generated_pages_are_current(page: str) -> None:
    assert (ROOT / "docs" / page).read_text() == pages()[page], "run: make reference"


def test_a_rule_is_explained(mindgap: Run) -> None:
    done = mindgap("rules", "random-stream")
    assert done.returncode == 0 and "reference:" in done.stdout
    wrong = mindgap("rules", "random-streem")
    assert wrong.returncode == 2 and "random-stream" in wrong.stderr


def test_platforms_lists_everything_with_a_reason(mindgap: Run) -> None:
    done = mindgap("platforms", "--json")
    platforms = json.loads(done.stdout)["platforms"]
    here = {name for name, row in platforms.items() if row["available"]}
    assert {"eager", "eager@scalar", "inductor", "onnxruntime", "openvino"} <= here
    for name in ("eager:cuda", "inductor:npu", "eager:mps"):
        assert name in platforms
    for name, row in platforms.items():
        assert row["available"] or (row["reason"] and row["install"]), name
        assert not row["available"] or (row["version"] and row["dtypes"]), name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say what to install"),
        (("eager",), "eager has no environment of its own"),
        (("eager:cuda",), "it needs an NVIDIA or AMD GPU"),
        (("tracked",), "tract"),
    ],
)
def test_what_cannot_be_installed(mindgap: Run, arguments: tuple[str, ...], said: str) -> None:
    done = mindgap("platforms", "install", *arguments)
    assert done.returncode == 2 and said in done.stderr


def test_an_environment_that_was_never_there_is_removed_in_peace(mindgap: Run, tmp_path: Path) -> None:
    done = mindgap("platforms", "remove", "tract,jax", MINDGAP_PLATFORMS=str(tmp_path))
    assert done.returncode == 0 and "tract was not installed" in done.stdout and "jax was not" in done.stdout
    assert "nothing is installed" in mindgap("platforms", "update", MINDGAP_PLATFORMS=str(tmp_path)).stdout


def test_version(mindgap: Run) -> None:
    assert mindgap("--version").stdout.startswith("mindgap 0.")


def test_a_bug_of_ours_says_so_and_ends_with_three(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import mindgap.cli.platforms as p\n"
        "def load_config(path): raise KeyError('a planted bug')\n"
        "import mindgap.platforms.config as c\n"
        "c.load_config = load_config\n"
    )
    done = mindgap("platforms", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "bug in mindgap" in done.stderr and "attach" in done.stderr
    assert "Traceback" not in done.stderr
