"""Tensors in a file that several processes read or map into memory instead of sending them to each other."""

from __future__ import annotations

import errno
import hashlib
import math
import mmap
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import torch

from mindgap.errors import FilesLost, MindgapError, NoSpace
from mindgap.records.outcome import DIGEST_BYTES, Outcome, Status, StoredTensor
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, NamedTensor, TensorMeta, byte_view, with_stride

Entry: TypeAlias = tuple[TensorMeta, int]
"""Where a tensor lies in the file: what it is, and its offset."""

_Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

ALIGNMENT: Final = 64  # of the vector loads that kernels use


def write(path: Path, tensors: Sequence[torch.Tensor]) -> tuple[Entry, ...]:
    """Write tensors one after the other; their entries tell how to read them back."""
    try:
        try:
            return _written(path, tensors)
        except FileNotFoundError:  # somebody has cleared the directory
            path.parent.mkdir(parents=True, exist_ok=True)
            return _written(path, tensors)
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno == errno.EFBIG:
            raise MindgapError(
                "there are more outputs than a worker may write", cause="the limit is files_mb"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(
                "no space left for the tensors that workers share",
                where=str(path.parent),
                hint="free some space, or set MINDGAP_SCRATCH to a directory that has more",
            ) from error
        raise


def _written(path: Path, tensors: Sequence[torch.Tensor]) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    with path.open("wb") as file:
        for tensor in tensors:
            offset = -(-file.tell() // ALIGNMENT) * ALIGNMENT
            file.seek(offset)
            entries.append((TensorMeta.of(tensor), offset))
            file.write(byte_view(tensor).numpy().data)
    return tuple(entries)


def read(path: Path, entries: Sequence[Entry], mapped: bool = True) -> list[torch.Tensor]:
    """Tensors backed by a private mapping of the file: changing one changes no other process's copy.

    Whoever cuts the file off later ends the processes that map it (SIGBUS); what is not `mapped` is copied.
    """
    with _open(path) as file:
        if not mapped:
            return [_copied(file.fileno(), meta, offset) for meta, offset in entries]
        size = os.fstat(file.fileno()).st_size
        if not size:
            return [_empty(meta) for meta, _ in entries]
        mapping = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    buffer = np.frombuffer(mapping, dtype=np.uint8)
    return [_view(torch.from_numpy(_part(buffer, meta, offset)), meta) for meta, offset in entries]


def _open(path: Path) -> BinaryIO:
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    except FileNotFoundError as error:
        raise FilesLost(
            "a file that workers share has gone",
            where=str(path),
            hint="nobody may clear that directory while it is used",
        ) from error
    except OSError as error:
        raise MindgapError("an answer is not a file", where=str(path), cause=error.strerror) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise MindgapError("an answer is not a file", where=str(path))
    return file


def _copied(descriptor: int, meta: TensorMeta, offset: int) -> torch.Tensor:
    """A tensor in memory of its own."""
    size = meta.nbytes
    if not size:
        return _empty(meta)
    values = torch.empty(size, dtype=torch.uint8)  # aligned as every tensor of torch
    left = values.numpy().data
    while left:
        count = os.preadv(descriptor, [left], offset + size - len(left))
        if not count:
            raise _cut_off(offset + size - len(left), offset + size)
        left = left[count:]
    return _view(values, meta)


def store(path: Path, outputs: Sequence[NamedTensor]) -> tuple[StoredTensor, ...]:
    """Write the outputs of a run."""
    entries = write(path, [item.tensor for item in outputs])
    return tuple(StoredTensor(item.name, *entry, item.stride) for item, entry in zip(outputs, entries))


def opened(outcome: Outcome, map_beyond: float = math.inf) -> Outcome:
    """The outcome with its outputs in memory: copies, as whoever wrote the file may still change it.

    Outputs that are not there after all are the failure of their platform. A worker may map more than so many bytes
    instead of holding them twice: cutting them off later ends it, and that is an outcome too.
    """
    if not outcome.file or outcome.outputs:
        return outcome
    try:
        mapped = sum(item.meta.nbytes for item in outcome.stored) > map_beyond
        tensors = read(Path(outcome.file), [(item.meta, item.offset) for item in outcome.stored], mapped)
    except FilesLost:
        raise
    except MindgapError as error:
        message = "; ".join(filter(None, [error.what, error.cause]))
        return replace(outcome, status=Status.CRASH, message=message, digest="", file="", stored=())
    named = tuple(NamedTensor(item.name, tensor, item.stride) for item, tensor in zip(outcome.stored, tensors))
    return replace(outcome, outputs=named)


def discarded(outcome: Outcome) -> Outcome:
    """The outcome after its file was removed."""
    if outcome.file:
        Path(outcome.file).unlink(missing_ok=True)
    return replace(outcome, file="", stored=())


def digest_of(outputs: Sequence[NamedTensor]) -> str:
    """32 hex digits that are the same exactly when `same_outputs` holds."""
    content = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for item in outputs:
        content.update(repr((item.name, DTYPE_NAMES[item.tensor.dtype], tuple(item.tensor.shape))).encode())
        content.update(byte_view(item.tensor).numpy().data)
    return content.hexdigest()


def tensor_of(values: bytes, meta: TensorMeta) -> torch.Tensor:
    """A tensor from its raw values; raises MindgapError when they are not those of such a tensor."""
    return _view(torch.from_numpy(_part(np.frombuffer(bytearray(values), dtype=np.uint8), meta, 0)), meta)


def _part(buffer: _Bytes, meta: TensorMeta, offset: int) -> _Bytes:
    end = offset + meta.nbytes
    if end > buffer.size and meta.nbytes:
        raise _cut_off(buffer.size, end)
    return buffer[offset:end]


def _cut_off(found: int, end: int) -> MindgapError:
    return MindgapError("an answer is shorter than it says", cause=f"{found} of {end} bytes")


def _view(values: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    """Raw values as the tensor that they are."""
    if not values.numel():
        return _empty(meta)
    tensor = values.view(DTYPES[meta.dtype]).reshape(meta.shape)
    return tensor if tuple(tensor.stride()) == meta.stride else with_stride(tensor, meta.stride)


def _empty(meta: TensorMeta) -> torch.Tensor:
    return torch.empty_strided(meta.shape, meta.stride, dtype=DTYPES[meta.dtype])
