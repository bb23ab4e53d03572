"""Programs decomposed from pieces that were decomposed before.

torch.export and its decompositions take seconds for a program, and nearly every call in a variant was decomposed a
thousand times already. Here the decomposition of one call is remembered by its operator, the metas of its tensors and
its literals; a program is put together from such pieces, and calls that are new are decomposed by torch itself, all of
them in one small program. What cannot be put together (values that decide shapes, writes through views) is left to
torch: `lowered` then returns None.

Campaigns look at many programs this way. What they see is confirmed by torch's own path before anybody is accused.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch
from torch._export.utils import _is_cia_op, _is_preservable_cia_op
from torch._export.verifier import load_verifier
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule
from torch.fx import Node as FxNode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.utils import _pytree as pytree

from mindgap.platforms.functional import ACCESS, CLONE, Functional, NoInverse
from mindgap.platforms.quick_tables import quick_tables
from mindgap.program import ops
from mindgap.program.convert import changed_inputs, returned, to_graph_module
from mindgap.program.graph import Argument, Constant, Input, Node, NodeMeta, Program, Ref, Tensors, leaves, map_leaves
from mindgap.program.interpret import written, written_by
from mindgap.program.operators import traits
from mindgap.records.tensors import DTYPES, TensorMeta

MOST_PIECES: Final = 50_000
"""A few kilobytes each."""
LEAVE_MORE: Final = ("aten.lift_fresh_copy.default", "aten.view.dtype")
"""Operators that have a kernel of their own, and of which tracing leaves a copy, or an alias as well."""
CROWD: Final = 64
"""Calls that are decomposed together: enough that what one program costs by itself no longer counts."""


class Unknown(Exception):
    """Something that torch's own path must lower."""


class SharedWrite(Unknown):
    """A write through a view, or to a value that has one."""


@dataclass(frozen=True)
class _Slot:
    """The n-th tensor that a call is given."""

    number: int
    meta: TensorMeta


@dataclass(frozen=True)
class _Made:
    """The n-th value that a piece makes."""

    number: int


@dataclass(frozen=True)
class _Step:
    target: Any
    args: Argument
    kwargs: Mapping[str, Argument]
    value: Any
    """Fake tensors: what the call returns."""


@dataclass(frozen=True)
class Piece:
    """One call as the calls that it is decomposed into; `_Slot` and `_Made` stand for values."""

    steps: tuple[_Step, ...]
    results: tuple[_Slot | _Made, ...]
    """For each tensor that the call returns."""
    aliases: tuple[frozenset[int], ...]
    """For each of them, the slots that it may share memory with."""


class Lowered(ExportedProgram):
    """An exported program that is decomposed already."""

    def run_decompositions(self, *args: Any, **kwargs: Any) -> ExportedProgram:
        return self

    def module(self, check_guards: bool = True) -> GraphModule:
        """With its constants inside."""
        graph = Graph()
        values: dict[FxNode, FxNode] = {}
        constants = self.graph_signature.inputs_to_buffers
        for node in self.graph.nodes:
            if node.op == "placeholder" and node.name in constants:
                copied = graph.get_attr(constants[node.name])
                copied.meta = node.meta
            else:
                copied = graph.node_copy(node, lambda known: values[known])
            values[node] = copied
        return GraphModule(_owner(self.state_dict), graph)


@dataclass(frozen=True)
class Decomposition:
    """What a runtime has done to an exported program before it translates it operator by operator."""

    whole: Callable[[ExportedProgram], ExportedProgram]
    table: Callable[[], Collection[Any]]
    """Operators that are decomposed; asked for once."""
    finish: Callable[[GraphModule], None] = lambda module: None
    """What happens to each call after that."""


