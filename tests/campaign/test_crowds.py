"""Fragments in crowds: the guilty are found alone, nobody else suffers, and only what shows alone is a finding."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.campaign.crowds import CROWD_WORKER, SEARCH_WORKER, BriefRunner, CrowdRunner, Interest
from mindgap.campaign.culprits import culprit
from mindgap.campaign.dossier import Dossier, NumberedVariant
from mindgap.campaign.flow import Errand, Flow
from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import open_ledger, read
from mindgap.campaign.stream import numbered as with_number
from mindgap.execution.batches import BatchWorker
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.execution.process import Death
from mindgap.platforms.config import Config
from mindgap.platforms.crowds import CrowdRun, RunCrowd
from mindgap.platforms.registry import resolve
from mindgap.program.codec import encode
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.made import Made
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Provenance
from mindgap.records.verdict import Conclusion, Kind
from mindgap.report.campaign import fragments_table, headline, undecided
from mindgap.variants.streaming import described
from mindgap.variants.synthesis import Variant
from tests.campaign import herd, programs
from tests.campaign.comparing import assert_same

COUNT = 60
OPS = ("aten.sin.default", "aten.neg.default", herd.WRONG, herd.WRONG_IN_A_CROWD, herd.REFUSED, "aten.relu.default")


def fragment(number: int, ops: list[str]) -> Variant:
    nodes = tuple(Node(place + 1, op, (Ref(place),), {}, programs.META) for place, op in enumerate(ops))
    outputs = tuple(Ref(node.id) for node in nodes)
    program = Program(
        f"tiny/{number}", (Input(0, "x", programs.META),), (), nodes, outputs, (Made(number, "x", -1.0, 1.0),)
    )
    return Variant(program, Provenance("base", "base", number, mutations=("apply-operator",), is_fragment=True))


def invalid(number: int) -> Variant:
    """A sum over a dimension that is not there."""
    variant = fragment(number, [herd.UNCHECKED])
    (node,) = variant.program.nodes
    return replace(variant, program=replace(variant.program, nodes=(replace(node, args=(Ref(0), [9])),)))


def fragments() -> Iterator[Variant]:
    """One or two operators; some die: the 7th, the 31st and the 44th, rounds of one structure, and the 23rd, but not
    alone; eager refuses the 20th."""
    number = 0
    while True:
        draw = hashlib.blake2b(str(number).encode(), digest_size=4).digest()
        ops = [OPS[byte % len(OPS)] for byte in draw[: 1 + draw[3] % 2]]
        made = fragment(
            number, {7: [herd.DEADLY], 31: [herd.DEADLY], 44: [herd.DEADLY], 23: [herd.FRAIL]}.get(number, ops)
        )
        yield invalid(number) if number == 20 else made
        number += 1


def config(adapter: str = "Herd") -> Config:
    limits = Limits(cpu_s=20.0, wall_s=300.0, memory_mb=2048)  # a busy machine may need long
    spec = PlatformSpec("herd", f"tests.campaign.herd:{adapter}", env={"PYTHONPATH": str(programs.ROOT)}, limits=limits)
    return Config({"herd": spec}, Limits(), None)


def plan(share: float = 1.0) -> Plan:
    return Plan(("eager", "herd"), COUNT, timeout_s=100.0, metamorphic_share=0.0, fragments=share)


def run(directory: Path, given: Plan | None, adapter: str = "Herd", **details: object) -> None:
    programs.run(directory, given, config=config(adapter), numbering=programs.MadeHere(fragments), **details)


@pytest.fixture(scope="module")
def hunted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("crowds")
    run(directory, plan())
    return directory


def holding(op: str) -> set[int]:
    return {n for n, variant in zip(range(COUNT), fragments()) if any(node.op == op for node in variant.program.nodes)}


def test_a_fault_is_found_and_named_without_any_tracing(hunted: Path) -> None:
    campaign = read(hunted)
    divergences = [finding for finding in campaign.findings if finding.category == "divergence"]
    (found,) = [finding for finding in divergences if finding.kind != "validation"]
    assert (found.platforms, found.operator, found.variants) == (("herd",), herd.WRONG, 0)
    assert {item.program for item in found.evidence} == holding(herd.WRONG) - holding(herd.REFUSED)


def test_what_eager_refuses_is_confirmed_alone_too(hunted: Path) -> None:
    (found,) = [finding for finding in read(hunted).findings if finding.kind == "validation"]
    assert (found.operator, [item.program for item in found.evidence]) == (herd.UNCHECKED, [20])
    with open_ledger(hunted) as data:
        query = "SELECT stable FROM outcomes JOIN platforms f ON f.id = platform WHERE program = 20 AND f.name = 'herd'"
        assert data.execute(query).fetchone() == (1,)  # it ran twice, which crowds do not


def test_what_vanishes_alone_is_counted_and_no_finding(hunted: Path) -> None:
    with open_ledger(hunted) as data:
        rows = dict(data.execute("SELECT program, conclusion FROM verdicts WHERE crowd_only"))
    assert len(rows) > 1 and set(rows) - {23} <= holding(herd.WRONG_IN_A_CROWD) - holding(herd.WRONG)
    assert set(rows.values()) == {"agrees"}
    assert 23 in rows, "who dies among others only is not called deadly"
    campaign = read(hunted)
    assert campaign.crowd_only == {"herd": len(rows)}
    assert any("seen only in a crowd" in line for line in undecided(campaign))


def test_who_refuses_or_dies_does_so_alone(hunted: Path) -> None:
    with open_ledger(hunted) as data:
        query = "SELECT o.program, o.status FROM outcomes o JOIN platforms f ON f.id = o.platform AND f.name = 'herd'"
        statuses = dict(data.execute(query))
    assert {n for n, status in statuses.items() if status == "crash"} == {7, 31, 44}
    assert {n for n, status in statuses.items() if status == "unsupported"} == holding(herd.REFUSED)
    assert sorted(statuses) == list(range(COUNT)) and list(statuses.values()).count("ok") > COUNT // 2


def test_how_somebody_died_is_what_showed_alone(hunted: Path) -> None:
    """Whichever round was asked for: what a crowd says of the stage and the limit depends on who else was there."""
    with open_ledger(hunted) as data:
        found = data.execute("SELECT DISTINCT stage, message FROM outcomes WHERE status = 'crash'").fetchall()
    assert found == [("compile", "killed by SIGSEGV (segmentation fault)")]


class Inbox:
    """A queue that nobody empties."""

    def __init__(self) -> None:
        self.got: list[Errand] = []

    def put(self, item: Errand) -> None:
        self.got.append(item)


def test_a_death_in_a_crowd_is_asked_for_alone_once_per_structure() -> None:
    """Until it is known, its rounds wait; what vanishes alone is asked for again."""
    interest, inbox, finished, waiting = Interest(), Inbox(), list[Dossier](), list[Dossier]()

    def put_off(dossier: Dossier) -> bool:
        late = not interest.confirms(dossier.signs["herd"])
        waiting.extend([dossier] if late else [])
        return late

    flow = Flow(finished.append, put_off, lambda name, sign: interest.proof(sign))
    flow.alone["herd"] = inbox  # type: ignore[assignment]
    eager = Outcome("eager", Status.OK, Stage.RUN, digest="00")
    dead = Outcome("herd", Status.TIMEOUT, Stage.COMPILE, "used more than 30 s of CPU time")

    def arrives(variant: NumberedVariant, outcome: Outcome = dead, baseline: Outcome = eager) -> Dossier:
        dossier = Dossier(variant, {"eager": baseline}, fresh={"herd"}, waiting={"herd"})
        flow._arrived(dossier, outcome)
        return dossier

    first, second, *_ = [arrives(variant) for variant in rounds("a", herd.HANGING, 3)]
    assert [errand.dossier for errand in inbox.got] == [first] and waiting[0] is second and not finished
    sign, alone = first.signs["herd"], replace(dead, message="used more than 120 s of CPU time")
    flow._arrived(first, alone)
    assert finished == [first] and first.shows_alone("herd") and not first.crowd_only
    interest.proved(sign, alone)
    (late,) = [arrives(variant) for variant in rounds("a", herd.HANGING, 1)]
    assert finished == [first, late] and len(inbox.got) == 1
    assert late.outcomes["herd"].message == alone.message and late.verdicts["herd"].conclusion is Conclusion.FAILED

    (other,) = [arrives(variant) for variant in rounds("b", herd.HANGING, 1)]
    flow._arrived(other, replace(eager, platform="herd"))
    assert other.crowd_only == {"herd"} and not other.shows_alone("herd"), "it vanished"
    (refusing,) = [arrives(variant) for variant in rounds("c", herd.HANGING, 1)]
    flow._arrived(refusing, NO)
    assert not refusing.crowd_only and not refusing.shows_alone("herd"), "alone it is refused, which proves no death"
    count = len(inbox.got)
    (alike,) = [arrives(v, baseline=replace(dead, platform="eager")) for v in rounds("d", herd.HANGING, 1)]
    assert len(inbox.got) == count and finished[-1] is alike, "eager hangs as well"


def test_fragments_and_variants_are_told_apart(hunted: Path) -> None:
    campaign = read(hunted)
    assert (campaign.variants, campaign.fragments, campaign.platforms) == (0, COUNT, ())
    assert headline(campaign).startswith(f"{COUNT} fragments of")
    titles, rows = fragments_table(campaign)
    shown = dict(zip(titles, rows[0]))
    assert shown["platform"] == "herd" and shown["ran"] == str(COUNT) and int(shown["seen only in a crowd"]) > 0
    best = campaign.yields[0]
    assert (best.platform, best.mutation, best.operators) == ("herd", "apply-operator", 2)


def test_the_same_plan_gives_the_same_ledger_also_in_parts(hunted: Path, tmp_path: Path) -> None:
    given: Plan | None = plan()
    for limit in (10, COUNT):

        def watch(now: Snapshot, limit: int = limit) -> None:
            if now.finished >= limit < COUNT:
                raise KeyboardInterrupt

        run(tmp_path / "parts", given, jobs=2, watch=watch)
        given = None
    assert_same(hunted, tmp_path / "parts")


def test_what_is_foreseen_runs_one_by_one_and_nobody_suffers_for_another(hunted: Path, tmp_path: Path) -> None:
    run(tmp_path / "apart", plan(), adapter="Flock")
    query = (
        "SELECT o.program, o.status, o.note FROM outcomes o JOIN platforms f ON f.id = o.platform AND f.name = 'herd'"
    )
    rows = {}
    for directory in (hunted, tmp_path / "apart"):
        with open_ledger(directory) as data:
            rows[directory.name] = {number: (status, note) for number, status, note in data.execute(query)}
    apart = rows["apart"]
    assert {n: status for n, (status, _) in apart.items()} == {n: s for n, (s, _) in rows[hunted.name].items()}
    assert sum(note == "foreseen" for _, note in apart.values()) > COUNT // 2
    assert read(tmp_path / "apart").crowd_only == {"herd": 1}, "the one that dies of the cheaper way"


def rounds(structure: str, op: str, count: int) -> list[NumberedVariant]:
    """A structure with numbers of its own for each of its inputs."""
    parcels = [Parcel(encode(fragment(n, [op]).program), structure=structure) for n in range(count)]
    return [replace(numbered(), parcel=parcel) for parcel in parcels]


def among_others(op: str, structures: int, count: int) -> list[NumberedVariant]:
    """One structure with this operator in the middle of harmless ones."""
    ops = ["aten.sin.default"] * structures
    ops[structures // 3] = op
    return [variant for place, each in enumerate(ops) for variant in rounds(f"s{place}", each, count)]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What each request to a worker for crowds came to."""
    told: list[object] = []
    ask = BatchWorker._ask

    def asked(self: BatchWorker[Any, Any], *given: Any) -> Any:
        if self.spec.worker not in (CROWD_WORKER, SEARCH_WORKER):
            return ask(self, *given)
        told.append(None)
        place = len(told) - 1
        told[place] = ask(self, *given)
        return told[place]

    monkeypatch.setattr(BatchWorker, "_ask", asked)
    return told


