"""The limits of every reader, in one place. Each is far above what real models need and far below what hurts."""

from __future__ import annotations

from typing import Final

FILE_BYTES: Final = 256 << 20
"""A program file or a manifest; weights lie beside it."""
CONTENT_BYTES: Final = 128 << 20
"""A program after decompression; the largest of a corpus of 4,000 real models has 5 MB."""
MANIFEST_BYTES: Final = 16 << 20
"""The list of parts of a pack, unpacked: 100,000 parts take 10 MB."""
PART_BYTES: Final = 1 << 30
"""One part of a pack, unpacked: 500 programs, a batch of outcomes or one weight."""
PARTS: Final = 100_000
TEXT_BYTES: Final = 1 << 20
"""A configuration or any other text that people write by hand."""
EXPLANATION_BYTES: Final = 64 << 20

DEPTH: Final = 64
"""Lists in lists, where a tuple counts twice; outputs of real models nest 5 deep."""
ITEMS: Final = 1 << 20
"""Values in one packed document; a node has about 20."""
NAME: Final = 4096
"""Characters of a name: operators, inputs, modules."""
MESSAGE: Final = 1 << 20
"""Characters of a message or of the tail of a log."""

DIMENSIONS: Final = 64
"""Of a tensor, as in torch."""
TENSOR_BYTES: Final = 32 << 30
"""One tensor, the memory between its elements included."""