@dataclass
class Lowering:
    """What a process has learned of one way to decompose programs."""

    decomposition: Decomposition
    pieces: dict[Any, Piece | None] = field(default_factory=dict)
    """By call; None where torch's own path must lower it."""

    def lowered(self, program: Program, constants: Tensors) -> Lowered | None:
        """The program as the decomposition would leave it; None where torch's own path must do it."""
        try:
            nodes, outputs = _with_copies(program)
            try:
                return self._stitched(program, constants, nodes, outputs)
            except SharedWrite:
                return self._stitched(program, constants, *self._functional(program, nodes, outputs))
        except (Unknown, NoInverse):
            return None

    def _stitched(self, program: Program, constants: Tensors, nodes: list[Node], outputs: list[int]) -> Lowered:
        calls = _calls_of(program, nodes)
        self._learn([(node, calls[node.id]) for node in nodes if node.id in calls])
        return _Stitching(self.pieces, program, constants, nodes, calls, outputs).lowered()

    def _functional(self, program: Program, nodes: list[Node], outputs: list[int]) -> tuple[list[Node], list[int]]:
        """The same without writes to what is read in another way; each call was learned before."""
        calls = _calls_of(program, nodes)
        fresh = 1 + max(item.id for item in (*program.given(), *nodes))
        made = Functional(_metas(program, nodes), fresh)
        for node in nodes:
            call = calls.get(node.id)
            piece = self.pieces.get(call.key) if call is not None else None
            if call is not None and piece is None:
                raise Unknown(node.op)
            slots = frozenset().union(*piece.aliases) if piece is not None else frozenset()
            if len(slots) > 1:
                raise Unknown(node.op)
            source = next((call.given[slot] for slot in slots), None) if call is not None else None
            made.add(node, source, call is not None and call.in_place)
        return made.nodes, [made.current(identity) for identity in outputs]

    def learn(self, programs: Iterable[Program]) -> None:
        """Decompose the calls of many programs together, so that each of them is put together from known pieces."""
        wanted: list[tuple[Node, _Call]] = []
        for program in programs:
            with contextlib.suppress(Unknown):
                nodes, _ = _with_copies(program)
                calls = _calls_of(program, nodes)
                wanted += [(node, calls[node.id]) for node in nodes if node.id in calls]
        self._learn(wanted)

    def _learn(self, wanted: Iterable[tuple[Node, _Call]]) -> None:
        if len(self.pieces) > MOST_PIECES:
            self.pieces.clear()
        new = {call.key: (call.key, node, call) for node, call in wanted if call.key not in self.pieces}
        kept = [item for item in new.values() if self._stays(item[1].op)]
        self._learn_together(kept, self._kept)
        traced = [item for item in new.values() if not self._stays(item[1].op)]
        refused = [item for item in traced if not _can_be_traced(item[1], item[2])]
        self.pieces.update((key, None) for key, _, _ in refused)  # in a crowd, all others would be traced again
        left = [item for item in traced if item[0] not in self.pieces]
        for first in range(0, len(left), CROWD):
            self._learn_together(left[first : first + CROWD], self._traced)

    def _learn_together(self, new: Sequence[_New], lower: Callable[[Program], Graph]) -> None:
        """All in one program; in halves when torch refuses them together."""
        if not new:
            return
        try:
            crowd, owned = _crowd([(node, call) for _, node, call in new])
            graph = lower(crowd)
            found = [_piece(graph, mine) for mine in owned]
        except Exception:  # whatever torch raises: its own path will raise it again, and tell
            if len(new) == 1:
                self.pieces[new[0][0]] = None
                return
            half = len(new) // 2
            self._learn_together(new[:half], lower)
            self._learn_together(new[half:], lower)
            return
        self.pieces.update((key, piece) for (key, _, _), piece in zip(new, found))

    def _traced(self, crowd: Program) -> Graph:
        with torch.no_grad(), quick_tables():
            graph: Graph = self.decomposition.whole(_exported(crowd)).graph
            return graph

    def _kept(self, crowd: Program) -> Graph:
        """Without tracing: the metas of every value are known."""
        module = to_graph_module(crowd, {}, functional=True)
        metas = [*(item.meta for item in crowd.inputs), *(node.meta for node in crowd.nodes)]
        for node, meta in zip(module.graph.nodes, metas):
            node.meta["val"] = _fakes(meta)
            _spell_as_traced(node)
        self.decomposition.finish(module)
        return module.graph

    def _stays(self, name: str) -> bool:
        """Whether a call certainly is itself after decomposition: no table and no composite kernel takes it apart."""
        if name not in self._known:
            function = ops.resolve(name)
            assert isinstance(function, torch._ops.OpOverload)
            kept = not _is_cia_op(function) or _is_preservable_cia_op(function)
            in_python = torch._C.DispatchKey.Autograd in function.py_kernels
            taken_apart = in_python or name in LEAVE_MORE or function in self._table or ops.declares_writes(name)
            self._known[name] = kept and not taken_apart
        return self._known[name]

    _known: dict[str, bool] = field(default_factory=dict)

    @functools.cached_property
    def _table(self) -> Collection[Any]:
        return self.decomposition.table()


