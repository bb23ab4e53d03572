"""What classes of a package declare, read from their text: importing them would import torch, which costs seconds."""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


@functools.cache
def declared(package: str, attribute: str) -> tuple[Mapping[str, Any], ...]:
    """The literal attributes of every class in a package that sets `attribute`; of a dict its keys.

    What is computed is left out, except the keys of a dict that is made from another one key by key.
    """
    found = importlib.util.find_spec(package)
    folders = (found.submodule_search_locations if found is not None else None) or []
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    tables = {name: value for tree in trees for name, value in _assigned(tree.body) if isinstance(value, ast.Dict)}
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    every = [{name: _literal(value, tables) for name, value in _assigned(node.body)} for node in classes]
    return tuple(
        {name: value for name, value in items.items() if value is not None}
        for items in every
        if items.get(attribute) is not None
    )


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            value = node.value  # type: ignore[attr-defined]
            if isinstance(target, ast.Name) and value is not None:
                yield target.id, value


def _literal(value: ast.expr, tables: Mapping[str, ast.Dict]) -> Any:
    """The value, or None when only running the code would tell it."""
    if isinstance(value, ast.DictComp) and isinstance(call := value.generators[0].iter, ast.Call):
        owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "items" else None
        value = tables.get(owner.id, value) if isinstance(owner, ast.Name) else value
    try:
        if isinstance(value, ast.Dict):
            keys: list[Any] = []
            for key, item in zip(value.keys, value.values):  # `**other` has no key: its own are taken
                keys += (_literal(item, tables) or ()) if key is None else [ast.literal_eval(key)]
            return tuple(keys)
        return ast.literal_eval(value)
    except ValueError:
        return None
