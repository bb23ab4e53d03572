"""What the built-in runtimes say about themselves: ladders, reproducer texts, packages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.platforms.base import Platform
from mindgap.platforms.ladder import ONE_THREAD
from mindgap.platforms.registry import adapter_class, catalogue, eager_of, resolve
from mindgap.platforms.running import run_here
from mindgap.platforms.versions import versions
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec
from tests.platforms.running import task_of


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as workers:
        yield workers


def class_of(spec: PlatformSpec) -> type[Platform]:
    cls = adapter_class(spec)
    assert cls is not None
    return cls


def test_every_ladder_ends_with_the_whole_runtime_and_uses_known_options() -> None:
    for spec in catalogue():
        cls = class_of(spec)
        ladder = cls.ladder(spec)
        if ladder is None:
            continue
        names = [item.name for item in (*ladder.rungs, *ladder.knobs)]
        assert len(names) == len(set(names)), spec.name
        whole = [rung.is_whole for rung in ladder.rungs]
        assert whole == [False] * (len(whole) - 1) + [True] * bool(whole), spec.name
        assert all(rung.layer and rung.says for rung in ladder.rungs)
        for item in (*ladder.rungs, *ladder.knobs):
            assert set(item.options) <= set(cls.options), (spec.name, item.name)
        assert all(resolve(rung.platform) for rung in ladder.rungs if rung.platform)


def rungs_of(name: str, **options: object) -> list[str]:
    spec = replace(resolve(name), options={**resolve(name).options, **options})
    ladder = class_of(spec).ladder(spec)
    return [] if ladder is None else [rung.name for rung in ladder.rungs]


def knobs_of(name: str, **options: object) -> dict[str, Any]:
    spec = replace(resolve(name), options={**resolve(name).options, **options})
    ladder = class_of(spec).ladder(spec)
    return {} if ladder is None else {knob.name: knob.options for knob in ladder.knobs}


def test_a_ladder_goes_as_far_as_the_platform_does() -> None:
    assert rungs_of("inductor") == ["dynamo", "aot", "decomposition", "inductor"]
    assert rungs_of("aot_eager") == ["dynamo", "aot"]
    assert rungs_of("inductor", backend="tensorrt") == ["dynamo", "tensorrt"]
    assert rungs_of("onnxruntime@noopt") == ["onnx-reference", "no graph optimisations"]
    assert rungs_of("onnxruntime")[2:] == [f"optimisations up to {level}" for level in ("basic", "extended", "all")]
    assert rungs_of("eager") == []


def test_knobs_fit_the_device_and_keep_what_is_set() -> None:
    assert "vectorisation off" in knobs_of("inductor") and "vectorisation off" not in knobs_of("inductor:cuda")
    assert list(knobs_of("inductor", backend="tensorrt")) == ["oneDNN off"] == list(knobs_of("eager@scalar"))
    assert knobs_of("onnxruntime@noopt") == {} == knobs_of("eager@nomkldnn")
    assert list(knobs_of("eager:cuda")) == ["full precision"]
    kept = knobs_of("inductor", inductor={"pattern_matcher": False})["vectorisation off"]
    assert kept == {"inductor": {"pattern_matcher": False, "cpp.simdlen": 0}}
    for name in ("eager", "inductor", "onnxruntime", "openvino"):
        assert ONE_THREAD.name in knobs_of(name, threads=2) and ONE_THREAD.name not in knobs_of(name)


def test_the_layers_of_torch_compile_run_in_one_warm_worker(pool: Pool) -> None:
    """inductor loses the sign of zero; the layers below it do not."""
    spec = resolve("inductor")
    case = task_of(lambda x: 1.0 / (x * 0), [torch.tensor([-1.0, 1.0, -5.0] * 6)])
    eager = run_here(pool, resolve("eager"), case)
    ladder = class_of(spec).ladder(spec)
    assert ladder is not None
    worker = None
    found = {}
    for rung in ladder.rungs:
        outcome = run_here(pool, spec, case, options=rung.options)
        assert outcome.ok, outcome
        found[rung.name] = outcome.digest == eager.digest
        worker = worker or pool._workers[spec.name]
        assert pool._workers[spec.name] is worker
    assert found == {"dynamo": True, "aot": True, "decomposition": True, "inductor": False}


def test_a_switch_of_inductor_reaches_it_and_an_unknown_one_is_refused(pool: Pool) -> None:
    case = task_of(lambda x: (x * x).sum(), [torch.ones(4)])
    spec = resolve("inductor")
    assert run_here(pool, spec, case, options={"inductor": {"cpp.simdlen": 0}}).ok
    refused = run_here(pool, spec, case, options={"inductor": {"cpp.no_such_switch": 0}})
    assert (refused.status, refused.stage) == (Status.UNSUPPORTED, Stage.COMPILE)
    assert "inductor has no switch cpp.no_such_switch" in refused.message


def test_this_torch_has_every_switch_that_a_knob_uses() -> None:
    from torch._inductor import config

    missing = object()
    for name, options in knobs_of("inductor").items():
        assert all(getattr(config, switch, missing) is not missing for switch in options.get("inductor", ())), name


def test_compiled_platforms_are_compared_with_eager_of_their_device() -> None:
    assert [eager_of(resolve(name)) for name in ("inductor", "aot_eager", "inductor:cuda:1")] == [
        "eager",
        "eager",
        "eager:cuda:1",
    ]
    assert all(eager_of(resolve(name)) is None for name in ("eager", "eager:cuda", "onnxruntime", "openvino"))
    mine = replace(resolve("inductor:xpu"), name="mine")
    assert eager_of(mine) == "eager:xpu"


def test_versions_are_those_of_the_platforms_that_were_used() -> None:
    assert list(versions([resolve("eager")])) == ["mindgap", "torch", "python", "system"]
    assert {"onnx", "onnxscript", "onnxruntime"} <= set(versions([resolve("onnxruntime")]))
    assert {"onnxruntime", "openvino"} <= set(versions())
    assert "numpy" in versions([], also=["numpy", "no-such-distribution"])


SCRIPTED = ["eager", "eager@nomkldnn", "eager:cuda", "inductor", "inductor:cuda", "aot_eager", "onnxruntime@noopt",
            "onnx-reference", "openvino", "openvino:GPU"]  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTED)
def test_every_runtime_has_a_text_without_mindgap(name: str) -> None:
    text = class_of(resolve(name)).reproducer(resolve(name)).text
    compile(text, name, "exec")
    assert "def on_platform(model, inputs):" in text and "mindgap" not in text


class OnesLikeFirst(torch.nn.Module):
    """Reads only the dtype of its first input, which converters therefore drop."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.new_ones([2]) + y


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("eager@nomkldnn", {}),
        ("aot_eager", {"inductor": {"cpp.simdlen": 0}, "dynamic": False, "mode": None}),
        ("onnxruntime", {"optimisation": "basic"}),
        ("onnx-reference", {}),
        ("openvino", {}),
    ],
)
def test_a_text_feeds_the_inputs_that_are_read(name: str, options: dict[str, Any]) -> None:
    spec = replace(resolve(name), options={**resolve(name).options, **options})
    names: dict[str, Any] = {"torch": torch, "as_list": lambda result: [result]}
    exec(class_of(spec).reproducer(spec).text, names)
    (found,) = names["on_platform"](OnesLikeFirst(), [torch.zeros(1), torch.tensor([1.0, 5.0])])
    assert found.tolist() == [2.0, 6.0]


def test_options_are_part_of_the_text() -> None:
    def text(name: str, **options: object) -> str:
        spec = replace(resolve(name), options={**resolve(name).options, **options})
        return class_of(spec).reproducer(spec).text

    assert "torch.set_num_threads(4)" in text("eager", threads=4)
    assert "config.patch({'pattern_matcher': False})" in text("inductor", inductor={"pattern_matcher": False})
    assert "backend='hpu_backend'" in text("inductor:hpu")
    assert "ORT_DISABLE_ALL" in text("onnxruntime@noopt") and "num_threads = 3" in text("onnxruntime", threads=3)
