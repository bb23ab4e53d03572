"""What a program computes, without its names, ids, layouts and weights, as one short text."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from mindgap.program.graph import Argument, Node, NodeMeta, Program, Ref, references
from mindgap.records.tensors import TensorMeta

_DIGITS: Final = 12  # bytes: two of a million programs share a fingerprint with a chance of 1e-17


def fingerprint(program: Program) -> str:
    """24 hex digits from operators, wiring, literals, shapes and dtypes.

    Values are numbered in the order in which they are first used, so renumbering changes nothing; weights count
    by shape and dtype only, so one architecture drawn from two seeds, or under two names, is one program.
    """
    numbers = _numbered(program)
    content = hashlib.blake2b(digest_size=_DIGITS)
    for item in program.inputs:
        content.update(f"input {numbers[item.id]} {_meta(item.meta)}\n".encode())
    for constant in sorted((c for c in program.constants if c.id in numbers), key=lambda c: numbers[c.id]):
        content.update(f"constant {numbers[constant.id]} {_meta(constant.meta)}\n".encode())
    for node in program.nodes:
        content.update(f"{_call(node, numbers)} {_meta(node.meta)}\n".encode())
    content.update(f"outputs {_argument(program.outputs, numbers, named=False)}".encode())
    return content.hexdigest()


def _numbered(program: Program) -> dict[int, int]:
    """Inputs in their order, then constants and nodes as they are first used."""
    numbers = {item.id: index for index, item in enumerate(program.inputs)}
    for node in program.nodes:
        for identity in (*references(_sorted(node)), node.id):
            numbers.setdefault(identity, len(numbers))
    for identity in _refs(program.outputs):
        numbers.setdefault(identity, len(numbers))
    return numbers


def _refs(outputs: Argument) -> list[int]:
    return references(Node(-1, "", (outputs,)))


def _sorted(node: Node) -> Node:
    return Node(node.id, node.op, node.args, dict(sorted(node.kwargs.items())))


def _call(node: Node, numbers: dict[int, int]) -> str:
    return f"{numbers[node.id]} {node.op}{_argument(node.args, numbers)}{_argument(dict(node.kwargs), numbers)}"


def _argument(value: Any, numbers: dict[int, int], named: bool = True) -> str:
    """An argument in writing; names of outputs are what the author called them and do not count."""
    if isinstance(value, Ref):
        return f"%{numbers[int(value)]}"
    if isinstance(value, list | tuple):  # exporters write either for the same argument
        return f"[{','.join(_argument(item, numbers, named) for item in value)}]"
    if isinstance(value, dict):
        items = sorted(value.items()) if named else value.items()
        return f"{{{','.join((f'{key}=' if named else '') + _argument(item, numbers, named) for key, item in items)}}}"
    return f"{type(value).__name__}:{value!r}"


def _meta(meta: NodeMeta) -> str:
    if isinstance(meta, TensorMeta):
        return f"{meta.dtype}{list(meta.shape)}"
    return "-" if meta is None else f"({','.join(_meta(item) for item in meta)})"
