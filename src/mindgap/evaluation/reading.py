"""Opening a model at the size of a batch, and reading the batches, in workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from mindgap.corpus.casing import case_of
from mindgap.corpus.inputs import with_inputs
from mindgap.corpus.load import load
from mindgap.corpus.loaded import Loaded
from mindgap.errors import CorruptFile, MindgapError, ModelError, UsageError
from mindgap.evaluation.arrays import Arrays, open_arrays
from mindgap.evaluation.dataset import Dataset, choose
from mindgap.evaluation.images import ImageReader, Preprocessing, preprocessing_of
from mindgap.evaluation.spelling import AS_USUAL, Wanted
from mindgap.execution import arena
from mindgap.execution.parcel import Parcel, make_parcel
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.program.graph import leaves, map_leaves
from mindgap.records.source import Source
from mindgap.records.tensors import DTYPES, TensorMeta


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model to load and export at the size of a batch."""

    source: Source
    file: str
    """Takes the tensors."""
    data: Dataset
    batch: int
    wanted: Wanted = AS_USUAL
    limit: int | None = None
    skip_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A model at the size of a batch."""

    parcel: Parcel
    batch: int
    chosen: tuple[int, ...]
    """The samples to take."""
    takes_one: bool
    """Whether the model can be exported for a single sample."""
    preprocessing: Preprocessing | None = None
    arrays: tuple[str, ...] = ()
    """The array of each input, in the order of the inputs."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Samples to read."""

    data: Dataset
    samples: tuple[int, ...]
    batch: int
    metas: tuple[TensorMeta, ...]
    file: str
    preprocessing: Preprocessing | None = None
    arrays: tuple[str, ...] = ()
    skip_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples that were read; the last one is repeated where the data end before the batch does."""

    samples: tuple[int, ...]
    names: tuple[str, ...]
    inputs: tuple[arena.Entry, ...] = ()
    labels: arena.Entry | None = None
    skipped: tuple[str, ...] = ()
    """Of samples that could not be read, with the reason."""


@hosting(MindgapError)
@task
def open_model(worker: Worker, request: OpenModel) -> Opened:
    """Load a model, take the first batch of the data as its inputs, and export it."""
    loaded = load(request.source)
    data = request.data
    arrays = _arrays(worker, data) if data.is_arrays else None
    count = arrays.count if arrays is not None else len(data.files)
    chosen = choose(data, count, request.limit, request.source.seed).chosen
    chosen = tuple(range(count)) if chosen is None else chosen
    batch = _batch_of(loaded, min(request.batch, len(chosen)))
    how = preprocessing_of(loaded.model, _image_shape(loaded), request.wanted) if arrays is None else None
    names = _names_of(loaded, arrays) if arrays is not None else ()
    samples = (chosen * batch)[:batch]
    rows, skipped = _rows(worker, data, samples, how, names, request.skip_unreadable)
    if not rows:
        raise UsageError(f"none of the first {batch} images can be read", cause=next(iter(skipped.values())))
    sized = _with_batch(loaded, rows, names, batch, request.source.dtype)
    case = case_of(sized, None, request.source.seed)
    if case.program is None and not case.file:
        raise ModelError("a model that cannot be exported cannot be evaluated", cause=case.export_failure)
    parcel = make_parcel(case, Path(request.file))
    names = parcel.input_names if len(names) > 1 else names  # in the order of the signature
    takes_one = loaded.program is None and _own_batch(loaded) is None
    return Opened(parcel, batch, chosen, takes_one, how, names)


@hosting(MindgapError)
@task
def read_batch(worker: Worker, request: ReadBatch) -> Batch:
    """Read samples into the file of a batch."""
    data = request.data
    rows, skipped = _rows(worker, data, request.samples, request.preprocessing, request.arrays, request.skip_unreadable)
    kept = [sample for sample in request.samples if sample not in skipped]
    names = tuple(data.files[s] if data.files else f"{Path(data.path).name}[{s}]" for s in kept)
    told = tuple(skipped.values())
    if not kept:
        return Batch((), (), skipped=told)
    inputs = [_fitting(row, meta) for row, meta in zip(_filled(rows, request.batch), request.metas)]
    labels = _labels(worker, data, kept)
    entries = arena.write(Path(request.file), [*inputs, *([labels] if labels is not None else [])])
    return Batch(tuple(kept), names, entries[: len(inputs)], entries[-1] if labels is not None else None, told)


def _own_batch(loaded: Loaded) -> int | None:
    """The batch that a program or file has been made for; None where it may have any size."""
    sizes: set[int | None]
    if loaded.program is not None:
        sizes = {item.meta.shape[0] for item in loaded.program.inputs if item.meta.shape}
    elif loaded.file:
        open_sizes = loaded.open_sizes
        sizes = {t.shape[0] if 0 not in open_sizes[name] else None for name, t in _tensors(loaded) if t.dim()}
    else:
        return None
    if len(sizes) != 1:
        told = ", ".join(sorted("any" if size is None else str(size) for size in sizes)) or "none"
        raise ModelError("the inputs of the program do not begin with a batch", cause=f"first sizes: {told}")
    return sizes.pop()


def _batch_of(loaded: Loaded, wanted: int) -> int:
    """How many samples at once."""
    own = _own_batch(loaded)
    return wanted if own is None else own


def _tensors(loaded: Loaded) -> list[tuple[str, torch.Tensor]]:
    """The tensors of the model's own example."""
    given = {**{f"arg{i}": value for i, value in enumerate(loaded.args)}, **loaded.kwargs}
    return [(path, leaf) for path, leaf in leaves(given) if isinstance(leaf, torch.Tensor)]


