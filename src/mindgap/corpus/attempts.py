"""Tries ways to build a model until one runs, with weights from the seed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.corpus import library, weights
from mindgap.corpus.inputs import first_line, floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.spelling import unknown_name
from mindgap.errors import ModelError
from mindgap.records.source import Source

MOST_PARAMETERS: Final = 500_000_000
"""A model above this is refused: 2 GB of weights, and as much again in its program."""


class TooLarge(ModelError):
    """More weights than a program should hold."""


@dataclass(frozen=True)
class Attempt:
    """One way to build a model, and what to call it with."""

    build: Callable[[], Any]
    """Gives a torch.nn.Module."""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def with_images(build: Callable[[], Any], seed: int, sizes: Iterable[int]) -> Iterator[Attempt]:
    """One square image per size."""
    for size in sizes:
        yield Attempt(build, (floats(seed, "image", (1, 3, size, size)),))


def first_that_runs(source: Source, attempts: Iterable[Attempt], keep_weights: bool = False) -> Loaded:
    """The first attempt whose model accepts its inputs; raises ModelError with the first failure.

    `keep_weights` is for trained models: everything else gets weights from the seed.
    """
    failure: Exception | None = None
    with library.quiet(), library.offline():
        for attempt in _drawn(attempts):
            if isinstance(attempt, Exception):
                failure = failure or attempt
                break
            try:
                model = built(attempt.build, source.seed, keep_weights)
                torch.manual_seed(source.seed)
                with torch.no_grad():
                    model(*attempt.args, **attempt.kwargs)
            except TooLarge as error:  # at every input size
                failure = error
                break
            except Exception as error:  # a size that does not divide, a layout that was guessed wrong
                failure = failure or error
                continue
            return Loaded(source.spec, attempt.args, dict(attempt.kwargs), model=model)
    raise refusal(source.spec, failure) from failure


def _drawn(attempts: Iterable[Attempt]) -> Iterator[Attempt | Exception]:
    """The attempts; a library that fails while they are listed ends them."""
    try:
        yield from attempts
    except ModelError:
        raise
    except Exception as error:
        yield error


def built(build: Callable[[], Any], seed: int, keep_weights: bool = False) -> torch.nn.Module:
    """The model in evaluation mode; raises TooLarge."""
    torch.manual_seed(seed)
    with contextlib.nullcontext() if keep_weights else weights.undrawn():
        model: torch.nn.Module = build()
    refuse_large(_parameters(model))
    if not keep_weights:
        weights.enliven(model, seed)
    return model.eval()


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def counted_first(build: Callable[[], Any]) -> Callable[[], Any]:
    """A builder that refuses a model that is too large before it takes any memory."""

    def guarded() -> Any:
        try:
            count = count_parameters(build)
        except Exception:  # what cannot be built without memory is counted after it is built
            count = 0
        refuse_large(count)
        return build()

    return guarded


def count_parameters(build: Callable[[], Any]) -> int:
    """The size of a model, without memory for its weights."""
    with torch.device("meta"):
        return _parameters(build())


def refuse_large(count: int, most: int | None = None) -> None:
    """Raises TooLarge for a model with so many parameters."""
    limit = MOST_PARAMETERS if most is None else most
    if count > limit:
        raise TooLarge(f"it has {count} parameters, more than {limit}")


def refusal(spec: str, failure: BaseException | None) -> ModelError:
    """The error for a model that could not be built; names the network or the version where that is why."""
    if failure is None:
        return ModelError(f"{spec} does not run", cause="nothing is known about how to build it")
    chain = list(_causes(failure))
    if any(isinstance(error, library.Offline) or "offline" in type(error).__name__.lower() for error in chain):
        return ModelError(f"{spec} needs network", cause=first_line(failure), hint="models are built without network")
    if isinstance(failure, ImportError | AttributeError):
        package = spec.partition(":")[0]
        return ModelError(
            f"{spec} does not fit the installed versions",
            cause=first_line(failure),
            hint=f"pip install 'mindgap[{package}]' in a fresh environment",
        )
    cause = failure.what if isinstance(failure, ModelError) else f"{type(failure).__name__}: {first_line(failure)}"
    return ModelError(f"{spec} does not run", cause=cause)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def known(name: str, names: Sequence[str], prefix: str) -> str:
    """The name, when the library has it; else a ModelError with the nearest one."""
    if name in names:
        return name
    raise unknown_name(name, names, prefix)
