"""The plan of a study: written once, kept, and the campaigns that follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.errors import CorruptFile, UsageError
from mindgap.study.plan import FRAGMENTS, MODELS, PHASES, PLAN, VARIANTS, StudyPlan, chosen_phases, is_study, open_plan

GIVEN = StudyPlan(("eager", "eager@scalar"), 50, ("smoke",), seed=3)


def test_a_study_keeps_its_plan(tmp_path: Path) -> None:
    assert not is_study(tmp_path)
    assert open_plan(tmp_path / "new", GIVEN) == GIVEN
    assert open_plan(tmp_path / "new", None) == GIVEN
    assert open_plan(tmp_path / "new", GIVEN) == GIVEN
    assert is_study(tmp_path / "new")
    with pytest.raises(UsageError, match="another plan"):
        open_plan(tmp_path / "new", StudyPlan(("eager",), 50, ("smoke",)))


def test_no_study_and_a_damaged_one_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no study"):
        open_plan(tmp_path, None)
    (tmp_path / PLAN).write_text("{")
    with pytest.raises(CorruptFile, match="not the plan of a study"):
        open_plan(tmp_path, None)


def test_each_phase_is_a_campaign() -> None:
    models, variants, fragments = (GIVEN.campaign(phase) for phase in (MODELS, VARIANTS, FRAGMENTS))
    assert models.unmodified and models.variants == GIVEN.models > 10
    assert (variants.variants, variants.fragments, variants.unmodified) == (50, 0.0, False)
    assert (fragments.variants, fragments.fragments) == (50, 1.0)
    assert all(plan.seed == 3 and plan.corpus == ("smoke",) for plan in (models, variants, fragments))


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no corpus"):
        StudyPlan(("eager",), 5, None, str(tmp_path)).campaign(MODELS)


def test_phases_are_chosen_by_name_and_keep_their_order() -> None:
    assert chosen_phases(None) == PHASES
    assert chosen_phases([VARIANTS, MODELS]) == (MODELS, VARIANTS)
    with pytest.raises(UsageError, match="no phase 'model'"):
        chosen_phases(["model"])
