"""The flow of an explanation, and everything that can keep it from one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from mindgap.explain import explain, explain_finding, finding_ids
from mindgap.pipeline import import_paths

from mindgap.campaign.ledger import Ledger
from mindgap.errors import MindgapError
from mindgap.execution.pool import Pool
from mindgap.platforms.config import Config, load_config
from mindgap.program.codec import encode
from mindgap.report.explain import explanation_document, explanation_lines
from mindgap.tracing.cause import Class
from tests.tracing.witnesses import plant, witness_of

PLATFORMS = """
import random, ctypes
from mindgap.platforms.torch.eager import Eager
from mindgap.records.platform import Probe

class Shaky(Eager):
    runtime = "shaky"
    def settings(self, call):
        return lambda tensors: call(tensors) + random.SystemRandom().random()

class Crashing(Eager):
    runtime = "crashing"
    def settings(self, call):
        return lambda tensors: ctypes.string_at(0)

class Casting(Eager):
    runtime = "casting"
    def settings(self, call):
        return lambda tensors: call(tensors).clamp(min=0)

class Gone(Eager):
    runtime = "gone"
    def probe(self):
        return Probe(False, reason="the card was taken out")
"""

NAMES = ("shaky", "crashing", "casting", "gone")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platforms")
    (folder / "odd_platforms.py").write_text(PLATFORMS)
    rows = [f'[platform.{name}]\nadapter = "odd_platforms:{name.capitalize()}"\n' for name in NAMES]
    rows.append('[platform.planted]\nadapter = "mindgap.bench.faults:Planted"\n')
    (folder / "mindgap.toml").write_text("\n".join(rows))
    return folder


@pytest.fixture(scope="module")
def config(place: Path) -> Config:
    return load_config(place / "mindgap.toml")


@pytest.fixture(scope="module")
def pool(place: Path) -> Iterator[Pool]:
    with Pool([str(place), *import_paths()]) as workers:
        yield workers


def double(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        ("eager", "there is nothing to explain"),
        ("shaky", "differs from itself on a second run"),
        ("gone", "cannot be used here any more"),
    ],
)
def test_what_cannot_be_explained_is_said(
    platform: str, words: str, pool: Pool, config: Config, tmp_path: Path
) -> None:
    with pytest.raises(MindgapError, match=words) as refusal:
        explain(double, platform, tmp_path, [torch.ones(3)], config=config, pool=pool)
    assert refusal.value.cause


def test_unspecified_behaviour_is_named_by_its_rule(pool: Pool, config: Config, tmp_path: Path) -> None:
    values = torch.tensor([1.0, float("nan"), 3.0])
    with pytest.raises(MindgapError, match="only where behaviour is unspecified") as refusal:
        explain(lambda x: x.to(torch.int64), "casting", tmp_path, [values], config=config, pool=pool)
    assert "unspecified: float-to-integer" in str(refusal.value.cause)


def test_a_crash_is_explained_like_a_value(pool: Pool, config: Config, tmp_path: Path) -> None:
    found = explain(double, "crashing", tmp_path, [torch.ones(3)], config=config, pool=pool)
    assert found.survived and len(found.reduction.witness.graph.nodes) == 1
    assert any("crash at run" in line for line in explanation_lines(found))


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A ledger with one finding, as a hunt leaves it."""
    witness, _ = plant(witness_of(double, torch.randn(3)), "aten.tanh", "sign_lost")
    with Ledger(tmp_path, writing=True) as ledger, ledger.data as data:
        data.execute("INSERT INTO platforms VALUES (1, 'planted', '0', 'CPU')")
        data.execute("INSERT INTO bases VALUES (1, 'f', 'base')")
        row = (7, "f", "variant", 1, "valid", "", 2, "{}", "[]", zlib.compress(encode(witness.graph)))
        data.execute("INSERT INTO programs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        finding = {
            "id": "F-01", "signature": "s", "category": "divergence", "platforms": "planted", "witness": 7,
            "witness_platform": "planted", "variants": 1, "bases": 1,
        }  # fmt: skip
        marks = ", ".join("?" * len(finding))
        data.execute(f"INSERT INTO findings ({', '.join(finding)}) VALUES ({marks})", tuple(finding.values()))
    return tmp_path


def test_a_finding_of_a_campaign_is_explained(pool: Pool, config: Config, campaign: Path) -> None:
    assert finding_ids(campaign) == ["F-01"]
    found = explain_finding(campaign, "F-01", config=config, pool=pool)
    assert [node.op for node in found.reduction.witness.graph.nodes] == ["aten.tanh.default"]
    assert found.cause.kind is Class.IMPLEMENTATION
    assert (campaign / "F-01" / "repro.py").exists() and (campaign / "F-01" / "issue.md").exists()
    json.dumps(explanation_document(found))
    with pytest.raises(MindgapError, match="no finding F-09"):
        explain_finding(campaign, "F-09", config=config, pool=pool)


def test_a_finding_that_is_gone_says_what_changed(pool: Pool, config: Config, campaign: Path) -> None:
    healthy = witness_of(double, torch.randn(3)).program
    with Ledger(campaign, writing=True) as ledger, ledger.data as data:
        data.execute("UPDATE programs SET program = ?", (zlib.compress(encode(healthy)),))
    with pytest.raises(MindgapError, match="F-01 no longer reproduces") as refusal:
        explain_finding(campaign, "F-01", config=config, pool=pool)
    assert "planted was 0, now 1" in str(refusal.value.cause)
