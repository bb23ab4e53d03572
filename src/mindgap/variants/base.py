"""Real programs prepared for mutation: what each of their values is, and who uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import torch

from mindgap.corpus.inputs import from_metas
from mindgap.corpus.spelling import SHIPPED, SMOKE, program_files
from mindgap.corpus.store import Status, Store
from mindgap.errors import MindgapError, ModelError, UsageError
from mindgap.program import codec, ops
from mindgap.program.fingerprint import fingerprint
from mindgap.program.graph import Constant, Node, Program, Ref, Tensors, leaves, references
from mindgap.program.interpret import Executable
from mindgap.program.made import Recipe, Whole, held, recreate
from mindgap.program.operators import traits
from mindgap.variants.rules import Result, one_thread
from mindgap.variants.values import of_tensor

AT_ONCE: Final = 64
"""Programs that a synthesis holds at once; a corpus that comes with mindgap is small and held whole."""
MOST_NODES: Final = 3_000
MOST_PARAMETERS: Final = 30_000_000
"""Larger programs of a store are not varied: a run takes seconds, and a verdict some twenty runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """One real program with what is known of its values; made once, used for all its variants."""

    name: str
    fingerprint: str
    program: Program
    values: dict[int, Result]
    """What each input, constant and node is on the program's own example."""
    users: dict[int, tuple[int, ...]]
    """The nodes that read a value, in order."""
    position: dict[int, int]
    """Where each node stands."""
    outputs: frozenset[int]
    written: frozenset[int]
    """Values whose memory an in-place operator may change."""
    objects: frozenset[int]
    """The identities of its node objects, which a variant takes over where it changes nothing."""
    next_id: int
    constants: dict[int, Constant]
    kept: Tensors
    """Constants that no recipe gives: variants name them by digest."""

    def example(self, identity: int) -> Recipe:
        """The recipe of an input's own numbers."""
        return next(r for item, r in zip(self.program.inputs, self.program.example) if item.id == identity)


def prepare(name: str, program: Program, constants: Tensors) -> Base:
    """Run a program once on its example and note what its values are; raises ModelError when it cannot be varied."""
    identity = fingerprint(program)
    program = _with_example(_without_assertions(program))
    values: dict[int, Result] = {}

    def note(node: Node, result: Any) -> Any:
        values[node.id] = _known(result)
        return result

    inputs = [recreate(recipe, item.meta) for recipe, item in zip(program.example, program.inputs)]
    try:
        for item, tensor in zip(program.inputs, inputs):
            values[item.id] = of_tensor(tensor)
        for constant in program.constants:
            values[constant.id] = of_tensor(constants[constant.digest])
        with torch.no_grad(), one_thread():
            Executable(program, constants).run(inputs, note)
    except MindgapError:
        raise
    except Exception as error:  # an operator that fails, a tensor that is not strided
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"{name} cannot be varied: it fails on its example inputs", cause=cause) from error
    users: dict[int, list[int]] = {}
    for node in program.nodes:
        for reference in dict.fromkeys(references(node)):
            users.setdefault(reference, []).append(node.id)
    ids = [*values, *(node.id for node in program.nodes)]
    return Base(
        name=name,
        fingerprint=identity,
        program=program,
        values=values,
        users={key: tuple(found) for key, found in users.items()},
        position={node.id: index for index, node in enumerate(program.nodes)},
        outputs=frozenset(int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)),
        written=written_values(program),
        objects=frozenset(map(id, program.nodes)),
        next_id=max(ids, default=0) + 1,
        constants={c.id: c for c in program.constants},
        kept={c.digest: constants[c.digest] for c in program.constants if c.made is None},
    )


def load_bases(specs: Sequence[str] | None = None, directory: Path | None = None, *, seed: int = 0) -> list[Base]:
    """Bases from names (`core`, `core:NAME`, files), from a store, or the smoke corpus, without those that cannot be
    varied.

    Of more programs than fit, the seed chooses some.
    Raises UsageError when none is left.
    """
    bases: dict[str, Base] = {}
    skipped: list[str] = []
    files = base_files(specs, directory)
    for name, path in Random(seed).sample(files, AT_ONCE) if in_portions(specs, files) else files:
        try:
            base = prepare(name, *codec.load(path))
        except MindgapError as error:
            if specs is not None:
                raise
            skipped.append(f"{name}: {error.what}")
            continue
        bases.setdefault(base.fingerprint, base)
    if not bases:
        raise UsageError(
            "there are no programs to make variants from",
            where=str(directory) if directory is not None else None,
            cause=skipped[0] if skipped else "the corpus is empty",
            hint="mindgap corpus build makes a corpus; --corpus core comes with mindgap",
        )
    return list(bases.values())


def base_files(specs: Sequence[str] | None, directory: Path | None) -> list[tuple[str, Path]]:
    """Name and file of every program that may be varied; of a store those of a size that campaigns can afford."""
    if specs is not None:
        return [(path.stem, path) for spec in specs for path in program_files(spec)]
    if directory is None:
        return [(path.stem, path) for path in sorted(SMOKE.glob("*.mgp"))]
    with Store(directory) as store:
        return [
            (entry.spec, store.program_path(entry.fingerprint))
            for entry in store.entries()
            if entry.status is Status.BUILT and entry.nodes <= MOST_NODES and entry.parameters <= MOST_PARAMETERS
        ]


def in_portions(specs: Sequence[str] | None, files: Sequence[tuple[str, Path]]) -> bool:
    """Whether a corpus is too large to be held at once."""
    return len(files) > AT_ONCE and SHIPPED.keys().isdisjoint(specs or ())


def _without_assertions(program: Program) -> Program:
    """Without what says which dtypes the base has: a variant has others."""
    used = {reference for node in program.nodes for reference in references(node)}
    nodes = tuple(n for n in program.nodes if n.id in used or not traits(n.op).asserts)
    return replace(program, nodes=nodes)


def _with_example(program: Program) -> Program:
    """Inputs that fit, as recipes: a variant must not need a file for them."""
    if len(program.example) == len(program.inputs):
        return program
    made = from_metas([item.meta for item in program.inputs], 0)
    recipes = [held(tensor) or Whole(0, item.name, 0, 2) for tensor, item in zip(made, program.inputs)]
    return replace(program, example=tuple(recipes))


def written_values(program: Program) -> frozenset[int]:
    """Values that share memory with one that is written to, as far as schemas tell."""
    root: dict[int, int] = {}

    def find(identity: int) -> int:
        while root.get(identity, identity) != identity:
            identity = root[identity]
        return identity

    written: set[int] = set()
    for node in program.nodes:
        read = references(node)
        if ops.may_alias(node.op):
            for reference in read:
                root[find(reference)] = find(node.id)
        for position, name in ops.mutated_arguments(node.op):
            argument = node.args[position] if position < len(node.args) else node.kwargs.get(name)
            written |= {int(leaf) for _, leaf in leaves(argument) if isinstance(leaf, Ref)}
    roots = {find(identity) for identity in written}
    ids = [*(item.id for item in program.given()), *(node.id for node in program.nodes)]
    return frozenset(identity for identity in ids if find(identity) in roots)


def _known(result: Any) -> Result:
    if isinstance(result, torch.Tensor):
        return of_tensor(result)
    if isinstance(result, list | tuple):
        return tuple(_known(item) for item in result)
    return None


def is_frozen(node: Node) -> bool:
    """Whether an edit must leave a node alone: it draws random numbers, or its result is not a tensor."""
    drawn = ops.has_tag(node.op, torch.Tag.nondeterministic_seeded)
    return drawn or not isinstance(ops.resolve(node.op), torch._ops.OpOverload)
