"""A small program inside a large real one: whoever looks for a fault has to find it among everything else."""

from __future__ import annotations

from dataclasses import replace

from mindgap.corpus.spelling import SMOKE
from mindgap.errors import UsageError
from mindgap.program import codec
from mindgap.program.case import Case
from mindgap.program.crowd import crowd_of
from mindgap.program.examples import of_program
from mindgap.program.graph import Argument, Node, Ref
from mindgap.records.tensors import TensorMeta
from mindgap.tracing.examine import Examiner
from mindgap.tracing.metas import with_metas

HOSTS = (
    "vision-resnet", "language-bert", "audio-wav2vec2", "tabular-ft-transformer", "diffusion-unet", "language-gpt2",
)  # fmt: skip
"""Programs of the smoke corpus, 60 to 200 operators each."""


def host(number: int) -> Case:
    """A real program with weights and inputs."""
    program, constants = codec.load(SMOKE / f"{HOSTS[number % len(HOSTS)]}.mgp")
    return Case.of(program, constants, of_program(program, 0))


def fitting_host(number: int, examiner: Examiner) -> Case:
    """The first from this number on that the platform runs without a difference of its own."""
    for index in range(number, number + len(HOSTS)):
        name = (examiner.platform.name, HOSTS[index % len(HOSTS)])
        if name not in _FITTING:
            _FITTING[name] = examiner.examine(host(index)).symptom is None
        if _FITTING[name]:
            return host(index)
    raise UsageError(f"{examiner.platform.name} has differences of its own in every host: {', '.join(HOSTS)}")


_FITTING: dict[tuple[str, str], bool] = {}


def embedded(case: Case, around: Case) -> tuple[Case, frozenset[int]]:
    """The case in the middle of the other program, with operators after it that pass its values on; and its nodes."""
    crowd = crowd_of([around, case], f"{case.graph.name} in {around.graph.name}")
    whole = crowd.case
    nodes = list(whole.graph.nodes)
    own = nodes[len(around.graph.nodes) :]
    rest = nodes[: len(around.graph.nodes)]
    middle = len(rest) // 2
    metas = {node.id: node.meta for node in own}
    fresh = 1 + max(item.id for item in (*whole.graph.given(), *nodes))
    tail: list[Node] = []
    outputs: list[Argument] = list(whole.graph.outputs)
    mine = sum(name.startswith("[") for name in crowd.names[1])
    for index in range(len(outputs) - mine, len(outputs)):
        if isinstance(outputs[index], Ref) and isinstance(metas.get(int(outputs[index])), TensorMeta):
            tail.append(Node(fresh, "aten.unsqueeze.default", (outputs[index], 0)))
            tail.append(Node(fresh + 1, "aten.cat.default", ([Ref(fresh), Ref(fresh)],)))
            outputs[index] = Ref(fresh + 1)
            fresh += 2
    ordered = (*rest[:middle], *own, *tail, *rest[middle:])
    whole = whole.with_program(replace(whole.graph, nodes=ordered, outputs=tuple(outputs)))
    # A case that eager refuses has no metas after it, and needs none.
    return with_metas(whole) or whole, frozenset(node.id for node in own)