_New: TypeAlias = "tuple[Any, Node, _Call]"


def _spell_as_traced(node: FxNode) -> None:
    """Arguments as torch's dispatcher hands them to a tracer: by position unless the schema says otherwise, without
    defaults at the end. Some converters read arguments by position only, and take a later keyword for an earlier one.
    """
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    schema = node.target._schema.arguments
    given = dict(zip((argument.name for argument in schema), node.args)) | node.kwargs
    by_position = [argument for argument in schema if not argument.kwarg_only]
    while by_position and _is_default(by_position[-1], given):
        by_position.pop()
    node.args = tuple(given.get(argument.name, argument.default_value) for argument in by_position)
    named = [argument for argument in schema if argument.kwarg_only and not _is_default(argument, given)]
    node.kwargs = {argument.name: given[argument.name] for argument in named}


def _is_default(argument: torch.Argument, given: Mapping[str, Any]) -> bool:
    """Whether the argument need not be told; 1.0 is not 1 where both are allowed."""
    if not argument.has_default_value():
        return False
    default = argument.default_value
    value = given.get(argument.name, default)
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    return type(value) is type(default) and bool(value == default)


def _exported(program: Program) -> ExportedProgram:
    """A program without constants as torch.export would leave it: it consists of operators already, so the values that
    they make are all that is missing. This takes a twentieth of the time."""
    module = to_graph_module(program, {}, functional=True)
    given = [node for node in module.graph.nodes if node.op == "placeholder"]
    with FakeTensorMode() as mode:
        tensors = [_empty(item.meta) for item in program.inputs]
        for node, tensor in zip(given, tensors):
            node.meta["val"] = tensor
        FakeTensorProp(module, mode).propagate_dont_convert_inputs(*tensors)
    results = next(node for node in module.graph.nodes if node.op == "output").args[0]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None) for node in given],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results],
    )
    return ExportedProgram(
        module, module.graph, signature, {}, {}, _entry(len(given), len(results)), verifiers=[load_verifier("TRAINING")]
    )


def _entry(inputs: int, results: int) -> list[ModuleCallEntry]:
    """How a flat exported program is called."""
    given = pytree.tree_structure(((0,) * inputs, {}))
    return [ModuleCallEntry("", ModuleCallSignature([], [], given, pytree.tree_structure((0,) * results)))]


# Calls


@dataclass(frozen=True)
class _Call:
    """A call without the identity of what it is given."""

    key: Any
    given: tuple[int, ...]
    """Ids of its tensors, each once."""
    metas: tuple[TensorMeta, ...]
    in_place: bool


