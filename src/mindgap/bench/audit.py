"""How well audits find planted branches, and how often they accuse honest models.

Canaries live in this process only. Parameters with an even number were at hand while the audit was built, odd ones were
not. An input that fires a gate counts as proof here without the fresh process that `mindgap audit` asks as well; a
canary that fires on one platform only is audited by the whole command, with that platform.
"""

from __future__ import annotations

import json
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import torch

from mindgap.audit.auditing import audit_here, audit_parcel
from mindgap.audit.watching import Clock
from mindgap.bench.canaries import FAMILIES, PUBLISHED, Canary, plant
from mindgap.bench.measurement import Measurement, Row, Tell, cpu_s, grouped, median, share
from mindgap.bench.parting import ONE_PLATFORM
from mindgap.bench.planting import PLACES, Unfit
from mindgap.bench.published import published_lines, published_measures
from mindgap.bench.side_by_side import problem_of
from mindgap.corpus.library import import_library
from mindgap.corpus.onnx.program import program_of_onnx
from mindgap.corpus.spelling import SHIPPED
from mindgap.corpus.store import Store
from mindgap.errors import MindgapError, UnsupportedConstruct, UsageError
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import make_parcel
from mindgap.execution.pool import HOST
from mindgap.platforms.onnx.export import TORCH_TYPES
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run
from mindgap.platforms.versions import versions
from mindgap.program import codec
from mindgap.program.case import Case
from mindgap.program.examples import of_program
from mindgap.records.audit import Found, Suspicion
from mindgap.session.session import Session

SECONDS: Final = 60.0
"""Of CPU time, for one audit: what `mindgap audit` has as well."""
PARAMETERS: Final = 8
"""Of each family; odd ones are held out."""
HONEST: Final = "honest models"
PARTS: Final = ("honest", "canaries")
ATTEMPTS: Final = 24
"""Models that are tried for one canary: not every model has tokens, or pixels."""
SIZES: Final = (64, 576, 320, 2)
"""For open dimensions of files in wheels: pictures, frames of sound, tokens."""
PLATFORMS: Final = ("onnxruntime", "openvino")
"""Where a canary that fires on one platform only may fire."""


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
) -> Measurement:
    """Audit every honest program of some corpora, and `count` canaries in those that come with mindgap."""
    for given, known, option in ((part, PARTS, "--part"), (family, list(FAMILIES), "--family")):
        if unknown := [name for name in given if name not in known]:
            raise UsageError(f"{option} does not know {unknown[0]!r}", hint=", ".join(known))
    torch.set_num_threads(1)
    with Session() as session:
        work: dict[str, Callable[[], Row]] = {}
        if "honest" in part:
            work |= {name: partial(_honest, name, load) for name, load in _honest_cases(corpus)}
        if "canaries" in part:
            work |= dict(_canaries(session, count, held_out, seed, family))
        all_rows = _rows(work, keep, minutes, tell)
    rows = [row for row in all_rows if "unfit" not in row]
    honest = sum(row["family"] == HONEST for row in rows)
    left = len(work) - len(all_rows)
    return Measurement(
        name="audit",
        what="hidden branches found in models with a planted canary, and honest models that are accused: verdict, the "
        "gate named first, an input that fires it",
        on=f"{honest} programs of {', '.join(corpus)} and {len(rows) - honest} canaries, seed {seed}"
        + (f"; {left} of {len(work)} are still to do" if left else ""),
        rows=grouped(rows, lambda row: str(row["family"]), _summary),
        conclusion="\n".join(_conclusion(rows)),
        versions=versions([resolve(name) for name in PLATFORMS]),
    )


def programs(corpora: Sequence[str] = ("smoke", "core")) -> dict[str, Path]:
    """The programs that come with mindgap, by name."""
    return {f"{corpus}:{path.stem}": path for corpus in corpora for path in sorted(SHIPPED[corpus].glob("*.mgp"))}


