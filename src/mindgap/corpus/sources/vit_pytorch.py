"""`vit_pytorch:MODULE.CLASS`: a vision transformer of vit-pytorch with two narrow layers."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mindgap.corpus import signatures
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats
from mindgap.corpus.registry import register

SETTINGS: Final[dict[str, Any]] = {
    "num_classes": 10, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64, "dim_head": 16, "channels": 3,
    "cls_depth": 1, "sm_dim": 16, "lg_dim": 32, "sm_enc_heads": 2, "sm_enc_mlp_dim": 32, "lg_enc_heads": 2,
    "lg_enc_mlp_dim": 32, "lg_enc_depth": 1, "mlp_mult": 2, "stages": 2, "num_hierarchies": 2, "block_repeats": (1, 1),
    "max_tokens_per_depth": (16, 8), "frames": 4, "frame_patch_size": 2, "spatial_depth": 1, "temporal_depth": 1,
    "seq_len": 64, "ndim": 2, "input_shape": (64, 64), "dims": (32, 48, 64), "reduction_factor": (4, 2),
    "num_memory_tokens": 4, "num_loops": 2, "num_registers": 4, "num_register_tokens": 4, "num_extra_tokens": 2,
    "image_patch_size": 16, "window_size": 4, "dim_conv_stem": 16,
}  # fmt: skip
"""Small values by parameter name."""
STAGES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"dim": (32, 64), "depth": (1, 1), "heads": (2, 2), "window_size": (4, 4)},
    {"depth": (1, 1), "window_size": 7},
    {"depth": (1, 1), "heads": (2, 2)},
)
"""For architectures whose depths, and widths or heads, come in a list, one for each stage."""
OFTEN_OPTIONAL: Final = {"depth", "heads", "mlp_dim", "image_size", "patch_size"}
"""Settings that some classes declare as optional and still want."""
SIZES: Final = ((64, 16), (64, 8), (224, 32), (256, 16), (144, 16))
"""Image and patch sizes to try."""


@register
class VitPytorchModel(Catalogue):
    """A class that its module defines for others: nothing inside the module uses it."""

    forms = ("vit_pytorch:MODULE.CLASS",)
    prefix = "vit_pytorch"
    packages = ("vit_pytorch",)
    extra = "vit-pytorch"

    domain = "vision"

    def models(self) -> dict[str, None]:
        folder = Path(str(self.imported("vit_pytorch").__file__)).parent
        paths = (path for path in sorted(folder.glob("*.py")) if path.stem != "__init__")
        return {f"{path.stem}.{name}": None for path in paths for name in _outermost(path.read_text())}

    def family(self, name: str, model: None) -> str:
        return name.partition(".")[0]

    def attempts(self, name: str, model: None, seed: int) -> Iterator[Attempt]:
        module, _, class_name = name.partition(".")
        kind = getattr(self.imported(f"vit_pytorch.{module}"), class_name)
        takes, required = signatures.parameters(kind.__init__), signatures.required(kind.__init__)
        wanted = {"dim_head", "channels", "dim_conv_stem", "stages", "lg_enc_depth", *required}
        wanted |= {name for name in takes if name.endswith(("_heads", "_mlp_dim"))}
        for names in (wanted, wanted | OFTEN_OPTIONAL):
            for (size, patch), lists in itertools.product(SIZES, STAGES):
                values = {**SETTINGS, **lists, "image_size": size, "patch_size": patch}
                if "ndim" in takes or "input_shape" in takes:
                    values["patch_size"] = values["image_patch_size"] = (patch, patch)
                    values["input_shape"] = (size, size)
                given = signatures.arguments(kind.__init__, values, names)
                yield Attempt(functools.partial(kind, **given), (floats(seed, "image", _shape(takes, size)),))


def _shape(takes: dict[str, Any], size: int) -> tuple[int, ...]:
    """Of a sequence, a clip or an image, by what the class asks for."""
    if "seq_len" in takes and "image_size" not in takes:
        return 1, 3, int(SETTINGS["seq_len"])
    if "frames" in takes or "num_frames" in takes:
        return 1, 3, int(SETTINGS["frames"]), size, size
    return 1, 3, size, size


@functools.cache
def _outermost(text: str) -> tuple[str, ...]:
    """Module classes whose parameters are known and that no other definition of the file uses."""
    body = ast.parse(text).body
    classes = [node for node in body if isinstance(node, ast.ClassDef) and _is_module(node)]
    used: dict[str, set[str]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            used[node.name] = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    return tuple(
        node.name
        for node in classes
        if not any(node.name in names for owner, names in used.items() if owner != node.name) and _is_known(node)
    )


def _is_module(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in ("Module", "nn.Module", "torch.nn.Module") for base in node.bases)


def _is_known(node: ast.ClassDef) -> bool:
    """Whether it takes a number of classes, and nothing required that has no small value."""
    start = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if start is None:
        return False
    taken = start.args
    needed = [arg.arg for arg, default in zip(taken.kwonlyargs, taken.kw_defaults) if default is None]
    needed += [arg.arg for arg in taken.args[1 : len(taken.args) - len(taken.defaults)]]
    names = {arg.arg for arg in (*taken.args, *taken.kwonlyargs)}
    return "num_classes" in names and set(needed) <= {*SETTINGS, "image_size", "patch_size"}