def settled(runner: CrowdRunner, variants: list[NumberedVariant], refused: bool = False) -> list[Outcome]:
    found: dict[int, Outcome] = {}
    runner.run(variants, [refused] * len(variants), found.__setitem__)
    return [found[number] for number in range(len(variants))]


def deaths(answers: list[object]) -> int:
    return sum(isinstance(answer, Death) for answer in answers)


def patient(adapter: str = "Herd") -> PlatformSpec:
    """What sleeps is soon found out."""
    spec = config(adapter).platforms["herd"]
    return replace(spec, limits=replace(spec.limits, idle_s=4.0))


def test_a_compiler_that_hangs_is_found_by_halves_once_for_all_rounds(answers: list[object]) -> None:
    variants = among_others(herd.HANGING, 8, 4)
    with Pool() as pool:
        runner = CrowdRunner(pool, patient(), Interest(), lambda: False, pytest.fail)
        found = settled(runner, variants)
        count = len(answers)
        again = settled(runner, rounds("s2", herd.HANGING, 2))
        assert len(answers) == count, "nobody tries it again"
    hanging = {n for n, variant in enumerate(variants) if variant.parcel.structure == "s2"}
    assert {n for n, outcome in enumerate(found) if outcome.status is Status.TIMEOUT} == hanging
    assert all(outcome.ok for n, outcome in enumerate(found) if n not in hanging)
    assert {(outcome.status, outcome.stage) for outcome in again} == {(Status.TIMEOUT, Stage.COMPILE)}
    assert deaths(answers) <= 1 + 3 and count <= 1 + 2 * 3, "the crowd, and its halves down to one of eight"


