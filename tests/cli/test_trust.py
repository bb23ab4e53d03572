from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_a_configuration_found_here_starts_no_program_before_it_is_trusted(mindgap: Run, tmp_path: Path) -> None:
    script = tmp_path / "py.sh"
    script.write_text("#!/bin/sh\ntouch executed\nexec false\n")
    script.chmod(0o755)
    (tmp_path / "mindgap.toml").write_text('[platform.eager]\npython = "./py.sh"\n')
    home = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
    (tmp_path / "model.mgp").write_bytes(b"not read")
    done = mindgap("check", "model.mgp", "--on", "eager", **home)
    assert done.returncode == 2 and "mindgap trust" in done.stderr and "py.sh" in done.stderr
    assert not (tmp_path / "executed").exists()
    done = mindgap("trust", **home)
    assert done.returncode == 0 and "platform.eager.python = './py.sh'" in done.stdout
    mindgap("check", "model.mgp", "--on", "eager", **home)
    assert (tmp_path / "executed").exists()
    done = mindgap("trust", "--revoke", **home)
    assert done.returncode == 0 and "no longer trusted" in done.stdout


def test_a_file_that_is_none_is_a_mistake_of_the_user(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "cut.pt2").write_bytes(b"PK\x03\x04 cut off")
    done = mindgap("check", "cut.pt2", "--on", "eager")
    assert done.returncode == 2 and "cut.pt2 is not an exported program" in done.stderr
    assert "Traceback" not in done.stderr
