"""What platforms declare: which operators their packages register, without any of them running.

A platform has an operator if it registers a kernel (or a conversion) of its own, if torch registers one composite
kernel for all backends, or if the operator is other operators and the platform has all of those.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from mindgap.errors import UsageError
from mindgap.operators.asking import Kernel, dispatched, onnx_kernels, python_of
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
    "tvm": "mindgap platforms install tvm, or pip download --no-deps apache-tvm, then --package FILE.whl",
    "iree": "mindgap platforms install iree, or pip download --no-deps iree-base-compiler, then --package FILE.whl",
}
"""Platforms that take exported programs and list what they have kernels or conversions of, and how to get them."""
_FOLDERS: Final = {"iree": "iree.compiler"}
"""Where in its package a converter keeps its list, if not anywhere."""
KEYS: Final = {"xla": "XLA", "hpu": "HPU"}
"""Dispatch keys of devices whose packages register kernels when they are imported; any other has PrivateUse1."""
_ASKED: Final = {
    "eager:xla": ("torch_xla",), "eager:hpu": ("habana_frameworks.torch.core",), "eager:npu": ("torch_npu",),
}  # fmt: skip
"""Platforms whose kernels only the dispatcher knows, and what must be imported before."""
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
DEFAULT: Final = (
    "eager:cuda", "eager", "eager:mps", "eager:npu", "onnxruntime", "openvino", "executorch", "tvm",
)  # fmt: skip


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

    @property
    def is_missing(self) -> bool:
        """Whether no call is expected to run."""
        return self is Has.MISSING


@dataclass(frozen=True, slots=True)
class Provider:
    """What one of a runtime's providers registers."""

    name: str
    kernels: int
    operators: int
    by_dtype: Mapping[str, int]
    """Operators with a kernel for each element type."""


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
    public: frozenset[str] = frozenset()
    """Operators of torch's list that models may call."""
    dtypes_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By operator: element types that its kernels take, where a list says so."""
    providers: tuple[Provider, ...] = ()
    """Of a runtime with several providers of kernels: what each of them registers."""

    def has(self, op: str) -> Has:
        """Of an operator that torch's list does not hold, nothing is known."""
        return self.operators.get(op, Has.UNKNOWN if not self.is_complete else Has.MISSING)

    def takes(self, op: str, dtype: str) -> bool | None:
        """Whether an operator that it has takes an element type; None where no list says so."""
        if self.dtypes and dtype not in self.dtypes and not dtype.startswith("complex"):
            return False
        told = self.dtypes_of.get(op)
        return None if told is None else dtype in told


@dataclass(frozen=True, slots=True)
class Taken:
    """How many public operators that a platform has take an element type, by what it declares."""

    platform: str
    dtype: str
    taken: int
    refused: int
    untold: int
    """Operators whose element types no list tells."""


def taken(found: Sequence[Declaration], dtypes: Sequence[str], operators: Sequence[str] = ()) -> list[Taken]:
    """Platform by platform and dtype by dtype, over all public operators or those that were asked for."""
    result = []
    for item in found:
        there = [op for op in operators or sorted(item.public) if item.has(op).runs]
        for dtype in dtypes:
            told = Counter(item.takes(op, dtype) for op in there)
            result.append(Taken(item.platform, dtype, told[True], told[False], told[None]))
    return result


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


@dataclass(frozen=True, slots=True)
class _Lists:
    """What there is to read: packages that were named, torch's own list, recorded parts."""

    given: Mapping[str, Registered]
    """By backend, in capitals."""
    known: Mapping[str, NativeOperator]
    torch: str
    """Where the list of torch comes from."""
    parts: Parts


def declarations(platforms: Sequence[str], packages: Sequence[Path] = ()) -> tuple[list[Declaration], dict[str, str]]:
    """What each platform declares, and for those whose package is not at hand why nothing is known.

    Raises UsageError for a package that none of these platforms reads.
    """
    given: dict[str, Registered] = {}
    for item in map(read_package, packages):
        if item.backend.upper() in given:
            raise UsageError(f"two packages register operators of {item.backend}", hint="name one of them")
        given[item.backend.upper()] = item
    _refuse_unused(given, platforms)
    torch = given.get("TORCH")
    lists = _Lists(
        given,
        torch.native if torch is not None else native_operators(),
        torch.source if torch is not None else f"torch {installed_version('torch')}: native_functions.yaml",
        recorded(),
    )
    public = frozenset(op for op, item in lists.known.items() if item.is_public)
    found: list[Declaration] = []
    unknown: dict[str, str] = {}
    for name in dict.fromkeys(platforms):
        try:
            found.append(replace(_declaration(name, lists), public=public))
        except UsageError as error:
            unknown[name] = "; ".join(filter(None, [error.cause or error.what, error.hint]))
    return found, unknown