@pytest.mark.parametrize(("stage", "most"), [(Stage.COMPILE, 7), (Stage.RUN, 7 + 8)])
def test_a_large_crowd_with_one_that_hangs_costs_few_time_outs(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, most: int
) -> None:
    """48 structures of eight rounds each; while it is compiled, or in each of its rounds."""
    limits: list[float] = []

    def once(self: BatchWorker[RunCrowd, CrowdRun], request: RunCrowd, fresh: bool = False) -> CrowdRun | Death:
        if any(parcel.structure == "s16" for parcel in request.cases):
            limits.append(self.spec.limits.cpu_s)
            return Death(Status.TIMEOUT, "it hangs", stage, "")
        return CrowdRun((OK,) * len(request.cases))

    monkeypatch.setattr(BatchWorker, "once", once)
    spec = replace(config().platforms["herd"], limits=Limits(cpu_s=120.0))
    with Pool() as pool:
        runner = CrowdRunner(pool, spec, Interest(), lambda: False, pytest.fail)
        found = settled(runner, among_others(herd.HANGING, 48, 8))
    assert [outcome.status for outcome in found].count(Status.TIMEOUT) == 8
    assert limits[0] == 120.0 and set(limits[1:]) == {30.0} and len(limits) <= most


def test_what_eager_refuses_and_hangs_while_it_is_compiled_does_so_once(answers: list[object]) -> None:
    spec = replace(patient(), limits=replace(patient().limits, cpu_s=3.0))
    with Pool() as pool:
        runner = CrowdRunner(pool, spec, Interest(), lambda: False, pytest.fail)
        found = settled(runner, rounds("a", herd.SPINNING, 4), refused=True)
    assert {(outcome.status, outcome.stage) for outcome in found} == {(Status.TIMEOUT, Stage.COMPILE)}
    assert {outcome.message for outcome in found} == {"used more than 3 s of CPU time"}
    assert (len(answers), deaths(answers)) == (1, 0), "a copy of the process hung, for one of the rounds"


