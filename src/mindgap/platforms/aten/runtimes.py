"""MLX and MindSpore on this CPU, through the one table of core-ATen operators."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

import torch

from mindgap.platforms.aten import mindspore_words, mlx_words, recording, table
from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.platforms.exported import LOWERING, LOWERING_MEANS, REMEMBERED, ExportedRun, export, quiet
from mindgap.platforms.lowering import Decomposition, Lowering
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.probing import guarded, is_two, working
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.messages import TORCH
from mindgap.program.case import Case
from mindgap.records.outcome import Stage
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPES


class AtenRuntime(Platform):
    """A runtime that is told what to do operator by operator, after torch decomposed the program to core ATen."""

    package: ClassVar[str]
    opening: ClassVar[tuple[str, ...]]
    """The first lines of a script in the runtime's own calls."""
    speaks: ClassVar[str]
    """What a `Recorder` is told of it, in the names of `opening`."""
    options: ClassVar = {LOWERING: LOWERING_MEANS}
    in_crowds: ClassVar = {LOWERING: REMEMBERED}

    @classmethod
    def families_of(cls, spec: PlatformSpec) -> tuple[str, ...]:
        return (cls.runtime, "mindgap's table")  # what the table says wrongly all of them compute

    @classmethod
    @abstractmethod
    def words(cls) -> Callable[[], table.Say]:
        """Makes its vocabulary."""

    def probe(self) -> Probe:
        def ask() -> Probe:
            version = importlib.import_module(self.package).__version__
            return Probe(True, str(version), "CPU", working(DTYPES, self.adds))

        return guarded(ask)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        remembered = self.spec.options.get(LOWERING) == REMEMBERED
        exported = export(case, clock, lowering() if remembered else None)
        with clock(Stage.CONVERT), quiet():
            graph = table.Graph(table.decomposed(exported.exported), vocabulary(type(self)))
        prepared = ExportedRun(case, exported, graph.run)
        prepared.composed = graph.composed
        return prepared

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        words = cls.words()
        texts = [_own_text(inspect.getsource(sys.modules[name])) for name in (table.__name__, words.__module__)]
        script = _SCRIPT.format(words=words.__name__)
        recorder = _RECORDING.format(opening="\n".join(cls.opening), speaks=cls.speaks, words=words.__name__)
        return ReproducerText(
            "\n\n".join([*texts, script]),
            exports=True,
            recorder="\n\n".join([*texts, _own_text(inspect.getsource(recording)), recorder]),
            packages=cls.packages,
        )

    def adds(self, dtype: str) -> bool:
        """Whether 1 + 1 is right with this element type."""
        say = vocabulary(type(self))
        one = say("array", torch.ones(2).to(DTYPES[dtype]))
        total = say("logical_or" if dtype == "bool" else "add", one, one)
        return is_two(say("tensor", total, DTYPES[dtype]), dtype)


class Mlx(AtenRuntime):
    """Apple's MLX on its CPU back end."""

    runtime = "mlx"
    summary = "Apple's MLX on this CPU, not Metal"
    package = "mlx.core"
    opening = ("import mlx.core as mx; from mlx import nn", "mx.set_default_device(mx.cpu)")
    speaks = "{'mx': mx, 'nn': nn}, {f'mx.{name}': getattr(mx, name, None) for name in KINDS}, 'mx.array', mx.array"
    packages = ("mlx",)
    recipes: ClassVar = {"": Recipe("mlx", summary, pins=("mlx==0.32.4", "mlx-cpu==0.32.4"), size_mb=38)}
    message_rules = TORCH + MessageRules()

    @classmethod
    def words(cls) -> Callable[[], table.Say]:
        return mlx_words.mlx_words


class MindSpore(AtenRuntime):
    """Huawei's MindSpore on its CPU kernels."""

    runtime = "mindspore"
    summary = "Huawei's MindSpore on this CPU, not on an Ascend"
    package = "mindspore"
    opening = (
        "import mindspore as ms; from mindspore import Tensor, mint, ops",
        "ms.set_device('CPU'); ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)",
    )
    speaks = (
        "{'mint': mint, 'ops': ops, 'mint.nn.functional': mint.nn.functional}, "
        "{f'ms.{name}': getattr(ms, name, None) for name in KINDS}, 'Tensor', Tensor"
    )
    packages = ("mindspore",)
    recipes: ClassVar = {
        "": Recipe(
            "mindspore",
            summary,
            pins=(
                "mindspore==2.10.0", "asttokens==3.0.2", "astunparse==1.6.3", "dill==0.4.1", "numpy==1.26.4",
                "packaging==26.3",
                "pillow==13.0.0", "protobuf==7.36.2", "psutil==7.2.2", "safetensors==0.8.0", "scipy==1.17.1",
                "six==1.17.0", "wheel==0.48.0",
            ),
            size_mb=2890,
            env={"GLOG_v": "3"},
        )
    }  # fmt: skip
    message_rules = TORCH + MessageRules(noise=(r"- C\+\+ Call Stack", r"- The Function Call Stack", r"-{10,}"))

    @classmethod
    def words(cls) -> Callable[[], table.Say]:
        return mindspore_words.mindspore_words


@functools.cache
def vocabulary(cls: type[AtenRuntime]) -> table.Say:
    """One for a process: making it imports the runtime."""
    return cls.words()()


@functools.cache
def lowering() -> Lowering:
    """One for a process: it remembers every call that it has lowered."""
    from torch.export import default_decompositions

    decompositions = default_decompositions()
    return Lowering(Decomposition(table.decomposed, lambda: set(decompositions)))


def _own_text(source: str) -> str:
    """A module's text without its docstring and without what must stand first in a file."""
    return source.split("from __future__ import annotations\n", 1)[1].strip()


_SCRIPT: Final = """
def on_platform(model, inputs):
    import sys

    exported = decomposed(torch.export.export(model, tuple(inputs), strict=False))
    words = {words}()
    seen = set()

    def say(word, *args):  # the runtime's own calls, each shown once
        if word not in seen and word not in ("array", "tensor", "cast", "full"):
            seen.add(word)
            print("calls", word, file=sys.stderr)
        return words(word, *args)

    return Graph(exported, say).run(inputs)
"""


_RECORDING: Final = """
{opening}
KINDS = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 complex64 complex128 bool_".split()
recorder = Recorder({speaks})
recorder.words = {words}()
exported = decomposed(torch.export.export(model, tuple(inputs), strict=False))
opening = '''{opening}'''
print("SHORT", [*opening.splitlines(), *recorder.record(lambda say: Graph(exported, say), inputs)])
"""