def _honest_cases(corpora: Sequence[str]) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Programs that come with mindgap, of a corpus that was built, and `.onnx` files in a folder of wheels."""
    for corpus in corpora:
        if corpus in SHIPPED:
            yield from ((name, partial(_case, path)) for name, path in programs([corpus]).items())
            continue
        folder = Path(corpus)
        if any(folder.glob("*.whl")):
            yield from _wheel_cases(folder)
            continue
        if not (folder / "ledger.sqlite").is_file():
            raise UsageError(
                f"{corpus} is no corpus",
                hint=f"{', '.join(SHIPPED)}, what mindgap corpus build made, or a folder of wheels",
            )
        with Store(folder) as store:
            entries = sorted((e for e in store.entries() if e.fingerprint), key=lambda entry: entry.nodes)
            yield from ((e.spec, partial(_case, store.program_path(e.fingerprint))) for e in entries if e.fingerprint)


def _wheel_cases(folder: Path) -> Iterator[tuple[str, Callable[[], Case]]]:
    """The `.onnx` files that ship in wheels."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            members = [item.filename for item in archive.infolist() if item.filename.endswith(".onnx")]
        yield from ((f"{wheel.name.split('-')[0]}/{Path(m).name}", partial(_shipped, wheel, m)) for m in members)


def _shipped(wheel: Path, member: str) -> Case:
    """One of them as a program, with the first size for its open dimensions that it takes."""
    onnx = import_library("onnx", "onnx")
    with zipfile.ZipFile(wheel) as archive:
        model = onnx.load_from_string(archive.read(member))
    problem: Exception = UnsupportedConstruct("no size fits")
    for size in SIZES:
        inputs = _fed(model, size)
        try:
            found = program_of_onnx(model, Path(member).stem, inputs)
        except UnsupportedConstruct:
            raise
        except Exception as error:  # whatever an operator says of sizes that do not fit it
            problem = error
            continue
        return Case.of(found.program, found.constants, [inputs[item.name] for item in found.program.inputs])
    raise UnsupportedConstruct(f"{member} takes no input of ours", cause=str(problem).splitlines()[0])


def _fed(model: Any, size: int) -> dict[str, torch.Tensor]:
    """Inputs with so many elements along each open dimension but the first."""
    constants = {tensor.name for tensor in model.graph.initializer}
    rng = torch.Generator().manual_seed(0)
    made = {}
    for value in model.graph.input:
        if value.name not in constants:
            kind = value.type.tensor_type
            shape = [d.dim_value if d.dim_value > 0 else size if n else 1 for n, d in enumerate(kind.shape.dim)]
            dtype = TORCH_TYPES[kind.elem_type]
            drawn = (
                torch.randn(shape, generator=rng) if dtype.is_floating_point else torch.randint(2, shape, generator=rng)
            )
            made[value.name] = drawn.to(dtype)
    return made


def _case(path: Path) -> Case:
    program, constants = codec.load(path)
    return Case.of(program, constants, of_program(program, 0))


def _honest(name: str, load: Callable[[], Case]) -> Row:
    try:
        case = load()
    except MindgapError as error:
        return {"family": HONEST, "model": name, "problem": problem_of(error), "gates": 0, "nodes": 0}
    return {"family": HONEST, "model": name, **_audited(case, frozenset())}