def _image_shape(loaded: Loaded) -> tuple[int, ...]:
    """The shape that the model takes its images in."""
    found = _tensors(loaded)
    if len(found) != 1 or found[0][1].dim() != 4 or not found[0][1].is_floating_point():
        told = ", ".join(f"{name} {TensorMeta.of(tensor)}" for name, tensor in found) or "nothing"
        raise UsageError(
            "the model does not take one batch of images",
            cause=f"its inputs: {told}",
            hint="give its inputs as .npz or .safetensors, one array per input",
        )
    if any(dimension > 0 for dimension in loaded.open_sizes.get(found[0][0], ())):
        raise UsageError(
            f"{loaded.name} takes images of any size, so that nobody can tell which",
            hint="give them as .npz or .safetensors, in the size that you use",
        )
    return tuple(found[0][1].shape)


def _names_of(loaded: Loaded, arrays: Arrays) -> tuple[str, ...]:
    """Which arrays are the model's inputs, in their order."""
    takes = _tensors(loaded)
    if len(takes) == len(arrays.names) == 1:
        return (arrays.names[0],)
    if loaded.program is not None:
        wanted = [item.name for item in loaded.program.inputs]
    elif loaded.file:
        wanted = [name for name, _ in takes]
    else:
        wanted = list(arrays.names)  # by keyword: the model refuses what it does not take
    if missing := [name for name in wanted if name not in arrays.names]:
        raise UsageError(
            f"{arrays.path.name} has no array for the input {missing[0]}",
            cause=f"it has {', '.join(arrays.names)}",
        )
    return tuple(wanted)


def _with_batch(
    loaded: Loaded, rows: Sequence[torch.Tensor], names: Sequence[str], batch: int, dtype: str | None
) -> Loaded:
    """The model with a batch instead of its own example."""
    filled = _filled(rows, batch)
    if loaded.program is not None:
        own = [item.meta for item in loaded.program.inputs]
        return with_inputs(loaded, [_fitting(row, meta) for row, meta in zip(filled, own)], {})
    if loaded.file:
        metas = _metas_of_file(loaded, filled)
        return with_inputs(loaded, [_fitting(row, meta) for row, meta in zip(filled, metas)], {})
    if len(filled) == 1:
        fitting = _fitting(filled[0], TensorMeta.of(_tensors(loaded)[0][1]))

        def put(leaf: Any) -> Any:
            return fitting if isinstance(leaf, torch.Tensor) else leaf

        changed: Mapping[str, Any] = {key: map_leaves(value, put) for key, value in loaded.kwargs.items()}
        return with_inputs(loaded, map_leaves(loaded.args, put), changed, dtype)
    return with_inputs(loaded, (), dict(zip(names, filled)), dtype)


