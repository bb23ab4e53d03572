"""When a difference happens: one thing is varied at a time, and the smallest condition that separates wrong from right
is put in words."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from mindgap.platforms.base import threads_of
from mindgap.platforms.registry import adapter_class
from mindgap.program.case import Case
from mindgap.program.crowd import crowd_of
from mindgap.program.graph import Node
from mindgap.program.operators import traits
from mindgap.records.verdict import Conclusion
from mindgap.tracing.examine import Examiner, OutOfTime, Symptom
from mindgap.tracing.metas import with_metas

SIZES: Final = (1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 64)
"""Around the widths of vectors: 4 to 16 numbers of float32."""
EQUAL, UNEQUAL = "equal", "unequal"
_LAST: Final = torch.channels_last
MOST_SIZES: Final = 3
"""Independent sizes that are varied."""
LARGEST: Final = 1 << 16
"""Elements of a varied input."""
THREAD_COUNTS: Final = (1, 2, 4)
DTYPE, LAYOUT, VALUES, THREADS = "the dtype", "the layout", "values", "threads"
PRECISIONS: Final = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Trial:
    """One variation: the value of what was varied, and whether the difference showed."""

    value: Any
    wrong: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """What separates wrong from right in one thing that was varied."""

    words: str
    explains: int
    of: int

    def __str__(self) -> str:
        return f"{self.words} ({self.explains} of {self.of} trials)"


def find_conditions(examiner: Examiner, witness: Case, symptom: Symptom) -> tuple[str, ...]:
    """When the difference shows, in words; what makes none is left out.

    All variations run side by side in one program; where that does not run, in halves. What there is no time for is
    not said.
    """
    if not (symptom.candidate_runs and symptom.eager_runs):
        return ()
    groups: list[tuple[str, Any, list[tuple[Any, Case]]]] = [
        *((f"the size {size}", size, list(_resized(witness, size))) for size in _sizes(witness)),
        *_of_two_sizes(witness),
        (DTYPE, _precision(witness), list(_in_precisions(witness))),
        (LAYOUT, "as it is", list(_in_layouts(witness))),
        (VALUES, "as they are", list(_with_values(witness))),
    ]
    cases = [case for _, _, varied in groups for _, case in varied]
    answers: dict[int, bool] = {}
    by_threads: list[Trial] = []
    with contextlib.suppress(OutOfTime):
        _ask(examiner, cases, range(len(cases)), answers)
        by_threads = _with_threads(examiner, witness)
    found: list[Condition | None] = []
    number = 0
    for name, own, varied in groups:
        trials = [Trial(own, True)]
        for value, _ in varied:
            if number in answers:
                trials.append(Trial(value, answers[number]))
            number += 1
        found.append((separating_size if isinstance(own, int) else separating_choice)(name, trials))
    found.append(separating_choice(THREADS, by_threads))
    return tuple(str(condition) for condition in found if condition is not None)


def _ask(examiner: Examiner, cases: Sequence[Case], numbers: Sequence[int], answers: dict[int, bool]) -> None:
    """Which cases show a difference; those that do not even run alone have no answer."""
    if not numbers:
        return
    crowd = crowd_of([cases[number] for number in numbers], "conditions")
    seen = examiner.examine(crowd.case)
    if seen.both_ran:
        for number, names in zip(numbers, crowd.names):
            told = [seen.comparisons[name] for name in names if name in seen.comparisons]
            answers[number] = any(item.conclusion is Conclusion.DIVERGES for item in told)
    elif len(numbers) > 1:
        _ask(examiner, cases, numbers[: len(numbers) // 2], answers)
        _ask(examiner, cases, numbers[len(numbers) // 2 :], answers)


def _with_threads(examiner: Examiner, witness: Case) -> list[Trial]:
    """The witness with other numbers of threads, where the platform lets one choose."""
    adapter = adapter_class(examiner.platform)
    if adapter is None or "threads" not in adapter.options:
        return []
    own = threads_of(examiner.platform)
    trials = [Trial(own, True)]
    for number in (count for count in THREAD_COUNTS if count != own):
        seen = examiner.examine(witness, options={"threads": number})
        if seen.both_ran:
            trials.append(Trial(number, seen.symptom is not None))
    return trials


def separating_size(name: str, trials: Sequence[Trial]) -> Condition | None:
    """The simplest statement about a size that is true where it is wrong and false where it is right."""
    sizes = sorted({trial.value for trial in trials})
    statements: list[tuple[str, Callable[[int], bool]]] = [("is odd", _multiple(2, False)), ("is even", _multiple(2))]
    for width in (4, 8, 16):
        statements.append((f"is a multiple of {width}", _multiple(width)))
        statements.append((f"is not a multiple of {width}", _multiple(width, False)))
    statements += [(f"is at least {bound}", _beyond(bound)) for bound in sizes[1:]]
    statements += [(f"is at most {bound}", _beyond(bound + 1, False)) for bound in sizes[:-1]]
    return _best(name, trials, statements)


def _multiple(width: int, holds: bool = True) -> Callable[[int], bool]:
    return lambda size: (size % width == 0) is holds


def _beyond(bound: int, holds: bool = True) -> Callable[[int], bool]:
    return lambda size: (size >= bound) is holds


def separating_choice(name: str, trials: Sequence[Trial]) -> Condition | None:
    """The choices with which it is wrong, where it is right with others."""
    wrong = [str(trial.value) for trial in trials if trial.wrong]
    right = [str(trial.value) for trial in trials if not trial.wrong]
    if not right or set(wrong) & set(right):
        return None
    words = f"{name}: {', '.join(dict.fromkeys(wrong))}; not {', '.join(dict.fromkeys(right))}"
    return Condition(words, len(trials), len(trials))


def _best(
    name: str, trials: Sequence[Trial], statements: Sequence[tuple[str, Callable[[int], bool]]]
) -> Condition | None:
    """The first statement that explains the most trials, if that is more than saying that it is always wrong."""
    always = sum(trial.wrong for trial in trials)
    if always == len(trials):
        return None
    counted = [(sum(holds(t.value) == t.wrong for t in trials), words) for words, holds in statements]
    most = max(count for count, _ in counted)
    if most <= always:
        return Condition(f"{name} matters, in no way that is simple", always, len(trials))
    return Condition(f"{name} {next(words for count, words in counted if count == most)}", most, len(trials))


def _sizes(witness: Case) -> list[int]:
    """The sizes that inputs have; equal ones are taken for one."""
    found = [size for tensor in witness.tensors for size in tensor.shape if size > 0]
    return sorted(dict.fromkeys(found), reverse=True)[:MOST_SIZES]


def _resized(witness: Case, size: int, others: Sequence[int] = ()) -> Iterator[tuple[int, Case]]:
    """The witness with another size; its values are repeated or left out."""
    for other in others or sorted({*SIZES, size - 1, size + 1, 2 * size} - {size, 0}):
        tensors = [_stretched(tensor, size, other) for tensor in witness.tensors]
        if max(tensor.numel() for tensor in tensors) > LARGEST:
            continue
        program = replace(witness.graph, nodes=tuple(_with_size(node, size, other) for node in witness.graph.nodes))
        changed = with_metas(witness.with_program(program).with_tensors(tensors))
        if changed is not None:
            yield other, changed


def _stretched(tensor: torch.Tensor, size: int, other: int) -> torch.Tensor:
    for dimension, own in enumerate(tensor.shape):
        if own == size:
            tensor = tensor.index_select(dimension, torch.arange(other) % size)
    return tensor


def _with_size(node: Node, size: int, other: int) -> Node:
    """Sizes that an operator is given follow."""
    known = traits(node.op)
    if not (known.reshapes or known.sized):
        return node

    def change(argument: Any) -> Any:
        if not isinstance(argument, list | tuple):
            return argument
        return type(argument)(other if item == size and type(item) is int else item for item in argument)

    return replace(node, args=tuple(map(change, node.args)))


def _of_two_sizes(witness: Case) -> Iterator[tuple[str, Any, list[tuple[Any, Case]]]]:
    """Sizes that are equal made unequal, one of them larger or smaller; and two unequal ones made equal."""
    sizes = _sizes(witness)
    for size in sizes:
        places = [
            (n, d) for n, tensor in enumerate(witness.tensors) for d, own in enumerate(tensor.shape) if own == size
        ]
        if len(places) > 1:
            made = [(UNEQUAL, case) for other in (size + 1, size - 1) if (case := _alone(witness, places[0], other))]
            yield f"two sizes of {size}", EQUAL, made
    for first, second in itertools.combinations(sizes, 2):
        equal = [(EQUAL, case) for other, case in _resized(witness, first, (second,)) if other == second]
        yield f"the sizes {first} and {second}", UNEQUAL, equal


def _alone(witness: Case, place: tuple[int, int], other: int) -> Case | None:
    """The witness with one dimension of one input changed."""
    number, dimension = place
    tensors = list(witness.tensors)
    size = tensors[number].shape[dimension]
    if other < 1 or tensors[number].numel() // size * other > LARGEST:
        return None
    tensors[number] = tensors[number].index_select(dimension, torch.arange(other) % size)
    return with_metas(witness.with_tensors(tensors))


def _in_layouts(witness: Case) -> Iterator[tuple[str, Case]]:
    """The same values elsewhere in memory."""
    kinds: tuple[tuple[str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
        ("contiguous", lambda tensor: tensor.contiguous()),
        ("transposed", lambda tensor: tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor),
        ("with gaps", _with_gaps),
        ("channels last", lambda tensor: tensor.contiguous(memory_format=_LAST) if tensor.dim() == 4 else tensor),
    )
    for name, change in kinds:
        tensors = [change(tensor) for tensor in witness.tensors]
        if any(new.stride() != old.stride() for new, old in zip(tensors, witness.tensors)):
            changed = with_metas(witness.with_tensors(tensors))
            if changed is not None:
                yield name, changed


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """Every second number of the memory, as a slice with a step has it."""
    return tensor.repeat_interleave(2, -1)[..., ::2] if tensor.dim() else tensor


def _precision(witness: Case) -> str:
    floating = [tensor.dtype for tensor in witness.tensors if tensor.is_floating_point()]
    return str(floating[0]).removeprefix("torch.") if floating else "as it is"


def _in_precisions(witness: Case) -> Iterator[tuple[str, Case]]:
    own = {tensor.dtype for tensor in witness.tensors if tensor.is_floating_point()}
    if len(own) != 1 or witness.graph.constants:
        return
    for dtype in PRECISIONS:
        if dtype in own:
            continue
        tensors = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in witness.tensors]
        changed = with_metas(witness.with_tensors(tensors))
        if changed is not None:
            yield str(dtype).removeprefix("torch."), changed


def _with_values(witness: Case) -> Iterator[tuple[str, Case]]:
    """The same sizes with numbers of another kind."""
    kinds: tuple[tuple[str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
        ("all positive", lambda tensor: tensor.abs()),
        ("all negative", lambda tensor: -tensor.abs()),
        ("all whole", lambda tensor: tensor.round()),
        ("a thousand times larger", lambda tensor: tensor * 1000),
        ("a thousand times smaller", lambda tensor: tensor / 1000),
    )
    for name, change in kinds:
        of_signs = name in ("all positive", "all negative")
        tensors = [change(t) if _can_change(t, of_signs) else t for t in witness.tensors]
        tensors = [new.to(old.dtype) for old, new in zip(witness.tensors, tensors)]
        if not all(torch.equal(old, new) for old, new in zip(witness.tensors, tensors)):
            yield name, witness.with_tensors([tensor.contiguous() for tensor in tensors])


def _can_change(tensor: torch.Tensor, of_signs: bool) -> bool:
    """Whole numbers may be indices, which no scale fits; float8 has no room for what is done here."""
    if tensor.is_floating_point():
        return tensor.element_size() > 1
    return of_signs and tensor.dtype.is_signed and not tensor.dtype.is_complex