def _backend_of(platform: str) -> str:
    """Whose package a platform reads: `TORCH`, `NPU`, `OPENVINO`; of eager on another device that device's name."""
    bare = platform.partition("@")[0]
    if bare in BACKENDS:
        return "TORCH"
    if bare in PLUGINS:
        return PLUGINS[bare][1]
    return bare.removeprefix("eager:").upper()


def _refuse_unused(given: Mapping[str, Registered], platforms: Sequence[str]) -> None:
    """A package that nobody reads was a mistake."""
    readers = {_backend_of(platform) for platform in platforms}
    for backend, item in given.items():
        if backend not in readers:
            known = [
                name
                for name in dict.fromkeys((*BACKENDS, *PLUGINS, *CONVERTERS, *_ASKED))
                if _backend_of(name) == backend
            ]
            raise UsageError(
                f"no platform that was asked for reads {item.source}",
                cause=f"it registers operators of {item.backend}",
                hint=f"--on {','.join(known) if known else f'eager:{backend.lower()}'}",
            )


def _declaration(name: str, lists: _Lists) -> Declaration:
    bare = name.partition("@")[0]
    if bare in BACKENDS:
        backend = BACKENDS[bare]
        own = frozenset(op for op, item in lists.known.items() if backend in item.kernels)
        reason = ELSEWHERE.get(backend, "")
        found = _settled(name, lists.torch, own, lists, note=reason, is_complete=not reason)
        return replace(found, dtypes=metal_dtypes()) if backend == "MPS" else found
    if bare in CONVERTERS:
        registered = lists.given.get(bare.upper()) or installed_package(_FOLDERS.get(bare, bare), python_of(bare))
        if registered is None:
            raise UsageError(f"{bare} is not installed", hint=CONVERTERS[bare])
        own = registered.operators | {
            op for op, item in lists.known.items() if _kernels_of(item) & registered.operators
        }
        return _settled(name, registered.source, own, lists, registered.custom, registered.note, converts=True)
    if bare == "onnxruntime":
        return _with_kernels(_settled(name, *exporter_table(), lists, converts=True))
    registered = lists.given.get(_backend_of(bare)) or _of_plugin(bare)
    own = registered.operators | {op for op, item in lists.known.items() if item.delegate in registered.operators}
    return _settled(name, registered.source, own, lists, registered.custom, registered.note)


def _of_plugin(bare: str) -> Registered:
    """What an installed plug-in of torch registers: by the list in its package, otherwise by torch's dispatcher."""
    package = PLUGINS.get(bare, ("", ""))[0]
    listed = installed_package(package) if package else None
    if listed is not None:
        return listed
    python = python_of(bare)
    if bare in _ASKED and python is None and importlib.util.find_spec(_ASKED[bare][0].partition(".")[0]) is not None:
        python = Path(sys.executable)
    if bare in _ASKED and python is not None:
        key = KEYS.get(bare.partition(":")[2], "PrivateUse1")
        version, operators = dispatched(python, key, _ASKED[bare])
        here = installed_version("torch")
        note = "" if version == here else f"operators that torch {here} has and {version} has not count as missing"
        return Registered(key, f"torch {version}: dispatcher after import of {_ASKED[bare][0]}", operators, note=note)
    if package:
        raise UsageError(
            f"{package} is not installed", hint=f"pip download --no-deps {package}, then --package FILE.whl"
        )
    if bare in _ASKED:
        raise UsageError(f"{_ASKED[bare][0]} is not installed", hint=f"mindgap platforms says how to get {bare}")
    raise UsageError(f"{bare} declares nothing that can be read", cause="its package holds no list of operators")


def _with_kernels(found: Declaration) -> Declaration:
    """Element types of operators that are one operator of ONNX, by ONNX Runtime's registry of kernels; unchanged
    where it is not installed."""
    try:
        version, kernels = onnx_kernels()
    except UsageError:
        return found
    of: dict[str, set[str]] = {}
    for kernel in kernels:
        of.setdefault(kernel.op, set()).update(kernel.dtypes)
    single = {op: name for op, name in onnx_operators().items() if of.get(name)}
    names = dict.fromkeys(kernel.provider for kernel in kernels)
    return replace(
        found,
        source=f"{found.source}; kernels of ONNX Runtime {version}",
        dtypes_of={op: tuple(sorted(of[name])) for op, name in single.items()},
        providers=tuple(_provider(name, [k for k in kernels if k.provider == name]) for name in names),
    )


