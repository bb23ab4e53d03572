"""What platforms declare: which operators their packages register, without any of them running.

A platform has an operator if it registers a kernel (or a conversion) of its own, if torch registers one composite
kernel for all backends, or if the operator is other operators and the platform has all of those.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final

from mindgap.errors import UsageError
from mindgap.operators.native import NativeOperator, installed_version, metal_dtypes, native_operators, operator_name
from mindgap.operators.packages import Registered, installed_package, read_package
from mindgap.operators.parts import Parts, recorded

REFERENCE: Final = "eager:cuda"
"""The platform that others are compared with, as the study did."""
BACKENDS: Final = {
    "eager": "CPU", "eager:cuda": "CUDA", "eager:mps": "MPS", "eager:xpu": "XPU", "eager:mtia": "MTIA",
}  # fmt: skip
"""Platforms whose kernels stand in torch's own list."""
PLUGINS: Final = {"eager:npu": ("torch_npu", "NPU")}
"""Platforms whose kernels a package of its own lists."""
CONVERTERS: Final = {
    "openvino": "pip install 'mindgap[openvino]'",
    "executorch": "pip download --no-deps executorch, then --package FILE.whl",
}
"""Platforms that take exported programs and list what they have kernels or conversions of, and how to get them."""
ELSEWHERE: Final = {
    "XPU": "torch-xpu-ops registers its kernels in its library, not in this list",
    "MTIA": "most of its kernels are registered outside of torch",
}
"""Backends of which torch's list is only a part: nothing can be concluded from what is missing."""
MEMORY: Final = frozenset({
    "aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default", "aten.as_strided_.default",
    "aten.detach.default", "aten.alias.default", "aten.resize_.default", "aten.lift_fresh.default",
})  # fmt: skip
"""Parts that eager needs to lay out memory and that compute nothing: an exported program does without them."""
_DEEPEST: Final = 4
"""Decompositions of decompositions that are followed."""
DEFAULT: Final = ("eager:cuda", "eager", "eager:mps", "eager:npu", "onnxruntime", "openvino", "executorch")


class Has(str, Enum):
    """Whether a platform declares an operator, and how."""

    KERNEL = "kernel"
    """A kernel or a conversion of its own."""
    COMPOSITE = "composite"
    """One kernel of torch for all backends."""
    PARTS = "parts"
    """The operator is others, and it has all of them."""
    SOME = "some calls"
    """It has the parts of some calls only."""
    UNTRACED = "parts not known"
    """The operator is others, and which was not recorded."""
    MISSING = "missing"
    UNKNOWN = "not declared here"
    """Its list is known to be incomplete."""

    @property
    def runs(self) -> bool:
        """Whether calls are expected to run."""
        return self in (Has.KERNEL, Has.COMPOSITE, Has.PARTS, Has.UNTRACED)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One platform by what its package registers."""

    platform: str
    source: str
    """The package, its version and where in it the list stands."""
    operators: Mapping[str, Has]
    """Every operator of torch's list."""
    custom: int = 0
    """Operators that only it has."""
    is_complete: bool = True
    note: str = ""
    dtypes: tuple[str, ...] = ()
    """Element types that it has at all, where a list says so."""
    missing_parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By composite operator: parts that it lacks."""

    def has(self, op: str) -> Has:
        """Of an operator that torch's list does not hold, nothing is known."""
        return self.operators.get(op, Has.UNKNOWN if not self.is_complete else Has.MISSING)


@dataclass(frozen=True, slots=True)
class Count:
    """A platform next to the reference, over public operators: the study's number."""

    platform: str
    reference: int
    """Operators that the reference has."""
    names: tuple[str, ...]
    """Of those, what this one lacks."""
    untraced: int = 0
    """Of those, composite operators that it is believed to have without their parts being known."""

    @property
    def lacking(self) -> int:
        return len(self.names)

    @property
    def percent(self) -> float:
        """How many percent fewer."""
        return 100 * self.lacking / self.reference if self.reference else 0.0


def declarations(platforms: Sequence[str], packages: Sequence[Path] = ()) -> tuple[list[Declaration], dict[str, str]]:
    """What each platform declares, and for those whose package is not at hand why nothing is known."""
    given = {item.backend: item for item in map(read_package, packages)}
    known, parts = native_operators(), recorded()
    found: list[Declaration] = []
    unknown: dict[str, str] = {}
    for name in dict.fromkeys(platforms):
        try:
            found.append(_declaration(name, given, known, parts))
        except UsageError as error:
            unknown[name] = "; ".join(filter(None, [error.cause or error.what, error.hint]))
    return found, unknown


