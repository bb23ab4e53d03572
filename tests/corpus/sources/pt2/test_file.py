from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mindgap.corpus.load import load
from mindgap.corpus.sources.pt2 import safety
from mindgap.errors import ModelError, Untrusted
from mindgap.program.interpret import Executable
from mindgap.records.source import Source


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": self.layer(x) + self.shift + y * torch.tensor([1.0, 2.0, 3.0, 4.0])}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    torch.manual_seed(0)
    exported = torch.export.export(Net(), (torch.randn(2, 3),), {"y": torch.randn(2, 4)}, strict=False)
    torch.export.save(exported, path)
    return path


def rewritten(source: Path, target: Path, edit: Callable[[str, bytes], bytes]) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, edit(name, old.read(name)))
    return target


def evil_pickle(marker: Path) -> bytes:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (marker,)

    buffer = io.BytesIO()
    torch.save(Evil(), buffer)
    return buffer.getvalue()


def test_an_archive_of_tensors_loads_without_trust(archive: Path) -> None:
    loaded = load(Source(archive.name, directory=str(archive.parent)))
    assert loaded.model is None and loaded.program is not None and len(loaded.args) == 2
    assert [item.name for item in loaded.program.inputs] == ["x", "y"]
    expected = torch.export.load(archive).module()(loaded.args[0], y=loaded.args[1])["sum"]
    with torch.no_grad():
        result = Executable(loaded.program, loaded.constants).run(loaded.args)["sum"]
    assert torch.equal(result, expected)


def test_without_example_inputs_they_are_made_from_the_seed(archive: Path, tmp_path: Path) -> None:
    def drop(name: str, content: bytes) -> bytes:
        return b"" if "sample_inputs" in name else content

    path = rewritten(archive, tmp_path / "net.pt2", drop)
    first, second = (load(Source(str(path), seed=seed)).args for seed in (1, 2))
    assert first[0].shape == (2, 3) and not torch.equal(first[0], second[0])


def test_dynamic_shapes_load_without_trust(tmp_path: Path) -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0] * x.shape[1] // 2, 2) + 1

    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(Twice(), (torch.ones(4, 6),), dynamic_shapes={"x": {0: batch}}, strict=False)
    torch.export.save(exported, tmp_path / "twice.pt2")
    assert safety.danger((tmp_path / "twice.pt2").read_bytes()) is None
    loaded = load(Source(str(tmp_path / "twice.pt2")))
    assert loaded.program is not None and loaded.args[0].shape == (4, 6)


@pytest.mark.parametrize("part", ["sample_inputs/model.pt", "weights/model.pt", "weights/weight_0"])
def test_pickles_that_execute_code_are_refused(archive: Path, tmp_path: Path, part: str) -> None:
    marker = tmp_path / "executed"

    def poison(name: str, content: bytes) -> bytes:
        if name.endswith(part):
            return evil_pickle(marker)
        if name.endswith("model_weights_config.json"):
            return content.replace(b'"use_pickle": false', b'"use_pickle": true')
        return content

    path = rewritten(archive, tmp_path / "evil.pt2", poison)
    if part == "weights/model.pt":  # the format of earlier versions
        with zipfile.ZipFile(path, "a") as old:
            old.writestr(old.namelist()[0].partition("/")[0] + "/data/weights/model.pt", evil_pickle(marker))
    with pytest.raises(Untrusted, match="--trust"):
        load(Source(str(path)))
    assert not marker.exists()


def test_the_format_of_earlier_versions_is_checked_too(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as old:
        old.writestr("version", "8.8")
        old.writestr("serialized_exported_program.json", "{}")
        old.writestr("serialized_state_dict.pt", evil_pickle(marker))
    with pytest.raises(Untrusted):
        load(Source(str(tmp_path / "old.pt2")))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (b'"x"', b'"x=open(0)"', "a name that is code"),
        (b'{"as_int": 2}', b'{"as_expr": {"expr_str": "exec(chr(49))", "hint": null}}', "a size that is code"),
        (b'"TRAINING"', b'"TRAINING(1)"', "a name that is code"),
    ],
)
def test_text_that_becomes_code_is_refused(
    archive: Path, tmp_path: Path, before: bytes, after: bytes, message: str
) -> None:
    def poison(name: str, content: bytes) -> bytes:
        return content.replace(before, after) if name.endswith("models/model.json") else content

    with pytest.raises(Untrusted, match=message):
        load(Source(str(rewritten(archive, tmp_path / "evil.pt2", poison))))


def test_objects_and_compiled_libraries_are_refused(archive: Path, tmp_path: Path) -> None:
    def poison(name: str, content: bytes) -> bytes:
        if not name.endswith("model_constants_config.json"):
            return content
        config = json.loads(content)
        for payload in config["config"].values():
            payload["path_name"] = "opaque_obj_0"
        return json.dumps(config).encode()

    with pytest.raises(Untrusted, match="is an object, not a tensor"):
        load(Source(str(rewritten(archive, tmp_path / "object.pt2", poison))))
    compiled = rewritten(archive, tmp_path / "compiled.pt2", lambda name, content: content)
    with zipfile.ZipFile(compiled, "a") as added:
        added.writestr(added.namelist()[0].partition("/")[0] + "/data/aotinductor/model/a.so", b"ELF")
    with pytest.raises(Untrusted, match="compiled library"):
        load(Source(str(compiled)))


def test_a_damaged_archive(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.pt2").write_bytes(archive.read_bytes()[:500])
    for trust in (False, True):
        with pytest.raises(ModelError, match="is not an exported program"):
            load(Source(str(tmp_path / "cut.pt2"), trust=trust))


def test_a_program_keeps_its_precision(archive: Path) -> None:
    assert load(Source(str(archive), dtype="float32")).program is not None
    with pytest.raises(ModelError, match="it cannot become float16"):
        load(Source(str(archive), dtype="float16"))
    with pytest.raises(ModelError, match="unknown dtype 'int8'"):
        load(Source(str(archive), dtype="int8"))


@pytest.mark.parametrize(
    "size", ["s0", "2*s0 + 1", "Max(1, FloorDiv(u3, 2))", "s0 <= 64", "1.5", "Symbol('s7', integer=True)"]
)
def test_sizes_that_are_arithmetic(size: str) -> None:
    assert safety._is_size(size)


@pytest.mark.parametrize(
    "size", ["exec(s0)", "s0.real", "().__class__", "'x'", "s0\nimport os", "lambda: 1", "a[0]", "Symbol('a')", ""]
)
def test_sizes_that_are_code(size: str) -> None:
    assert not safety._is_size(size)