def _call_of(node: Node, metas: Mapping[int, NodeMeta]) -> _Call:
    if not isinstance(ops.resolve(node.op), torch._ops.OpOverload) or not _tensors_only(node.meta):
        raise Unknown(node.op)
    in_place = bool(written_by(node))
    if in_place and not (ops.returns_first_argument(node.op) and len(ops.mutated_arguments(node.op)) == 1):
        raise Unknown(node.op)
    given: dict[int, _Slot] = {}
    key: list[Any] = [node.op]
    for path, leaf in leaves((node.args, dict(node.kwargs))):
        if isinstance(leaf, Ref):
            meta = metas[int(leaf)]
            if not isinstance(meta, TensorMeta):
                raise Unknown(node.op)
            slot = given.setdefault(int(leaf), _Slot(len(given), meta))
            key.append((path, slot))
        else:
            key.append((path, type(leaf), repr(leaf)))  # 1, 1.0 and True are equal, -0.0 and 0.0 too
    return _Call(tuple(key), tuple(given), tuple(slot.meta for slot in given.values()), in_place)


def _calls_of(program: Program, nodes: Sequence[Node]) -> dict[int, _Call]:
    """Each node's call."""
    metas = _metas(program, nodes)
    return {node.id: _call_of(node, metas) for node in nodes if node.op != ACCESS}


def _tensors_only(meta: NodeMeta) -> bool:
    return isinstance(meta, TensorMeta) or (bool(meta) and all(isinstance(item, TensorMeta) for item in meta or ()))


def _results_of(meta: NodeMeta) -> tuple[TensorMeta, ...]:
    return (meta,) if isinstance(meta, TensorMeta) else tuple(meta or ())  # type: ignore[arg-type]


def _metas(program: Program, nodes: Sequence[Node]) -> dict[int, NodeMeta]:
    return {item.id: item.meta for item in program.given()} | {node.id: node.meta for node in nodes}


def _with_copies(program: Program) -> tuple[list[Node], list[int]]:
    """The nodes with a copy of each input and constant that they write to, and the values that are returned.

    Nodes that only check what they are given have done so in eager.
    """
    nodes = [node for node in program.nodes if not traits(node.op).asserts]
    changed = changed_inputs(program) + sorted(written(program, [constant.id for constant in program.constants]))
    outputs = list(dict.fromkeys(returned(program).values()))
    if not changed:
        return nodes, outputs
    fresh = max(item.id for item in (*program.given(), *program.nodes)) + 1
    instead = {identity: Ref(fresh + number) for number, identity in enumerate(changed)}
    metas = {item.id: item.meta for item in program.given()}
    copies = [
        Node(int(copy), CLONE, (Ref(identity),), {}, TensorMeta.of(_empty(metas[identity]).clone()))
        for identity, copy in instead.items()
    ]

    def change(leaf: Any) -> Any:
        return instead.get(int(leaf), leaf) if isinstance(leaf, Ref) else leaf

    changed_nodes = [
        Node(node.id, node.op, map_leaves(node.args, change), map_leaves(dict(node.kwargs), change), node.meta)
        for node in nodes
    ]
    return copies + changed_nodes, [int(instead.get(identity, identity)) for identity in outputs]


# Learning


def _can_be_traced(node: Node, call: _Call) -> bool:
    """Whether torch takes the call's shapes and dtypes: most that cannot be traced fail here already."""
    metas = dict(zip(call.given, call.metas))

    def given(leaf: Any) -> Any:
        return _fake(metas[int(leaf)]) if isinstance(leaf, Ref) else leaf

    try:
        with torch.no_grad(), _mode():
            ops.resolve(node.op)(*map_leaves(node.args, given), **map_leaves(dict(node.kwargs), given))
    except Exception:  # whatever torch raises: its own path will raise it again, and tell
        return False
    return True


@dataclass(frozen=True)
class _Owned:
    """Where a call stands in a crowd."""

    inputs: range
    all_inputs: int
    outputs: range
    all_outputs: int
    metas: tuple[TensorMeta, ...]
    in_place: bool