def _declaration(
    name: str, given: Mapping[str, Registered], known: Mapping[str, NativeOperator], parts: Parts
) -> Declaration:
    bare = name.partition("@")[0]
    torch = f"torch {installed_version('torch')}: native_functions.yaml"
    if bare in BACKENDS:
        backend = BACKENDS[bare]
        own = frozenset(op for op, item in known.items() if backend in item.kernels)
        reason = ELSEWHERE.get(backend, "")
        found = _settled(name, torch, own, known, parts, note=reason, is_complete=not reason)
        return replace(found, dtypes=metal_dtypes()) if backend == "MPS" else found
    if bare in PLUGINS:
        package, backend = PLUGINS[bare]
        registered = given.get(backend) or installed_package(package)
        if registered is None:
            raise UsageError(
                f"{package} is not installed", hint=f"pip download --no-deps {package}, then --package FILE.whl"
            )
        own = registered.operators | {op for op, item in known.items() if item.delegate in registered.operators}
        return _settled(name, registered.source, own, known, parts, registered.custom)
    if bare in CONVERTERS:
        registered = given.get(bare) or installed_package(bare)
        if registered is None:
            raise UsageError(f"{bare} is not installed", hint=CONVERTERS[bare])
        own = registered.operators | {op for op, item in known.items() if _kernels_of(item) & registered.operators}
        return _settled(name, registered.source, own, known, parts, registered.custom, converts=True)
    if bare == "onnxruntime":
        return _settled(name, *exporter_table(), known, parts, converts=True)
    raise UsageError(f"{name} declares nothing that can be read", cause="its package holds no list of operators")


def exporter_table() -> tuple[str, frozenset[str]]:
    """Operators that torch's exporter has a translation to ONNX of, with where that is said."""
    if importlib.util.find_spec("onnxscript") is None:
        raise UsageError("onnxscript is not installed", hint="pip install 'mindgap[onnx]'")
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    from mindgap.program.ops import name_of

    table = ONNXRegistry.from_torchlib().functions
    named = (operator_name(t) if str(t).startswith("aten::") else name_of(t) for t in table)
    names = frozenset(filter(None, named))
    return f"torch {installed_version('torch')}: registry of the ONNX exporter", names


def _settled(
    name: str,
    source: str,
    own: frozenset[str],
    known: Mapping[str, NativeOperator],
    parts: Parts,
    custom: int = 0,
    note: str = "",
    is_complete: bool = True,
    converts: bool = False,
) -> Declaration:
    """Follow composite operators to their parts; a converter also gets those that torch takes apart for it."""
    found: dict[str, Has] = {}
    lacking: dict[str, tuple[str, ...]] = {}

    def direct(op: str, depth: int = 0) -> bool:
        item = known.get(op)
        if op in own or (not converts and item is not None and item.composite == "explicit"):
            return True
        if converts and op in MEMORY:
            return True
        ways = parts.decompositions.get(op, ()) if converts and depth < _DEEPEST else ()
        return any(all(direct(part, depth + 1) for part in way) for way in ways)

    for op, item in known.items():
        ways = parts.implicit.get(op, ())
        if converts and not (ways and all(all(map(direct, way)) for way in ways)):
            ways = parts.decompositions.get(op) or ways  # torch takes it apart before it arrives there
        without_writing = functional(op)
        if op in own:
            found[op] = Has.KERNEL
        elif converts and without_writing in known and direct(without_writing):
            found[op] = Has.PARTS  # exporters make it a call that writes to nothing
        elif ways:
            open_ = [sorted(part for part in way if not direct(part)) for way in ways]
            served = [way for way in open_ if not way]
            found[op] = Has.PARTS if len(served) == len(open_) else Has.SOME if served else Has.MISSING
            if len(served) < len(open_):
                lacking[op] = min((tuple(way) for way in open_ if way), key=len)
        elif item.composite == "explicit" and not converts:
            found[op] = Has.COMPOSITE
        elif item.composite == "implicit":
            found[op] = Has.UNTRACED
        else:
            found[op] = Has.MISSING
        if not is_complete and not found[op].runs:
            found[op] = Has.UNKNOWN
    return Declaration(name, source, found, custom, is_complete, note, missing_parts=lacking)


def _kernels_of(item: NativeOperator) -> set[str]:
    """`out` overloads that do the work of an operator where only those exist; views become copies there."""
    _, name, overload = item.op.split(".")
    suffix = "out" if overload == "default" else f"{overload}_out"
    return {item.delegate, *(f"aten.{base}.{suffix}" for base in (name, f"{name}_copy"))} - {""}


def functional(op: str) -> str:
    """What gives the values that an in-place operator writes: `aten.add.Tensor` of `aten.add_.Tensor`; else empty."""
    _, name, overload = op.split(".")
    is_in_place = name.endswith("_") and not name.endswith("__")
    return f"aten.{name.removesuffix('_')}.{overload}" if is_in_place else ""


def counts(found: Sequence[Declaration], reference: Declaration, *, own_only: bool) -> list[Count]:
    """How many public operators of the reference each platform lacks: with a kernel of its own, or in any way."""
    known = native_operators()
    public = [op for op, item in known.items() if item.is_public]
    there = [op for op in public if _counts_as(reference.operators[op], own_only)]
    return [
        Count(
            item.platform,
            len(there),
            tuple(op for op in there if not _counts_as(item.operators[op], own_only)),
            sum(item.operators[op] is Has.UNTRACED for op in there),
        )
        for item in found
    ]


def _counts_as(has: Has, own_only: bool) -> bool:
    return has is Has.KERNEL if own_only else has.runs


def replacement(op: str, declaration: Declaration) -> tuple[str, ...]:
    """Operators that a platform has and that torch's own decomposition makes a missing one of; empty without one."""
    for way in recorded().decompositions.get(op, ()):
        if all(declaration.has(part).runs for part in way):
            return tuple(sorted(way))
    return ()
