"""A runtime's own calls as lines that run when pasted."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from mindgap.platforms.aten.recording import Recorder
from mindgap.platforms.aten.table import Graph

SOURCE = """
import numpy as np

float32 = np.dtype("float32")
arctan = np.arctan

def total(x):
    return np.asarray(np.sum(x))

def halved(x, by=2):
    return np.asarray(np.divide(x, np.asarray(by, np.float32)))
"""


@pytest.fixture
def runtime() -> ModuleType:
    """A runtime of four functions, in numpy."""
    made = ModuleType("runtime")
    exec(SOURCE, made.__dict__)
    return made


def recorder_of(runtime: ModuleType) -> Recorder:
    import numpy as np

    kinds = {"np.float32": np.dtype("float32"), "np.int64": np.dtype("int64")}
    recorder = Recorder({"runtime": runtime}, kinds, "np.array", np.ndarray)
    own: dict[str, Any] = {
        "array": lambda tensor: tensor.numpy().copy(),
        "tensor": lambda found, dtype: torch.from_numpy(np.asarray(found)).to(dtype),
        "cast": lambda x, dtype: x if dtype == torch.float32 else x.astype("int64"),
        "atan": lambda x: runtime.arctan(x),
        "sum": lambda x, dims, keep: runtime.total(x),
        "div": lambda x, y: runtime.halved(x, by=y),
        "neg": lambda x: -x,
        "full": lambda shape, value, dtype: np.full(shape, value, "float32"),
    }
    recorder.words = lambda word, *args: own[word](*args)
    return recorder


def exported(function: Any, *inputs: torch.Tensor) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    return torch.export.export(Model(), inputs, strict=False).run_decompositions()


def test_the_lines_do_what_was_done(runtime: ModuleType) -> None:
    import numpy as np

    x = torch.tensor([1.0, 3.0])
    program = exported(lambda x: (torch.atan(x) / 4, x.sum()), x)
    lines = recorder_of(runtime).record(lambda say: Graph(program, say), [x])
    assert lines[:2] == ["v0 = np.array(inputs[0].tolist(), np.float32)", "v1 = runtime.arctan(v0)"]
    fresh = ModuleType("runtime")
    exec(SOURCE, fresh.__dict__)
    names: dict[str, Any] = {"torch": torch, "np": np, "runtime": fresh, "inputs": (x,)}
    exec("\n".join(lines), names)
    torch.testing.assert_close(names["actual"], [torch.atan(x) / 4, x.sum()])


def test_what_no_call_made_has_no_line(runtime: ModuleType) -> None:
    x = torch.tensor([1.0, 3.0])
    program = exported(lambda x: -x, x)
    with pytest.raises(StopIteration):
        recorder_of(runtime).record(lambda say: Graph(program, say), [x])