def _provider(name: str, kernels: Sequence[Kernel]) -> Provider:
    pairs = {(kernel.op, dtype) for kernel in kernels for dtype in kernel.dtypes}
    by_dtype = Counter(dtype for _, dtype in pairs)
    return Provider(name, len(kernels), len({kernel.op for kernel in kernels}), dict(by_dtype.most_common()))


def exporter_table() -> tuple[str, frozenset[str]]:
    """Operators that torch's exporter has a translation to ONNX of, with where that is said."""
    if importlib.util.find_spec("onnxscript") is None:
        raise UsageError("onnxscript is not installed", hint="pip install 'mindgap[onnx]'")
    return f"torch {installed_version('torch')}: registry of the ONNX exporter", frozenset(_translations())


def onnx_operators() -> dict[str, str]:
    """By operator: the operator of ONNX that its translation is, where it is a single one."""
    found = {op: _called(functions) for op, functions in _translations().items()}
    return {op: names[0] for op, names in found.items() if len(names) == 1}


@functools.cache
def _translations() -> Mapping[str, tuple[Any, ...]]:
    """By operator: the functions of torch's exporter that translate it."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    from mindgap.program.ops import name_of

    found: dict[str, tuple[Any, ...]] = {}
    for target, metas in ONNXRegistry.from_torchlib().functions.items():
        name = operator_name(target) if str(target).startswith("aten::") else name_of(target)
        if name:
            found[name] = tuple(meta.onnx_function for meta in metas)
    return found


def _called(functions: Sequence[Any]) -> list[str]:
    """The operators of ONNX that the text of a translation names; none where it calls another translation."""
    names: dict[str, None] = {}
    for function in functions:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(function, "func", None) or function.function)))
        except (OSError, TypeError, SyntaxError, AttributeError):
            return []
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "op":
                names[called.attr] = None
            elif isinstance(called, ast.Name) and called.id.lstrip("_").startswith(("aten_", "prims_")):
                return []
    return list(names)


def _settled(
    name: str,
    source: str,
    own: frozenset[str],
    lists: _Lists,
    custom: int = 0,
    note: str = "",
    is_complete: bool = True,
    converts: bool = False,
) -> Declaration:
    """Follow composite operators to their parts; a converter also gets those that torch takes apart for it."""
    known, parts = lists.known, lists.parts
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
    there = [op for op, has in reference.operators.items() if op in reference.public and _counts_as(has, own_only)]
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
    """Operators that a platform has and that a missing one can be made of: by torch's decompositions, by its recorded
    parts, or because it is another spelling of theirs; empty without any."""
    found = _made_there(op, declaration, _DEEPEST)
    return tuple(sorted(found)) if found else ()


def made_of(op: str, declaration: Declaration) -> tuple[str, ...]:
    """What an operator is made of, in the way of which a platform lacks the fewest parts; empty where nobody knows."""
    ways = [sorted(way) for way in _ways(op) if way]
    return tuple(min(ways, key=lambda way: sum(not declaration.has(part).runs for part in way))) if ways else ()


def _made_there(op: str, declaration: Declaration, depth: int) -> frozenset[str] | None:
    for way in _ways(op):
        leaves: set[str] = set()
        for part in way:
            inner = frozenset({part}) if declaration.has(part).runs else None
            if inner is None and depth:
                inner = _made_there(part, declaration, depth - 1)
            if inner is None:
                break
            leaves |= inner
        else:
            if leaves:
                return frozenset(leaves)
    return None


def _ways(op: str) -> list[frozenset[str]]:
    """Ways of making an operator of others: recorded ones first, then other spellings."""
    parts = recorded()
    _, name, overload = op.split(".")
    found = [*parts.decompositions.get(op, ()), *parts.implicit.get(op, ())]
    if functional(op):
        found.append(frozenset({functional(op), "aten.copy_.default"}))
    if name.endswith("_copy"):
        found.append(frozenset({f"aten.{name.removesuffix('_copy')}.{overload}", "aten.clone.default"}))
    if overload in ("Scalar", "Scalar_Tensor"):
        found.append(frozenset({f"aten.{name}.Tensor", "aten.scalar_tensor.default"}))
    return found
