"""Tensors read back are the tensors written, layout included."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mindgap.errors import FilesLost, MindgapError, NoSpace
from mindgap.execution import arena
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import DTYPES, NamedTensor, byte_view


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    count = int(torch.Size(shape).numel()) * dtype.itemsize
    generator = torch.Generator().manual_seed(draw(st.integers(0, 100)))
    high = 2 if dtype is torch.bool else 256
    raw = torch.randint(0, high, (count,), generator=generator, dtype=torch.uint8)
    tensor = raw.view(dtype).reshape(shape)
    if len(shape) > 1 and draw(st.booleans()):
        tensor = tensor.transpose(0, -1)
    if len(shape) > 0 and draw(st.booleans()):
        tensor = tensor[..., ::2]
    if draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
    return tensor


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(tensors(), max_size=4))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, items: list[torch.Tensor]) -> None:
    path = tmp_path_factory.mktemp("arena") / "file"
    entries = arena.write(path, items)
    for got, want in zip([*arena.read(path, entries), *arena.read(path, entries, mapped=False)], [*items, *items]):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert not want.numel() or got.stride() == want.stride()
        assert torch.equal(byte_view(got), byte_view(want))


def test_a_change_stays_private(tmp_path: Path) -> None:
    entries = arena.write(tmp_path / "file", [torch.zeros(4)])
    first, second = (arena.read(tmp_path / "file", entries)[0] for _ in range(2))
    first.add_(1)
    assert second.sum() == 0 and arena.read(tmp_path / "file", entries)[0].sum() == 0


def test_a_short_file_is_noticed(tmp_path: Path) -> None:
    entries = arena.write(tmp_path / "file", [torch.zeros(100)])
    (tmp_path / "file").write_bytes(b"\x00" * 64)
    with pytest.raises(MindgapError, match="shorter"):
        arena.read(tmp_path / "file", entries)


def outcome_in(path: Path, tensor: torch.Tensor) -> Outcome:
    stored = arena.store(path, [NamedTensor("output", tensor)])
    return Outcome("npu", Status.OK, Stage.RUN, digest="0", file=str(path), stored=stored)


def test_outputs_that_are_cut_off_later_stay(tmp_path: Path) -> None:
    """A page of a mapped file that is not there any more would end this process."""
    found = arena.opened(outcome_in(tmp_path / "file", torch.ones(100_000)))
    os.truncate(tmp_path / "file", 0)
    assert found.outputs[0].tensor.sum() == 100_000


def test_outputs_that_were_cut_off_are_the_failure_of_their_platform(tmp_path: Path) -> None:
    outcome = outcome_in(tmp_path / "file", torch.ones(100))
    os.truncate(tmp_path / "file", 64)
    found = arena.opened(outcome)
    assert found.status is Status.CRASH and "64 of 400 bytes" in found.message and not (found.file or found.digest)
    (tmp_path / "file").unlink()
    with pytest.raises(FilesLost):
        arena.opened(outcome)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    entries = arena.write(tmp_path / "file", [torch.zeros(4)])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(MindgapError, match="not a file"):
        arena.read(tmp_path / "pipe", entries)
    with pytest.raises(MindgapError, match="not a file"):
        arena.read(tmp_path / "link", entries)
    with pytest.raises(FilesLost):
        arena.read(tmp_path / "gone", entries)


def test_a_full_disk_is_said_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "full"

    def open_full(self: Path, *args: object) -> object:
        return open("/dev/full", "wb", buffering=0)  # noqa: PTH123

    monkeypatch.setattr(Path, "open", open_full)
    with pytest.raises(NoSpace, match="no space left"):
        arena.write(link, [torch.ones(10)])
    assert not link.exists()
