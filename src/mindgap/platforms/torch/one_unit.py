"""All C++ kernels of a compiled program in one translation unit.

Inductor calls the C++ compiler once per kernel and most of each call is spent on the same headers. For a program of
many small parts, one call for all of them costs a tenth. Sources, flags and loader stay inductor's own: only the name
of each kernel changes, and a switch in front of them finds it. Kernels that inductor would compile for different
instruction sets stay in different units, because the compiler fuses other operations there.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

_INCLUDE: Final = re.compile(r"^\s*#include\b.*$", re.MULTILINE)
_NAME: Final = re.compile(r"\bkernel\b(?=\s*\()")
_ENTRY: Final = ("int64_t", "uintptr_t")
"""What the switch is given: the number of a kernel, and where its arguments lie."""
_lock: Final = threading.RLock()


@dataclass(eq=False)
class Kernel:
    """A kernel that is compiled when its program has been written to the end."""

    arguments: tuple[str, ...]
    source: str
    run: Callable[..., None] | None = field(default=None, repr=False)

    def __call__(self, *given: Any) -> None:
        assert self.run is not None, "the program that it belongs to was never finished"
        self.run(*given)

    @property
    def fits(self) -> bool:
        """Whether all that it is given are addresses and whole numbers."""
        return all("*" in kind or kind in ("int64_t", "long") for kind in self.arguments)


@contextlib.contextmanager
def one_translation_unit() -> Iterator[None]:
    """Programs that inductor compiles meanwhile have one translation unit for their kernels."""
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    wait = AsyncCompile.wait

    def promise(self: Any, arguments: list[str], source: str) -> Any:
        kernel = Kernel(tuple(arguments), source)
        return kernel if kernel.fits else CppPythonBindingsCodeCache.load_pybinding(arguments, source)

    def keep_promises(self: Any, scope: dict[str, Any]) -> None:
        wait(self, scope)
        names = [name for name, value in scope.items() if isinstance(value, Kernel)]
        scope.update(zip(names, compiled([scope[name] for name in names])))

    with _lock:  # inductor has one compiler for all threads
        stock = AsyncCompile.cpp_pybinding
        AsyncCompile.cpp_pybinding = promise  # type: ignore[assignment, method-assign]
        AsyncCompile.wait = keep_promises  # type: ignore[method-assign]
        try:
            yield
        finally:
            AsyncCompile.cpp_pybinding, AsyncCompile.wait = stock, wait  # type: ignore[method-assign]


def compiled(kernels: Sequence[Kernel]) -> list[Callable[..., None]]:
    """Each kernel as a function of tensors and whole numbers."""
    from torch._inductor.codecache import _resolve_needs_vec_isa

    units: dict[bool, list[Kernel]] = {}
    for kernel in kernels:
        units.setdefault(bool(_resolve_needs_vec_isa("cpu", kernel.source, None)), []).append(kernel)
    for unit in units.values():
        _compile(unit)
    return [kernel.run for kernel in kernels if kernel.run is not None]


def _compile(kernels: Sequence[Kernel]) -> None:
    from torch._inductor.codecache import CppPythonBindingsCodeCache
    from torch._inductor.exc import CppCompileError

    try:
        if len(kernels) == 1:
            raise CppCompileError([], "nothing to share")
        entry = CppPythonBindingsCodeCache.load_pybinding(_ENTRY, unit_of(kernels))
    except CppCompileError:  # whoever is to blame fails again by itself, in the stock way
        for kernel in kernels:
            kernel.run = CppPythonBindingsCodeCache.load_pybinding(kernel.arguments, kernel.source)
        return
    for number, kernel in enumerate(kernels):
        kernel.run = _caller(entry, number)


def _caller(entry: Callable[[int, int], None], number: int) -> Callable[..., None]:
    def call(*given: Any) -> None:
        places = [item.data_ptr() if isinstance(item, torch.Tensor) else int(item) for item in given]
        array = (ctypes.c_int64 * len(places))(*places)
        entry(number, ctypes.addressof(array))

    return call


def unit_of(kernels: Sequence[Kernel]) -> str:
    """One source for all, with a switch in front."""
    includes = dict.fromkeys(line for kernel in kernels for line in _INCLUDE.findall(kernel.source))
    parts = [*includes]
    cases = []
    for number, kernel in enumerate(kernels):
        body = _NAME.sub(f"kernel_{number}", _INCLUDE.sub("", kernel.source))
        parts.append(f"namespace unit_{number} {{\n{body}\n}}")
        given = ", ".join(
            f"reinterpret_cast<{kind}>(given[{place}])" if "*" in kind else f"given[{place}]"
            for place, kind in enumerate(kernel.arguments)
        )
        cases.append(f"        case {number}: unit_{number}::kernel_{number}({given}); break;")
    switch = "\n".join(cases)
    parts.append(
        f'extern "C" void kernel(int64_t number, uintptr_t place) {{\n'
        f"    auto given = reinterpret_cast<const int64_t*>(place);\n    switch (number) {{\n{switch}\n    }}\n}}\n"
    )
    return "\n".join(parts)