@pytest.mark.parametrize("adapter", ["Herd", "Flock"])
def test_a_worker_without_memory_is_replaced_and_nobody_innocent_is_told_to_lack_it(
    answers: list[object], adapter: str
) -> None:
    variants = among_others(herd.HUNGRY, 8, 2)
    leaking = rounds("l", herd.LEAKING, 2)
    with Pool() as pool:
        runner = CrowdRunner(pool, config(adapter).platforms["herd"], Interest(), lambda: False, pytest.fail)
        settled(runner, leaking)
        found = settled(runner, variants)
    hungry = {n for n, variant in enumerate(variants) if variant.parcel.structure == "s2"}
    assert {n for n, outcome in enumerate(found) if outcome.status is Status.OOM} == hungry
    assert all(outcome.ok for n, outcome in enumerate(found) if n not in hungry)
    assert len(answers) <= 2 + 2 * 3 + 2 and deaths(answers) == 0


def test_a_worker_that_leaks_between_two_crowds_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds more than half of what it may, so the next crowd would not find enough."""
    spec = config().platforms["herd"]
    with Pool() as pool:
        runner = CrowdRunner(pool, spec, Interest(), lambda: False, pytest.fail)
        ended: list[str] = []
        monkeypatch.setattr(pool, "resident_mb", lambda spec: 0.6 * spec.limits.memory_mb)
        monkeypatch.setattr(pool, "retire", lambda spec: ended.append(spec.worker_name))
        assert all(outcome.ok for outcome in settled(runner, rounds("a", "aten.sin.default", 2)))
    assert len(ended) == 1


HARMLESS_OPS = tuple(
    f"aten.{name}.default"
    for name in (
        "sin", "neg", "relu", "abs", "sign", "sigmoid", "square", "exp2", "expm1", "atan", "sinc", "erfc",
        "softplus", "silu", "gelu", "hardswish", "hardtanh", "logit", "asinh", "i0",
    )
)  # fmt: skip


def half_supported() -> Iterator[Variant]:
    """One or two operators of many, half of which a platform lacks."""
    number = 0
    while True:
        draw = hashlib.blake2b(str(number).encode(), digest_size=4).digest()
        yield fragment(number, [HARMLESS_OPS[byte % len(HARMLESS_OPS)] for byte in draw[: 1 + draw[3] % 2]])
        number += 1


def lacks(variant: Variant) -> bool:
    return any(herd.is_refused_by_half(node.op) for node in variant.program.nodes)


@pytest.mark.parametrize("adapter", ["Half", "Mute"])
def test_a_campaign_on_a_platform_without_half_of_the_operators_is_complete(
    tmp_path: Path, answers: list[object], adapter: str
) -> None:
    given = [variant for variant, _ in zip(half_supported(), range(COUNT))]
    expected = {n: "unsupported" if lacks(variant) else "ok" for n, variant in enumerate(given)}
    assert COUNT / 4 < list(expected.values()).count("unsupported") < COUNT * 3 / 4
    numbering, settings = programs.MadeHere(half_supported), config(adapter)
    ending = programs.run(tmp_path, plan(), config=settings, numbering=numbering)
    assert ending.complete and not ending.campaign.crowd_only
    with open_ledger(tmp_path) as data:
        query = "SELECT program, status FROM outcomes o JOIN platforms f ON f.id = o.platform AND f.name = 'herd'"
        assert dict(data.execute(query)) == expected
    assert len(answers) <= 2 * COUNT, "what halving one crowd of all costs, at most"


def test_what_is_known_to_be_refused_costs_no_crowd_a_second_try(answers: list[object]) -> None:
    known = [described(fragment(n, [op]), n) for n, op in enumerate(HARMLESS_OPS)]
    new = [described(variant, n) for variant, n in zip(half_supported(), range(COUNT))]
    with Pool() as pool:
        runner = CrowdRunner(pool, config("Mute").platforms["herd"], Interest(), lambda: False, pytest.fail)
        settled(runner, [with_number(variant, "") for variant in known])
        learnt = len(answers)
        found = settled(runner, [with_number(variant, "") for variant in new])
    refused = {new[n].structure for n, outcome in enumerate(found) if outcome.status is Status.UNSUPPORTED}
    assert learnt <= 2 * len(HARMLESS_OPS)
    assert len(answers) - learnt <= len(refused) + 1, "each of them alone, all others together"


def test_rounds_of_what_ends_the_worker_before_they_run_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that hangs would hang in each of them."""

    tried: list[int] = []
    alone = BatchWorker._alone

    def counted(self: BatchWorker[Any, Any], number: int, *rest: Any) -> None:
        tried.append(number)
        alone(self, number, *rest)

    monkeypatch.setattr(BatchWorker, "_alone", counted)
    variants = rounds("a", "aten.sin.default", 2) + rounds("b", herd.DEADLY, 4) + rounds("c", "aten.neg.default", 2)
    found: dict[int, Outcome] = {}
    with Pool() as pool:
        runner = CrowdRunner(pool, config("Flock").platforms["herd"], Interest(), lambda: False, pytest.fail)
        runner.run(variants, [False] * 8, found.__setitem__)
        runner.run(variants[2:4], [False] * 2, found.__setitem__)
    assert [found[n].status for n in range(2, 8)] == [Status.CRASH] * 4 + [Status.OK] * 2
    assert [found[n].status for n in range(2)] == [Status.CRASH] * 2, "in another crowd neither"
    assert len(tried) == 1


