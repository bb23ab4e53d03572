"""What packages register: read from real lists, followed through delegates and composites, refused when hostile."""

from __future__ import annotations

import contextlib
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.errors import CorruptFile, MindgapError, UsageError
from mindgap.operators.asking import dispatched
from mindgap.operators.declared import REFERENCE, Declaration, Has, counts, declarations, replacement, taken
from mindgap.operators.models import needs
from mindgap.operators.native import native_operators, parse_native
from mindgap.operators.packages import read_package
from mindgap.operators.parts import recorded
from mindgap.reading.yaml import DEPTH, parse_yaml

PLUGIN = b"""
backend: NPU
cpp_namespace: at_npu::native
supported:
  - add.out
  - func: relu
    op_api: True
custom:
  - func: npu_rotary(Tensor self) -> Tensor
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "torch_npu-9.9.0-cp311-none-any.whl", PLUGIN)


def make_wheel(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("torch_npu/__init__.py", "raise SystemExit('it was imported')")
        file.writestr("torch_npu/csrc/aten/npu_native_functions.yaml", content)
    return path


def test_torch_lists_every_operator_that_the_issue_counted() -> None:
    found = native_operators()
    assert len(found) > 2500
    kernels = {key: sum(key in item.kernels for item in found.values()) for key in ("CUDA", "CPU", "MPS")}
    assert kernels["CUDA"] > kernels["CPU"] > kernels["MPS"] > 400


def test_a_structured_operator_has_the_kernels_of_its_delegate() -> None:
    add = native_operators()["aten.add.Tensor"]
    assert add.delegate == "aten.add.out" and {"CUDA", "CPU", "MPS"} <= add.kernels


def test_the_study_headline_is_reproduced() -> None:
    """Two vendors' platforms have fewer operators than NVIDIA's; who they are is in docs/operators.md."""
    found, _ = declarations([REFERENCE, "eager:mps", "eager"])
    own = {count.platform: count for count in counts(found, found[0], own_only=True)}
    any_way = {count.platform: count for count in counts(found, found[0], own_only=False)}
    assert own[REFERENCE].lacking == 0 and 8 < own["eager:mps"].percent < 20
    assert any_way["eager:mps"].percent < own["eager:mps"].percent
    assert own["eager"].percent < own["eager:mps"].percent


def test_composite_operators_count_where_their_parts_are(wheel: Path) -> None:
    """NPU here has add and relu only: an operator of add alone runs, one that needs a matrix product does not."""
    (npu,), _ = declarations(["eager:npu"], [wheel])
    assert npu.has("aten.add.Tensor") is Has.KERNEL  # through add.out
    assert npu.has("aten.relu.default") is Has.KERNEL
    assert npu.has("aten.linear.default") is Has.MISSING
    assert any("mm" in part for part in npu.missing_parts["aten.linear.default"])
    (cuda,), _ = declarations([REFERENCE])
    assert cuda.has("aten.linear.default") is Has.PARTS


def test_every_recorded_part_is_an_operator_of_torch() -> None:
    parts = recorded()
    assert len(parts.implicit) > 150
    known = native_operators()
    named = {part for ways in parts.implicit.values() for way in ways for part in way if part.startswith("aten.")}
    assert named <= known.keys()


def test_mps_declares_no_float64() -> None:
    (mps,), _ = declarations(["eager:mps"])
    assert "float64" not in mps.dtypes and {"float32", "float16", "bfloat16", "int64"} <= set(mps.dtypes)


def test_a_replacement_is_made_of_what_the_platform_has() -> None:
    (cuda,), _ = declarations([REFERENCE])
    found = replacement("aten.hardswish.default", cuda)
    assert found and all(cuda.has(part).runs for part in found)


def test_other_spellings_and_parts_of_parts_replace_a_missing_operator() -> None:
    has = dict.fromkeys(("aten.tril.default", "aten.copy_.default", "aten.clone.default"), Has.KERNEL)
    found = Declaration("p", "a list", has)
    assert replacement("aten.tril_.default", found) == ("aten.copy_.default", "aten.tril.default")
    assert replacement("aten.tril_copy.default", found) == ("aten.clone.default", "aten.tril.default")
    assert replacement("aten.geqrf.default", found) == ()


def test_what_a_missing_operator_is_made_of_is_told_with_what_lacks() -> None:
    (cpu,) = declarations(["eager"])[0]
    poor = Declaration("p", "a list", dict.fromkeys(cpu.operators, Has.MISSING) | {"aten.mul.Tensor": Has.KERNEL})
    (need,) = needs(["aten.hardswish.default"], poor)
    assert not need.replacement and "aten.mul.Tensor" in need.made_of
    assert need.missing_parts and "aten.mul.Tensor" not in need.missing_parts
    assert set(need.missing_parts) < set(need.made_of)


def test_a_list_that_is_known_to_be_incomplete_proves_nothing_missing() -> None:
    (xpu,), _ = declarations(["eager:xpu"])
    assert not xpu.is_complete and Has.MISSING not in xpu.operators.values()


TORCH = b"""
- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  structured_delegate: add.out
- func: add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
  dispatch:
    CPU, MPS: add_out
