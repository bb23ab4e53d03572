"""The directory of an evaluation: its settings, a line per batch, and the samples whose answer changed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

import msgspec
import torch

from mindgap.errors import CorruptFile, UsageError
from mindgap.evaluation.samples import SAMPLES, SETTINGS, Settings, read_settings, sample_file
from mindgap.evaluation.scoring import BatchScore
from mindgap.records.files import claim, write_whole

BATCHES: Final = "batches.jsonl"
MOST_KEPT: Final = 100
"""Samples whose inputs are kept: more of one kind teach nothing new."""


class Keeper:
    """Writes what an evaluation found as soon as it is there."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        """Raises UsageError where the directory holds another evaluation, or somebody writes to it."""
        self.directory = directory
        self._lock = claim(directory, "evaluation")
        try:
            before = read_settings(directory) if (directory / SETTINGS).exists() else None
            if before is not None and before != settings:
                raise UsageError(
                    f"{directory} holds another evaluation",
                    cause=_difference(before, settings),
                    hint="choose another directory with -o, or repeat the command that it was started with",
                )
            if before is None:
                write_whole(directory / SETTINGS, msgspec.json.format(msgspec.json.encode(settings), indent=1))
            (directory / SAMPLES).mkdir(exist_ok=True)
            self.batches = list(_batches(directory / BATCHES))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._lock)

    def add(self, score: BatchScore) -> None:
        """Keep a batch; half a line, after a power failure, is not read again."""
        with (self.directory / BATCHES).open("ab") as file:
            file.write(msgspec.json.encode(score) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def keep_sample(self, sample: int, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
        """Keep the inputs of a sample for `mindgap explain --sample`."""
        folder = self.directory / SAMPLES
        if sample_file(self.directory, sample) is not None or sum(1 for _ in folder.iterdir()) >= MOST_KEPT:
            return
        if all(name.isidentifier() for name in names):
            from safetensors.torch import save

            write_whole(folder / f"{sample}.safetensors", save({n: t.contiguous() for n, t in zip(names, tensors)}))
        else:
            import io

            buffer = io.BytesIO()
            torch.save([tensor.clone() for tensor in tensors], buffer)
            write_whole(folder / f"{sample}.pt", buffer.getvalue())


def _batches(path: Path) -> Iterator[BatchScore]:
    """Every whole line; what follows the last one was being written when the evaluation ended, and is cut off."""
    if not path.exists():
        return
    whole = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                yield msgspec.json.decode(line, type=BatchScore)
            except (msgspec.MsgspecError, ValueError) as error:
                raise CorruptFile(f"line {number} of {path.name} is damaged", where=str(path)) from error
            whole += len(line)
    if whole < path.stat().st_size:
        with contextlib.suppress(OSError):
            os.truncate(path, whole)


def _difference(before: Settings, now: Settings) -> str:
    """The first setting that is another one."""
    old: Mapping[str, object] = asdict(before)
    new: Mapping[str, object] = asdict(now)
    name = next(item.name for item in fields(Settings) if old[item.name] != new[item.name])
    what = {"identity": "the samples or their labels", "content": "the model or its weights"}.get(name)
    return f"{what} changed" if what is not None else f"{name}: {old[name]!r}, now {new[name]!r}"
