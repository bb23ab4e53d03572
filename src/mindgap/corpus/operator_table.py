"""The operators of each model of a corpus in one small file: what predictions need, without the programs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from mindgap.corpus.stats import library_versions
from mindgap.corpus.store import Entry, Status
from mindgap.reading.files import inflate, read_file, refusing

SCHEMA: Final = "mindgap.corpus-operators/1"
FILE_BYTES: Final = 64 << 20
"""A table of 4,000 models has less than 1 MB."""
SHIPPED: Final = Path(__file__).with_name("operators.json.z")
"""A table of a built corpus that comes with mindgap (docs/decisions/0014)."""
PACKED: Final = ".z"
"""How the name of a table ends that zlib has compressed: models of a family differ little."""


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """Models by name, with the operators of each as numbers in one list."""

    schema: str
    versions: Mapping[str, str]
    """torch and the packages that define the models."""
    operators: tuple[str, ...]
    models: Mapping[str, tuple[int, ...]]

    def by_model(self) -> dict[str, list[str]]:
        """The names of each model's operators."""
        return {name: [self.operators[number] for number in numbers] for name, numbers in self.models.items()}


def table_text(entries: Sequence[Entry]) -> str:
    """The built models of a store, one per line."""
    built = sorted((entry for entry in entries if entry.status is Status.BUILT), key=lambda entry: entry.spec)
    names = sorted({name for entry in built for name in entry.operators})
    numbers = {name: number for number, name in enumerate(names)}
    head = {"schema": SCHEMA, "versions": library_versions(built), "operators": names}
    models = {entry.spec: sorted(numbers[name] for name in entry.operators) for entry in built}
    lines = [f"{json.dumps(spec)}:{json.dumps(held, separators=(',', ':'))}" for spec, held in models.items()]
    return json.dumps(head)[:-1] + ', "models": {\n' + ",\n".join(lines) + "\n}}\n"


def table_file(entries: Sequence[Entry], path: Path) -> bytes:
    """The content of a file with the built models of a store, compressed where its name says so."""
    content = table_text(entries).encode()
    return zlib.compress(content, 9) if path.suffix == PACKED else content


def read_table(path: Path) -> OperatorTable:
    """What `table_file` made; raises CorruptFile for any other file."""
    with refusing(f"{path.name} is not a table of operators by model", path):
        content = read_file(path, FILE_BYTES)
        if path.suffix == PACKED:
            content = inflate(content, FILE_BYTES)
        found = msgspec.json.decode(content, type=OperatorTable)
        if found.schema != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        count = len(found.operators)
        if any(not 0 <= number < count for numbers in found.models.values() for number in numbers):
            raise ValueError("a model has an operator that is not in its list")
        return found