- func: newest(Tensor self) -> Tensor
  dispatch:
    MPS: newest
"""


def torch_wheel(folder: Path) -> Path:
    path = folder / "torch-9.9.0-cp311-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("torchgen/packaged/ATen/native/native_functions.yaml", TORCH)
    return path


def test_the_wheel_of_another_torch_replaces_the_list_of_the_installed_one(tmp_path: Path) -> None:
    (mps, cpu), _ = declarations(["eager:mps", "eager"], [torch_wheel(tmp_path)])
    assert mps.source == "torch-9.9.0: native_functions.yaml" and len(mps.operators) == 3
    assert mps.has("aten.newest.default") is Has.KERNEL and cpu.has("aten.newest.default") is Has.MISSING
    assert mps.has("aten.add.Tensor") is cpu.has("aten.add.Tensor") is Has.KERNEL


def test_a_package_that_nobody_reads_is_refused(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no platform") as error:
        declarations(["eager:mps"], [wheel])
    assert error.value.hint == "--on eager:npu"
    foreign = make_wheel(tmp_path / "torch_foo-1.0-none-any.whl", PLUGIN.replace(b"NPU", b"FOO"))
    with pytest.raises(UsageError, match="no platform"):
        declarations(["eager:mps", "eager:npu"], [foreign])
    with pytest.raises(UsageError, match="two packages"):
        declarations(["eager:npu"], [wheel, wheel])


TVM = """
class Importer:
    def create_convert_map(self):
        raise SystemExit("it was executed")
        return {"add.Tensor": self._add, "relu.default": self._relu, **self.more()}
"""


def test_the_table_of_tvm_is_read_from_its_text(tmp_path: Path) -> None:
    path = tmp_path / "apache_tvm-1.0-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tvm/relax/frontend/torch/exported_program_translator.py", TVM)
    (found,), _ = declarations(["tvm"], [path])
    assert found.has("aten.add.Tensor") is found.has("aten.relu.default") is Has.KERNEL
    assert found.has("aten.sin.default") is Has.MISSING
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tvm/relax/frontend/torch/exported_program_translator.py", "def (")
    with pytest.raises(CorruptFile):
        read_package(path)


def test_names_of_the_dialect_of_iree(tmp_path: Path) -> None:
    folder = tmp_path / "iree" / "compiler" / "_mlir_libs"
    folder.mkdir(parents=True)
    (folder / "libIREECompiler.so").write_bytes(b"x\x00torch.aten.relu\x00torch.aten.add.Tensor\x00torch.aten.7\x00")
    found = read_package(tmp_path / "iree")
    assert found.operators == {"aten.relu.default", "aten.add.Tensor"} and "more than it can lower" in found.note


def test_the_dispatcher_of_an_interpreter_is_asked_in_a_process_of_its_own() -> None:
    version, found = dispatched(Path(sys.executable), "CPU")
    assert version.startswith("2.") and {"aten.add.out", "aten.relu.default"} <= found
    with pytest.raises(UsageError, match="cannot be asked") as error:
        dispatched(Path(sys.executable), "CPU", ("no_such_plugin",))
    assert "no_such_plugin" in str(error.value.cause)


def test_kernels_of_onnxruntime_tell_element_types() -> None:
    pytest.importorskip("onnxruntime")
    (found,), _ = declarations(["onnxruntime"])
    (cpu,) = found.providers
    assert cpu.name == "CPUExecutionProvider" and cpu.kernels > cpu.operators > 200 and cpu.by_dtype["float32"] > 200
    assert found.takes("aten.sin.default", "float32") is True and found.takes("aten.sin.default", "bfloat16") is False
    assert found.takes("aten.conv2d.default", "float32") is None
    (count,) = taken([found], ["bfloat16"], ["aten.sin.default", "aten.conv2d.default"])
    assert (count.taken, count.refused, count.untold) == (0, 1, 1)


def test_a_platform_without_its_package_says_how_to_get_it() -> None:
    found, unknown = declarations(["eager:npu", "eager:hpu"])
    assert not found and "pip download" in unknown["eager:npu"] and "eager:hpu" in unknown


def test_a_wheel_is_read_without_importing_it(wheel: Path) -> None:
    found = read_package(wheel)
    assert found.backend == "NPU" and found.custom == 1
    assert found.operators == {"aten.add.out", "aten.relu.default"}


def test_the_folder_of_a_package_is_read_like_its_wheel(wheel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    assert read_package(folder).operators == read_package(wheel).operators


PORTABLE = b"""
- op: add.out
  kernels:
    - arg_meta: null
      kernel_name: torch::executor::add_out
