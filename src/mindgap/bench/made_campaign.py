"""A campaign that never ran, written by the real ledger: for measuring and testing what reads one.

Its programs are real ones of the smoke corpus; outcomes, verdicts and explanations are drawn from a seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from mindgap.campaign.dossier import Dossier, NumberedVariant
from mindgap.campaign.ledger import Ledger, now
from mindgap.campaign.plan import Plan
from mindgap.campaign.reader import findings_of
from mindgap.campaign.triage import with_new_ids
from mindgap.corpus.spelling import SMOKE
from mindgap.execution.parcel import Parcel
from mindgap.platforms.versions import versions
from mindgap.program.codec import decode, encode
from mindgap.program.fingerprint import fingerprint
from mindgap.program.graph import Program
from mindgap.records.explanation import Cause, CauseKind, Explanation, Layer, Proof, Script, TracedOperator
from mindgap.records.finding import Ids
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.variant import Intent, Provenance
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict, WrongElement

PLATFORMS: Final = ("eager", "eager@scalar", "inductor", "onnxruntime", "openvino")
BATCH: Final = 2_000
_SHARES: Final = {
    "eager@scalar": (0.002, 0.003), "inductor": (0.03, 0.02), "onnxruntime": (0.09, 0.012), "openvino": (0.16, 0.03),
}  # fmt: skip
"""Of each platform: what it does not run, and what diverges."""
_MUTATIONS: Final = (
    "replace-operator",
    "special-inputs",
    "transposed-layout",
    "compute-in-complex",
    "overlapping-copy",
)


@dataclass(frozen=True, slots=True)
class _Base:
    name: str
    content: bytes
    program: Program
    fingerprint: str


def write_campaign(
    directory: Path, variants: int, seed: int = 0, name: str = "", message: str = "", explained: int = 40
) -> None:
    """A campaign of so many programs, a third of them fragments; `name` and `message` come from a hostile model."""
    draw = Random(seed)
    bases = [_base(path, name if number == 0 else "") for number, path in enumerate(sorted(SMOKE.glob("*.mgp")))]
    plan = Plan(PLATFORMS, variants, seed, shares={"inductor": 0.5}, fragments=0.33)
    with Ledger(directory) as ledger:
        ledger.set_meta(plan=plan.to_text(), created=now())
        ledger.begin_run(versions())
        ledger.add_platforms(dict.fromkeys(PLATFORMS, ("1.0", "CPU")))
        batch: list[Dossier] = []
        for number in range(variants):
            batch.append(_dossier(draw, bases[draw.randrange(len(bases))], number, message, plan))
            if len(batch) == BATCH or number == variants - 1:
                ledger.write(batch)
                batch = []
        for program, platform, base in _loudest(ledger, bases, explained):
            ledger.write_explanation(program, _explanation(draw, platform, base), f"explanations/{program}-{platform}")
        ledger.write_ids(with_new_ids(findings_of(ledger.data), Ids()))


def _base(path: Path, name: str) -> _Base:
    program = decode(path.read_bytes(), where=str(path))
    if name:
        program = replace(program, name=name, nodes=tuple(replace(node, where=name) for node in program.nodes))
    return _Base(program.name, encode(program, compression=0), program, fingerprint(program))


def _dossier(draw: Random, base: _Base, number: int, message: str, plan: Plan) -> Dossier:
    is_fragment = draw.random() < 1 / 3
    recipe = Provenance(
        base.fingerprint, base.name, number, Intent.INVALID if draw.random() < 0.05 else Intent.VALID,
        mutations=tuple(draw.sample(_MUTATIONS, 2)), is_fragment=is_fragment,
    )  # fmt: skip
    prints = f"{number:024x}"
    mark = "/" if is_fragment else "~"
    parcel = Parcel(base.content)
    variant = NumberedVariant(number, prints, f"{base.name}{mark}{number:x}", len(base.program.nodes), parcel, recipe)
    outcomes = {"eager": Outcome("eager", Status.OK, Stage.RUN, digest="00", seconds={"run": 0.01})}
    verdicts: dict[str, Verdict] = {}
    operators: dict[str, str] = {}
    for platform in PLATFORMS[1:]:
        if plan.is_due(platform, prints):
            outcomes[platform], verdicts[platform] = _fate(draw, platform, base, message)
            if verdicts[platform].conclusion is Conclusion.DIVERGES:
                operators[platform] = draw.choice(base.program.nodes).op
    return Dossier(variant, outcomes, set(outcomes), verdicts=verdicts, operators=operators)


def _fate(draw: Random, platform: str, base: _Base, message: str) -> tuple[Outcome, Verdict]:
    refused, diverging = _SHARES[platform]
    chance, seconds = draw.random(), {"run": round(draw.expovariate(10), 4)}
    if chance < refused:
        status = draw.choice((Status.UNSUPPORTED, Status.UNSUPPORTED, Status.ERROR, Status.CRASH, Status.TIMEOUT))
        said = f"{message}{status.value} in {draw.choice(base.program.nodes).op}"
        outcome = Outcome(platform, status, Stage.COMPILE, said, seconds=seconds)
        return outcome, Verdict(platform, Conclusion.FAILED, said)
    outcome = Outcome(platform, Status.OK, Stage.RUN, digest="01", stable=True, seconds=seconds)
    if chance < refused + diverging:
        kind = draw.choice((Kind.VALUE, Kind.NONFINITE, Kind.INTEGER))
        error = math.inf if kind is not Kind.VALUE else 10 ** draw.uniform(1.2, 9)
        said = f"{message}output[0, 3] is 1, eager has 2, float64 says 2; eager is right there, so {platform} is wrong"
        worst = f"output[{draw.randrange(9)}]"
        return outcome, Verdict(platform, Conclusion.DIVERGES, said, kind, Blame.CANDIDATE, error, 0.5, worst)
    if chance < refused + diverging + 0.02:
        return outcome, Verdict(platform, Conclusion.HAZARD, "a hazard", Kind.ORDER, None, math.inf, rule="tie-order")
    if chance < refused + diverging + 0.025:
        return outcome, Verdict(platform, Conclusion.UNJUDGED, "output not judged: it is ill-conditioned", Kind.VALUE)
    if draw.random() < 0.4:
        same = replace(outcome, digest="00")
        return same, Verdict(platform, Conclusion.AGREES, "the same bits")
    return outcome, Verdict(platform, Conclusion.ROUNDING, "rounding", Kind.VALUE, None, draw.uniform(0.1, 6), 0.5)


def _loudest(ledger: Ledger, bases: Sequence[_Base], most: int) -> Iterator[tuple[int, str, _Base]]:
    by_name = {base.name: base for base in bases}
    rows = ledger.data.execute(
        "SELECT v.program, f.name, b.name FROM verdicts v JOIN platforms f ON f.id = v.platform "
        "JOIN programs p ON p.id = v.program JOIN bases b ON b.id = p.base WHERE v.conclusion = 'diverges' "
        "ORDER BY p.nodes, v.program LIMIT ?",
        (most,),
    ).fetchall()
    for program, platform, name in rows:
        yield program, platform, by_name[name]


def _explanation(draw: Random, platform: str, base: _Base) -> Explanation:
    nodes = base.program.nodes
    at = draw.randrange(len(nodes))
    trace = tuple(
        TracedOperator(
            node.id, index + 1, node.op, node.where, "float32", draw.uniform(0, 0.9) if index != at else 3e5,
            draw.uniform(0.1, 0.9) if index < at else 3e5 / (1 + index - at), index == at, 3, 96,
            inherits=index > at, line=f"{base.name}.py:{index + 1}",
        )
        for index, node in enumerate(nodes)
    )  # fmt: skip
    said = "output is 1, eager has 2"
    wrong = tuple(WrongElement(f"output[0, {n}]", "nan", "2.5", "2.5", 3e5 / n) for n in (1, 2, 3))
    verdict = Verdict(platform, Conclusion.DIVERGES, said, Kind.VALUE, Blame.CANDIDATE, math.inf, elements=wrong)
    return Explanation(
        base.name, platform, "1.0", verdict, trace, (nodes[at].id,), False, "",
        Cause(draw.choice(list(CauseKind)), "a remark", ("without fusion: the same",), ("all values are positive",)),
        Layer("runtime", "the runtime is wrong", rungs=(("exporter", "agrees"), ("runtime", "diverges"))),
        Proof(verdict, Status.OK, Stage.RUN, (nodes[at].op,), 24, True, True),
        Script("repro.py", True, "differs: 1 is not 2"), {"torch": "2"},
    )  # fmt: skip
