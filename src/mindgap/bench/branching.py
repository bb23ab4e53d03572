"""A canary behind a real `torch.cond`, as torch.export or an ONNX file with an `If` gives it to an audit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from mindgap.bench.planting import MARK, Site, Unfit
from mindgap.corpus.library import import_library
from mindgap.corpus.onnx.program import program_of_onnx
from mindgap.platforms.exported import quiet
from mindgap.program.build import build
from mindgap.program.case import Case
from mindgap.program.convert import to_graph_module

CANARY: Final = "canary"
"""The module that the exporters name its operators after, so that the benchmark knows them again."""


class _Choice(torch.nn.Module):
    """One flag for the whole batch, and two branches."""

    def __init__(self, fires: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._fires = fires

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cond(self._fires(x).any(), _replaced, _kept, (y,))


def _replaced(y: torch.Tensor) -> torch.Tensor:
    return torch.full_like(y, MARK)


def _kept(y: torch.Tensor) -> torch.Tensor:
    return y + 0


def branched(site: Site, fires: Callable[[torch.Tensor], torch.Tensor], in_onnx: bool) -> tuple[Case, list[int]]:
    """The program with a `torch.cond` between a value and those who read it, and the nodes that this became."""
    try:
        with quiet(), torch.no_grad():
            exported = torch.export.export(_module(site, fires), _copies(site.case), strict=False)
            made = _through_file(site.case, exported) if in_onnx else _built(site.case, exported)
    except Exception as error:  # whatever an exporter says
        raise Unfit(f"it cannot be exported: {error}".splitlines()[0]) from error
    if len(made.tensors) != len(site.case.tensors):
        raise Unfit("the file takes fewer inputs")
    marks = (CANARY, "If_") if in_onnx else (CANARY,)
    return made, [node.id for node in made.graph.nodes if node.where.startswith(marks)]


def _module(site: Site, fires: Callable[[torch.Tensor], torch.Tensor]) -> GraphModule:
    program = site.case.graph
    module = to_graph_module(program, site.case.constants)
    calls = [item for item in module.graph.nodes if item.op == "call_function"][-len(program.nodes) :]
    values = {node.id: item for node, item in zip(program.nodes, calls)}
    given = (item for item in module.graph.nodes if item.op == "placeholder")
    values |= {item.id: placeholder for item, placeholder in zip(program.inputs, given)}
    victim = values[site.victim]
    module.add_submodule(CANARY, _Choice(fires))
    with module.graph.inserting_after(victim):
        choice = module.graph.call_module(CANARY, (values[site.source], victim))
    victim.replace_all_uses_with(choice, delete_user_cb=lambda user: user is not choice)
    module.recompile()
    return module


def _copies(case: Case) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.clone() for tensor in case.tensors)


def _built(case: Case, exported: ExportedProgram) -> Case:
    program, constants = build(exported, case.name)
    return Case.of(program, constants, case.tensors, case.seed)


def _through_file(case: Case, exported: ExportedProgram) -> Case:
    """By way of an ONNX file in a directory that is gone when this returns."""
    onnx = import_library("onnx", "onnx")
    converted = torch.onnx.export(exported, dynamo=True, verbose=False)
    assert converted is not None  # with dynamo=True the exporter returns a program
    with tempfile.TemporaryDirectory(prefix="mindgap-canary-") as folder:
        path = Path(folder) / "canary.onnx"
        onnx.save(marked(converted.model_proto), str(path))
        model = onnx.load(str(path))
    inputs = dict(zip((value.name for value in model.graph.input), case.tensors, strict=True))
    found = program_of_onnx(model, case.name, inputs)
    made = Case.of(found.program, found.constants, [inputs[item.name] for item in found.program.inputs], case.seed)
    return replace(made, name=case.name)


def marked(model: Any) -> Any:
    """The same model; nodes that come from the canary's module carry its name."""
    for node in model.graph.node:
        scopes = next((item.value for item in node.metadata_props if item.key == "pkg.torch.onnx.name_scopes"), "")
        if f"'{CANARY}'" in scopes:
            node.name = f"{CANARY}_{node.name}"
    return model
