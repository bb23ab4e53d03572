"""What a campaign shows while it runs: never more than all, and a time left that comes true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.campaign.progress import EXPLAIN, LATE, RELATIONS, Progress, Snapshot
from mindgap.records.progress import Lane
from tests.campaign import programs


@dataclass
class Simulated:
    """A campaign whose platforms, relations and explanations take a constant time each."""

    paces: dict[str, float]
    shares: dict[str, float]
    variants: int
    relations_s: float = 0.0
    explain_s: float = 0.0
    explanations: int = 0
    budget_s: float = 1e9
    earlier: int = 0
    """Variants that an earlier run finished on the first platform alone."""
    now: float = 100.0
    shown: list[tuple[float, Snapshot]] = field(default_factory=list)

    def due(self, name: str, number: int) -> bool:
        return int((number + 1) * self.shares[name]) > int(number * self.shares[name])

    def run(self) -> float:
        """When it ended; what was shown at each moment stays."""
        progress = Progress(self.variants, self.shares, self.budget_s, lambda: self.now)
        first = next(iter(self.paces))
        owed = {n: {k for k in range(self.earlier) if self.due(n, k)} for n in self.paces if n != first}
        progress.begin({first: self.earlier}, owed, self.earlier)
        progress.costing(self.paces)
        explanations = Lane(self.explanations, guess_s=self.explain_s)
        progress.explaining(explanations, Lane(), self.budget_s)
        related = [n for n in range(self.earlier, self.variants) if self.relations_s and n % 5 == 0]
        for number in range(self.earlier, self.variants):
            progress.saw(number, [name for name in self.paces if self.due(name, number)], number in related)
        progress.saw_all()
        for name, number in self.finished():
            progress.judged(number, [name])
            self.show(progress)
        progress.phase = LATE
        self.show(progress)
        progress.phase = RELATIONS
        for done in range(len(related) + 1):
            progress.relating(first, done, len(related))
            self.show(progress)
            self.now += self.relations_s if done < len(related) else 0.0
        progress.phase = EXPLAIN
        for done in range(self.explanations + 1):
            left = max(0.0, self.budget_s - done * self.explain_s)
            progress.explaining(replace(explanations, done=done, marks=((self.now, done),)), Lane(), left)
            self.show(progress)
            if done == self.explanations or not left:
                break
            self.now += min(self.explain_s, left)
        return self.now

    def finished(self) -> Iterator[tuple[str, int]]:
        """All platforms at the same time, each variant when its time has come."""
        start, first = self.now, next(iter(self.paces))
        events = []
        for name, pace in self.paces.items():
            numbers = [n for n in range(self.earlier if name == first else 0, self.variants) if self.due(name, n)]
            events += [(start + (place + 1) * pace, name, number) for place, number in enumerate(numbers)]
        for at, name, number in sorted(events):
            self.now = at
            yield name, number

    def show(self, progress: Progress) -> None:
        self.shown.append((self.now, progress.snapshot(self.now - 100.0, {}, 0, "", 0, 0)))


PLATFORMS = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.floats(0.01, 20.0), st.floats(0.05, 1.0)), max_size=3)


@settings(max_examples=25, deadline=None)
@given(
    others=PLATFORMS,
    variants=st.integers(1, 30),
    earlier=st.integers(0, 30),
    explanations=st.integers(0, 5),
    budget=st.floats(0.0, 100.0),
)
def test_never_beyond_all_and_never_back(
    others: dict[str, tuple[float, float]], variants: int, earlier: int, explanations: int, budget: float
) -> None:
    campaign = Simulated(
        {"eager": 0.05, **{name: pace for name, (pace, _) in others.items()}},
        {"eager": 1.0, **{name: share for name, (_, share) in others.items()}},
        variants,
        relations_s=0.5,
        explain_s=10.0,
        explanations=explanations,
        budget_s=budget,
        earlier=min(earlier, variants),
    )
    campaign.run()
    for (_, before), (_, after) in zip(campaign.shown, campaign.shown[1:]):
        assert before.finished <= after.finished <= after.total == variants
        for name, lane in after.platforms.items():
            assert before.platforms[name].done <= lane.done <= lane.total
        assert all(lane.done <= lane.total for lane in (*after.relations.values(), after.explanations))
    last = campaign.shown[-1][1]
    assert last.finished == last.total and not any(lane.owed for lane in last.platforms.values())
    assert last.left_s == 0.0


@settings(max_examples=25, deadline=None)
@given(
    slow=st.floats(1.0, 60.0), share=st.floats(0.2, 1.0), relations_s=st.floats(0.1, 5.0), earlier=st.integers(0, 20)
)
def test_the_time_left_comes_true(slow: float, share: float, relations_s: float, earlier: int) -> None:
    """From the third program of the slowest platform on: it decides, and what follows is added."""
    campaign = Simulated(
        {"eager": 0.02, "slow": slow},
        {"eager": 1.0, "slow": share},
        60,
        relations_s,
        explain_s=12.0,
        explanations=4,
        budget_s=40.0,
        earlier=earlier,
    )
    end = campaign.run()
    followed = len([n for n in range(earlier, 60) if n % 5 == 0]) * relations_s + 40.0
    for at, now in campaign.shown:
        if now.platforms["slow"].done >= 3:
            assert now.left_s is not None
            variants = now.platforms["slow"].owed * slow
            if not now.relations:
                # The relations have not begun: their pace is a guess, the rest is not.
                known = now.left_s - variants - 40.0
                assert -1e-6 <= known <= 4 * slow * 12 + 1e-6
            elif now.relations["eager"].done > 1 or now.phase == EXPLAIN:
                assert now.left_s == pytest.approx(end - at, abs=1e-6)
    assert followed == pytest.approx(end - 100.0 - slow * now.platforms["slow"].total, abs=1e-6)


def test_no_time_is_promised_before_every_platform_has_shown_its_pace() -> None:
    campaign = Simulated({"eager": 0.01, "slow": 50.0}, {"eager": 1.0, "slow": 1.0}, 10)
    campaign.run()
    for _, now in campaign.shown:
        assert (now.left_s is None) == (now.platforms["slow"].done < 2)


def test_a_campaign_with_an_end_promises_no_later_one() -> None:
    now = 100.0
    progress = Progress(1000, {"slow": 1.0}, 0.0, lambda: now)
    progress.deadline = 160.0
    progress.begin({"slow": 0}, {"slow": set(range(1000))}, 0)
    assert progress.left_s(now) == 60.0, "the pace is not known yet, the end is"
    progress.costing({"slow": 50.0})
    assert progress.left_s(now) == 60.0
    assert progress.left_s(170.0) == 0.0


def test_a_first_program_that_takes_long_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pace is not known yet: then the others go on as well, and nothing is counted twice when it gets its part."""
    monkeypatch.setattr("mindgap.campaign.campaign_run.BACKLOG", 2)
    monkeypatch.setattr("mindgap.campaign.queues.TRIAL_S", 0.2)
    seen: list[Snapshot] = []
    release = tmp_path / "release"

    def watch(now: Snapshot) -> None:
        seen.append(now)
        if now.finished > 12:
            release.touch()

    known = programs.config(wall_s=110.0)
    wrong = known.platforms["wrong"]
    env = {**wrong.env, "RELEASE": str(release)}
    late = replace(wrong, name="late", adapter="tests.campaign.planted:SlowStart", env=env)
    ending = programs.run(
        tmp_path / "campaign",
        replace(programs.plan("wrong", "late"), timeout_s=110.0),
        config=replace(known, platforms=known.platforms | {"late": late}),
        watch=watch,
    )
    assert ending.complete
    assert any(now.finished > 12 and not now.platforms["late"].done for now in seen), seen
    assert all(now.finished <= now.total == 24 for now in seen)
    assert all(lane.done <= lane.total == 24 for now in seen for lane in now.platforms.values())
    assert seen[-1].finished == 24 and seen[-1].left_s == 0.0
