"""Lets every Python of an environment import torchvision and torchaudio where their compiled parts do not load.

    python -m mindgap.corpus.import_hook

A wheel that was built for CUDA does not load next to a CPU build of torch, and pip cannot leave it out: timm needs
torchvision. mindgap's own workers help themselves (`compiled_parts.py`); this does the same for whoever types
`import timm` in that environment. It copies itself into the environment, with a line that Python reads when it starts,
and does nothing where everything loads. The file imports nothing of mindgap until torchvision is wanted.
"""

from __future__ import annotations

import contextlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

NAME = "mindgap_import_hook"
PACKAGES = ("torchvision", "torchaudio")


class Helper:
    """Is asked first for every module; when it is one of PACKAGES, makes it importable and lets others find it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in PACKAGES and self in sys.meta_path:
            sys.meta_path.remove(self)
            with contextlib.suppress(ImportError):  # mindgap is not installed any more
                from mindgap.corpus.compiled_parts import make_importable

                make_importable()
        return None


def install() -> None:
    """From now on in this process."""
    sys.meta_path.insert(0, Helper())


def write(folder: Path) -> None:
    """From now on in every process that reads this folder of packages when it starts."""
    (folder / f"{NAME}.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / f"{NAME}.pth").write_text(f"import {NAME}; {NAME}.install()\n", encoding="utf-8")


def main() -> None:
    """Write to this environment, if it is needed here."""
    import sysconfig

    from mindgap.corpus.compiled_parts import make_importable

    if needed := make_importable():
        folder = Path(sysconfig.get_path("purelib"))
        write(folder)
        sys.stdout.write(f"{' and '.join(needed)} can be imported, without the compiled part: {folder / NAME}.pth\n")


if __name__ == "__main__":
    main()
