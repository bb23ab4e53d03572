"""The same program with eager's random numbers written down, so that what chance does not decide can be judged.

In: a case whose program draws random numbers. Out: a case without any, whose result on eager is the same, bit for bit.
A call that only keeps, drops and scales what it is given (dropout) becomes a product with its mask. Any other becomes
the numbers that it gave, and what it was given is returned as well, so that nothing before it is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from mindgap.errors import MindgapError
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Argument, Constant, Node, Program, Ref, digest, leaves, map_leaves
from mindgap.records.tensors import TensorMeta, same_bits
from mindgap.records.verdict import Conclusion
from mindgap.verdicts.judging import Judged
from mindgap.verdicts.runner import Call, ProgramRunner, tensors_in
from mindgap.verdicts.unspecified.chance import draws, may_draw


@dataclass(frozen=True, slots=True)
class ReplayCase:
    """A case to make without chance, and the file that takes its tensors."""

    case: Parcel
    file: str


@hosting(MindgapError)
@task
def replay_case(worker: Worker, request: ReplayCase) -> Parcel | None:
    """The case with its random numbers written down; None when nothing is random, or it cannot be done."""
    found = replayed(open_parcel(request.case, worker.keep(Constants)))
    return None if found is None else make_parcel(found, Path(request.file))


def replayed(case: Case) -> Case | None:
    """The same, in this process."""
    program = case.program
    if program is None or not any(may_draw(node.op) for node in program.nodes):
        return None
    recorder = _Recorder()
    ProgramRunner(program, case.constants, case.inputs, case.seed).run(recorder)
    if not recorder.found:
        return None
    rewriting = _Rewriting(program, recorder.found)
    rewritten = rewriting.rewritten()
    if rewritten is None:
        return None
    return case.with_constants({**case.constants, **rewriting.tensors}).with_program(rewritten)


@dataclass(frozen=True, slots=True)
class _Draw:
    """What one call gave."""

    results: list[torch.Tensor]
    mask: torch.Tensor | None
    """The result for ones, where the result for anything else is its product with it."""


@dataclass
class _Recorder:
    """The hook of a plain run."""

    found: dict[int, _Draw] = field(default_factory=dict)
    """By call."""

    def __call__(self, call: Call) -> Any:
        if not draws(call):
            return call.make()
        given = call.args[0].detach().clone() if call.args and isinstance(call.args[0], torch.Tensor) else None
        before = torch.default_generator.get_state()
        result = call.make()
        results = [tensor.detach().clone() for tensor in tensors_in(result)]
        self.found[call.key] = _Draw(results, _mask(call, given, result, before))
        return result


def _mask(call: Call, given: torch.Tensor | None, result: Any, before: torch.Tensor) -> torch.Tensor | None:
    """What the call would give for ones from the same random numbers, if that tells what it gives for anything."""
    if given is None or not isinstance(result, torch.Tensor) or len(call.tensors()) != 1:
        return None
    if not given.is_floating_point() or result.dtype != given.dtype or result.shape != given.shape:
        return None
    after = torch.default_generator.get_state()
    torch.default_generator.set_state(before)
    try:
        mask = call.function(torch.ones_like(given), *call.args[1:], **call.kwargs).detach().clone()
    finally:
        torch.default_generator.set_state(after)
    return mask if same_bits(given * mask, result.detach()) else None


class _Rewriting:
    """A program on its way to one without chance."""

    def __init__(self, program: Program, drawn: dict[int, _Draw]) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._program = program
        self._drawn = drawn
        self._constants = list(program.constants)
        self._next = max((item.id for item in (*program.given(), *program.nodes)), default=-1) + 1
        self._nodes: list[Node] = []
        self._instead: dict[int, Ref] = {}
        """By value of the old program: what stands for it."""
        self._several: dict[int, list[Ref]] = {}
        """By call with several results: what stands for each."""
        self._given: dict[str, Ref] = {}

    def rewritten(self) -> Program | None:
        for node in self._program.nodes:
            moved = replace(node, args=self._moved(node.args), kwargs=self._moved(dict(node.kwargs)))
            if node.id in self._drawn:
                self._replay(moved, self._drawn[node.id])
            elif node.op == "operator.getitem" and node.args[0] in self._several:
                self._instead[node.id] = self._several[node.args[0]][node.args[1]]
            elif any(isinstance(leaf, Ref) and leaf in self._several for _, leaf in leaves(node.args)):
                return None  # the results of a random call are used as a whole
            else:
                self._nodes.append(moved)
        outputs = self._moved(self._program.outputs)
        return replace(
            self._program,
            constants=tuple(self._constants),
            nodes=tuple(self._nodes),
            outputs={"": outputs, **self._given} if self._given else outputs,
            example=(),
        )

    def _moved(self, argument: Argument) -> Argument:
        return map_leaves(argument, lambda leaf: self._instead.get(leaf, leaf) if isinstance(leaf, Ref) else leaf)

    def _replay(self, node: Node, draw: _Draw) -> None:
        in_place = ops.returns_first_argument(node.op)
        if draw.mask is not None:
            op = "aten.mul_.Tensor" if in_place else "aten.mul.Tensor"
            self._nodes.append(replace(node, op=op, args=(node.args[0], self._constant(node, draw.mask)), kwargs={}))
            return
        if in_place:
            args = (node.args[0], self._constant(node, draw.results[0]))
            self._nodes.append(replace(node, op="aten.copy_.default", args=args, kwargs={}))
            return
        self._return_given(node)
        constants = [self._constant(node, tensor) for tensor in draw.results]
        if isinstance(node.meta, TensorMeta):
            self._instead[node.id] = constants[0]
        else:
            self._several[node.id] = constants

    def _constant(self, node: Node, tensor: torch.Tensor) -> Ref:
        identity = digest(tensor)
        self.tensors[identity] = tensor
        self._constants.append(Constant(self._new_id(), f"drawn by {node.op}", TensorMeta.of(tensor), identity))
        return Ref(self._constants[-1].id)

    def _return_given(self, node: Node) -> None:
        """Return what a random call was given: its numbers stand for its result from here on."""
        for position, argument in enumerate(node.args):
            if isinstance(argument, Ref):
                copied = Node(self._new_id(), "aten.clone.default", (argument,), {}, None, node.where)
                self._nodes.append(copied)
                self._given[f"argument {position} of {node.op} {node.id}"] = Ref(copied.id)

    def _new_id(self) -> int:
        self._next += 1
        return self._next - 1


def with_replayed(judged: Judged, replayed: Judged) -> Judged:
    """What was concluded, with what the same random numbers show."""
    found = dict(judged.judgements)
    for name, again in replayed.judgements.items():
        before, verdict = found[name].verdict, again.verdict
        said = f"with eager's random numbers replayed: {verdict.sentence}"
        if verdict.conclusion in (Conclusion.DIVERGES, Conclusion.UNSTABLE):
            found[name] = replace(again, verdict=replace(verdict, sentence=said))
        else:
            found[name] = replace(found[name], verdict=replace(before, sentence=f"{before.sentence}; {said}"))
    return replace(judged, judgements=found)
