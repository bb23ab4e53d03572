"""Whether the container types in a call spec of torch.export are harmless to rebuild.

`treespec_loads` (read at torch 2.13, torch/utils/_pytree.py) looks the type of each container up by name; the context
of a container is JSON inside JSON, in which an enumeration or the factory of a defaultdict names a module to import.
So a spec is parsed as torch parses it, twice, and what comes out may hold known types and plain keys only.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mindgap.reading.limits import DEPTH

_SEQUENCES: Final = ("builtins.tuple", "builtins.list", "torch.fx.immutable_collections.immutable_list")
_MAPPINGS: Final = (
    "builtins.dict",
    "collections.OrderedDict",
    "torch.fx.immutable_collections.immutable_dict",
)
_KNOWN: Final = (*_SEQUENCES, *_MAPPINGS, "collections.deque")


def danger_of_spec(text: str) -> str | None:
    """Why a spec is not plain containers; None when it is."""
    try:
        parsed = json.loads(text)
        if not isinstance(parsed, list) or len(parsed) != 2:
            return "a call spec is not one"
        return _danger_of_container(parsed[1], 0)
    except (ValueError, RecursionError):
        return "a call spec is not one"


def _danger_of_container(spec: Any, depth: int) -> str | None:
    if not isinstance(spec, dict) or set(spec) != {"type", "context", "children_spec"} or depth > DEPTH:
        return "a call spec is not one"
    kind, context, children = spec["type"], spec["context"], spec["children_spec"]
    if not isinstance(children, list):
        return "a call spec is not one"
    if kind is None:
        return None if context is None and not children else "a call spec is not one"
    if kind not in _KNOWN:
        return f"a call spec holds a {str(kind)[:60]!r}, which is no plain container"
    if not isinstance(context, str) or not _is_plain(json.loads(context), 0):
        return f"a call spec imports modules by name: {str(context)[:60]!r}"
    found = (_danger_of_container(child, depth + 1) for child in children)
    return next((danger for danger in found if danger is not None), None)


def _is_plain(value: Any, depth: int) -> bool:
    """Keys of a dictionary and the like: no objects, which could be enumerations."""
    if isinstance(value, list):
        return depth < DEPTH and all(_is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, str | int | float)
