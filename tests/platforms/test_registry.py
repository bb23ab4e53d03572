from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from mindgap.errors import PlatformUnavailable, UnknownPlatform
from mindgap.execution.pool import Pool
from mindgap.execution.serve import load_adapter
from mindgap.platforms import registry
from mindgap.platforms.base import Platform
from mindgap.platforms.config import Config
from mindgap.platforms.probing import probe
from mindgap.platforms.registry import adapter_class, catalogue, resolve
from mindgap.platforms.torch.eager import Eager
from mindgap.records.platform import Limits, PlatformSpec

DEVICES = ("cuda", "xpu", "hpu", "mps", "npu", "xla")


def test_every_platform_of_this_build_is_listed() -> None:
    names = [spec.name for spec in catalogue()]
    assert set(names) >= {
        "eager", "eager@scalar", "eager@nomkldnn", "aot_eager", "inductor", "onnxruntime", "onnxruntime@noopt",
        "onnx-reference", "openvino", "tract", "jax", "executorch", "executorch@xnnpack", "litert", "litert@x64",
        "iree", "iree@vmvx", "iree:vulkan", "tvm", "mlx", "mindspore", "onnxruntime:webgpu",
        "openvino:GPU", "openvino:NPU", "eager@torch-2.9", "inductor@torch-2.9", "inductor@triton",
        *(f"{runtime}:{device}" for runtime in ("eager", "inductor") for device in DEVICES),
    }  # fmt: skip
    assert len(names) == len(set(names))


def test_each_says_what_it_is_how_to_get_it_and_loads() -> None:
    for spec in catalogue():
        assert spec.summary and spec.install, spec.name
        assert load_adapter(spec).spec == spec
        assert resolve(spec.name) == spec


def test_a_probe_never_raises_and_says_why_not() -> None:
    for spec in catalogue():
        probe = load_adapter(spec).probe()
        assert probe.available or probe.reason, spec.name
        assert not probe.available or (probe.version and probe.device and "float32" in probe.dtypes), spec.name


def test_profiles_become_environment_and_options() -> None:
    assert resolve("eager@scalar").env == {"ATEN_CPU_CAPABILITY": "default"}
    assert resolve("eager@nomkldnn").options == {"mkldnn": False}
    second = resolve("eager:cuda:1@nomkldnn")
    assert (second.device, second.options) == ("cuda:1", {"mkldnn": False})
    assert resolve("openvino:GPU.1").device == "GPU.1"


@pytest.mark.parametrize(
    ("name", "eager"),
    [
        ("inductor", "eager"),
        ("inductor@triton", "eager"),
        ("inductor@torch-2.9", "eager@torch-2.9"),
        ("inductor:xla", "eager:xla"),
        ("jax", None),
    ],
)
def test_compiled_code_is_compared_with_eager_of_its_device_and_torch(name: str, eager: str | None) -> None:
    assert registry.eager_of(resolve(name)) == eager


def test_xla_is_installable_and_needs_no_tpu() -> None:
    eager, compiled = resolve("eager:xla"), resolve("inductor:xla")
    assert eager.environment == compiled.environment == "eager:xla"
    assert not eager.hardware and "not on a TPU" in eager.summary
    jax = resolve("jax")
    assert (adapter_class(eager) or Platform).families_of(eager) == (adapter_class(jax) or Platform).families_of(jax)


def test_versions_of_torch_have_one_environment_each() -> None:
    specs = [resolve("eager@torch-2.9"), resolve("inductor@torch-2.9")]
    assert {spec.environment for spec in specs} == {"torch@2.9"}
    assert registry.recipe_named("torch@2.9") is registry.recipe_named("inductor@torch-2.9")


def test_this_torch_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # where nothing is installed
    for name in ("eager@torch-2.9", "inductor@torch-2.9"):
        spec = resolve(name)
        found = adapter_class(spec)(spec).probe()  # type: ignore[misc]
        assert not found.available and "not 2.9.1" in found.reason


def test_versions_of_this_interpreter_are_not_those_of_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with Pool() as pool:
        found = probe(pool, [resolve("eager@torch-2.9")])["eager@torch-2.9"]
    assert not found.available and found.reason
    assert (found.version, found.device) == ("", "")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("egaer", "eager"),
        ("onnxruntim", "onnxruntime"),
        ("eager:cuba", "eager:cuda"),
        ("eager@scaler", "eager@scalar"),
        ("openvino:TPU", "openvino:GPU"),
    ],
)
def test_an_unknown_name_comes_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UnknownPlatform) as caught:
        resolve(name)
    assert near in str(caught.value)
    assert "mindgap platforms" in str(caught.value)


@pytest.mark.parametrize("name", ["", "::", "zzz", "onnxruntime:cuda", "eager@", "aot_eager@scalar"])
def test_nonsense_is_refused(name: str) -> None:
    with pytest.raises(UnknownPlatform):
        resolve(name)


def test_limits_of_the_configuration_apply_to_built_in_platforms() -> None:
    config = Config(limits=Limits(cpu_s=5))
    assert resolve("eager", config).limits.cpu_s == 5
    assert all(spec.limits.cpu_s == 5 for spec in catalogue(config))


@pytest.mark.parametrize(
    "adapter", ["no_such_package:Class", "mindgap.platforms.torch.eager:Missing", "os:getcwd", "json"]
)
def test_an_adapter_that_cannot_be_loaded_is_unavailable(adapter: str) -> None:
    with pytest.raises(PlatformUnavailable, match="platform mine cannot be loaded"):
        load_adapter(replace(resolve("eager"), name="mine", adapter=adapter))


class Offered(Eager):
    runtime = "offered"


def test_other_packages_offer_platforms_and_broken_ones_stay_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("offered", f"{__name__}:Offered", registry.ENTRY_POINTS),
        EntryPoint("broken", "no_such_package:Class", registry.ENTRY_POINTS),
        EntryPoint("mistaken", "json:loads", registry.ENTRY_POINTS),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    caches = (registry.runtimes, registry._entry_points)
    for cache in caches:
        cache.cache_clear()
    try:
        specs: dict[str, PlatformSpec] = {spec.name: spec for spec in catalogue()}
        assert specs["offered"].adapter == f"{__name__}:Offered"
        assert "offered@nomkldnn" in specs
        assert specs["broken"].summary == "cannot be imported: No module named 'no_such_package'"
        assert "is not a Platform" in specs["mistaken"].summary
        with pytest.raises(PlatformUnavailable):
            load_adapter(resolve("broken"))
    finally:
        for cache in caches:
            cache.cache_clear()


def test_a_worker_of_a_bare_interpreter_can_import_every_adapter() -> None:
    code = """
import sys
for name in ("onnx", "onnxruntime", "onnxscript", "openvino", "safetensors", "typer", "rich", "timm", "transformers"):
    sys.modules[name] = None
from mindgap.execution.serve import load_adapter
from mindgap.platforms.registry import adapter_class, catalogue, resolve
for spec in catalogue():
    load_adapter(spec)
for name in ("onnxruntime", "onnx-reference", "openvino"):
    probe = load_adapter(resolve(name)).probe()
    print(probe.available, probe.reason)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "False onnxruntime is not installed",
        "False onnx is not installed",
        "False openvino is not installed",
    ]