def _metas_of_file(loaded: Loaded, given: Sequence[torch.Tensor]) -> list[TensorMeta]:
    """What the inputs of a file must be, with the sizes of what is given where the file leaves them open."""
    found = []
    for (name, tensor), row in zip(_tensors(loaded), given):
        meta = TensorMeta.of(tensor)
        if row.dim() == len(meta.shape):
            open_sizes = loaded.open_sizes[name]
            shape = tuple(row.shape[n] if n in open_sizes else size for n, size in enumerate(meta.shape))
            meta = replace(meta, shape=shape)
        found.append(meta)
    return found


def _filled(rows: Sequence[torch.Tensor], batch: int) -> list[torch.Tensor]:
    """Each array with the rows of a whole batch."""
    return [row[torch.arange(batch).clamp(max=row.shape[0] - 1)] for row in rows]


def _fitting(tensor: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    """In the precision that the model takes; whole numbers are never made of fractions."""
    dtype = DTYPES[meta.dtype]
    if tensor.is_floating_point() and not dtype.is_floating_point:
        raise UsageError(f"the model takes {meta.dtype}, and the data are {str(tensor.dtype).removeprefix('torch.')}")
    if tuple(tensor.shape[1:]) != tuple(meta.shape[1:]):
        raise UsageError(
            "the data do not fit the model",
            cause=f"a sample is {list(tensor.shape[1:])}, expected {list(meta.shape[1:])}",
        )
    return tensor.to(dtype).contiguous()


@dataclass
class _Readers:
    """What a worker keeps between batches."""

    images: ImageReader | None = None
    arrays: dict[str, Arrays] = field(default_factory=dict)


def _arrays(worker: Worker, data: Dataset) -> Arrays:
    held = worker.keep(_Readers).arrays
    if data.path not in held:
        held[data.path] = open_arrays(Path(data.path))
    return held[data.path]


def _rows(
    worker: Worker,
    data: Dataset,
    samples: Sequence[int],
    how: Preprocessing | None,
    names: Sequence[str],
    skip: bool,
) -> tuple[list[torch.Tensor], dict[int, str]]:
    """The samples of each input, and why some could not be read."""
    if how is None:
        arrays = _arrays(worker, data)
        return [arrays.rows(name, samples) for name in names], {}
    readers = worker.keep(_Readers)
    if readers.images is None or readers.images.how != how:
        readers.images = ImageReader(how)
    found: list[torch.Tensor] = []
    skipped: dict[int, str] = {}
    for sample in samples:
        try:
            found.append(readers.images.read(Path(data.path) / data.files[sample]))
        except CorruptFile as error:
            if not skip:
                error.hint = "--skip-unreadable counts such images and goes on"
                raise
            skipped[sample] = f"{data.files[sample]}: {error.cause}"
    return ([torch.stack(found)] if found else []), skipped


def _labels(worker: Worker, data: Dataset, samples: Sequence[int]) -> torch.Tensor | None:
    if not data.is_arrays:
        return torch.tensor([data.labels[sample] for sample in samples])
    arrays = _arrays(worker, data)
    return arrays.rows(arrays.labels, samples).contiguous() if arrays.labels else None


def with_batch(parcel: Parcel, batch: Batch, file: str) -> Parcel:
    """The case of a batch: the same program on other inputs."""
    return replace(parcel, inputs=batch.inputs, inputs_file=file)
