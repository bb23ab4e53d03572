"""A batch survives its worker: the guilty item alone is blamed, and only after a second try."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mindgap.errors import CorruptProgram, NoSpace
from mindgap.execution.arena import digest_of, opened
from mindgap.execution.batches import BatchWorker
from mindgap.execution.parcel import Constants, Parcel
from mindgap.execution.pool import Pool
from mindgap.execution.process import Death
from mindgap.platforms.running import RunCases, believed, died, run_cases
from mindgap.program.codec import encode
from mindgap.program.graph import Constant, Input, Node, Program, Ref, digest
from mindgap.program.made import Made
from mindgap.records.outcome import Outcome, Stage, Status, StoredTensor
from mindgap.records.tensors import NamedTensor, TensorMeta
from tests.execution.test_pool import META, planted


def parcel(name: str) -> Parcel:
    nodes = (Node(1, "aten.mul.Tensor", (Ref(0), 2), {}, META),)
    example = (Made(0, "x", -1.0, 1.0),)
    return Parcel(encode(Program(name, (Input(0, "x", META),), (), nodes, Ref(1), example)))


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


def refuse(reason: NoSpace) -> None:
    raise reason


def work(pool: Pool, names: Sequence[str]) -> dict[str, Outcome]:
    """Every program on the planted platform, by name."""
    found: dict[str, Outcome] = {}
    cases = [parcel(name) for name in names]

    def request(numbers: Sequence[int]) -> RunCases:
        files = tuple(str(pool.scratch.new_file("outputs")) for _ in numbers)
        return RunCases(tuple(cases[n] for n in numbers), files, runs=2)

    def accept(number: int, outcome: Outcome, alone: bool) -> bool:
        found[names[number]] = outcome
        return True

    def on_death(number: int, death: Death) -> None:
        found[names[number]] = died("planted", death)

    BatchWorker(pool, planted(), run_cases, on_pause=refuse).work(len(cases), request, accept, on_death)
    return found


def test_the_guilty_one_is_blamed_and_the_others_run(pool: Pool) -> None:
    found = work(pool, ["first", "segfault", "second", "raise", "third"])
    assert {name: outcome.status for name, outcome in found.items()} == {
        "first": Status.OK,
        "segfault": Status.CRASH,
        "second": Status.OK,
        "raise": Status.REJECTED,
        "third": Status.OK,
    }
    assert found["segfault"].stage is Stage.RUN and "SIGSEGV" in found["segfault"].message
    assert found["first"].digest == found["third"].digest and found["first"].stable is True
    assert digest_of(opened(found["first"]).outputs) == found["first"].digest


def test_a_worker_that_somebody_kills_costs_nothing(pool: Pool) -> None:
    assert work(pool, ["first"])["first"].ok
    os.kill(pool._workers["planted"]._process.pid, signal.SIGKILL)
    found = work(pool, ["second", "third"])
    assert all(outcome.ok for outcome in found.values()), found


def test_digests_are_the_same_exactly_for_the_same_outputs() -> None:
    one = [NamedTensor("output", torch.tensor([1.0, float("nan")]))]
    assert digest_of(one) == digest_of([NamedTensor("output", torch.tensor([1.0, float("nan")]))])
    others = [
        [NamedTensor("other", one[0].tensor)],
        [NamedTensor("output", one[0].tensor.double())],
        [NamedTensor("output", one[0].tensor.reshape(2, 1))],
        [NamedTensor("output", torch.tensor([1.0, -float("nan")]))],
        [],
    ]
    assert len({digest_of(item) for item in [one, *others]}) == 6


def test_weights_are_made_once_read_where_no_seed_gives_them_and_always_checked(tmp_path: Path) -> None:
    tensor = torch.arange(4.0)
    constant = Constant(2, "w", TensorMeta.of(tensor), digest(tensor))
    program = Program("p", (), (constant,), (), Ref(2))
    weights = Constants()
    with pytest.raises(CorruptProgram, match="missing"):
        weights.of(program, str(tmp_path))
    (tmp_path / constant.digest).write_bytes(torch.ones(4).numpy().tobytes())
    with pytest.raises(CorruptProgram, match="digest"):
        weights.of(program, str(tmp_path))
    (tmp_path / constant.digest).write_bytes(tensor.numpy().tobytes())
    found = weights.of(program, str(tmp_path))[constant.digest]
    assert torch.equal(found, tensor)
    assert weights.of(program, "")[constant.digest] is found


def test_weights_that_do_not_fit_are_made_again() -> None:
    weights = Constants(room=20)
    made = [Made(seed, "w", -1.0, 1.0) for seed in range(3)]
    from mindgap.program.made import recreate

    meta = TensorMeta((4,), "float32", (1,))
    constants = tuple(Constant(n, "w", meta, digest(recreate(recipe, meta)), recipe) for n, recipe in enumerate(made))
    program = Program("p", (), constants, (), Ref(0))
    first = weights.of(program, "")
    again = weights.of(program, "")
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert len(weights._kept) == 1


def test_an_answer_about_others_or_about_impossible_tensors_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "outputs"

    def said(shape: tuple[int, ...], stride: tuple[int, ...], dtype: str = "float32", offset: int = 0) -> Outcome:
        stored = (StoredTensor("output", TensorMeta(shape, dtype, stride), offset),)
        return Outcome("planted", Status.OK, Stage.RUN, file=str(file), stored=stored)

    good = said((2, 3), (3, 1))
    assert believed(good, planted(), file) is good
    for lie in (
        replace(good, platform="eager"),
        replace(good, file="/etc/passwd"),
        said((-2, 3), (3, 1)),
        said((2, 3), (3,)),
        said((2, 3), (1 << 40, 1)),
        said((2, 3), (3, 1), "float7"),
        said((2, 3), (3, 1), offset=-4),
    ):
        found = believed(lie, planted(), file)
        assert (found.platform, found.status, found.file) == ("planted", Status.CRASH, "")
