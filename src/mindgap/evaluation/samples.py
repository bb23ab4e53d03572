"""What an evaluation was asked, and the samples that it kept; read without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from mindgap.errors import CorruptFile, UsageError
from mindgap.reading.files import read_file

SETTINGS, SAMPLES, RESULT = "evaluation.json", "samples", "result.json"
SETTINGS_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What an evaluation asks; a run that is continued must ask the same."""

    model: str
    data: str
    identity: str
    """Of the samples and their labels."""
    platforms: tuple[str, ...]
    task: str
    batch: int
    noise_runs: int
    seed: int = 0
    dtype: str | None = None
    answer: str | None = None
    limit: int | None = None
    preprocessing: str = ""
    directory: str = "."
    """Where relative paths of the model start."""
    trust: bool = False
    content: str = ""
    """Of the program and its weights: a model that was changed in between is another one."""


@dataclass(frozen=True, slots=True)
class KeptSample:
    """A model and one of its samples, for an explanation."""

    model: str
    inputs: Path
    dtype: str | None
    seed: int


def kept_sample(directory: Path, sample: int) -> KeptSample:
    """A sample whose answer changed; raises UsageError where the evaluation kept no such sample."""
    settings = read_settings(directory)
    file = sample_file(directory, sample)
    if file is None:
        kept = sorted(int(path.stem) for path in (directory / SAMPLES).glob("[0-9]*.*"))
        told = ", ".join(map(str, kept[:12])) + (", ..." if len(kept) > 12 else "")
        raise UsageError(
            f"the evaluation in {directory} kept no sample {sample}",
            cause=f"it kept {told}" if kept else "no answer changed",
        )
    path, _, factory = settings.model.partition(".py:")
    named = Path(settings.directory, f"{path}.py" if factory else path)  # a file may lie elsewhere than we are now
    model = str(Path(settings.directory, settings.model)) if named.exists() else settings.model
    return KeptSample(model, file, settings.dtype, settings.seed)


def read_settings(directory: Path) -> Settings:
    """The settings of the evaluation in a directory."""
    path = directory / SETTINGS
    if not path.is_file():
        raise UsageError(f"there is no evaluation in {directory}", hint="mindgap evaluate MODEL --data DATA -o DIR")
    try:
        return msgspec.json.decode(read_file(path, SETTINGS_BYTES), type=Settings)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CorruptFile(f"{path.name} is damaged", where=str(path), cause=str(error)) from error


def sample_file(directory: Path, sample: int) -> Path | None:
    """The inputs of a kept sample."""
    found = (directory / SAMPLES / f"{sample}{suffix}" for suffix in (".safetensors", ".pt"))
    return next((path for path in found if path.is_file()), None)
