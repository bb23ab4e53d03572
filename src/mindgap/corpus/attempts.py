"""The first way to build a model that really runs, with living weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.corpus import casting, files, library, weights
from mindgap.corpus.inputs import first_line
from mindgap.corpus.loaded import Loaded
from mindgap.errors import ModelError
from mindgap.records.source import Source

MOST_PARAMETERS: Final = 500_000_000
"""A model above this is refused: 2 GB of weights, and as much again in its program."""


class TooLarge(ModelError):
    """More weights than a program should hold."""


@dataclass(frozen=True)
class Attempt:
    """One way to build a model, and what to call it with."""

    build: Callable[[], torch.nn.Module]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


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
                model = _built(attempt, source.seed, keep_weights)
                torch.manual_seed(source.seed)
                with torch.no_grad():
                    model(*attempt.args, **attempt.kwargs)
            except TooLarge as error:  # at every input size
                failure = error
                break
            except Exception as error:  # a size that does not divide, a layout that was guessed wrong
                failure = failure or error
                continue
            loaded = Loaded(source.spec, attempt.args, dict(attempt.kwargs), model=model)
            return casting.in_precision(loaded, source.dtype)
    raise refusal(source.spec, failure) from failure


def _drawn(attempts: Iterable[Attempt]) -> Iterator[Attempt | Exception]:
    """The attempts; a library that fails while they are listed ends them."""
    try:
        yield from attempts
    except ModelError:
        raise
    except Exception as error:
        yield error


def _built(attempt: Attempt, seed: int, keep_weights: bool) -> torch.nn.Module:
    torch.manual_seed(seed)
    with contextlib.nullcontext() if keep_weights else weights.undrawn():
        model = attempt.build()
    count = sum(parameter.numel() for parameter in model.parameters())
    refuse_large(count)
    if not keep_weights:
        weights.enliven(model, seed)
    return model.eval()


def counted_first(build: Callable[[], torch.nn.Module]) -> Callable[[], torch.nn.Module]:
    """A builder that refuses a model that is too large before its memory is taken."""

    def guarded() -> torch.nn.Module:
        try:
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in build().parameters())
        except Exception:  # what cannot be built without memory is counted when it was built
            count = 0
        refuse_large(count)
        return build()

    return guarded


def refuse_large(count: int) -> None:
    """Raises TooLarge for a model with so many parameters."""
    if count > MOST_PARAMETERS:
        raise TooLarge(f"it has {count} parameters, more than {MOST_PARAMETERS}")


def refusal(spec: str, failure: BaseException | None) -> ModelError:
    """What to tell a user whose model could not be built: network and version are named as such."""
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
    found = files.nearest(name, list(names))
    raise ModelError(
        f"{prefix} has no model {name!r}",
        hint=f"did you mean {prefix}:{found}?" if found else f"mindgap corpus list --source {prefix}",
    )