def _crowd(calls: Sequence[tuple[Node, _Call]]) -> tuple[Program, list[_Owned]]:
    inputs: list[Input] = []
    nodes: list[Node] = []
    outputs: list[Ref] = []
    owned = []
    count = 0
    for node, call in calls:
        renamed = {}
        first_input, first_output = len(inputs), len(outputs)
        for identity, meta in zip(call.given, call.metas):
            renamed[identity] = Ref(count)
            inputs.append(Input(count, f"x{count}", meta))
            count += 1

        def rename(leaf: Any, renamed: Mapping[int, Ref] = renamed) -> Any:
            return renamed[int(leaf)] if isinstance(leaf, Ref) else leaf

        here = count
        args, kwargs = map_leaves(node.args, rename), map_leaves(dict(node.kwargs), rename)
        nodes.append(Node(here, node.op, args, kwargs, node.meta))
        count += 1
        if isinstance(node.meta, TensorMeta):
            outputs.append(Ref(here))
        else:
            for number, meta in enumerate(_results_of(node.meta)):
                nodes.append(Node(count, ACCESS, (Ref(here), number), {}, meta))
                outputs.append(Ref(count))
                count += 1
        taken, given = range(first_input, len(inputs)), range(first_output, len(outputs))
        owned.append((taken, given, call))
    most = len(inputs), len(outputs)
    places = [_Owned(taken, most[0], given, most[1], call.metas, call.in_place) for taken, given, call in owned]
    return Program("calls", tuple(inputs), (), tuple(nodes), tuple(outputs)), places


def _piece(graph: Graph, mine: _Owned) -> Piece | None:
    """What a call became; None where it cannot be told apart from the rest."""
    given = [node for node in graph.nodes if node.op == "placeholder"]
    (returned_values,) = next(node for node in graph.nodes if node.op == "output").args
    # What decompositions make of numbers comes first, and the token of a call with a side effect on both sides.
    inputs = given[len(given) - mine.all_inputs :]
    slots = {inputs[number]: _Slot(place, mine.metas[place]) for place, number in enumerate(mine.inputs)}
    results = [returned_values[len(returned_values) - mine.all_outputs + number] for number in mine.outputs]
    try:
        _refuse_effects(graph, slots)
        steps, known = _steps(graph, results, slots, mine.in_place)
    except Unknown:
        return None
    roots = _shared(graph, slots)
    found = tuple(known[node] for node in results)
    return Piece(tuple(steps), found, tuple(roots.get(node, frozenset()) for node in results))


def _refuse_effects(graph: Graph, given: Iterable[FxNode]) -> None:
    """What a call does beside its results, such as checking a matrix, is not among their steps."""
    reached = set(given)
    for node in graph.nodes:
        if not reached.isdisjoint(node.all_input_nodes):
            reached.add(node)
            if node.target is torch.ops.higher_order.with_effects:
                raise Unknown(str(node.args[1]))


def _steps(
    graph: Graph, results: Sequence[FxNode], slots: Mapping[FxNode, _Slot], in_place: bool
) -> tuple[list[_Step], dict[FxNode, _Slot | _Made]]:
    needed = set(results)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    known: dict[FxNode, _Slot | _Made] = dict(slots)
    steps: list[_Step] = []
    for node in graph.nodes:
        if node not in needed or node in known:
            continue
        if node.op != "call_function":
            raise Unknown(str(node.target))  # a constant that the decomposition made, or another call's input
        if in_place and node.target is torch.ops.aten.clone.default and node.args[0] in slots:
            known[node] = slots[node.args[0]]  # the copy that hides the write: whoever asks has one
            continue

        def replace(argument: FxNode) -> Any:
            return known[argument]

        args, kwargs = (torch.fx.map_arg(part, replace) for part in (node.args, dict(node.kwargs)))
        known[node] = _Made(len(steps))
        steps.append(_Step(node.target, args, kwargs, pytree.tree_map(_fake_like, node.meta.get("val"))))
    return steps, known


