"""A labelled set: class folders of images, a folder of images with a file of labels, or arrays in a file."""

from __future__ import annotations

import csv
import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mindgap.errors import CorruptFile, UsageError
from mindgap.reading.files import read_file

IMAGES: Final = frozenset({".jpeg", ".jpg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
ARRAYS: Final = frozenset({".npz", ".safetensors"})
LABEL_BYTES: Final = 64 << 20
"""Of a file of labels: ImageNet's 50,000 take 3 MB with boxes."""
MOST: Final = 4_000_000
"""Samples of one set."""


_OF_ILSVRC: Final = {"ILSVRC2012_val_00000001": 490, "ILSVRC2012_val_00000002": 361, "ILSVRC2012_val_00000003": 171}
"""How the ground truth of ImageNet's development kit begins: its numbers are not in the order of the synsets, which
models have (those are 65, 970 and 230 there, from 0)."""


@dataclass(frozen=True, slots=True)
class _Classes:
    """What `--classes` lists, in the order of the model's outputs."""

    names: tuple[str, ...] = ()
    numbers: Mapping[int, int] = field(default_factory=dict)
    """The output of each number that stands for a class in the labels, where the file gives such numbers."""

    @property
    def are_sorted(self) -> bool:
        return list(self.names) == sorted(self.names)


@dataclass(frozen=True, slots=True)
class Dataset:
    """The samples of a set, in their order; their content is read in workers, batch by batch."""

    path: str
    files: tuple[str, ...] = ()
    """Of images, below `path`; empty for arrays."""
    labels: tuple[int, ...] = ()
    """One per image; arrays have their own."""
    classes: tuple[str, ...] = ()
    """Names by label, where they are known."""
    chosen: tuple[int, ...] | None = None
    """The samples to take; None for all."""

    @property
    def is_arrays(self) -> bool:
        return not self.files

    @property
    def identity(self) -> str:
        """Another set, or another choice of it, has another."""
        content = hashlib.blake2b(digest_size=12)
        content.update(repr((self.files, self.labels, self.classes, self.chosen)).encode())
        if self.is_arrays:
            found = Path(self.path).stat()
            content.update(repr((found.st_size, found.st_mtime_ns)).encode())
        return content.hexdigest()


def list_samples(
    path: Path,
    labels: Path | None = None,
    classes: Path | None = None,
    first_label: int = 0,
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """What lies at a path; raises UsageError or CorruptFile where it is no labelled set.

    With `limit`, so many samples are drawn from all: the first ones of class folders are of one class.
    """
    if path.is_file():
        if path.suffix not in ARRAYS:
            raise UsageError(f"{path.name} is no set of samples", hint="give a directory, .npz or .safetensors")
        if labels is not None or classes is not None:
            raise UsageError("--labels and --classes are for images", cause=f"{path.name} holds its own labels")
        return Dataset(str(path.absolute()))
    if not path.is_dir():
        raise UsageError(f"there is no {path}", hint="--data takes a directory of images, .npz or .safetensors")
    known = _read_classes(classes) if classes is not None else _Classes()
    names: Sequence[str] = known.names
    folders = sorted(item for item in path.iterdir() if item.is_dir() and not item.name.startswith("."))
    if labels is not None:
        files = _images(path)
        if known.numbers and first_label:
            raise UsageError("--first-label is not for labels that --classes gives numbers to", where=str(classes))
        found = _read_labels(labels, [file.name for file in files], known)
    else:
        files, found, names = _of_folders(path, folders, names)
    if first_label:
        found = [label - first_label for label in found]
    if (least := min(found)) < 0:
        raise UsageError(f"the smallest label is {least + first_label}, below --first-label {first_label}")
    if len(files) > MOST:
        raise UsageError(f"{path} has {len(files)} images", cause=f"the most are {MOST}")
    set_ = Dataset(
        str(path.absolute()), tuple(str(file.relative_to(path)) for file in files), tuple(found), tuple(names)
    )
    return choose(set_, len(files), limit, seed)


def choose(data: Dataset, count: int, limit: int | None, seed: int) -> Dataset:
    """So many samples, drawn from all, in their order."""
    if limit is None or limit >= count:
        return data
    drawn = tuple(sorted(random.Random(seed).sample(range(count), limit)))
    return Dataset(data.path, data.files, data.labels, data.classes, drawn)


def _of_folders(path: Path, folders: Sequence[Path], names: Sequence[str]) -> tuple[list[Path], list[int], list[str]]:
    """Images of class folders: a folder's name is its class, in sorted order, or the label where all are numbers."""
    if not folders:
        flat = any(item.suffix.lower() in IMAGES for item in path.iterdir())
        raise UsageError(
            f"{path} has no class folders",
            cause="its images have no labels" if flat else None,
            hint="one folder per class, or --labels FILE with a label for each image",
        )
    if all(re.fullmatch(r"\d{1,9}", folder.name) for folder in folders) and not names:
        by_folder = {folder.name: int(folder.name) for folder in folders}
        names = []
    else:
        order = list(names) or [folder.name for folder in folders]
        unknown = [folder.name for folder in folders if folder.name not in order]
        if unknown:
            raise UsageError(f"--classes does not list the folder {unknown[0]}", where=str(path))
        by_folder = {name: number for number, name in enumerate(order)}
        names = order
    files, labels = [], []
    for folder in folders:
        inside = _images(folder)
        files += inside
        labels += [by_folder[folder.name]] * len(inside)
    return files, labels, list(names)


def _images(folder: Path) -> list[Path]:
    """The images of a folder, by name."""
    found = sorted(item for item in folder.iterdir() if item.suffix.lower() in IMAGES and item.is_file())
    if not found:
        raise UsageError(
            f"{folder.name} holds no images", where=str(folder), hint=f"images end with {', '.join(sorted(IMAGES))}"
        )
    return found


def _read_classes(path: Path) -> _Classes:
    """One class per line; what follows its name, as in ImageNet's list of synsets, is left out.

    Where a number follows each name, as in `map_clsloc.txt` of ImageNet's development kit, the numbers are those of the
    labels, and the classes are in sorted order.
    """
    rows = [line.split() for line in _lines(path)]
    names = [row[0].rstrip(",") for row in rows]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{path.name} lists the class {twice} twice", where=str(path))
    if not all(len(row) > 1 and re.fullmatch(r"\d{1,9}", row[1]) for row in rows):
        return _Classes(tuple(names))
    ordered = sorted(names)
    place = {name: number for number, name in enumerate(ordered)}
    numbers = {int(row[1]): place[name] for row, name in zip(rows, names)}
    if len(numbers) != len(rows):
        raise UsageError(f"{path.name} gives two classes the same number", where=str(path))
    return _Classes(tuple(ordered), numbers)


def _read_labels(path: Path, names: Sequence[str], classes: _Classes) -> list[int]:
    """The label of each image: one per line in the order of their names, or lines of a name and a label."""
    given = _given_labels(path, names)
    _refuse_ilsvrc(path, dict(zip((Path(name).stem for name in names), given)), classes)
    return [_number(text, path, classes) for text in given]


def _refuse_ilsvrc(path: Path, given: Mapping[str, str], classes: _Classes) -> None:
    """ImageNet's own numbers, taken for positions in the order of the synsets, give an accuracy near 0."""
    official = all(given.get(name) == str(number) for name, number in _OF_ILSVRC.items())
    if official and not classes.numbers and classes.are_sorted:
        raise UsageError(
            f"{path.name} has ImageNet's own numbers, which are not the order of the synsets that models have",
            where=str(path),
            hint="--classes map_clsloc.txt (of the development kit: a synset and its number per line)",
        )


def _given_labels(path: Path, names: Sequence[str]) -> list[str]:
    """The label of each image as the file has it."""
    rows = [row for row in csv.reader(_lines(path), delimiter="," if path.suffix == ".csv" else " ") if row]
    if path.suffix == ".csv" and rows and not _is_named(rows[0][0], names):
        rows = rows[1:]  # a head line
    if all(len(row) == 1 for row in rows):
        if len(rows) != len(names):
            raise UsageError(f"{path.name} has {len(rows)} labels for {len(names)} images", where=str(path))
        return [row[0] for row in rows]
    by_name = {Path(row[0]).stem: row[1].split()[0] for row in rows if len(row) > 1 and row[1]}
    missing = [name for name in names if Path(name).stem not in by_name]
    if missing:
        raise UsageError(f"{path.name} has no label for {missing[0]}", where=str(path))
    return [by_name[Path(name).stem] for name in names]


def _is_named(text: str, names: Sequence[str]) -> bool:
    stems = {Path(name).stem for name in names}
    return Path(text).stem in stems or re.fullmatch(r"\d+", text) is not None


def _number(text: str, path: Path, classes: _Classes) -> int:
    """A label as a number; a class by its name needs the list of classes, as no rank can be guessed."""
    if re.fullmatch(r"\d{1,9}", text):
        if classes.numbers and int(text) not in classes.numbers:
            raise UsageError(f"{path.name} has the label {text}, and --classes has no class of that number")
        return classes.numbers.get(int(text), int(text))
    if text in classes.names:
        return classes.names.index(text)
    raise UsageError(
        f"{path.name} has the label {text[:80]!r}, which is no number",
        where=str(path),
        hint="--classes FILE lists the classes in the order of the model's outputs"
        if not classes.names
        else "--classes does not list it",
    )


def _lines(path: Path) -> list[str]:
    try:
        text = read_file(path, LABEL_BYTES).decode()
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{path.name} is not text", where=str(path)) from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise UsageError(f"{path.name} is empty", where=str(path))
    return lines
