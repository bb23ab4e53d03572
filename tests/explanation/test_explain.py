"""The flow of an explanation, and everything that can keep it from one."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mindgap.campaign.ledger import Ledger
from mindgap.campaign.plan import Plan
from mindgap.campaign.reader import finding_ids, findings_of, read
from mindgap.campaign.triage import with_new_ids
from mindgap.errors import MindgapError
from mindgap.explanation import explain
from mindgap.explanation.reproducer import NOT_RUN
from mindgap.platforms.config import load_config
from mindgap.platforms.registry import resolve
from mindgap.program.codec import encode
from mindgap.records.explanation import MOST_NAMED, CauseKind, named
from mindgap.records.finding import Ids
from mindgap.reduction.reducer import Budget
from mindgap.report.explain import explanation_document, explanation_lines
from mindgap.session.session import Session
from tests.tracing.test_bisection import FUSED, layered
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
def session(place: Path) -> Iterator[Session]:
    sys.path.append(str(place))  # where a user's own modules are found
    with Session(load_config(place / "mindgap.toml")) as session:
        yield session
    sys.path.remove(str(place))


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
def test_what_cannot_be_explained_is_said(platform: str, words: str, session: Session, tmp_path: Path) -> None:
    with pytest.raises(MindgapError, match=words) as refusal:
        session.explain(double, platform, tmp_path, [torch.ones(3)])
    assert refusal.value.cause


def test_unspecified_behaviour_is_named_by_its_rule(session: Session, tmp_path: Path) -> None:
    values = torch.tensor([1.0, float("nan"), 3.0])
    with pytest.raises(MindgapError, match="only where behaviour is unspecified") as refusal:
        session.explain(lambda x: x.to(torch.int64), "casting", tmp_path, [values])
    assert "unspecified: float-to-integer" in str(refusal.value.cause)


def test_a_crash_is_explained_like_a_value(session: Session, tmp_path: Path) -> None:
    found = session.explain(double, "crashing", tmp_path, [torch.ones(3)])
    assert found.proof.survived and len(found.proof.operators) == 1
    assert any("crash at run" in line for line in explanation_lines(found))


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A ledger with one finding, as a hunt leaves it."""
    witness, _ = plant(witness_of(double, torch.randn(3)), "aten.tanh", "sign_lost")
    with Ledger(tmp_path) as ledger, ledger.data as data:
        data.execute("INSERT INTO meta VALUES ('plan', ?)", (Plan(("eager", "planted"), 8).to_text(),))
        data.execute("INSERT INTO platforms VALUES (1, 'planted', '0', 'CPU')")
        data.execute("INSERT INTO bases VALUES (1, 'f', 'base')")
        row = (7, "f", "variant", 1, "valid", "", 2, "{}", "[]", zlib.compress(encode(witness.graph)), "variant")
        data.execute("INSERT INTO programs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        data.execute("INSERT INTO outcomes VALUES (7, 1, 'ok', 'run', '', '', NULL, NULL, '', 0.1, NULL)")
        data.execute(
            "INSERT INTO verdicts VALUES (7, 1, 'diverges', 'value', 'candidate', 9, 0, '', NULL, NULL, 's', 0)"
        )
        ledger.write_ids(with_new_ids(findings_of(data), Ids()))
    return tmp_path


def test_a_finding_of_a_campaign_is_explained(session: Session, campaign: Path) -> None:
    assert finding_ids(campaign) == ["F-01"]
    found = session.explain_finding(campaign, "F-01")
    assert found.operator == "aten.tanh.default" and found.proof.operators == ("aten.tanh.default",)
    assert found.cause.kind is CauseKind.IMPLEMENTATION
    assert (campaign / "F-01" / "repro.py").exists() and (campaign / "F-01" / "issue.md").exists()
    json.dumps(explanation_document(found))
    (finding,) = read(campaign).findings
    assert finding.explanation == found and finding.folder == "F-01", "what was found goes back to the ledger"
    assert (finding.id, finding.operator) == ("F-01", "aten.tanh.default"), "it is still the same finding"
    with pytest.raises(MindgapError, match="no finding F-09"):
        session.explain_finding(campaign, "F-09")


def test_others_that_looked_alike_get_an_id_of_their_own(session: Session, campaign: Path) -> None:
    other = witness_of(torch.sin, torch.randn(3)).program
    with Ledger(campaign) as ledger, ledger.data as data:
        row = (8, "g", "other", 1, "valid", "", 9, "{}", "[]", zlib.compress(encode(other)), "variant")
        data.execute("INSERT INTO programs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        same = "8, 1, status, stage, message, class, NULL, NULL, '', 0, NULL"
        data.execute(f"INSERT INTO outcomes SELECT {same} FROM outcomes")
        data.execute(
            "INSERT INTO verdicts VALUES (8, 1, 'diverges', 'value', 'candidate', 9, 0, '', NULL, NULL, 's', 0)"
        )
    (both,) = read(campaign).findings
    assert (both.id, both.variants) == ("F-01", 2)
    session.explain_finding(campaign, "F-01")
    found = {finding.id: (finding.operator, finding.variants) for finding in read(campaign).findings}
    assert found == {"F-01": ("aten.tanh.default", 1), "F-02": ("", 1)}


def test_a_finding_that_is_gone_says_what_changed(session: Session, campaign: Path) -> None:
    healthy = witness_of(double, torch.randn(3)).program
    with Ledger(campaign) as ledger, ledger.data as data:
        data.execute("UPDATE programs SET program = ?", (zlib.compress(encode(healthy)),))
    with pytest.raises(MindgapError, match="F-01 no longer reproduces") as refusal:
        session.explain_finding(campaign, "F-01")
    assert "planted was 0, now 1" in str(refusal.value.cause)


LATER = ("trace", "reduce", "prove", "cause", "reproducer")


def test_a_budget_ends_every_stage_and_what_is_known_is_told(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over as soon as the difference is confirmed: the whole program stands for the answer."""

    def long(x: torch.Tensor) -> torch.Tensor:
        for _ in range(12):
            x = torch.sin(x * 1.3).exp() - x.cos() * 0.5 + torch.tanh(x) / 3
        return x

    witness, _ = plant(witness_of(long, torch.randn(3, 200)), "aten.tanh", "nan_made")
    monkeypatch.setattr(explain, "ENDS", {"confirm": 1.0, **dict.fromkeys(LATER, 0.0)})
    spec = resolve("planted", session.config)
    found = explain.explain_case(session.pool, "long", witness, spec, session.config, tmp_path)
    assert found.unfinished == LATER and not found.proof.finished and not found.proof.survived
    assert len(found.proof.operators) == len(witness.graph.nodes) > 100
    headline, *lines = explanation_lines(found)
    assert headline.count("aten.") == MOST_NAMED and "and 5 more" in headline
    told = "\n".join(lines)
    assert "among 108 of 108 operators; out of budget before fewer were left" in told
    assert "out of budget before all experiments were made" in told
    assert "not run again: out of budget" in told and "not re-run: out of budget" in told and "NOT" not in told
    issue = (tmp_path / "issue.md").read_text()
    assert len(issue.encode()) < 8192 and "108 operators, too long to read here: see the attached script" in issue
    assert (tmp_path / "repro.py").exists() and NOT_RUN in issue
    json.dumps(explanation_document(found))


def test_a_budget_that_does_not_suffice_to_confirm_is_said(session: Session, tmp_path: Path) -> None:
    witness, _ = plant(witness_of(double, torch.randn(3)), "aten.tanh", "sign_lost")
    spec = resolve("planted", session.config)
    with pytest.raises(MindgapError, match="the budget was spent before planted and eager had run it once"):
        explain.explain_case(session.pool, "x", witness, spec, session.config, tmp_path, Budget(seconds=0.0))


@given(st.lists(st.sampled_from("abcdef"), min_size=1))
def test_a_headline_names_at_most_three_operators(operators: list[str]) -> None:
    text = named(operators)
    shown, _, more = text.partition(" and ")
    each = shown.split(" + ")
    assert len(each) <= MOST_NAMED and len(set(each)) == len(each)
    assert len(each) + int(more.removesuffix(" more") or 0) == len(set(operators))


def test_what_an_opaque_platform_fuses_is_explained_with_a_script(session: Session, tmp_path: Path) -> None:
    witness, node = layered("aten.sin", "sign_lost")
    spec = replace(FUSED, options={"fused": True, "fault": "sign_lost", "op": "sin"})
    found = explain.explain_case(session.pool, "layers", witness, spec, session.config, tmp_path)
    assert found.is_together and node in found.culprits and len(found.proof.operators) <= MOST_NAMED
    assert found.proof.survived and found.script.reproduces and found.unfinished == ()
