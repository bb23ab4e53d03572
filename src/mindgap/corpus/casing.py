"""From the name of a model to a subject: loaded, exported, written where every worker can map it."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import torch

from mindgap.corpus.export import export, prepare
from mindgap.corpus.inputs import check_fit, read_inputs, with_inputs
from mindgap.corpus.load import load
from mindgap.corpus.loaded import Loaded
from mindgap.errors import MindgapError
from mindgap.execution.subject import Subject, make_subject
from mindgap.platforms.messages import first_cause
from mindgap.program.graph import Program
from mindgap.records.source import Source


def build_subject(source: Source, inputs_file: str | None, path: Path) -> Subject:
    """Load and export a model in this process; a model that cannot be exported is still a subject."""
    loaded = load(source)
    if inputs_file is not None:
        loaded = with_inputs(loaded, *read_inputs(Path(inputs_file)), dtype=source.dtype)
    check_fit(loaded)
    return subject_of(loaded, source if loaded.model is not None else None, source.seed, path)


def subject_of(loaded: Loaded, source: Source | None, seed: int, path: Path) -> Subject:
    """Export a loaded model and write its tensors to `path`."""
    program, constants, failure = _export(loaded, seed)
    return make_subject(
        path,
        loaded.name,
        seed,
        prepare(loaded),
        program,
        constants,
        module=loaded.model,
        source=source,
        export_failure=failure,
    )


def _export(loaded: Loaded, seed: int) -> tuple[Program | None, dict[str, torch.Tensor], str]:
    if loaded.program is not None:
        return loaded.program, dict(loaded.constants), ""
    torch.manual_seed(seed)
    try:
        program, constants = export(loaded)
    except MindgapError as error:
        return None, {}, "; ".join(filter(None, [error.what, error.where]))
    except Exception as error:
        sys.stderr.write(traceback.format_exc())
        return None, {}, first_cause(error)
    return program, dict(constants), ""