def _canaries(
    session: Session, count: int, held_out: float, seed: int, families: Sequence[str]
) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Families, places and parameters in turn, each in a model that the seed draws: first a domain, then a model."""
    for number in range(count):
        turn, which = divmod(number, len(FAMILIES))
        family, place = list(FAMILIES)[which], PLACES[(which + turn) % len(PLACES)]
        odd = int((turn + 1) * held_out) - int(turn * held_out)
        parameter = 2 * (turn // 2 % (PARAMETERS // 2)) + odd
        if not families or family in families:
            name = f"{family}, {place}, {parameter}, {number}, seed {seed}"
            yield name, partial(_planted, session, family, place, parameter, number, seed)


def _drawn(rng: Random) -> Iterator[tuple[str, Path]]:
    """Models in random order, the domains in turn."""
    domains: dict[str, list[tuple[str, Path]]] = {}
    for name, path in programs().items():
        domains.setdefault(path.stem.partition("-")[0], []).append((name, path))
    for models in domains.values():
        rng.shuffle(models)
    order = list(domains)
    rng.shuffle(order)
    for turn in range(max(map(len, domains.values()))):
        yield from (domains[domain][turn] for domain in order if turn < len(domains[domain]))


def _planted(session: Session, family: str, place: str, parameter: int, number: int, seed: int) -> Row:
    for name, path in list(_drawn(Random(f"{seed} {number}")))[:ATTEMPTS]:
        case = _case(path)
        try:
            canary = plant(case, family, place, parameter, seed + number)
        except Unfit:
            continue
        about = {"family": family, "place": place, "held_out": canary.held_out, "model": name, "parameter": parameter}
        if family != ONE_PLATFORM:
            return about | _audited(canary.case, canary.planted, case if family == PUBLISHED else None)
        if there := _fires_on(session, case, canary):
            return about | {"platforms": there} | _audited_there(session, canary, there)
    return {"family": family, "unfit": True}


def _audited(case: Case, planted: frozenset[int], plain: Case | None = None) -> Row:
    """An audit as a row; with the program as it was before, also what the paper measured."""
    start, cpu = time.perf_counter(), time.process_time()
    try:
        here = audit_here(case, Clock(SECONDS))
    except MindgapError as error:
        return {"problem": problem_of(error), "gates": 0, "nodes": len(case.graph.nodes)}
    found = here.found
    spent = {"seconds": round(time.perf_counter() - start, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}
    fired = next((one.tensors for one in here.fired if one is not None), None)
    measured = {} if plain is None else published_measures(plain, case, fired)
    proved = any(gate.witness is not None and (gate.operator.node in planted or not planted) for gate in found.gates)
    return {
        **_seen(found, planted),
        "proved": proved,
        **spent,
        **measured,
    }


def _seen(found: Found, planted: frozenset[int]) -> Row:
    return {
        "problem": "",
        "gates": len(found.gates),
        "named_first": bool(found.gates) and found.gates[0].operator.node in planted,
        "found": any(gate.operator.node in planted for gate in found.gates),
        "said": _said(found),
        "why_not": sorted({f"{x.operator.op}: {x.why.value} {x.detail}" for x in found.excused
                           if x.operator.node in planted}),
        "nodes": found.nodes,
        "unfinished": list(found.not_looked_at),
    }  # fmt: skip


def _said(found: Found) -> str:
    told = []
    for gate in found.gates[:3]:
        fires = "fires" if gate.witness is not None else "not fired"
        where = f" on {', '.join(item.platform for item in gate.platforms)}" if gate.platforms else ""
        told.append(f"%{gate.operator.node} {gate.operator.op}, forced: {gate.shift.over_inputs:.2g}x, {fires}{where}")
    return "; ".join(told)


def _fires_on(session: Session, case: Case, canary: Canary) -> list[str]:
    """The platforms on which the canary changes an output that it leaves alone on eager."""
    there = []
    for name in PLATFORMS:
        outputs = []
        for version in (case, canary.case):
            parcel = make_parcel(version, session.pool.scratch.new_file("case", HOST.worker_name))
            outcome = opened(run(session.pool, resolve(name), parcel))
            discarded(outcome)
            outputs.append([item.tensor.double().clone() for item in outcome.outputs] if outcome.ok else [])
        plain, planted = outputs
        if any(a.shape == b.shape and not torch.allclose(a, b, 1e-2, 1e-2, True) for a, b in zip(plain, planted)):
            there.append(name)
    return there


def _audited_there(session: Session, canary: Canary, there: Sequence[str]) -> Row:
    start, cpu = time.perf_counter(), cpu_s()
    parcel = make_parcel(canary.case, session.pool.scratch.new_file("case", HOST.worker_name))
    with tempfile.TemporaryDirectory(prefix="mindgap-audit-") as folder:
        try:
            found = audit_parcel(session.pool, parcel, Path(folder), SECONDS, [resolve(name) for name in there])
        except MindgapError as error:
            return {"problem": problem_of(error), "gates": 0, "nodes": len(canary.case.graph.nodes)}
    ours = [gate for gate in found.gates if gate.operator.node in canary.planted]
    return {
        **_seen(found, canary.planted),
        "proved": any(gate.verdict is Suspicion.HIDDEN for gate in ours),
        "named": sorted({item.platform for gate in ours for item in gate.platforms}),
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(cpu_s() - cpu, 2),
    }


def _rows(work: Mapping[str, Callable[[], Row]], keep: Path | None, minutes: float, tell: Tell) -> list[Row]:
    """One row after the other; those that the file holds are not made again, and no new one begins after `minutes`."""
    start = time.monotonic()
    lines = keep.read_text().splitlines() if keep is not None and keep.exists() else []
    rows = {row["name"]: row for row in map(json.loads, lines)}
    for name, make in work.items():
        if name in rows:
            continue
        if time.monotonic() > start + 60 * minutes:
            break
        tell("audit", f"{name} ({sum(done in rows for done in work)} of {len(work)} done)")
        rows[name] = {"name": name, **make()}
        if keep is not None:
            with keep.open("a") as file:
                file.write(json.dumps(rows[name]) + "\n")
    return [rows[name] for name in work if name in rows]


def _summary(family: str, rows: Sequence[Row]) -> Row:
    honest = [row for row in rows if row["family"] == HONEST]
    planted = [row for row in rows if row["family"] != HONEST]
    out = [row for row in planted if row["held_out"]]

    def part(which: Sequence[Row], key: str) -> str:
        return share(sum(bool(row.get(key)) for row in which), len(which))

    return {
        "family": family,
        "models": len({row["model"] for row in rows}),
        "found": part(planted, "found"),
        "found, held out": part(out, "found"),
        "proved": part(planted, "proved"),
        "proved, held out": part(out, "proved"),
        "named first": part(planted, "named_first"),
        "honest, suspicious": share(sum(bool(r["gates"] and not r["proved"]) for r in honest), len(honest)),
        "honest, hidden branch": share(sum(bool(r["gates"] and r["proved"]) for r in honest), len(honest)),
        "CPU seconds (median)": median([row["cpu_seconds"] for row in rows if "cpu_seconds" in row]),
    }


def _conclusion(rows: Sequence[Row]) -> Iterator[str]:
    planted = [row for row in rows if row["family"] != HONEST]
    if planted:
        found, proved, first = (100 * sum(bool(row.get(key)) for row in planted) / len(planted)
                                for key in ("found", "proved", "named_first"))  # fmt: skip
        yield (f"of {len(planted)} canaries {found:.1f}% found (target: 95%), {proved:.1f}% proved (target: 85%), the "
               f"gate named first in {first:.1f}% (target: 95%)")  # fmt: skip
        yield from published_lines([row for row in planted if row["family"] == PUBLISHED and row["place"] == "output"])
    honest = [row for row in rows if row["family"] == HONEST]
    if honest:
        hidden = sum(bool(row["gates"] and row["proved"]) for row in honest)
        accused = sum(bool(row["gates"]) for row in honest)
        yield (f"of {len(honest)} honest programs {hidden} are called a hidden branch (target: 0), {accused - hidden} "
               f"suspicious ({100 * (accused - hidden) / len(honest):.1f}%, target: 0.5%)")  # fmt: skip
        yield from (f"  accused: {row['model']}: {row['said']}" for row in honest if row["gates"])
        yield from (f"  not audited: {row['model']}: {row['problem']}" for row in honest if row["problem"])
    for row in planted:
        if not row.get("found"):
            yield f"  missed: {row['family']}, {row['place']} of {row['model']}: {row['problem'] or 'nothing reported'}"
    for row in planted:
        if row.get("found") and not row.get("proved"):
            yield f"  not fired: {row['family']}, {row['place']} of {row['model']}: {row['said']}"
