"""A tiny stream of variants, so that campaigns of tests take seconds."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mindgap.campaign.dossier import NumberedVariant
from mindgap.campaign.hunt import Ending, hunt
from mindgap.campaign.plan import Plan
from mindgap.campaign.stream import numbered
from mindgap.platforms.config import Config
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.made import Made
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Provenance
from mindgap.variants.streaming import described
from mindgap.variants.synthesis import Variant

ROOT = Path(__file__).resolve().parents[2]
META = TensorMeta((6,), "float32", (1,))
OPS = ("aten.sin.default", "aten.exp.default", "aten.tanh.default", "aten.relu.default", "aten.neg.default")


@dataclass
class MadeHere:
    """Variants of a stream in this process."""

    stream: Callable[[], Iterator[Variant]]
    """Starts the stream anew."""
    weights: str = ""
    bases: Mapping[str, Program] = field(default_factory=dict)

    def base_of(self, fingerprint: str) -> Program | None:
        return self.bases.get(fingerprint)

    def pick(self, wanted: Callable[[int], bool], count: int) -> Iterator[NumberedVariant]:
        for number, variant in enumerate(self.stream()):
            if number >= count:
                return
            if wanted(number):
                yield numbered(described(variant, number), self.weights)


def program(number: int, ops: Sequence[str]) -> Program:
    nodes = tuple(Node(place + 1, op, (Ref(place),), {}, META) for place, op in enumerate(ops))
    example = (Made(number, "x", -1.0, 1.0),)
    return Program(f"tiny~{number}", (Input(0, "x", META),), (), nodes, Ref(len(ops)), example)


def variants() -> Iterator[Variant]:
    """Chains of three to five elementwise operators, of three bases."""
    number = 0
    while True:
        draw = hashlib.blake2b(str(number).encode(), digest_size=8).digest()
        ops = [OPS[byte % len(OPS)] for byte in draw[: 3 + draw[7] % 3]]
        base = f"base{draw[6] % 3}"
        yield Variant(program(number, ops), Provenance(base, base, number))
        number += 1


def slowly(seconds: float) -> Iterator[Variant]:
    """The same stream at a pace that leaves time to interrupt."""
    for variant in variants():
        time.sleep(seconds)
        yield variant


def numbering() -> MadeHere:
    return MadeHere(variants)


def config(**limits: Any) -> Config:
    """With the platforms `wrong` (tanh is off) and `chaos` (some programs crash, hang or leak)."""
    cpu = Limits(**{"cpu_s": 20.0, "wall_s": 4.0, "memory_mb": 2048, **limits})
    env = {"PYTHONPATH": str(ROOT)}
    return Config(
        {
            "wrong": PlatformSpec("wrong", "tests.campaign.planted:Wrong", env=env, limits=cpu),
            "chaos": PlatformSpec("chaos", "tests.campaign.planted:Chaos", env=env, limits=cpu),
        },
        Limits(),
        None,
    )


def plan(*platforms: str, count: int = 24, **details: Any) -> Plan:
    return Plan(("eager", *platforms), count, timeout_s=20.0, metamorphic_share=0.0, **details)


def run(directory: Path, plan: Plan | None, **details: Any) -> Ending:
    """A campaign of tiny programs, without explanations unless they are asked for."""
    given: dict[str, Any] = {"config": config(), "numbering": numbering(), "jobs": 1, "explain_s": 0.0}
    return hunt(directory, plan, **{**given, **details})
