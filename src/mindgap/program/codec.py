"""Programs as bytes: msgpack, versioned, and never anything that executes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgpack
import torch

from mindgap.errors import CorruptProgram, FutureProgram
from mindgap.program.graph import (
    DIGEST_BYTES,
    Argument,
    Constant,
    Input,
    Node,
    NodeMeta,
    Program,
    Ref,
    Tensors,
    check_references,
    digest,
)  # fmt: skip
from mindgap.program.made import Held, Made, Planted, Recipe, Whole, recreate
from mindgap.program.memo import Memo
from mindgap.reading.files import inflate, read_file, refusing
from mindgap.reading.limits import CONTENT_BYTES, FILE_BYTES, NAME
from mindgap.reading.metas import bytes_of, check_room
from mindgap.reading.packed import survey
from mindgap.records.files import write_whole
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, TensorMeta, with_stride

MAGIC: Final = "mindgap.program"
VERSION: Final = 4
"""2 adds whole and planted numbers, 3 packs each node and constant apart, 4 adds lines of source code; older files can
still be read."""
COMPRESSION: Final = 9  # of zlib: a graph of 70 nodes takes 3 KB and half a millisecond

# msgpack extension codes: what JSON-like data cannot hold.
_REF, _TUPLE, _DTYPE, _DEVICE, _LAYOUT, _MEMORY_FORMAT, _COMPLEX, _META = range(1, 9)
_NESTED: Final = (_TUPLE, _COMPLEX, _META)
"""Those that hold packed values themselves."""

_FORMATS: Final = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
_NAMED: Final[dict[int, tuple[str, dict[str, Any]]]] = {
    _DTYPE: ("dtype", DTYPES),
    _LAYOUT: ("layout", {"strided": torch.strided, "sparse_coo": torch.sparse_coo}),
    _MEMORY_FORMAT: ("memory format", {name: getattr(torch, name) for name in _FORMATS}),
}
"""What is written by its name."""


def encode(program: Program, compression: int = COMPRESSION) -> bytes:
    """A program as bytes; constants that cannot be made again are named by digest and travel apart."""
    held: dict[bytes, int] = {}
    content = {
        "name": program.name,
        "inputs": [[i.id, i.name, i.meta] for i in program.inputs],
        "constants": [_constant_row(c, held) if _holds_values(c.made) else _packed_constant(c)
                      for c in program.constants],
        "nodes": [_packed_node(node) for node in program.nodes],
        "outputs": program.outputs,
        "example": [_packed(recipe, i.name, held) for recipe, i in zip(program.example, program.inputs)],
        "held": list(held),
    }  # fmt: skip
    return pack({"magic": MAGIC, "version": VERSION, "content": zlib.compress(pack(content), compression)})


def decode(data: bytes, where: str = "program") -> Program:
    """The program that `encode` wrote; anything else is refused with the reason."""
    with refusing("the program cannot be read", where, CorruptProgram):
        envelope = _unpack_foreign(data)
    if not isinstance(envelope, dict) or envelope.get("magic") != MAGIC:
        raise CorruptProgram("this is not a mindgap program", where=where)
    version = envelope.get("version")
    if not isinstance(version, int) or version < 1:
        raise CorruptProgram("the program has no valid version number", where=where)
    if version > VERSION:
        raise FutureProgram(
            f"the program has format {version}; this mindgap reads up to format {VERSION}",
            where=where,
            hint="install a newer mindgap",
        )
    with refusing("the program is damaged", where, CorruptProgram):
        content = _unpack_foreign(inflate(envelope.get("content"), CONTENT_BYTES))
        program = _program_of(content)
        check_references(program, where)
        check_room([item.meta for item in program.given()], where)
        return program


def _program_of(content: Any) -> Program:
    held = [Held(_typed(values, bytes)) for values in content["held"]]
    program = Program(
        name=_name(content["name"]),
        inputs=tuple(Input(_typed(i, int), _name(n), _typed(m, TensorMeta)) for i, n, m in content["inputs"]),
        constants=tuple(_restored_constant(row) if isinstance(row, bytes) else _constant_of(row, held)
                        for row in content["constants"]),
        nodes=tuple(_restored_node(row) if isinstance(row, bytes) else _node_of(row) for row in content["nodes"]),
        outputs=content["outputs"],
    )  # fmt: skip
    example = zip(content["example"], program.inputs)
    found = tuple(recipe for item, i in example if (recipe := _recipe(item, i.name, held)))
    return replace(program, example=found if len(found) == len(program.inputs) else ())


def _node_row(node: Node) -> list[Any]:
    return [node.id, node.op, node.args, dict(node.kwargs), node.meta, node.where, node.line]


_packed_node: Final = Memo[Node, bytes](lambda n: pack(_node_row(n)))
_packed_constant: Final = Memo[Constant, bytes](lambda constant: pack(_constant_row(constant, {})))


@lru_cache(maxsize=1 << 14)  # variants of one model share most of their nodes
def _restored_node(data: bytes) -> Node:
    return _node_of(_unpack_foreign(data))


@lru_cache(maxsize=1 << 14)
def _restored_constant(data: bytes) -> Constant:
    return _constant_of(_unpack_foreign(data), ())


def _node_of(row: Any) -> Node:
    i, op, args, kwargs, meta, where, line = row if len(row) > 6 else (*row, "")  # format 4 added the line
    named = {_keyword(key): value for key, value in _typed(kwargs, dict).items()}
    return Node(_typed(i, int), _name(op), _typed(args, tuple), named, _node_meta(meta), _name(where), _name(line))


def _constant_row(constant: Constant, held: dict[bytes, int]) -> list[Any]:
    made = _packed(constant.made, constant.name, held)
    return [constant.id, constant.name, constant.meta, bytes.fromhex(constant.digest), made]


def _constant_of(row: Any, held: Sequence[Held]) -> Constant:
    i, name, meta, identity, made = row
    recipe = _recipe(made, _name(name), held)
    if len(_typed(identity, bytes)) != DIGEST_BYTES:
        raise ValueError(f"the digest of {name} has {len(identity)} bytes")
    return Constant(_typed(i, int), name, _typed(meta, TensorMeta), identity.hex(), recipe)


def save(path: Path, program: Program, constants: Tensors) -> None:
    """Write `NAME.mgp` and, for constants that cannot be made again, `NAME.safetensors` beside it."""
    kept = {c.digest: constants[c.digest].contiguous() for c in program.constants if c.made is None}
    if kept:
        from safetensors.torch import save as to_safetensors

        write_whole(path.with_suffix(".safetensors"), to_safetensors(kept))
    write_whole(path, encode(program))


def load(path: Path) -> tuple[Program, dict[str, torch.Tensor]]:
    """A program file with its constants, each made again or read, and checked against its digest."""
    program = decode(read_file(path, FILE_BYTES, CorruptProgram), where=str(path))
    return program, load_constants(program, path)


def load_constants(program: Program, path: Path, at_hand: Tensors = MappingProxyType({})) -> dict[str, torch.Tensor]:
    """The constants of the program at `path`, by digest; those in `at_hand` are used without checking."""
    kept = [c for c in program.constants if c.made is None]
    found = _read_kept(program, kept, path) if kept else {}
    constants: dict[str, torch.Tensor] = {}
    for constant in program.constants:
        if constant.digest in constants:
            continue
        if constant.digest in at_hand:
            constants[constant.digest] = at_hand[constant.digest]
            continue
        if constant.made is not None:
            tensor = recreate(constant.made, constant.meta)
        elif constant.digest in found:
            tensor = found[constant.digest]
        else:
            raise CorruptProgram(f"constant {constant.name} is missing", where=str(path))
        with refusing(f"constant {constant.name} cannot be read", path, CorruptProgram):
            if tuple(tensor.stride()) != constant.meta.stride:
                tensor = with_stride(tensor, constant.meta.stride)
            if digest(tensor) != constant.digest:
                raise ValueError("it does not have its digest")
        constants[constant.digest] = tensor
    return constants


def weights_file(path: Path, identity: str) -> Path:
    """Where a store keeps a constant of the program at `path`: shared by hash between programs."""
    return path.parent.parent / "weights" / f"{identity}.safetensors"


def _read_kept(program: Program, kept: Sequence[Constant], path: Path) -> dict[str, torch.Tensor]:
    """Constants from the file beside the program, or from a store's files by hash."""
    beside = path.with_suffix(".safetensors")
    shared = {weights_file(path, constant.digest) for constant in kept}
    files = [beside] if beside.exists() else sorted(file for file in shared if file.exists())
    if not files:
        raise CorruptProgram(
            f"the constants of {program.name} are missing", where=str(path), cause=f"there is no {beside.name}"
        )
    from safetensors.torch import load_file

    found: dict[str, torch.Tensor] = {}
    for file in files:
        with refusing("the constants cannot be read", file, CorruptProgram):
            found |= load_file(file)
    return found


