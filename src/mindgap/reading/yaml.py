"""YAML of other people: text in lists and maps, never more than a limit, and nothing that expands.

Numbers and dates stay text, tags and anchors are refused: nothing in a file can become an object or grow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mindgap.reading.files import refusing
from mindgap.reading.limits import ITEMS, NAME

DEPTH: Final = 8
"""Lists in maps in lists; a list of operators has 4."""


def parse_yaml(content: bytes, name: str, most_items: int = ITEMS) -> Any:
    """The one document in it, as text, lists and dicts; raises CorruptFile for anything else."""
    with refusing(f"{name} is not YAML that mindgap reads", Path(name)):
        return _document(content, most_items)


def _document(content: bytes, most: int) -> Any:
    import yaml  # not at the top: workers of a foreign interpreter do without it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    open_: list[Any] = []
    keys: list[str | None] = []
    found: list[Any] = []

    def add(value: Any) -> None:
        if not open_:
            found.append(value)
        elif isinstance(open_[-1], list):
            open_[-1].append(value)
        elif keys[-1] is None:
            if not isinstance(value, str):
                raise ValueError("a key is not text")
            keys[-1] = value
        else:
            if keys[-1] in open_[-1]:
                raise ValueError(f"the key {keys[-1][:40]!r} stands twice in one map")
            open_[-1][keys[-1]] = value
            keys[-1] = None

    for count, event in enumerate(yaml.parse(content.decode(), Loader=loader)):
        if count > most:
            raise ValueError("it holds too many values")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ValueError("it has anchors or aliases")
        if getattr(event, "tag", None) not in (None, "!"):
            raise ValueError(f"it has the tag {str(event.tag)[:40]!r}")
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > NAME:
                raise ValueError("a text in it is too long")
            add(event.value)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            if len(open_) >= DEPTH:
                raise ValueError(f"it is nested deeper than {DEPTH}")
            value: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            add(value)
            open_.append(value)
            keys.append(None)
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            open_.pop()
            keys.pop()
        elif isinstance(event, yaml.DocumentStartEvent) and found:
            raise ValueError("it holds more than one document")
    if not found:
        raise ValueError("it is empty")
    return found[0]
