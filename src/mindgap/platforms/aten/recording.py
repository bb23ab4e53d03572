"""A runtime's own calls as lines of a script, with torch and the runtime alone: a script can hold this text.

Each function of the runtime is wrapped; a call from outside whose results are arrays becomes a line. What has no line,
such as an operator between two arrays, leaves a value without a name, and a script that would need it is not written.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch


class Recorder:
    """Speaks with the runtime through its `words`, made after its functions were wrapped."""

    def __init__(self, homes: dict[str, Any], kinds: dict[str, Any], made: str, array: type) -> None:
        self.lines: list[str] = []
        self.results: list[str] = []
        self.words: Callable[..., Any] | None = None
        self._given: list[torch.Tensor] = []
        self._kinds = kinds
        self._array = array
        self._made = made
        self._named: list[tuple[object, str]] = []  # the values stay alive, so that `is` tells them apart
        self._depth = 0
        for prefix, home in homes.items():
            for name in dir(home):
                found = getattr(home, name)
                if name[0] != "_" and callable(found) and not isinstance(found, type | types.ModuleType):
                    setattr(home, name, self._wrapped(found, f"{prefix}.{name}"))

    def record(self, graph: Callable[[Callable[..., Any]], Any], inputs: Sequence[torch.Tensor]) -> list[str]:
        """The lines for a program, from the tuple `inputs` to the list `actual`."""
        self._given = list(inputs)
        graph(self._say).run(inputs)
        return [*self.lines, f"actual = [{', '.join(self.results)}]"]

    def _say(self, word: str, *args: Any) -> Any:
        assert self.words is not None
        if word == "tensor":
            self.results.append(f"torch.tensor({self._text(args[0])}.tolist(), dtype={args[1]})")
        found = self.words(word, *args)
        if word == "array":
            index = next(i for i, given in enumerate(self._given) if given is args[0])
            self._line(found, f"{self._made}(inputs[{index}].tolist(), {self._text(found.dtype)})")
        elif word == "cast" and found is not args[0]:
            self._line(found, f"{self._text(args[0])}.astype({self._text(found.dtype)})")
        elif word == "full" and args[0] == () and self._named[-1][0] is not found:
            self._line(found, f"{self._made}({args[1]!r}, {self._text(found.dtype)})")
        return found

    def _wrapped(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                found = function(*args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0 and isinstance(found, self._array):
                given = [*map(self._text, args), *(f"{key}={self._text(value)}" for key, value in kwargs.items())]
                self._line(found, f"{name}({', '.join(given)})")
            return found

        return call

    def _line(self, value: Any, text: str) -> None:
        self._named.append((value, f"v{len(self._named)}"))
        self.lines.append(f"{self._named[-1][1]} = {text}")

    def _text(self, value: Any) -> str:
        if isinstance(value, self._array):
            return next(name for known, name in reversed(self._named) if known is value)  # StopIteration: no line
        if isinstance(value, tuple | list):
            inner = "".join(f"{self._text(item)}, " for item in value)
            return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
        if isinstance(value, bool | int | float | str | None | slice):
            return repr(value)
        return next(text for text, kind in self._kinds.items() if kind is value or bool(kind == value))