def _packed(recipe: Recipe | None, name: str, held: dict[bytes, int]) -> Any:
    """A recipe in a few bytes: a number for held values, which are listed once, or what makes the numbers."""
    if isinstance(recipe, Held):
        return held.setdefault(recipe.values, len(held))
    if isinstance(recipe, Made):
        return [recipe.seed, "" if recipe.stream == name else recipe.stream, recipe.low, recipe.high]
    if isinstance(recipe, Whole):
        return ["whole", recipe.seed, recipe.stream, recipe.low, recipe.high]
    if isinstance(recipe, Planted):
        return ["planted", _packed(recipe.ground, name, held), recipe.seed, list(recipe.values), recipe.every]
    return None


def _holds_values(recipe: Recipe | None) -> bool:
    return isinstance(recipe.ground if isinstance(recipe, Planted) else recipe, Held)


def _recipe(packed: Any, name: str, held: Sequence[Held]) -> Recipe | None:
    if packed is None:
        return None
    if isinstance(packed, int):
        return held[packed]
    if packed[0] == "whole":
        _, seed, stream, low, high = packed
        return Whole(_typed(seed, int), _typed(stream, str), _typed(low, int), _typed(high, int))
    if packed[0] == "planted":
        _, ground, seed, values, every = packed
        below = _recipe(ground, name, held)
        if below is None or isinstance(below, Planted):
            raise TypeError("special values are planted in one recipe")
        numbers = tuple(_typed(value, int | float) for value in values)
        return Planted(below, _typed(seed, int), numbers, _typed(every, int))
    seed, stream, low, high = packed
    return Made(_typed(seed, int), _typed(stream, str) or name, _typed(low, float), _typed(high, float))


