"""A program as a picture and as text: well formed, nothing over anything else, and only the slice."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.corpus.spelling import SMOKE
from mindgap.errors import UsageError
from mindgap.program.codec import decode
from mindgap.program.graph import Program
from mindgap.report.drawing import WHOLE, around, by_module, draw
from mindgap.report.listing import code_at, find_nodes, listing
from mindgap.report.variants import added_nodes

NAMES = sorted(path.stem for path in SMOKE.glob("*.mgp"))
SPACE = "{http://www.w3.org/2000/svg}"


def smoke(name: str) -> Program:
    return decode((SMOKE / f"{name}.mgp").read_bytes())


def boxes(text: str) -> list[tuple[float, float, float, float]]:
    rects = ElementTree.fromstring(text).iter(f"{SPACE}rect")
    return [tuple(float(r.attrib[key]) for key in ("x", "y", "width", "height")) for r in rects]  # type: ignore[misc]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 10_000), st.integers(1, WHOLE))
def test_a_slice_has_the_culprit_and_no_box_lies_over_another(name: str, at: int, most: int) -> None:
    program = smoke(name)
    culprit = program.nodes[at % len(program.nodes)].id
    chosen = around(program, [culprit], most)
    assert culprit in chosen and len(chosen) <= max(most, 1)
    text = draw(program, chosen, [culprit], {culprit: "own error 3e5x"})
    found = boxes(text)
    assert len(found) >= len(chosen) and text.count("g-culprit") == 1 and "own error" in text
    for n, (x, y, w, h) in enumerate(found):
        assert x >= 0 and y >= 0
        for u, v, p, q in found[n + 1 :]:
            assert x + w <= u or u + p <= x or y + h <= v or v + q <= y


def test_data_flows_downwards() -> None:
    program = smoke("rl-actor-critic")
    text = draw(program, {node.id for node in program.nodes}, alone=True)
    for start, end in re.findall(r'class="g-edge" d="M\d+,(\d+) C.*? \d+,(\d+)"', text):
        assert int(start) < int(end)
    assert "<style>" in text and "prefers-color-scheme" in text


def test_names_of_models_are_text() -> None:
    program = replace(smoke("rl-actor-critic"), name="<script>x</script>")
    program = replace(program, nodes=tuple(replace(node, where="a</text><script>") for node in program.nodes))
    text = draw(program, {node.id for node in program.nodes})
    assert "<script" not in text
    ElementTree.fromstring(text)


def test_a_large_program_is_drawn_by_module() -> None:
    program = max(map(smoke, NAMES), key=lambda item: len(item.nodes))
    text = by_module(program, alone=True)
    held = [int(found) for found in re.findall(r">(\d+) operators?<", text)]
    assert sum(held) == len(program.nodes) and 1 < len(boxes(text)) <= WHOLE


def test_a_module_that_is_used_again_is_no_dead_end() -> None:
    """Attention calls its projections between its own operators: each time it goes on in a box of its own."""
    program = smoke("audio-audio-spectrogram-transformer")
    text = by_module(program)
    names = re.findall(r'g-name"[^>]*>([^<]+)<', text)
    assert len(set(names)) < len(names) == len(boxes(text)) <= WHOLE
    assert text.count('class="g-edge') >= len(names) - 2, "all but the first and the last are on the way"
    across = [float(x) for x in re.findall(r"[ MC](-?\d+),-?\d+", text)]
    (width,) = re.findall(r'viewBox="0 0 (\d+) ', text)
    assert min(across) >= 0 and max(across) <= int(width), "no edge leaves the picture"


def test_the_text_shows_shapes_modules_and_what_was_left_out() -> None:
    program = smoke("language-bert")
    whole = "\n".join(listing(program))
    assert all(f"%{node.id:<4} = " in whole for node in program.nodes)
    assert "float32[" in whole and "input input_ids: int64" in whole and "returns" in whole
    nodes = find_nodes(program, "aten.layer_norm")
    part = "\n".join(listing(program, around(program, nodes[:1], 5), {nodes[0]: ">"}))
    own = replace(program, nodes=tuple(replace(node, line=f"net.py:{node.id}") for node in program.nodes))
    told = listing(own, code=lambda line: f"code of {line}")
    assert any(f"net.py:{own.nodes[0].id}  code of net.py:{own.nodes[0].id}" in line for line in told)
    assert "net.py:" in draw(own, {own.nodes[0].id})
    assert "operators ..." in part and f">   %{nodes[0]}" in part and len(part) < len(whole)


def test_an_operator_is_found_by_any_of_its_names() -> None:
    program = smoke("language-bert")
    assert find_nodes(program, "layer_norm") == find_nodes(program, "aten.layer_norm.default")
    assert find_nodes(program, f"%{program.nodes[3].id}") == [program.nodes[3].id]
    with pytest.raises(UsageError, match="did you mean"):
        find_nodes(program, "aten.layer_nrom")


def test_what_a_variant_changed_is_marked() -> None:
    base = smoke("rl-actor-critic")
    changed = replace(base.nodes[1], op="aten.neg.default")
    variant = replace(base, nodes=(base.nodes[0], changed, *base.nodes[2:]))
    assert added_nodes(base, variant) == {changed.id}
    assert draw(variant, {node.id for node in variant.nodes}, added={changed.id}).count("g-added") == 1


def test_a_line_of_code_is_read_only_from_python_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "secret.txt").write_text("secret\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert code_at("net.py:2") == "b = 2" and code_at("net.py:9") == ""
        assert code_at("secret.txt:1") == "" == code_at("nowhere.py:1") == code_at("")
