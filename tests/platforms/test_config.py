from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mindgap.errors import BadConfig, UnknownPlatform
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import catalogue, resolve
from mindgap.records.platform import Limits


def written(folder: Path, text: str) -> Path:
    path = folder / "mindgap.toml"
    path.write_text(text, encoding="utf-8")
    return path


FULL = f"""
[defaults]
cpu_s = 100
memory_mb = 2048

[platform.torch29]
runtime = "eager"
profile = "scalar"
python = "{sys.executable}"
env = {{ OMP_NUM_THREADS = 2, MODE = "x" }}
options = {{ mkldnn = false }}
cpu_s = 7.5

[platform.second-gpu]
runtime = "inductor"
device = "cuda:1"
summary = "the other card"

[platform.mine]
adapter = "my_package.platform:Mine"
options = {{ anything = [1, 2] }}

[platform.inductor]
wall_s = 50
"""


def test_everything_that_can_be_declared(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, FULL))
    assert config.limits == Limits(cpu_s=100, memory_mb=2048)
    torch29 = resolve("torch29", config)
    assert torch29.adapter == "mindgap.platforms.torch.eager:Eager"
    assert torch29.python == sys.executable
    assert torch29.env == {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "2", "MODE": "x"}
    assert torch29.options == {"mkldnn": False}
    assert torch29.limits == Limits(cpu_s=7.5, memory_mb=2048)
    assert resolve("second-gpu", config).device == "cuda:1"
    assert resolve("second-gpu", config).summary == "the other card"
    assert resolve("mine", config).options == {"anything": [1, 2]}
    assert resolve("inductor", config).limits == Limits(cpu_s=100, wall_s=50, memory_mb=2048)
    assert resolve("eager", config).limits == config.limits
    names = [spec.name for spec in catalogue(config)]
    assert names.count("inductor") == 1
    assert {"torch29", "second-gpu", "mine"} <= set(names)


def test_without_a_file_nothing_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config() == Config()
    written(tmp_path, '[platform.a]\nruntime = "eager"')
    assert set(load_config().platforms) == {"a"}


def test_a_declared_name_is_among_the_nearest(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, '[platform.torch29]\nruntime = "eager"'))
    with pytest.raises(UnknownPlatform, match="torch29"):
        resolve("torch28", config)


def test_an_interpreter_is_relative_to_the_file_and_must_exist_when_used(tmp_path: Path) -> None:
    text = '[platform.old]\nruntime = "eager"\npython = "old/bin/python"'
    config = load_config(written(tmp_path, text))
    assert config.platforms["old"].python == str(tmp_path / "old/bin/python")
    with pytest.raises(BadConfig, match="does not exist") as caught:
        resolve("old", config)
    assert "platform.old.python" in str(caught.value)
    (tmp_path / "old/bin").mkdir(parents=True)
    (tmp_path / "old/bin/python").write_text("")
    with pytest.raises(BadConfig, match="cannot be executed"):
        resolve("old", config)
    (tmp_path / "old/bin/python").chmod(0o755)
    assert resolve("old", config).python == str(tmp_path / "old/bin/python")


def test_a_bare_interpreter_name_is_looked_up(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, '[platform.p]\nruntime = "eager"\npython = "no-such-python"'))
    with pytest.raises(BadConfig, match="does not exist"):
        resolve("p", config)


MISTAKES = {
    "[platform.a": "not valid TOML",
    "[plattform.a]": "unknown key 'plattform'.*did you mean platform",
    "platform = 3": "platform is not a table",
    "[defaults]\ncpu = 3": "unknown key 'cpu'.*allowed: cpu_s, files_mb, idle_s, memory_mb, wall_s.*did you mean cpu_s",
    "[defaults]\ncpu_s = -1": "cpu_s is -1.*defaults.cpu_s.*above 0",
    "[defaults]\ncpu_s = true": "cpu_s is True",
    "[defaults]\nwall_s = inf": "wall_s is inf",
    "[defaults]\nmemory_mb = 1.5": "memory_mb is 1.5.*whole number",
    "[platform.a]": "neither runtime nor adapter",
    "[platform]\na = 3": "platform.a is not a table",
    '[platform.a]\nruntime = "egaer"': "unknown runtime 'egaer'.*platform.a.runtime.*did you mean eager",
    '[platform.a]\nruntime = 3': "runtime is not text.*found a number",
    '[platform.a]\nruntime = ""': "runtime is not text.*empty",
    '[platform.a]\nruntime = "eager"\nadapter = "a:B"': "both runtime and adapter",
    '[platform.a]\nadapter = "a.B"': "adapter of platform a cannot be parsed",
    '[platform.a]\nruntime = "eager"\ndevise = "cuda"': "unknown key 'devise'.*did you mean device",
    '[platform.a]\nruntime = "eager"\ndevice = "cuba"': "unknown device 'cuba'.*did you mean cuda",
    '[platform.a]\nruntime = "eager"\ndevice = ":"': "unknown device ':'",
    '[platform.a]\nruntime = "aot_eager"\ndevice = "cuda"': "unknown device 'cuda'.*allowed: none",
    '[platform.a]\nruntime = "eager"\nprofile = "scaler"': "unknown profile 'scaler'.*did you mean scalar",
    '[platform.a]\nruntime = "eager"\nenv = 3': "platform.a.env is not a table",
    '[platform.a]\nruntime = "eager"\nenv = {A = [1]}': "environment variable is not text.*platform.a.env.A",
    '[platform.a]\nruntime = "eager"\noptions = {mkldn = 1}': "unknown key 'mkldn'.*did you mean mkldnn",
    '[platform.eager]\nruntime = "inductor"': "'eager' is the name of a built-in platform",
    '[platform."a,b"]\nruntime = "eager"': "'a,b' cannot be a platform's name",
    '[platform."eager@scalar"]\ndevice = "cuda"': "has its device and profile in its name",
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_each_mistake_names_the_file_the_key_and_what_is_allowed(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadConfig) as caught:
        load_config(path)
    flat = " ".join(str(caught.value).split())
    assert str(path) in flat
    assert re.search(MISTAKES[text], flat), flat


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot read"):
        load_config(tmp_path / "missing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConfig, match="not valid TOML"):
        load_config(tmp_path / "bytes.toml")
