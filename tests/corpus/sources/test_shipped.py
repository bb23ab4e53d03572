"""The smoke corpus: small, of every domain, and each program gives its source's bits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mindgap.corpus.export import prepare
from mindgap.corpus.load import load
from mindgap.corpus.registry import DOMAINS
from mindgap.corpus.roundtrip import difference, run_call, run_source
from mindgap.corpus.sources.shipped import Smoke
from mindgap.corpus.spelling import SMOKE
from mindgap.errors import ModelError
from mindgap.program import codec
from mindgap.program.inputs import Inputs
from mindgap.program.interpret import Executable
from mindgap.records.source import Source
from mindgap.records.tensors import NamedTensor
from tests.program.validating import check_operators

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
from make_smoke import MODELS, short_name, spec_of  # noqa: E402

sys.path.pop(0)
PAIRS = {f"{d.replace(' ', '-')}-{short_name(d, model)}": model for d, models in MODELS.items() for model in models}


def test_every_domain_is_there_and_the_folder_is_small() -> None:
    offers = list(Smoke().offers())
    assert len(offers) >= 40 and {offer.domain for offer in offers} == set(DOMAINS)
    assert {offer.spec.removeprefix("smoke:") for offer in offers} == set(PAIRS)
    assert sum(path.stat().st_size for path in SMOKE.iterdir()) < 1_000_000
    assert {path.suffix for path in SMOKE.iterdir()} == {".mgp"}, "no weights are stored"


def test_most_are_small() -> None:
    programs = [codec.decode(path.read_bytes()) for path in SMOKE.glob("*.mgp")]
    assert all(program.parameter_count() <= 1_000_000 for program in programs)
    assert sum(len(program.nodes) <= 200 for program in programs) >= 0.8 * len(programs)
    for program in programs:
        check_operators(program, program.name)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_a_program_gives_its_sources_bits(name: str) -> None:
    program, constants = codec.load(SMOKE / f"{name}.mgp")  # every weight is made again and checked
    source = load(Source(spec_of(PAIRS[name]), directory=str(ROOT)))
    example = load(Source(f"smoke:{name}")).args
    inputs = prepare(source)
    given = Inputs(inputs.args, inputs.kwargs, tuple(map(NamedTensor, [i.name for i in program.inputs], example)))
    assert source.model is not None
    expected = run_source(given, 0, source.model)
    found = run_call(given, 0, Executable(program, constants).run)
    assert not difference(expected, found)


def test_a_mistyped_name_is_corrected() -> None:
    with pytest.raises(ModelError, match="no model 'language-gpt3'") as caught:
        load(Source("smoke:language-gpt3"))
    assert "smoke:language-gpt2" in str(caught.value)
