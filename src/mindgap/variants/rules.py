"""What an operator gives, learned by running it once: the memo table of shape rules.

A rule is looked up by operator, interned input values and literals. On a miss the operator runs on tensors without
storage, and then, as long as they are small, on real samples of its inputs on the CPU: that finds what the sketch
does not reject (no kernel for a dtype, an index out of bounds) and how large the result is. A refusal is a rule too.
"""

from __future__ import annotations

import contextlib
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch

from mindgap.errors import CorruptProgram, MindgapError
from mindgap.program import codec, ops
from mindgap.program.graph import Argument, Ref
from mindgap.program.inputs import copy_of
from mindgap.program.operators import Terms, traits
from mindgap.records.files import write_whole
from mindgap.records.tensors import DTYPE_NAMES, TensorMeta
from mindgap.variants.quarantine import Quarantine
from mindgap.variants.values import Range, Value, of_tensor, value
from mindgap.variants.walk import substitute_all

Result: TypeAlias = "Value | tuple[Result, ...] | None"
"""What a node gives: a tensor, several, or something that is not a tensor."""

MOST_ELEMENTS: Final = 1 << 22
"""A larger result is refused: a variant should not be orders of magnitude slower than its base."""
_SURE_SMALL: Final = 2048  # elements of all inputs: even their outer product is no burden
_UNCHECKED: Final = re.compile(r"^aten\.(lstm|gru|rnn_|native_|quantized_|_(?!_|assert|upsample|softmax|log_softmax))")
"""Operators that trust their arguments: wrong sizes are not refused but read and write foreign memory.

Private ones rely on their public callers: `_weight_norm` writes as many norms as the weight has rows into a tensor of
the size that it was given.
"""
_MOST_REAL: Final = 1 << 18  # elements up to which an operator really runs
_MOST_RULES: Final = 60_000  # of the young generation: about 60 MB
MAGIC: Final = "mindgap.rules/1"


