"""Whether a description of a tensor can be one: shapes come from files."""

from __future__ import annotations

import math
import resource
from functools import lru_cache

from mindgap.errors import CorruptProgram
from mindgap.reading.files import size
from mindgap.reading.limits import DIMENSIONS, TENSOR_BYTES
from mindgap.records.tensors import DTYPES, TensorMeta


@lru_cache(maxsize=1 << 14)  # programs name the same few shapes again and again
def bytes_of(meta: TensorMeta) -> int:
    """The memory of such a tensor, as compact values or in its layout; raises CorruptProgram when there is none."""
    sizes = (*meta.shape, *meta.stride)
    if len(meta.shape) != len(meta.stride) or len(meta.shape) > DIMENSIONS or min(sizes, default=0) < 0:
        raise CorruptProgram(f"there is no tensor {_shown(meta)}", cause=f"its strides are {list(meta.stride)[:8]}")
    room = 1 + sum((length - 1) * step for length, step in zip(meta.shape, meta.stride) if length)
    count = max(room, math.prod(meta.shape)) * DTYPES[meta.dtype].itemsize
    if count > TENSOR_BYTES or max(sizes, default=0) >= 1 << 62:
        raise CorruptProgram(f"a tensor {_shown(meta)} is larger than {size(TENSOR_BYTES)}")
    return count


def check_room(metas: list[TensorMeta], where: str) -> None:
    """Raise CorruptProgram when tensors need more memory than this process may use: a small file can claim any."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_DATA)
    most = TENSOR_BYTES if allowed == resource.RLIM_INFINITY else allowed
    needed = sum(map(bytes_of, metas))
    if needed > most:
        raise CorruptProgram(
            "the tensors of the program do not fit into memory",
            where=where,
            cause=f"they take {size(needed)}, and {size(most)} are allowed",
            hint="memory_mb in mindgap.toml sets the limit of workers",
        )


def _shown(meta: TensorMeta) -> str:
    return f"{meta.dtype}{list(meta.shape)[:8]}"
