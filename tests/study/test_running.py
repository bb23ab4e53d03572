"""A small study for real, in one piece and in many: the same tables, all of them true to the ledgers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mindgap.cli.study import write_results
from mindgap.platforms.config import Config
from mindgap.report.page.of_results import content_of
from mindgap.report.study import PLANNED, planned_rows
from mindgap.study import running
from mindgap.study.plan import MODELS, OPERATORS, StudyPlan, open_plan
from mindgap.study.plan import PHASES as ALL_PHASES
from mindgap.study.running import Study, due
from mindgap.study.tables import campaigns_of, tables_of

PLAN = StudyPlan(("eager", "eager@scalar"), 8, ("smoke:rl-actor-critic", "smoke:tabular-ft-transformer"))
USED = (MODELS, OPERATORS)
"""Phases of these tests: whole programs and crowds, the two ways in which campaigns run."""


@pytest.fixture(scope="module")
def few_operators() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "sampled_operators", lambda: ())
        patch.setattr(running, "universe", lambda *given: ["aten.relu.default", "aten.exp.default"])
        patch.setattr(running, "DTYPES", ("float32",))
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, few_operators: None) -> Path:
    directory = tmp_path_factory.mktemp("study") / "whole"
    study = Study(directory, open_plan(directory, PLAN), Config(), phases=USED)
    assert study.run(hours=0.5) == "done"
    write_results(directory, PLAN)
    return directory


def tables(directory: Path) -> dict[str, Any]:
    """All tables but what time it took."""
    found = tables_of(directory, [], campaigns_of(directory))
    return {table.name: sorted(map(repr, table.rows)) for table in found if table.name not in ("cost", "whole")}


def test_every_phase_ran_to_its_end(finished: Path) -> None:
    found = campaigns_of(finished)
    assert list(found) == list(USED)
    assert found[MODELS].variants == PLAN.models
    assert all(item.done == item.due for c in found.values() for item in (*c.platforms, *c.fragment_platforms))
    assert {name for (name,) in query(finished / MODELS, "SELECT mutations FROM programs")} == {""}


def test_errors_of_unmodified_models_are_distances_from_float64(finished: Path) -> None:
    """Enough for a variant is a distance from eager, in floors of one noise run: no two models could be compared."""
    errors = query(finished / MODELS, "SELECT eager_error_over_bound FROM verdicts WHERE conclusion = 'rounding'")
    assert errors and all(error is not None for (error,) in errors)


def test_interrupted_again_and_again_it_gives_the_same_tables(
    finished: Path, few_operators: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LOOK_S", 8.0)
    looked = Study(tmp_path, open_plan(tmp_path, PLAN), Config(), phases=USED)
    assert looked.look() == "done"
    assert [turn.phase for turn in looked.turns] == list(USED) and looked.look() == "done"
    rows = planned_rows(PLAN, looked.turns, 1.0, {phase: due(PLAN, phase) for phase in ALL_PHASES})
    alone = planned_rows(PLAN, looked.turns, 1.0, {MODELS: due(PLAN, MODELS)})
    assert [row[0] for row in alone] == [MODELS] and int(alone[0][4]) >= int(rows[0][4])
    assert {row[0] for row in rows} == set(ALL_PHASES) and all(len(row) == len(PLANNED) for row in rows)
    assert Study(tmp_path, open_plan(tmp_path, None), Config(), phases=USED).run(hours=0.5) == "done"
    assert tables(tmp_path) == tables(finished)


def test_the_tables_are_those_of_the_ledgers(finished: Path) -> None:
    document = json.loads((finished / "study.json").read_text())
    counted = {row[3]: row[4] for row in document["tables"]["consistency"]["rows"] if row[0] == MODELS}
    assert counted == dict(query(finished / MODELS, "SELECT conclusion, COUNT(*) FROM verdicts GROUP BY 1"))
    margins = {row[0]: row for row in document["tables"]["margins"]["rows"] if row[1] == "all"}
    models = margins["eager@scalar"][2]
    judged = "SELECT COUNT(*) FROM verdicts WHERE conclusion IN ('agrees', 'rounding', 'diverges')"
    assert models == query(finished / MODELS, judged)[0][0]
    assert document["operators"]["observed"]
    assert [row[:4] for row in document["tables"]["operators"]["rows"]] == [["eager@scalar", "float32", 2, 2]]
    cost = {row[0]: row for row in document["tables"]["cost"]["rows"]}
    assert list(cost) == list(USED) and all(row[3] > 0 for row in cost.values())
    ((phase, programs, platforms, core_hours, *_),) = document["tables"]["whole"]["rows"]
    assert (phase, programs, platforms) == (MODELS, 4000, 2) and core_hours > 100 * cost[MODELS][3]
    assert all(table["counted"] for table in document["tables"].values())


def test_pages_tables_and_figures_are_there(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {"report.html", "study.json", "study.md", "tables", "figures", *(f"{p}.html" for p in USED)} <= names
    assert (finished / "tables" / "consistency.csv").read_text().startswith("phase,platform,version,verdict,programs")
    assert list((finished / "figures").glob("models-execution.*"))
    content = content_of(finished)
    assert content.subject == "study" and "2 real models" in content.conclusion
    assert all(bar.link.startswith("models.html#") for figure in content.figures for bar in figure.bars)


def test_what_was_never_begun_has_no_tables_but_no_error_either(tmp_path: Path) -> None:
    open_plan(tmp_path, PLAN)
    write_results(tmp_path, PLAN)
    assert "0 real models" in (tmp_path / "study.md").read_text()
    assert not (tmp_path / f"{OPERATORS}.html").exists()


def query(directory: Path, text: str) -> list[tuple[Any, ...]]:
    data = sqlite3.connect(directory / "ledger.sqlite")
    try:
        return data.execute(text).fetchall()
    finally:
        data.close()