def test_threads_do_not_come_along_into_a_copy_so_what_eager_refuses_runs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy of a process with threads would wait for them until it is ended."""
    answers: list[object] = []
    once = BatchWorker.once

    def told(self: BatchWorker[Any, Any], *given: Any, **named: Any) -> Any:
        answers.append(once(self, *given, **named))
        return answers[-1]

    monkeypatch.setattr(BatchWorker, "once", told)
    spec = replace(resolve("eager"), options={"threads": 4})
    meta = TensorMeta((1 << 18,), "float32", (1,))
    node = Node(1, "aten.exp.default", (Ref(0),), {}, meta)
    large = Program("large", (Input(0, "x", meta),), (), (node,), (Ref(1),), (Made(0, "x", -1.0, 1.0),))
    variants = [replace(numbered(), parcel=Parcel(encode(large), structure=structure)) for structure in "aab"]
    found: dict[int, Outcome] = {}
    with Pool() as pool:
        runner = CrowdRunner(pool, spec, Interest(), lambda: False, pytest.fail)
        runner.run(variants, [False, True, True], found.__setitem__)
    assert [found[n].status for n in range(3)] == [Status.OK] * 3
    assert not [answer for answer in answers if isinstance(answer, Death)]


def numbered(*contexts: str, mutation: str = "apply") -> NumberedVariant:
    made = Provenance("b", "b", 0, mutations=(mutation,), is_fragment=True)
    return NumberedVariant(0, "", "", 1, Parcel(), made, contexts)


OK = Outcome("herd", Status.OK, Stage.RUN)
NO = Outcome("herd", Status.UNSUPPORTED, Stage.CONVERT, "cannot do it")


def test_what_is_refused_is_put_off_and_runs_alone() -> None:
    interest = Interest()
    known, new, bad = numbered("aten.a.x f32 | 1"), numbered("aten.b.x f32 | 1"), numbered("aten.c.x f32 | 1")
    interest.settled(known, OK)
    interest.settled(bad, NO)
    assert not interest.refuses(known) and interest.refuses(bad)
    both = numbered("aten.a.x f32 | 1", "aten.c.x f32 | 2")
    assert interest.refuses(both)
    assert list(interest.crowds([known, new, bad, known], [[0], [1], [2], [3]], 48)) == [[[0], [3], [1]], [[2]]]


@given(
    st.lists(st.sampled_from("abcdefgh"), max_size=60),
    st.sets(st.sampled_from("abcd")),
    st.sets(st.sampled_from("cdef")),
)
def test_everybody_is_in_one_crowd_and_what_is_refused_is_alone(
    names: list[str], accepted: set[str], refused: set[str]
) -> None:
    interest = Interest()
    for name in sorted(refused - accepted):
        interest.settled(numbered(f"aten.{name}.x f32 | 1"), NO)
    for name in sorted(accepted):
        interest.settled(numbered(f"aten.{name}.x f32 | 1"), OK)
    groups = [[number] for number in range(len(names))]
    crowds = list(interest.crowds([numbered(f"aten.{name}.x f32 | 1") for name in names], groups, 48))
    assert sorted(group for crowd in crowds for group in crowd) == groups
    for crowd in crowds:
        members = {names[number] for [number] in crowd}
        assert len(crowd) == 1 or not members & (refused - accepted)


def test_a_check_of_eager_is_tried_in_two_rounds_of_two_structures_before_others_wait() -> None:
    interest, refusal = Interest(), ("aten.a.x", "index N is out of bounds")
    rounds = [replace(numbered("aten.a.x f32 | 1"), parcel=Parcel(b"", structure=name)) for name in "aaabbc"]
    assert [interest.tries(variant, refusal) for variant in rounds] == [True, True, False, True, True, False]
    assert interest.tries(rounds[-1], ("aten.b.x", "index N is out of bounds"))


def test_with_two_unknown_parts_nobody_is_blamed() -> None:
    interest = Interest()
    interest.settled(numbered("aten.a.x f32 | 1", "aten.b.x f32 | 1"), NO)
    assert not interest.refuses(numbered("aten.a.x f32 | 1"))
    interest.settled(numbered("aten.a.x f32 | 1"), OK)
    interest.settled(numbered("aten.a.x f32 | 1", "aten.b.x f32 | 1"), NO)
    assert interest.refuses(numbered("aten.b.x f32 | 9"))


def test_an_operator_that_a_message_names_is_put_off_in_every_dtype() -> None:
    interest = Interest()
    interest.settled(
        numbered("aten.b.x f32 | 1"), Outcome("herd", Status.UNSUPPORTED, Stage.CONVERT, "no rule: aten.b.x")
    )
    assert interest.refuses(numbered("aten.b.x int8 | 1"))


def written(*nodes: Node) -> Program:
    return Program("p", (Input(0, "x", programs.META),), (), nodes, tuple(Ref(node.id) for node in nodes))


def test_a_known_cause_waits_for_the_end_unless_it_vanished_alone() -> None:
    interest, sign = Interest(), ("aten.tanh.default", Kind.VALUE)
    assert [interest.confirms(sign) for _ in range(3)] == [True, False, False]
    assert interest.confirms(("aten.tanh.default", Kind.NONFINITE))
    interest.vanished(sign)
    assert interest.confirms(sign) and interest.proof(sign) is None
    interest.proved(sign, OK)
    assert interest.proof(sign) is OK and interest.proof(("aten.tanh.default", Kind.NONFINITE)) is None


def test_the_first_wrong_result_names_its_operator() -> None:
    two = written(Node(1, "aten.sin.default", (Ref(0),)), Node(2, "aten.tanh.default", (Ref(1),)))
    assert culprit(two, {"[1]"}) == "aten.tanh.default" and culprit(two, {"[0]", "[1]"}) == "aten.sin.default"
    assert culprit(two, {"[7]"}) == ""


def test_memory_that_several_operators_computed_names_none() -> None:
    overwritten = written(Node(1, "aten.sin.default", (Ref(0),)), Node(2, "aten.tanh_.default", (Ref(1),)))
    assert culprit(overwritten, {"[0]", "[1]"}) == ""
    of_input = written(Node(1, "aten.tanh_.default", (Ref(0),)), Node(2, "aten.sin.default", (Ref(1),)))
    assert culprit(of_input, {"input:x", "[0]", "[1]"}) == "aten.tanh_.default"


def test_a_fragment_on_which_eager_takes_for_ever_holds_up_the_others_for_seconds_only() -> None:
    """The operator takes as many steps as its second argument says."""
    endless = fragment(0, ["aten.special_shifted_chebyshev_polynomial_t.n_scalar"]).program
    (node,) = endless.nodes
    node = replace(node, args=(Ref(0), 10**12))
    endless = replace(endless, nodes=(node,), example=(Made(0, "x", 1e-30, 2e-30),))
    found: dict[int, Outcome] = {}
    with Pool() as pool:
        runner = BriefRunner(pool, resolve("eager"), lambda: False, lambda error: None)
        cases = [Parcel(encode(program)) for program in (endless, fragment(1, ["aten.neg.default"]).program)]
        runner.run(cases, 1, found.__setitem__)
    assert found[0].status is Status.TIMEOUT and "2 s of CPU time" in found[0].message
    assert found[1].ok
