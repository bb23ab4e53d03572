"""A runtime of another package gets everything that a built-in one has, and touches nothing in mindgap."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.platforms import registry
from mindgap.platforms.base import Platform
from mindgap.platforms.config import load_config
from mindgap.platforms.ladder import ONE_THREAD, Ladder
from mindgap.platforms.probing import probe, require
from mindgap.platforms.registry import adapter_class, catalogue, eager_of, resolve
from mindgap.platforms.running import run_here
from mindgap.platforms.versions import versions
from mindgap.program.case import Case
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.tracing.ladder import climb
from tests.platforms.running import task_of

TOY = r'''
"""A runtime that multiplies in fixed point when it optimises, and that has no tanh."""

from mindgap.platforms.base import Platform, Prepared, Profile
from mindgap.platforms.ladder import Knob, Rung
from mindgap.platforms.messages import MessageRules
from mindgap.platforms.reproducer import ReproducerText
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor


class Toy(Platform):
    runtime = "toy"
    summary = "a runtime of somebody else"
    install = "pip install toy-runtime"
    profiles = {"plain": Profile("toy without its optimiser", options={"optimise": False})}
    options = {"optimise": "whether its optimiser runs (true)", "bits": "bits of a fixed-point number (8)"}
    packages = ("toy-runtime",)
    message_rules = MessageRules(
        rewrites=((r"\[toy E(\d+)\] ", r"toy error \1: "),),
        noise=("toy: note",),
        telling=("no kernel",),
    )
    rungs = (
        Rung("parser", {"optimise": False}, layer="parser", says="its parser brings it in"),
        Rung("optimiser", layer="optimiser", says="its optimiser brings it in"),
    )
    knobs = (Knob("wide numbers", {"bits": 40}, "fixed point", "toy runs with wide numbers"),)

    def probe(self):
        return Probe(True, "1.2.3", "toy device", ("float32",))

    def prepare(self, case, clock):
        with clock(Stage.CONVERT):
            for node in case.program.nodes:
                if node.op == "aten.tanh.default":
                    raise RuntimeError("toy: note: hello\n[toy E7] no kernel for tanh\ntoy: note: bye")
        return ToyRun(case, self.spec.options)

    @classmethod
    def reproducer(cls, spec):
        text = "def on_platform(model, inputs):\n    return [x.round() for x in as_list(model(*inputs))]\n"
        return ReproducerText(text, packages=cls.packages)


class ToyRun(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case, options):
        self.scale = 2.0 ** int(options.get("bits", 8)) if options.get("optimise", True) else None

    def run(self, tensors):
        result = tensors[0].double() * 3
        result = result if self.scale is None else (result * self.scale).round() / self.scale
        return [NamedTensor("output", result.float())]


class Minimal(Platform):
    runtime = "minimal"
    summary = "as little as possible"

    def probe(self):
        return Probe(True, "1", "CPU")

    def prepare(self, case, clock):
        return ToyRun(case, {"optimise": False})
'''


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A pool beside an installed distribution `toy-runtime` that offers two platforms."""
    site = tmp_path_factory.mktemp("site")
    (site / "toy_runtime.py").write_text(TOY)
    info = site / "toy_runtime-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-runtime\nVersion: 1.2.3\n")
    offered = "toy = toy_runtime:Toy\nminimal = toy_runtime:Minimal\n"
    (info / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\n{offered}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        importlib.invalidate_caches()
        _forget()
        with Pool([str(site), os.getcwd()]) as workers:  # noqa: PTH109
            yield workers
    _forget()


def _forget() -> None:
    registry.runtimes.cache_clear()
    registry._entry_points.cache_clear()


def tripled() -> Case:
    return task_of(lambda x: x * 3, [torch.tensor([0.001, 1.0, -2.7])])


def test_it_is_listed_and_probed(pool: Pool) -> None:
    names = [spec.name for spec in catalogue()]
    assert {"toy", "toy@plain", "minimal"} <= set(names)
    assert resolve("toy").install == "pip install toy-runtime"
    assert probe(pool, [resolve("toy")])["toy"].device == "toy device"
    assert require(pool, resolve("toy@plain")).version == "1.2.3"


def test_it_runs_and_takes_options_for_one_request(pool: Pool) -> None:
    spec, case = resolve("toy"), tripled()
    coarse, exact = run_here(pool, spec, case), run_here(pool, spec, case, options={"optimise": False})
    again = run_here(pool, spec, case)
    assert coarse.ok and exact.ok
    assert coarse.digest == again.digest != exact.digest
    assert exact.digest == run_here(pool, resolve("toy@plain"), case).digest


def test_its_errors_are_one_line(pool: Pool) -> None:
    outcome = run_here(pool, resolve("toy"), task_of(torch.tanh, [torch.ones(2)]))
    assert (outcome.status, outcome.stage) == (Status.ERROR, Stage.CONVERT)
    assert outcome.message == "toy error 7: no kernel for tanh"


def test_its_package_is_reported(pool: Pool) -> None:
    assert versions([resolve("toy")])["toy-runtime"] == "1.2.3"
    assert versions()["toy-runtime"] == "1.2.3"
    assert "toy-runtime" not in versions([resolve("eager")])


def test_its_reproducer_needs_no_mindgap(pool: Pool) -> None:
    cls = adapter_class(resolve("toy"))
    assert cls is not None
    found = cls.reproducer(resolve("toy"))
    assert "mindgap" not in found.text and found.packages == ("toy-runtime",)
    names: dict[str, Any] = {"as_list": lambda result: [result]}
    exec(found.text, names)
    (result,) = names["on_platform"](lambda x: x * 3, [torch.tensor([0.5])])
    assert result.tolist() == [2.0]


def test_a_user_can_declare_it(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "mindgap.toml"
    file.write_text('[platform.wide]\nruntime = "toy"\noptions = { bits = 40 }\n')
    assert resolve("wide", load_config(file)).options == {"bits": 40}


@dataclass(frozen=True)
class Symptom:
    candidate_runs: bool = True

    def fits(self, other: Symptom, exactly: bool = True) -> bool:
        return self == other


@dataclass(frozen=True)
class Seen:
    candidate: Outcome
    verdict: Verdict

    @property
    def symptom(self) -> Symptom | None:
        return Symptom() if self.verdict.conclusion is Conclusion.DIVERGES else None


@dataclass(frozen=True)
class BitExaminer:
    """Whatever is not bit for bit as on eager differs."""

    pool: Pool
    platform: PlatformSpec

    def examine(self, case: Case, options: Any = None, platform: PlatformSpec | None = None) -> Seen:
        eager = run_here(self.pool, resolve("eager"), case)
        candidate = run_here(self.pool, platform or self.platform, case, options=options)
        conclusion = Conclusion.AGREES if candidate.digest == eager.digest else Conclusion.DIVERGES
        return Seen(candidate, Verdict(candidate.platform, conclusion, ""))


def test_its_ladder_names_the_layer_and_the_workaround(pool: Pool) -> None:
    examiner: Any = BitExaminer(pool, resolve("toy"))
    case = tripled()
    found = climb(examiner, case, examiner.examine(case), resolve)
    assert found is not None
    assert (found.name, found.restoring) == ("fixed point", ("toy runs with wide numbers",))
    assert found.rungs == (("parser", "agrees"), ("optimiser", "differs"), ("wide numbers", "agrees"))
    assert found.sentence == "it comes from fixed point: with wide numbers it agrees"


def test_a_minimal_one_needs_two_methods(pool: Pool) -> None:
    spec = resolve("minimal")
    cls = adapter_class(spec)
    assert cls is not None and cls.ladder(spec) is None and eager_of(spec) is None
    assert cls.ladder(replace(spec, options={"threads": 4})) == Ladder(knobs=(ONE_THREAD,))
    assert "mindgap.check" in cls.reproducer(spec).text
    assert run_here(pool, spec, tripled()).ok


def test_one_that_only_another_interpreter_has_gets_the_defaults() -> None:
    elsewhere = PlatformSpec("elsewhere", "no_such_package:Class", python="/opt/vendor/bin/python")
    assert adapter_class(elsewhere) is None
    assert 'on=["elsewhere"]' in (adapter_class(elsewhere) or Platform).reproducer(elsewhere).text
    assert set(versions([elsewhere])) == {"mindgap", "torch", "python", "system"}
