"""Programs as bytes: msgpack, versioned, and never anything that executes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgpack
import torch

from mindgap.errors import CorruptProgram, FutureProgram, ProgramError
from mindgap.program.graph import Argument, Constant, Input, Node, NodeMeta, Program, Ref, Tensors, digest
from mindgap.program.validate import check_references
from mindgap.records.files import write_whole
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, TensorMeta, with_stride

MAGIC: Final = "mindgap.program"
VERSION: Final = 1

# msgpack extension codes: what JSON-like data cannot hold.
_REF, _TUPLE, _DTYPE, _DEVICE, _LAYOUT, _MEMORY_FORMAT, _COMPLEX, _META = range(1, 9)

_LAYOUTS: Final = {"strided": torch.strided, "sparse_coo": torch.sparse_coo}
_MEMORY_FORMATS: Final = {
    name: getattr(torch, name) for name in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
}


def encode(program: Program) -> bytes:
    """A program as bytes; its constants are named by digest and travel apart."""
    return pack(
        {
            "magic": MAGIC,
            "version": VERSION,
            "name": program.name,
            "inputs": [[i.id, i.name, i.meta] for i in program.inputs],
            "constants": [[c.id, c.name, c.meta, c.digest] for c in program.constants],
            "nodes": [[n.id, n.op, n.args, dict(n.kwargs), n.meta, n.where] for n in program.nodes],
            "outputs": program.outputs,
        }
    )


def decode(data: bytes, where: str = "program") -> Program:
    """The program that `encode` wrote; anything else is refused with the reason."""
    content = _unpack_checked(data, where)
    if not isinstance(content, dict) or content.get("magic") != MAGIC:
        raise CorruptProgram("this is not a mindgap program", where=where)
    version = content.get("version")
    if not isinstance(version, int) or version < 1:
        raise CorruptProgram("the program has no valid version number", where=where)
    if version > VERSION:
        raise FutureProgram(
            f"the program has format {version}; this mindgap reads up to format {VERSION}",
            where=where,
            hint="install a newer mindgap",
        )
    try:
        program = Program(
            name=_typed(content["name"], str),
            inputs=tuple(Input(_typed(i, int), _typed(n, str), _typed(m, TensorMeta))
                         for i, n, m in content["inputs"]),
            constants=tuple(Constant(_typed(i, int), _typed(n, str), _typed(m, TensorMeta), _typed(d, str))
                            for i, n, m, d in content["constants"]),
            nodes=tuple(Node(_typed(i, int), _typed(op, str), _typed(args, tuple), _typed(kwargs, dict),
                             _node_meta(meta), _typed(place, str))
                        for i, op, args, kwargs, meta, place in content["nodes"]),
            outputs=content["outputs"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptProgram("the program is damaged", where=where, cause=str(error)) from error
    check_references(program, where)
    return program


def save(path: Path, program: Program, constants: Tensors) -> None:
    """Write `NAME.mgp` and, when it has constants, `NAME.safetensors` beside it, whole or not at all."""
    from safetensors.torch import save as to_safetensors

    if program.constants:
        needed = {c.digest: constants[c.digest].contiguous() for c in program.constants}
        write_whole(path.with_suffix(".safetensors"), to_safetensors(needed))
    write_whole(path, encode(program))


def load(path: Path) -> tuple[Program, dict[str, torch.Tensor]]:
    """A program file with its constants, each checked against its digest."""
    program = decode(path.read_bytes(), where=str(path))
    if not program.constants:
        return program, {}
    beside = path.with_suffix(".safetensors")
    if not beside.exists():
        raise CorruptProgram(
            f"the constants of {program.name} are missing",
            where=str(path),
            cause=f"there is no {beside.name}",
        )
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = load_file(beside)
    except (SafetensorError, OSError) as error:
        raise CorruptProgram("the constants cannot be read", where=str(beside), cause=str(error)) from error
    constants = {}
    for constant in program.constants:
        if constant.digest not in found:
            raise CorruptProgram(f"constant {constant.name} is missing", where=str(beside))
        tensor = found[constant.digest]
        if tuple(tensor.stride()) != constant.meta.stride:
            tensor = with_stride(tensor, constant.meta.stride)
        if digest(tensor) != constant.digest:
            raise CorruptProgram(f"constant {constant.name} does not have its digest", where=str(beside))
        constants[constant.digest] = tensor
    return program, constants


def pack(value: Any) -> bytes:
    """Arguments, metas and plain data as msgpack; tuples stay tuples."""
    return msgpack.packb(value, default=_extend, strict_types=True, use_bin_type=True)  # type: ignore[no-any-return]


def unpack(data: bytes) -> Any:
    """What `pack` wrote."""
    return msgpack.unpackb(data, ext_hook=_restore, strict_map_key=False, raw=False)


def _unpack_checked(data: bytes, where: str) -> Any:
    try:
        return unpack(data)
    except ProgramError:
        raise
    except Exception as error:  # msgpack raises many types on damaged data
        cause = str(error) or type(error).__name__
        raise CorruptProgram("the program cannot be read", where=where, cause=cause) from error


def _extend(value: Any) -> msgpack.ExtType:
    if isinstance(value, Ref):
        return msgpack.ExtType(_REF, int(value).to_bytes(8, "little", signed=True))
    if isinstance(value, tuple):
        return msgpack.ExtType(_TUPLE, pack(list(value)))
    if isinstance(value, torch.dtype):
        return msgpack.ExtType(_DTYPE, DTYPE_NAMES[value].encode())
    if isinstance(value, torch.device):
        return msgpack.ExtType(_DEVICE, str(value).encode())
    if isinstance(value, torch.layout):
        return msgpack.ExtType(_LAYOUT, str(value).removeprefix("torch.").encode())
    if isinstance(value, torch.memory_format):
        return msgpack.ExtType(_MEMORY_FORMAT, str(value).removeprefix("torch.").encode())
    if isinstance(value, complex):
        return msgpack.ExtType(_COMPLEX, pack([value.real, value.imag]))
    if isinstance(value, TensorMeta):
        return msgpack.ExtType(_META, pack([list(value.shape), value.dtype, list(value.stride)]))
    raise TypeError(f"a program cannot hold a {type(value).__name__}")


def _restore(code: int, data: bytes) -> Argument:
    if code == _REF:
        return Ref(int.from_bytes(data, "little", signed=True))
    if code == _TUPLE:
        return tuple(unpack(data))
    if code == _DTYPE:
        return _known(DTYPES, data, "dtype")
    if code == _DEVICE:
        return torch.device(data.decode())
    if code == _LAYOUT:
        return _known(_LAYOUTS, data, "layout")
    if code == _MEMORY_FORMAT:
        return _known(_MEMORY_FORMATS, data, "memory format")
    if code == _COMPLEX:
        return complex(*unpack(data))
    if code == _META:
        shape, dtype, stride = unpack(data)
        _known(DTYPES, dtype.encode(), "dtype")
        return TensorMeta(tuple(_typed(s, int) for s in shape), dtype, tuple(_typed(s, int) for s in stride))
    raise CorruptProgram(f"the program holds a value of unknown type {code}")


def _known(table: dict[str, Any], name: bytes, what: str) -> Any:
    try:
        return table[name.decode()]
    except (KeyError, UnicodeDecodeError):
        raise CorruptProgram(f"the program names an unknown {what}: {name!r}") from None


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _node_meta(value: Any) -> NodeMeta:
    if value is None or isinstance(value, TensorMeta):
        return value
    return tuple(_node_meta(item) for item in _typed(value, tuple))
