"""The benchmark of audits: half of the canaries held out, rows that are kept, pieces that are continued."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType

import pytest
import torch

from mindgap.bench import audit
from mindgap.bench.audit import HONEST, Wanted, _by_domain, _honest, _honest_models, _planted, _tried, _wanted, measure
from mindgap.bench.audited import Stored
from mindgap.bench.canaries import FAMILIES, plant
from mindgap.bench.measurement import Measurement, Row
from mindgap.bench.parting import ONE_PLATFORM
from mindgap.bench.planting import MARK, Site, Unfit
from mindgap.bench.published import published_lines, published_measures
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import UsageError
from mindgap.program import codec
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.interpret import Executable
from mindgap.records.platform import Limits
from mindgap.records.tensors import TensorMeta
from tests.audit.models import Classifier, case_of, images


def silent(who: str, what: str) -> None:
    """Tells nobody."""


def test_a_piece_is_continued(tmp_path: Path) -> None:
    keep = tmp_path / "rows.jsonl"

    def piece(minutes: float = float("inf")) -> Measurement:
        return measure(silent, 2, 0.0, family=["patch match"], part=["canaries"], keep=keep, minutes=minutes, jobs=2)

    assert "2 are still to do" in piece(minutes=0).on and not keep.exists()
    found = piece()
    rows = [json.loads(line) for line in keep.read_text().splitlines()]
    fit = [row for row in rows if "unfit" not in row]
    assert len(fit) == 2 and not any(row["held_out"] for row in fit) and all(row["found"] for row in fit)
    again = piece(minutes=0)
    assert list(again.rows) == list(found.rows) and again.rows[0]["family"] == "patch match" != HONEST
    assert len(keep.read_text().splitlines()) == len(rows)


def wanted(count: int, known: Mapping[str, Row] = MappingProxyType({}), families: Sequence[str] = ()) -> list[Wanted]:
    return list(_wanted(families or list(FAMILIES), count, 0.5, 0, known))


def test_canaries_are_spread_evenly_over_families_places_and_parameters() -> None:
    found = wanted(24 * len(FAMILIES))
    assert set(Counter(item.family for item in found).values()) == {24}
    assert set(Counter((item.family, item.place) for item in found).values()) == {8}
    assert set(Counter((item.family, item.parameter) for item in found).values()) == {3}
    assert len({item.name(0) for item in found}) == len(found)
    assert len({item.family for item in found[: len(FAMILIES)]}) == len(FAMILIES)


def test_a_canary_that_suits_no_model_is_wanted_anew_and_not_for_ever() -> None:
    first = wanted(4, families=["cond"])
    unfit: dict[str, Row] = {first[1].name(0): {"unfit": "no place for it"}}
    second = wanted(4, unfit, ["cond"])
    assert second[:4] == first and len(second) == 5
    hopeless: dict[str, Row] = {item.name(0): {"unfit": "no place for it"} for item in wanted(100, families=["cond"])}
    assert len(wanted(4, hopeless, ["cond"])) == 2 * 4


def test_models_are_drawn_evenly_and_have_what_a_canary_reads() -> None:
    models = _by_domain(0)
    first = [_tried(models, item, 0) for item in wanted(30, families=["token sequence"])]
    assert len({tried[0].name for tried in first}) == 30
    language = [model for tried in first for model in tried if "-language-" in model.name or ":language-" in model.name]
    assert language and not any(":vision-resnet" in model.name for tried in first for model in tried)
    domains = {model.name.partition(":")[2].partition("-")[0] for model, _ in models[:6]}
    assert len(domains) == 6


def test_a_part_of_a_built_corpus_is_like_the_whole(tmp_path: Path) -> None:
    with Store(tmp_path, writing=True) as store:
        for nodes in range(100):
            built = Entry(f"lib:{nodes:02}", "lib", "vision", Status.BUILT, fingerprint=f"f{nodes}", nodes=nodes)
            store.record(built)
        store.record(Entry("lib:none", "lib", "vision", Status.FAILED))
    names = [model.name for model in _honest_models(str(tmp_path), 0)]
    assert sorted(names) == [f"lib:{nodes:02}" for nodes in range(100)]
    assert 10 < sum(name > "lib:50" for name in names[:40]) < 30
    assert names == [model.name for model in _honest_models(str(tmp_path), 0)]


def test_a_file_that_several_wheels_hold_is_one(tmp_path: Path) -> None:
    for wheel, members in {
        "a-1-py3": {"a/x.onnx": b"1", "a/y.onnx": b"2"},
        "a-2-py3": {"a/x.onnx": b"1", "b/x.onnx": b"3"},
    }.items():
        with zipfile.ZipFile(tmp_path / f"{wheel}.whl", "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    names = [model.name for model in _honest_models(str(tmp_path), 0)]
    assert names == ["a-1:a/x.onnx", "a-1:a/y.onnx", "a-2:b/x.onnx"]


def test_whatever_becomes_of_a_program_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meta = TensorMeta.of(torch.zeros(3000, 3000))
    slow = Program("slow", (Input(0, "x", meta),), (), (Node(1, "aten.linalg_eigvals.default", (Ref(0),)),), Ref(1))
    codec.save(tmp_path / "slow.mgp", slow, {})
    (tmp_path / "broken.mgp").write_bytes(b"nothing")
    monkeypatch.setattr(audit, "LIMITS", Limits(cpu_s=1.0))
    with audit._limited() as session:
        broken, slow_row, gone = (
            _honest(Stored(name, str(tmp_path / f"{name}.mgp")), session) for name in ("broken", "slow", "gone")
        )
        unfit = _planted(wanted(1, families=["cond"])[0], 0, (Stored("gone", str(tmp_path / "gone.mgp")),), session)
    assert broken["problem"] and gone["problem"] and unfit["unfit"]
    assert slow_row["family"] == HONEST and "CPU" in slow_row["problem"], slow_row


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


def test_a_detector_that_no_input_moves_is_no_canary() -> None:
    site = Site(case_of(Classifier(), images()), 0, 0, (images(), images()), torch.zeros(2, 10))
    with pytest.raises(Unfit, match="no input moves"):
        FAMILIES["where on a feature"](site, 0, Random(0))


def test_what_the_paper_measured_is_measured_of_a_branch_that_is_known() -> None:
    class Bright(Classifier):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where((x.mean(dim=(1, 2, 3)) > 0.5).unsqueeze(1), MARK, super().forward(x))

    plain, planted = case_of(Classifier(), images()), case_of(Bright(), images())
    found = published_measures(plain, planted, (torch.full_like(images(), 1.9),))
    assert found["trigger"] == 1.0 and found["changed"] < 0.2
    nothing = published_measures(plain, plain, (torch.zeros_like(images()),))
    assert nothing["trigger"] == 0.0 and nothing["changed"] == 0.0
    lines = list(published_lines([found]))
    assert len(lines) == 6 and "| 100.0% | 1 | 93.5% |" in lines[2]