def pack(value: Any) -> bytes:
    """Arguments, metas and plain data as msgpack; tuples stay tuples."""
    return msgpack.packb(value, default=_extend, strict_types=True, use_bin_type=True)  # type: ignore[no-any-return]


def unpack(data: bytes) -> Any:
    """What `pack` wrote."""
    return msgpack.unpackb(data, ext_hook=_restore, strict_map_key=False, raw=False)


def _unpack_foreign(data: bytes) -> Any:
    """The same for bytes of somebody else: nothing is built before depth and counts are known."""
    survey(data, _NESTED)
    return unpack(data)


def _extend(value: Any) -> msgpack.ExtType:
    if isinstance(value, Ref):
        return msgpack.ExtType(_REF, int(value).to_bytes(8, "little", signed=True))
    if isinstance(value, tuple):
        return msgpack.ExtType(_TUPLE, pack(list(value)))
    if isinstance(value, torch.dtype):
        return msgpack.ExtType(_DTYPE, DTYPE_NAMES[value].encode())
    if isinstance(value, torch.device):
        return msgpack.ExtType(_DEVICE, str(value).encode())
    if isinstance(value, torch.layout | torch.memory_format):
        code = _LAYOUT if isinstance(value, torch.layout) else _MEMORY_FORMAT
        return msgpack.ExtType(code, str(value).removeprefix("torch.").encode())
    if isinstance(value, complex):
        return msgpack.ExtType(_COMPLEX, pack([value.real, value.imag]))
    if isinstance(value, TensorMeta):
        return msgpack.ExtType(_META, _packed_meta(value))
    raise TypeError(f"a program cannot hold a {type(value).__name__}")


def _restore(code: int, data: bytes) -> Argument:
    if code == _REF:
        return Ref(int.from_bytes(data, "little", signed=True))
    if code == _TUPLE:
        return tuple(unpack(data))
    if code == _DEVICE:
        return torch.device(data.decode())
    if code in _NAMED:
        return _known(*_NAMED[code], data)
    if code == _COMPLEX:
        return complex(*unpack(data))
    if code == _META:
        return _restored_meta(data)
    raise CorruptProgram(f"the program holds a value of unknown type {code}")


@lru_cache(maxsize=1 << 14)  # programs name the same few shapes again and again
def _packed_meta(meta: TensorMeta) -> bytes:
    return pack([list(meta.shape), meta.dtype, list(meta.stride)])


@lru_cache(maxsize=1 << 14)
def _restored_meta(data: bytes) -> TensorMeta:
    shape, dtype, stride = unpack(data)
    _known("dtype", DTYPES, dtype.encode())
    meta = TensorMeta(tuple(_typed(s, int) for s in shape), dtype, tuple(_typed(s, int) for s in stride))
    bytes_of(meta)
    return meta


def _known(what: str, table: dict[str, Any], name: bytes) -> Any:
    try:
        return table[name.decode()]
    except (KeyError, UnicodeDecodeError):
        raise CorruptProgram(f"the program names an unknown {what}: {name!r}") from None


def _typed(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"expected {getattr(kind, '__name__', kind)}, found {type(value).__name__}")
    return value


def _name(value: Any) -> str:
    name: str = _typed(value, str)
    if len(name) > NAME:
        raise ValueError(f"a name has {len(name)} characters: {name[:40]!r}...")
    return name


def _keyword(value: Any) -> str:
    """The name of an argument, which may end up in source text."""
    name = _name(value)
    if not name.isidentifier():
        raise ValueError(f"an argument is called {name[:40]!r}")
    return name


def _node_meta(value: Any) -> NodeMeta:
    if value is None or isinstance(value, TensorMeta):
        return value
    return tuple(_node_meta(item) for item in _typed(value, tuple))
