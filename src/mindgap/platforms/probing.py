"""Asking platforms about themselves; a failure is an answer, not an exception."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from mindgap.errors import MindgapError, PlatformUnavailable
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.process import Death
from mindgap.execution.serve import load_adapter
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.platforms.messages import first_cause
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPES


@dataclass(frozen=True, slots=True)
class ProbePlatforms:
    """Platforms of one interpreter to ask about themselves."""

    specs: tuple[PlatformSpec, ...]


@hosting(MindgapError)
@task
def probe_platforms(worker: Worker, request: ProbePlatforms) -> tuple[Probe, ...]:
    return tuple(load_adapter(spec).probe() for spec in request.specs)


def probe(pool: Pool, specs: Sequence[PlatformSpec]) -> dict[str, Probe]:
    """Ask platforms about themselves: together in one process, alone after a crash."""
    found: dict[str, Probe] = {}
    groups: dict[str, list[PlatformSpec]] = {}
    for spec in specs:
        own = spec.name if spec.is_foreign else ""  # only its own worker finds the user's modules
        groups.setdefault(repr((own, spec.python, sorted(spec.env.items()))), []).append(spec)
    for key, members in groups.items():
        first = members[0]
        host = first if first.is_foreign else HOST
        found |= _together(pool, replace(host, name=f"probe {key}", python=first.python, env=first.env), members)
    return found


def require(pool: Pool, spec: PlatformSpec) -> Probe:
    """Ask a platform in its own worker whether it can be used; raises with the reason if not."""
    found = _together(pool, spec, [spec])[spec.name]
    if not found.available:
        raise PlatformUnavailable(f"platform {spec.name} cannot be used here", cause=found.reason, hint=spec.install)
    return found


def _together(pool: Pool, host: PlatformSpec, specs: Sequence[PlatformSpec]) -> dict[str, Probe]:
    try:
        answer = pool.ask(host, probe_platforms, ProbePlatforms(tuple(specs)))
        if not isinstance(answer, Death) and len(answer) == len(specs):
            return {spec.name: item for spec, item in zip(specs, answer)}
        reason = answer.message if isinstance(answer, Death) else f"{len(answer)} answers for {len(specs)} platforms"
    except Exception as error:  # an adapter that cannot be loaded, or that raises: it stays listed and says why
        reason = getattr(error, "cause", None) or first_cause(error)
    if len(specs) > 1:
        return {name: p for spec in specs for name, p in _together(pool, host, [spec]).items()}
    return {specs[0].name: Probe(available=False, reason=reason)}


def guarded(ask: Callable[[], Probe]) -> Probe:
    """The answer, or why there is none."""
    try:
        return ask()
    except ModuleNotFoundError as error:
        return Probe(False, reason=f"{(error.name or str(error)).split('.')[0]} is not installed")
    except Exception as error:  # a half-installed runtime may raise anything
        return Probe(False, reason=first_cause(error))


def working(names: Iterable[str], works: Callable[[str], bool]) -> tuple[str, ...]:
    """Those element types with which a one-operator program really ran."""

    def tried(name: str) -> bool:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return works(name)
        except Exception:  # this is the measurement: any refusal means no
            return False

    return tuple(name for name in names if tried(name))


def is_two(total: torch.Tensor, dtype: str) -> bool:
    """Whether 1 + 1 came out right; of booleans true or true."""
    right = total.dtype is DTYPES[dtype]
    return right and bool((total.to(torch.complex128) == (1 if dtype == "bool" else 2)).all())