def _shared(graph: Graph, slots: Mapping[FxNode, _Slot]) -> dict[FxNode, frozenset[int]]:
    """For each value, the slots whose memory it may be."""
    roots = {node: frozenset([slot.number]) for node, slot in slots.items()}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        schema = getattr(node.target, "_schema", None)
        named = [] if schema is None else [a.name for a in schema.arguments if a.alias_info is not None]
        places = range(2) if schema is None else [i for i, a in enumerate(schema.arguments) if a.name in named]
        shared = [node.args[i] for i in places if i < len(node.args)] + [node.kwargs.get(name) for name in named]
        flat = [leaf for leaf in pytree.tree_leaves(shared) if isinstance(leaf, FxNode)]
        roots[node] = frozenset().union(*(roots.get(leaf, frozenset()) for leaf in flat))
    return roots


# Putting together


class _Stitching:
    """One program on its way from pieces to an exported program."""

    def __init__(
        self,
        pieces: Mapping[Any, Piece | None],
        program: Program,
        constants: Tensors,
        nodes: Sequence[Node],
        calls: Mapping[int, _Call],
        outputs: Sequence[int],
    ) -> None:
        self._pieces, self._program, self._constants = pieces, program, constants
        self._nodes, self._calls, self._outputs = nodes, calls, outputs
        self._graph = Graph()
        self._values: dict[int, FxNode] = {}
        self._several: dict[int, tuple[FxNode, ...]] = {}
        self._memory: dict[int, frozenset[int]] = {}
        """By value: whose memory it may be."""
        self._same: dict[int, int] = {}
        """In-place results: the value that they are."""

    def lowered(self) -> Lowered:
        for constant in self._program.constants:
            self._given(constant, f"b_constant_{constant.id}")
        for item in self._program.inputs:
            self._given(item, f"input_{item.id}")
        self._refuse_writes_to_shared_memory()
        for node in self._nodes:
            if node.op == ACCESS:
                self._access(node)
            else:
                self._call(node)
        results = [self._values[identity] for identity in self._outputs]
        if any(node.op == "placeholder" for node in results):
            raise Unknown("an input is returned")
        self._graph.output(tuple(results))
        self._graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))  # unused random numbers too
        return self._program_of(results)

    def _given(self, item: Input | Constant, name: str) -> None:
        node = self._graph.placeholder(name)
        _describe(node, _fake(item.meta))
        self._values[item.id] = node
        self._memory[item.id] = frozenset([item.id])

    def _refuse_writes_to_shared_memory(self) -> None:
        """A write is a new value for all that read it later, unless a view of that memory is about by then."""
        memory: dict[int, frozenset[int]] = dict(self._memory)
        members: dict[int, set[int]] = {identity: {identity} for identity in memory}
        for node in self._nodes:
            if node.op == ACCESS:
                memory[node.id] = memory[int(node.args[0])]
            else:
                piece, call = self._piece(node), self._calls[node.id]
                if call.in_place:
                    origin = self._same[node.id] = self._same.get(call.given[0], call.given[0])
                    memory[node.id] = memory[origin]
                    if any(members[root] - {origin} for root in memory[origin]) or len(memory[origin]) > 1:
                        raise SharedWrite
                    continue
                shared = frozenset().union(*piece.aliases)
                memory[node.id] = frozenset([node.id]).union(*(memory[call.given[slot]] for slot in shared))
            for root in memory[node.id]:
                members.setdefault(root, set()).add(node.id)

    def _piece(self, node: Node) -> Piece:
        piece = self._pieces.get(self._calls[node.id].key)
        if piece is None:
            raise Unknown(node.op)
        return piece

    def _access(self, node: Node) -> None:
        source, number = node.args
        if source not in self._several or not isinstance(number, int):
            raise Unknown(node.op)
        self._values[node.id] = self._several[source][number]

    def _call(self, node: Node) -> None:
        piece, call = self._piece(node), self._calls[node.id]
        given = [self._values[identity] for identity in call.given]
        made: list[FxNode] = []

        def value(leaf: Any) -> Any:
            if isinstance(leaf, _Slot):
                return given[leaf.number]
            return made[leaf.number] if isinstance(leaf, _Made) else leaf

        for step in piece.steps:
            args, kwargs = _mapped(step.args, value), _mapped(step.kwargs, value)
            new = self._graph.call_function(step.target, args, kwargs)
            _describe(new, step.value)
            made.append(new)
        results = tuple(value(result) for result in piece.results)
        if call.in_place:
            origin = self._same[node.id]
            for identity in (origin, *(other for other, root in self._same.items() if root == origin)):
                self._values[identity] = results[0]
        elif isinstance(node.meta, TensorMeta):
            self._values[node.id] = results[0]
        else:
            self._several[node.id] = results

    def _program_of(self, results: Sequence[FxNode]) -> Lowered:
        program = self._program
        names = {constant.id: f"constant_{constant.id}" for constant in program.constants}
        state = {names[constant.id]: self._constants[constant.digest] for constant in program.constants}
        signature = ExportGraphSignature(
            [
                InputSpec(InputKind.BUFFER, TensorArgument(self._values_name(c.id)), names[c.id], persistent=True)
                for c in program.constants
            ]
            + [InputSpec(InputKind.USER_INPUT, TensorArgument(self._values_name(i.id)), None) for i in program.inputs],
            [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results],
        )
        calls = _entry(len(program.inputs), len(results))
        return Lowered(_owner(state), self._graph, signature, state, {}, calls)

    def _values_name(self, identity: int) -> str:
        return self._placeholders[identity]

    @functools.cached_property
    def _placeholders(self) -> dict[int, str]:
        found = iter(node.name for node in self._graph.nodes if node.op == "placeholder")
        given: list[Input | Constant] = [*self._program.constants, *self._program.inputs]
        return {item.id: next(found) for item in given}


