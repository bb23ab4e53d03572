"""What a program computes, without its names, ids, layouts and weights, as one short text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from mindgap.program.graph import Argument, Node, NodeMeta, Program, Ref
from mindgap.program.memo import Memo
from mindgap.records.tensors import TensorMeta

_GAP: Final = "\0"
"""Stands for the number of a value; no literal is written with it."""
_DIGITS: Final = 12  # bytes: two of a million programs share a fingerprint with a chance of 1e-17


def fingerprint(program: Program) -> str:
    """24 hex digits from operators, wiring, literals, shapes and dtypes.

    Values are numbered in the order in which they are first used, so renumbering changes nothing; weights count
    by shape and dtype only, so one architecture drawn from two seeds, or under two names, is one program.
    """
    numbers = _numbered(program)
    constants = sorted((c for c in program.constants if c.id in numbers), key=lambda c: numbers[c.id])
    lines = [
        *(f"input {numbers[item.id]} {_meta(item.meta)}" for item in program.inputs),
        *(f"constant {numbers[constant.id]} {_meta(constant.meta)}" for constant in constants),
        *(f"{numbers[node.id]} {_call(node).with_numbers(numbers)}" for node in program.nodes),
        f"outputs {_Text.of(program.outputs, named=False).with_numbers(numbers)}",
    ]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=_DIGITS).hexdigest()


def _numbered(program: Program) -> dict[int, int]:
    """Inputs in their order, then constants and nodes as they are first used."""
    numbers = {item.id: index for index, item in enumerate(program.inputs)}
    for node in program.nodes:
        for identity in (*_call(node).references, node.id):
            numbers.setdefault(identity, len(numbers))
    for identity in _Text.of(program.outputs, named=False).references:
        numbers.setdefault(identity, len(numbers))
    return numbers


@dataclass(frozen=True, slots=True)
class _Text:
    """Arguments in writing, in pieces: between two of them stands the number of a value."""

    pieces: tuple[str, ...]
    references: tuple[int, ...]

    @classmethod
    def of(cls, value: Argument, named: bool = True, before: str = "", after: str = "") -> _Text:
        found: list[int] = []
        text = _written(value, found, named)
        return cls(tuple(f"{before}{text}{after}".split(_GAP)), tuple(found))

    def with_numbers(self, numbers: dict[int, int]) -> str:
        first, *others = self.pieces
        return first + "".join([f"{numbers[r]}{piece}" for r, piece in zip(self.references, others)])


def _text_of(node: Node) -> _Text:
    args, kwargs = _Text.of(node.args, before=node.op), _Text.of(dict(node.kwargs), after=f" {_meta(node.meta)}")
    joined = (*args.pieces[:-1], args.pieces[-1] + kwargs.pieces[0], *kwargs.pieces[1:])
    return _Text(joined, args.references + kwargs.references)


_call: Final = Memo(_text_of)


def _written(value: Any, found: list[int], named: bool) -> str:
    """An argument in writing; names of outputs are what the author called them and do not count."""
    if isinstance(value, Ref):
        found.append(int(value))
        return f"%{_GAP}"
    if isinstance(value, list | tuple):  # exporters write either for the same argument
        return f"[{','.join([_written(item, found, named) for item in value])}]"
    if isinstance(value, dict):
        items = sorted(value.items()) if named else value.items()
        return f"{{{','.join([(f'{key}=' if named else '') + _written(item, found, named) for key, item in items])}}}"
    return f"{type(value).__name__}:{value!r}"


def _meta(meta: NodeMeta) -> str:
    if isinstance(meta, TensorMeta):
        return f"{meta.dtype}{list(meta.shape)}"
    return "-" if meta is None else f"({','.join(_meta(item) for item in meta)})"
