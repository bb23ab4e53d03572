"""From the name of a model to a case: loaded, exported, packed where every worker can map it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mindgap.corpus.backward import LOADER, Gradients, joint_program, with_gradients
from mindgap.corpus.export import export, prepare
from mindgap.corpus.inputs import check_fit, read_inputs, with_inputs
from mindgap.corpus.load import load
from mindgap.corpus.loaded import Loaded
from mindgap.errors import MindgapError
from mindgap.execution.parcel import Parcel, make_parcel
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.platforms.messages import first_cause, line_of
from mindgap.platforms.torch.messages import TORCH
from mindgap.program.case import Case
from mindgap.program.graph import Program, digest
from mindgap.records.source import Source


@dataclass(frozen=True, slots=True)
class BuildCase:
    """A model to load and export."""

    source: Source
    file: str
    """Takes the tensors."""
    inputs_file: str | None = None
    backward: bool = False
    """Whether the case is the model's training step: its loss and its gradients."""


@hosting(MindgapError)
@task
def build_case(worker: Worker, request: BuildCase) -> Parcel:
    """Load and export a model here; one that cannot be exported is still a case."""
    loaded = load(request.source)
    if request.inputs_file is not None:
        loaded = with_inputs(loaded, *read_inputs(Path(request.inputs_file)), dtype=request.source.dtype)
    check_fit(loaded)
    source = request.source if loaded.model is not None else None
    if request.backward:
        loaded = with_gradients(loaded)
        source = replace(request.source, loader=LOADER)
    return make_parcel(case_of(loaded, source, request.source.seed), Path(request.file))


def case_of(loaded: Loaded, source: Source | None, seed: int) -> Case:
    """A loaded model with its program, where it has one."""
    if loaded.file:
        return Case(
            prepare(loaded), seed=seed, name=loaded.name, file=loaded.file, nodes=loaded.nodes,
            parameters=loaded.parameters,
        )  # fmt: skip
    program, constants, failure = _export(loaded, seed)
    state: list[tuple[str, str]] = []
    module = loaded.model if isinstance(loaded.model, torch.nn.Module) else None
    if module is not None and source is not None and source.pickled is None:
        for key, tensor in (*module.named_parameters(), *module.named_buffers()):
            constants[identity := digest(tensor)] = tensor
            state.append((key, identity))
    if module is not None:
        parameters = sum(parameter.numel() for parameter in module.parameters())
    else:
        parameters = program.parameter_count() if program else 0
    own = loaded.model.model if isinstance(loaded.model, Gradients) else loaded.model
    return Case(
        prepare(replace(loaded, model=own)),
        program,
        constants,
        seed,
        loaded.name,
        source,
        tuple(state),
        export_failure=failure,
        parameters=parameters,
    )


def _export(loaded: Loaded, seed: int) -> tuple[Program | None, dict[str, torch.Tensor], str]:
    if loaded.program is not None:
        return loaded.program, dict(loaded.constants), ""
    torch.manual_seed(seed)
    try:
        program, constants = joint_program(loaded) if isinstance(loaded.model, Gradients) else export(loaded)
    except MindgapError as error:
        return None, {}, "; ".join(filter(None, [error.what, error.where]))
    except Exception as error:
        at = line_of(error)
        return None, {}, first_cause(error, TORCH) + (f" ({at})" if at else "")
    return program, dict(constants), ""