- op: select_copy.int_out
- op: convolution.out
- func: et_copy::_h2d_copy.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
"""


def test_kernels_of_executorch_serve_the_operators_whose_work_they_do(tmp_path: Path) -> None:
    folder = tmp_path / "executorch" / "kernels" / "portable"
    folder.mkdir(parents=True)
    (folder / "functions.yaml").write_bytes(PORTABLE)
    (found,), _ = declarations(["executorch"], [tmp_path / "executorch"])
    assert found.custom == 1
    assert found.has("aten.add.Tensor") is Has.KERNEL  # its delegate is add.out
    assert found.has("aten.select.int") is Has.KERNEL  # a view becomes a copy
    assert found.has("aten.conv2d.default") is Has.PARTS
    assert found.has("aten.sin.default") is Has.MISSING


@pytest.mark.parametrize("content", [b"add.out", b"- add.out\n", b"- op: [add]\n", b"- op: ''\n"])
def test_a_list_of_executorch_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "executorch-1.0-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("executorch/kernels/portable/functions.yaml", content)
    with pytest.raises(CorruptFile):
        read_package(path)


HOSTILE = {
    "an alias": b"a: &x [1, 2]\nb: *x\n",
    "a tag that makes an object": b"supported: !!python/object/apply:os.system ['true']\n",
    "nesting": b"[" * (DEPTH + 2) + b"]" * (DEPTH + 2),
    "a key that is a list": b"? [a]\n: b\n",
    "the same key twice": b"backend: A\nbackend: B\n",
    "two documents": b"a: b\n---\na: b\n",
    "nothing": b"",
    "bytes that are no text": b"\xff\xfe\x00\x01",
    "a list instead of sections": b"- add.out\n",
    "a name that is none": b"supported:\n  - '../../etc/passwd'\n",
    "a scalar where names belong": b"supported: 7\nbackend: N\n",
    "no operators": b"backend: NPU\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_wheel_with_a_hostile_list_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptFile) as error:
        read_package(make_wheel(tmp_path / "bad-1.0-none-any.whl", HOSTILE[name]))
    assert "bad-1.0-none-any.whl" in str(error.value.where)


def test_a_long_list_is_refused_before_it_is_built() -> None:
    with pytest.raises(CorruptFile, match="YAML"):
        parse_yaml(b"[" + b"a," * 5000 + b"a]", "long.yaml", most_items=1000)


@pytest.mark.parametrize("content", [b"PK\x03\x04 not a zip", b"", b"#!/bin/sh\n"])
def test_what_is_no_wheel_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "torch_npu.whl"
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match="not a wheel"):
        read_package(path)


def test_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="no package"):
        read_package(Path("nowhere.whl"))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_list_or_an_error_of_mindgap(content: bytes) -> None:
    with contextlib.suppress(MindgapError):
        parse_native(content, "any.yaml")
