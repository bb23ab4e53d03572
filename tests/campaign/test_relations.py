"""One platform alone: programs that must agree with each other, and a platform that does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from mindgap.campaign.hunt import hunt
from mindgap.campaign.plan import Plan
from mindgap.campaign.reader import open_ledger
from mindgap.campaign.relations import ALONE, EQUIVALENT, NEIGHBOURS, PERMUTED, batch_size, relations
from mindgap.campaign.stream import numbered
from mindgap.platforms.config import Config
from mindgap.program.codec import decode
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.interpret import Executable
from mindgap.program.made import Made, recreate
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Intent, Provenance
from mindgap.variants.streaming import described
from mindgap.variants.synthesis import Variant
from tests.campaign.programs import ROOT, MadeHere

META = TensorMeta((3, 4), "float32", (4, 1))
FLAT = TensorMeta((3, 2, 2), "float32", (4, 2, 1))


def batched(op: str = "aten.sin.default", name: str = "batched") -> Program:
    """A batch of three through a view whose sizes are literals."""
    nodes = (
        Node(1, op, (Ref(0),), {}, META),
        Node(2, "aten.view.default", (Ref(1), [3, 2, 2]), {}, FLAT),
        Node(3, "aten.tanh.default", (Ref(2),), {}, FLAT),
    )
    return Program(name, (Input(0, "x", META),), (), nodes, Ref(3), (Made(1, "x", -1.0, 1.0),))


def mixing() -> Program:
    """Samples that depend on each other: they may be permuted, but none can be taken alone."""
    program = batched()
    nodes = (Node(1, "aten.softmax.int", (Ref(0), 0), {}, META), *program.nodes[1:])
    return Program("mixing", program.inputs, (), nodes, Ref(3), program.example)


def outputs(program: Program) -> torch.Tensor:
    inputs = [recreate(recipe, item.meta) for recipe, item in zip(program.example, program.inputs)]
    found = Executable(program, {}).run(inputs)
    assert isinstance(found, torch.Tensor)
    return found


def variant(program: Program, intent: Intent = Intent.VALID) -> Variant:
    return Variant(program, Provenance("base", "base", 0, intent))


def test_derived_programs_give_the_rows_that_they_should() -> None:
    assert batch_size(batched()) == 3
    original = outputs(batched())
    found = dict(relations(numbered(described(variant(batched()))), None))
    assert set(found) == {PERMUTED, NEIGHBOURS, ALONE}
    for program, relation in found.values():
        assert torch.equal(outputs(program)[list(relation.of)], original[list(relation.take)])
    assert outputs(found[ALONE][0]).shape == (1, 2, 2)


def test_an_equivalent_variant_is_held_against_its_base() -> None:
    found = dict(relations(numbered(described(variant(batched(), Intent.EQUIVALENT))), batched("aten.cos.default")))
    program, relation = found[EQUIVALENT]
    assert decode(relation.original.program).nodes[0].op == "aten.cos.default"
    assert program.nodes[0].op == "aten.sin.default" and not relation.take
    assert not list(relations(numbered(described(variant(batched(), Intent.INVALID))), None))


def test_a_platform_that_contradicts_itself_is_found_and_others_stay_silent(tmp_path: Path) -> None:
    def stream() -> Iterator[Variant]:
        yield variant(batched())
        yield variant(mixing())
        yield variant(batched("aten.exp.default", "equal"), Intent.EQUIVALENT)

    spec = PlatformSpec("crooked", "tests.campaign.crooked:Crooked", env={"PYTHONPATH": str(ROOT)}, limits=Limits())
    bases = {"base": batched("aten.exp.default", "base")}
    plan = Plan(("eager", "crooked"), 3, metamorphic_share=1.0)
    config = Config({"crooked": spec}, Limits(), None)
    ending = hunt(tmp_path, plan, config=config, numbering=MadeHere(stream, "", bases), jobs=1, explain_s=0)
    with open_ledger(tmp_path) as data:
        rows = data.execute(
            "SELECT program, f.name, oracle, conclusion FROM relations JOIN platforms f ON f.id = platform"
        ).fetchall()
    eager = {(program, oracle): word for program, name, oracle, word in rows if name == "eager"}
    assert {oracle for program, oracle in eager if program == 0} == {PERMUTED, NEIGHBOURS, ALONE}
    assert set(eager.values()) <= {"agrees", "rounding"}
    assert [oracle for program, oracle in eager if program == 1] == [PERMUTED], "float64 says what holds"
    assert (2, EQUIVALENT) in eager
    crooked = {(program, oracle): word for program, name, oracle, word in rows if name == "crooked"}
    assert crooked[0, PERMUTED] == "diverges"
    assert [f for f in ending.campaign.findings if f.category == "metamorphic" and f.platforms == ("crooked",)]
