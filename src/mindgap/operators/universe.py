"""The operators that are asked about: those of real models, by how many need them, and those that can be invoked."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mindgap.corpus.operator_table import SHIPPED, read_table
from mindgap.corpus.spelling import SMOKE
from mindgap.corpus.store import Status, Store
from mindgap.errors import UsageError
from mindgap.program.codec import decode
from mindgap.program.operators import traits
from mindgap.reading.files import read_file
from mindgap.reading.limits import FILE_BYTES

SMOKE_NAME: Final = "the smoke corpus"
SMOKE_WORD: Final = "smoke"


@dataclass(frozen=True, slots=True)
class Models:
    """Real models and the operators that each needs."""

    where: str
    """What they are, in words."""
    operators: Mapping[str, frozenset[str]]
    """By model: ATen overloads."""

    @property
    def counts(self) -> dict[str, int]:
        """In how many models each operator occurs, the most common first."""
        found = Counter(name for names in self.operators.values() for name in names)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def models_of(where: Path | None = None) -> Models:
    """The models of a built corpus, from its ledger or a table of it: the table that comes with mindgap if none is
    named; or those of the smoke corpus."""
    if where is None:
        return replace(models_of(SHIPPED), where="the table that comes with mindgap")
    if str(where) == SMOKE_WORD:
        found = {path.stem: _operators(path) for path in sorted(SMOKE.glob("*.mgp"))}
        return Models(SMOKE_NAME, found)
    if where.is_file():
        found = {name: needed(operators) for name, operators in read_table(where).by_model().items()}
    else:
        with Store(where) as store:
            built = [entry for entry in store.entries() if entry.status is Status.BUILT]
        found = {entry.spec: needed(entry.operators) for entry in built}
    if not found:
        raise UsageError(f"{where} holds no model", hint="mindgap corpus build -o DIR makes a corpus")
    return Models(f"the corpus in {where.name}", found)


def _operators(path: Path) -> frozenset[str]:
    program = decode(read_file(path, FILE_BYTES), where=str(path))
    return needed(node.op for node in program.nodes)


def needed(operators: Iterable[str]) -> frozenset[str]:
    """The operators of ATen that compute something: assertions of an exported graph are for whoever exports it."""
    return frozenset(op for op in operators if op.startswith("aten.") and not traits(op).asserts)


def chosen(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """The operators that were named: whole (`aten.add.Tensor`), or by name for all overloads (`add`).

    Raises UsageError with the nearest names for one that does not exist.
    """
    by_name: dict[str, list[str]] = {}
    for op in known:
        by_name.setdefault(plain_name(op), []).append(op)
    found: list[str] = []
    for text in asked:
        matching = [text] if text in known else by_name.get(text.removeprefix("aten.").removeprefix("aten::"), [])
        if not matching:
            near = difflib.get_close_matches(text, [*known, *by_name], n=3, cutoff=0.5)
            raise UsageError(f"there is no operator {text}", hint=f"nearest: {', '.join(near)}" if near else None)
        found += matching
    return list(dict.fromkeys(found))


def plain_name(op: str) -> str:
    """`add` of `aten.add.Tensor`."""
    return op.split(".")[1] if op.startswith("aten.") else op
