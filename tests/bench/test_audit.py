"""The benchmark of audits: half of the canaries held out, rows that are kept, pieces that are continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mindgap.bench.audit import HONEST, measure
from mindgap.bench.canaries import plant
from mindgap.bench.parting import ONE_PLATFORM
from mindgap.bench.planting import MARK
from mindgap.bench.published import published_lines, published_measures
from mindgap.errors import UsageError
from mindgap.program.interpret import Executable
from tests.audit.models import Classifier, case_of, images


def silent(who: str, what: str) -> None:
    """Tells nobody."""


def test_a_piece_is_continued_and_half_of_the_parameters_are_held_out(tmp_path: Path) -> None:
    keep = tmp_path / "rows.jsonl"
    nothing = measure(silent, 18, family=["patch match"], part=["canaries"], keep=keep, minutes=0)
    assert not keep.exists() and "2 of 2 are still to do" in nothing.on
    found = measure(silent, 18, family=["patch match"], part=["canaries"], keep=keep)
    rows = [json.loads(line) for line in keep.read_text().splitlines()]
    assert [row["held_out"] for row in rows] == [False, True] and all(row["found"] for row in rows)
    again = measure(silent, 18, family=["patch match"], part=["canaries"], keep=keep, minutes=0)
    assert list(again.rows) == list(found.rows) and again.rows[0]["family"] == "patch match" != HONEST
    assert len(keep.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [({"family": ["nothing"]}, "--family"), ({"part": ["half"]}, "--part"), ({"corpus": ["/none"]}, "is no corpus")],
)
def test_what_it_does_not_know_is_refused(given: dict[str, list[str]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        measure(silent, 1, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("parameter", range(8))
def test_a_trigger_of_one_platform_never_fires_on_eager(parameter: int) -> None:
    canary = plant(case_of(Classifier(), images()), ONE_PLATFORM, "output", parameter, seed=0)
    run = Executable(canary.case.graph, canary.case.constants).run
    for seed in range(20):
        x = torch.randn(images().shape, generator=torch.Generator().manual_seed(seed)) * 10 ** (seed / 10 - 1)
        assert not bool((run([x]) == MARK).any())


def test_what_the_paper_measured_is_measured_of_a_branch_that_is_known() -> None:
    class Bright(Classifier):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where((x.mean(dim=(1, 2, 3)) > 0.5).unsqueeze(1), MARK, super().forward(x))

    plain, planted = case_of(Classifier(), images()), case_of(Bright(), images())
    found = published_measures(plain, planted, (torch.full_like(images(), 1.9),))
    assert found["trigger"] == 1.0 and found["changed"] < 0.2
    nothing = published_measures(plain, plain, (torch.zeros_like(images()),))
    assert nothing["trigger"] == 0.0 and nothing["changed"] == 0.0
    assert [line.split(":")[0].strip() for line in published_lines([found])] == ["published form"] * 3
