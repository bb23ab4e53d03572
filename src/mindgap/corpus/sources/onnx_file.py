"""`model.onnx`: a file that runtimes take as it is, with weights beside it or inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus import files
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.library import import_library
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import ModelSource, register
from mindgap.errors import CorruptModel, ModelError
from mindgap.reading.files import read_file, refusing
from mindgap.reading.limits import TENSOR_BYTES
from mindgap.records.source import Source

FILE_BYTES: Final = 2 << 30
"""Of the graph and what lies inside it: protobuf itself takes no more."""
MOST_NODES: Final = 1_000_000
LARGEST_INPUT: Final = 1 << 28
"""Elements of an input that is made from the seed."""
UNKNOWN_SIZE: Final = 2
"""For a dimension that the file leaves open: the smallest that is no scalar in disguise."""


@register
class OnnxModelFile(ModelSource):
    """An ONNX model; nothing in it is executed, and its external data stay inside its directory."""

    forms = ("model.onnx",)

    def claims(self, spec: str, directory: Path) -> bool:
        return spec.endswith(".onnx")

    def load(self, source: Source) -> Loaded:
        onnx = import_library("onnx", "onnx")
        path = files.resolve(source.spec, source.directory).absolute()
        if source.dtype is not None:
            raise ModelError("an ONNX file has its own precision", hint="leave --dtype out")
        with refusing(f"{path.name} is not an ONNX model", path, CorruptModel):
            model = onnx.ModelProto.FromString(read_file(path, FILE_BYTES, CorruptModel))
            if not model.graph.node or not model.graph.output:
                raise CorruptModel(f"{path.name} is not an ONNX model", cause="its graph is empty")
            if len(model.graph.node) > MOST_NODES:
                raise CorruptModel(f"{path.name} is too large", cause=f"more than {MOST_NODES} nodes")
            refuse_outside(model, path)
            inputs, open_sizes = _inputs(model, source.seed)
        weights = sum(_count(tensor.dims) for tensor in model.graph.initializer)
        nodes = len(model.graph.node)
        return Loaded(
            path.name, (), inputs, seed=source.seed, file=str(path), open_sizes=open_sizes, nodes=nodes,
            parameters=weights,
        )  # fmt: skip


def refuse_outside(model: Any, path: Path) -> None:
    """Raises CorruptModel where weights are not a plain part of a file in the model's directory."""
    directory = path.parent.resolve()
    total = 0
    for tensor in _tensors(model):
        if tensor.data_location != tensor.EXTERNAL:
            continue
        entries = {item.key: item.value for item in tensor.external_data}
        location = entries.get("location", "")
        beside = (directory / location).resolve()
        if not location or Path(location).is_absolute() or directory not in beside.parents:
            raise CorruptModel(f"{path.name} wants weights from outside its directory", cause=f"location {location!r}")
        if not beside.is_file():
            raise CorruptModel(f"{path.name} lacks its weights", cause=f"there is no {location}")
        offset, size = int(entries.get("offset", 0)), beside.stat().st_size
        length = int(entries.get("length", size - offset))
        if min(offset, length) < 0 or offset + length > size:
            raise CorruptModel(
                f"the weights of {path.name} are cut off", cause=f"{location} has {size} bytes, not {offset + length}"
            )
        total += length
        if total > TENSOR_BYTES:
            raise CorruptModel(f"the weights of {path.name} are too large")


def _tensors(model: Any) -> Iterator[Any]:
    """Every tensor of a model, also those of its subgraphs and functions."""
    graphs, nodes = [model.graph], [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes.extend(graph.node)
        else:
            for attribute in nodes.pop().attribute:
                yield from ([attribute.t] if attribute.HasField("t") else [])
                yield from attribute.tensors
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs.extend(attribute.graphs)


def _inputs(model: Any, seed: int) -> tuple[Mapping[str, torch.Tensor], Mapping[str, tuple[int, ...]]]:
    """Inputs of the declared types and sizes, made from the seed, and their dimensions of no declared size."""
    from mindgap.platforms.onnx.export import TORCH_TYPES  # what only this form needs

    constants = {tensor.name for tensor in model.graph.initializer}
    made: dict[str, torch.Tensor] = {}
    open_sizes: dict[str, tuple[int, ...]] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        if not value.type.HasField("tensor_type") or kind.elem_type not in TORCH_TYPES:
            raise ModelError(f"the input {value.name} is no tensor of numbers, which mindgap cannot make")
        open_sizes[value.name] = tuple(n for n, dim in enumerate(kind.shape.dim) if dim.dim_value <= 0)
        shape = [dim.dim_value if dim.dim_value > 0 else UNKNOWN_SIZE for dim in kind.shape.dim]
        if _count(shape) > LARGEST_INPUT:
            raise ModelError(f"the input {value.name} has {_count(shape)} elements", hint="give --inputs")
        dtype = TORCH_TYPES[kind.elem_type]
        whole = not dtype.is_floating_point
        numbers = integers(seed, value.name, shape, 0, 2) if whole else floats(seed, value.name, shape)
        made[value.name] = numbers.to(dtype)
    return made, open_sizes


def _count(sizes: Any) -> int:
    count = 1
    for size in sizes:
        count *= int(size)
    return count