class Refused(Exception):
    """An edit cannot be made: the reason in one line."""


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """For tiny operators: threads that wait for each other cost more than they give, most of all on a busy machine."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class RuleTable:
    """Rules by what they depend on; old ones are forgotten, so that the table stays bounded."""

    def __init__(self, quarantine: Quarantine | None = None) -> None:
        self._quarantine = quarantine
        self._young: dict[Any, Any] = {}
        self._old: dict[Any, Any] = {}
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def evaluate(
        self, op: str, args: tuple[Argument, ...], kwargs: Mapping[str, Argument], known: Callable[[int], Result]
    ) -> Result:
        """What the operator gives for these values; raises Refused when it rejects them."""
        if op == "operator.getitem":
            return _item(known(args[0]), args[1])
        viewed = known(args[0]) if _is_view(op) and type(args[0]) is Ref else None
        look_up = known if viewed is None else lambda ref: _blank(known(ref))
        key: tuple[Any, ...] = (op, *[_key(item, look_up) for item in args])
        if kwargs:
            key += tuple((name, _key(item, look_up)) for name, item in kwargs.items())
        found = self._young.get(key, self)
        if found is self:
            found = self._old.get(key, self)
            if found is self:
                self.misses += 1
                found = self._learn_once(key, op, args, kwargs, look_up)
            if len(self._young) >= _MOST_RULES:
                self._young, self._old = {}, self._young
            self._young[key] = found
        else:
            self.hits += 1
        if type(found) is str:
            raise Refused(found)
        return found if viewed is None else _with_numbers(found, viewed)

    def sketched(
        self, op: str, args: tuple[Argument, ...], kwargs: Mapping[str, Argument], known: Callable[[int], Result]
    ) -> Result:
        """What the operator would give as far as shapes and dtypes tell; Refused when they are wrong already."""
        inputs: list[Value] = []

        def note(ref: Ref) -> None:
            found = known(ref)
            if not isinstance(found, Value):
                raise Refused("an argument is not a tensor")
            inputs.append(found)

        substitute_all(args, kwargs, note)
        if _UNCHECKED.match(op) or traits(op).traps or op == "operator.getitem":
            raise Refused("the operator does not check its arguments")
        try:
            with torch.no_grad():
                sketch = _sketch(ops.resolve(op), args, kwargs, known)
        except Refused:
            raise
        except Exception as error:  # whatever an operator raises is its way of refusing
            raise Refused(str(error)[:160]) from error
        if sketch is None:
            raise Refused("the operator has no shape rule")
        return _guess(sketch, inputs)

    def _learn_once(
        self,
        key: tuple[Any, ...],
        op: str,
        args: tuple[Argument, ...],
        kwargs: Mapping[str, Argument],
        known: Callable[[int], Result],
    ) -> Result | str:
        if self._quarantine is None:
            return _learn(op, args, kwargs, known)
        call = repr(key)
        if call in self._quarantine:
            return "this call crashed a process before"
        self._quarantine.enter(call)
        try:
            return _learn(op, args, kwargs, known)
        finally:
            self._quarantine.leave()

    def save(self, path: Path) -> None:
        """Write the table, so that another process need not learn it again."""
        numbers: dict[Value, int] = {}

        def plain(item: Any) -> Any:
            if isinstance(item, Value):
                return ("value", numbers.setdefault(item, len(numbers)))
            return tuple(plain(part) for part in item) if type(item) is tuple else item

        rules = [[plain(key), plain(result)] for table in (self._old, self._young) for key, result in table.items()]
        values = [[v.meta, list(v.range)] for v in numbers]
        content = codec.pack({"values": values, "rules": rules})
        header = {"magic": MAGIC, "torch": str(torch.__version__), "content": zlib.compress(content, 1)}
        write_whole(path, codec.pack(header))

    def load(self, path: Path) -> bool:
        """Read a table; False when it was learned with another torch, whose rules are others."""
        try:
            header = codec.unpack(path.read_bytes())
            if header["magic"] != MAGIC:
                raise ValueError("it is not a table of rules")
            if header["torch"] != str(torch.__version__):
                return False
            content = codec.unpack(zlib.decompress(header["content"]))
            values = [value(meta, Range(*span)) for meta, span in content["values"]]
        except (MindgapError, OSError, LookupError, TypeError, ValueError, zlib.error) as error:
            raise CorruptProgram("the table of rules cannot be read", where=str(path), cause=str(error)) from error

        def restore(item: Any) -> Any:
            if type(item) is tuple:
                if len(item) == 2 and item[0] == "value":
                    return values[item[1]]
                return tuple(restore(part) for part in item)
            return item

        self._old.update((restore(key), restore(result)) for key, result in content["rules"])
        return True


@cache
def _is_view(op: str) -> bool:
    """Whether one rule serves all ranges of numbers."""
    return traits(op).view and not ops.declares_writes(op)


def _blank(item: Result) -> Result:
    return item.blank if isinstance(item, Value) else item


def _with_numbers(found: Result, source: Result) -> Result:
    """What a view gives, with the numbers of what it looks at."""
    if isinstance(found, tuple):
        return tuple(_with_numbers(item, source) for item in found)
    return value(found.meta, source.range) if isinstance(found, Value) and isinstance(source, Value) else found


def _key(item: Argument, known: Callable[[int], Result]) -> Any:
    """An argument as part of a key: 1, 1.0 and True stay apart, and so do 0.0 and -0.0."""
    kind = type(item)
    if kind is Ref:
        return known(item)
    if kind is list or kind is tuple:
        return (kind.__name__, *[_key(part, known) for part in item])
    if kind is float:
        return ("float", repr(item))
    return ("bool", item) if kind is bool else item


def _item(found: Result, index: Argument) -> Result:
    if not isinstance(found, tuple) or not isinstance(index, int) or not -len(found) <= index < len(found):
        raise Refused("there is no such item")
    return found[index]


def _learn(
    op: str, args: tuple[Argument, ...], kwargs: Mapping[str, Argument], known: Callable[[int], Result]
) -> Result | str:
    """Run the operator; the result, or why it is refused."""
    if _UNCHECKED.match(op):
        return "the operator does not check its arguments"
    inputs: list[Value] = []

    def note(ref: Ref) -> None:
        found = known(ref)
        if not isinstance(found, Value):
            raise Refused("an argument is not a tensor")
        inputs.append(found)

    try:
        substitute_all(args, kwargs, note)
        if traits(op).traps and any(map(_holds_smallest, inputs)):
            return "the processor traps on such a division"
        function = ops.resolve(op)
        total = sum(item.numel for item in inputs)
        with torch.no_grad(), one_thread():
            if inputs and _is_view(op):
                sketch = _sketch(function, args, kwargs, known)
                if sketch is not None:
                    return _guess(sketch, inputs[:1])
            if (total > _SURE_SMALL and (total > _MOST_REAL or _bound(op, inputs) > _MOST_REAL)) or not inputs:
                sketch = _sketch(function, args, kwargs, known)
                if sketch is not None and (total > _MOST_REAL or _elements(sketch) > _MOST_REAL):
                    return _guess(sketch, inputs)
            copied = bool(ops.mutated_arguments(op))
            return _result(_call(function, args, kwargs, lambda ref: _sample(known(ref), copied)))
    except Refused as refusal:
        return str(refusal)
    except Exception as error:  # whatever an operator raises is its way of refusing
        text = str(error).strip()
        return (text.splitlines()[0] if text else type(error).__name__)[:160]


def _holds_smallest(item: Value) -> bool:
    whole = not (item.is_float or item.dtype.is_complex or item.dtype is torch.bool)
    return whole and item.range.low < 0 and item.range.low <= torch.iinfo(item.dtype).min


def _bound(op: str, inputs: list[Value]) -> int:
    """How many elements a result has at most."""
    known = traits(op)
    if known.grows:
        return _MOST_REAL + 1
    if known.terms is Terms.INNER and known.operands[-1] < len(inputs):
        first, second = (inputs[position] for position in known.operands)
        shared = max(1, first.shape[-1]) if first.shape else 1
        return (first.numel // shared) * max(1, second.numel // shared)
    rank = max(item.rank for item in inputs)
    sizes = [1] * rank
    for item in inputs:
        for index, size in enumerate(item.shape, start=rank - item.rank):
            sizes[index] = max(sizes[index], size)
    return math.prod(sizes) if known.terms is not Terms.KERNEL else inputs[0].numel


def _sample(item: Result, copied: bool) -> torch.Tensor:
    assert isinstance(item, Value)
    return copy_of(item.sample()) if copied else item.sample()


def _sketch(
    function: Callable[..., Any],
    args: tuple[Argument, ...],
    kwargs: Mapping[str, Argument],
    known: Callable[[int], Result],
) -> Any:
    """The result without storage, or None when the operator has no such kernel; refuses what is too large."""

    def look_up(ref: int) -> torch.Tensor:
        item = known(ref)
        assert isinstance(item, Value)
        return item.sketch()

    try:
        found = _call(function, args, kwargs, look_up, torch.device("meta"))
    except NotImplementedError:
        return None
    if _elements(found) > MOST_ELEMENTS:
        raise Refused("the result is too large")
    return found


def _call(
    function: Callable[..., Any],
    args: tuple[Argument, ...],
    kwargs: Mapping[str, Argument],
    look_up: Callable[[int], torch.Tensor],
    device: torch.device | None = None,
) -> Any:
    given, named = substitute_all(args, kwargs, look_up)
    if device is not None and any(a.name == "device" for a in function._schema.arguments):  # type: ignore[attr-defined]
        named["device"] = device
    return function(*given, **named)


def _elements(found: Any) -> int:
    if isinstance(found, torch.Tensor):
        return found.numel()
    return sum(map(_elements, found)) if isinstance(found, list | tuple) else 0


def _result(found: Any) -> Result:
    if isinstance(found, torch.Tensor):
        if found.numel() > MOST_ELEMENTS:
            raise Refused("the result is too large")
        return of_tensor(found)
    if isinstance(found, list | tuple):
        return tuple(_result(item) for item in found)
    if found is None:
        return None
    raise Refused("the result is not a tensor")


def _guess(found: Any, inputs: list[Value]) -> Result:
    """For large tensors: the sketch's shape, and the widest range of the inputs."""
    if isinstance(found, torch.Tensor):
        if found.dtype not in DTYPE_NAMES:
            raise Refused(f"no program holds {found.dtype}")
        meta = TensorMeta(tuple(found.shape), DTYPE_NAMES[found.dtype], tuple(found.stride()))
        if len(inputs) == 1 and inputs[0].dtype is found.dtype:
            return value(meta, inputs[0].range)
        floating = [item.range for item in inputs if item.is_float]
        if not (found.is_floating_point() or found.is_complex()):
            return value(meta, Range(0, 1))
        low = min((span.low for span in floating), default=-1.0)
        high = max((span.high for span in floating), default=1.0)
        worst = max(floating, key=lambda span: span.poison, default=Range(0.0, 0.0))
        return value(meta, Range(float(low), float(high), worst.poison, worst.kind))
    return tuple(_guess(item, inputs) for item in found) if isinstance(found, list | tuple) else None
