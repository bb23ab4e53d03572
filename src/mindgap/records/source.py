"""How to make the user's own model again in another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRECISIONS: Final = ("float32", "float16", "bfloat16", "float64")
"""What a model can be cast to."""


@dataclass(frozen=True, slots=True)
class Source:
    """A model as the user named it; a worker that can import it runs the user's own code."""

    spec: str
    """`timm:resnet18`, `file.py:factory`, ...; empty when the module travels pickled."""
    seed: int = 0
    dtype: str | None = None
    """One of PRECISIONS; None keeps the model's own."""
    trust: bool = False
    """Whether reading the model may execute code from its files."""
    directory: str = "."
    """Where relative paths of the spec start."""
    import_paths: tuple[str, ...] = ()
    """Directories of the user's own modules, used last and only where the user's own code runs."""
    pickled: bytes | None = None
    """The user's own module, handed over from Python; never read from a file."""
    loader: str = "mindgap.corpus.load:load_model"
    """`module:function` that makes the model where it is to run: a worker without source never imports it."""