def _mapped(structure: Any, value: Callable[[Any], Any]) -> Any:
    kind = type(structure)
    if kind in (tuple, list) or isinstance(structure, tuple | list):
        return type(structure)(_mapped(item, value) for item in structure) if kind in (tuple, list) else [
            _mapped(item, value) for item in structure
        ]  # fmt: skip
    if isinstance(structure, Mapping):
        return {key: _mapped(item, value) for key, item in structure.items()}
    return value(structure)


def _owner(state: Tensors) -> torch.nn.Module:
    owner = torch.nn.Module()
    for name, tensor in state.items():
        owner.register_buffer(name, tensor)
    return owner


# Fake tensors


_mode: Final = functools.cache(FakeTensorMode)
"""One for all; making it imports half of torch's compiler, so not before it is needed."""


@functools.lru_cache(1 << 14)
def _fake(meta: TensorMeta) -> torch.Tensor:
    with _mode():
        return torch.empty_strided(meta.shape, meta.stride, dtype=DTYPES[meta.dtype])


def _describe(node: FxNode, value: Any) -> None:
    """As tracing does it; some converters read one, some the other."""
    node.meta["val"] = value
    if isinstance(value, torch.Tensor):
        node.meta["tensor_meta"] = _extract_tensor_metadata(value)


def _fakes(meta: NodeMeta) -> Any:
    return _fake(meta) if isinstance(meta, TensorMeta) else tuple(map(_fakes, meta or ()))


def _fake_like(value: Any) -> Any:
    """A result's meta without the tracing that it came from."""
    if isinstance(value, torch.Tensor):
        return _fake(TensorMeta.of(value))
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        raise Unknown("a size that depends on values")
    return value


def _empty(meta: TensorMeta) -> torch.Tensor:
    return torch.empty_strided(meta.shape, meta.stride, dtype=DTYPES[meta.dtype])
