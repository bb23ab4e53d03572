"""Asking platforms about themselves; a failure is an answer, not an exception."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from mindgap.errors import MindgapError, PlatformUnavailable, UsageError
from mindgap.execution.pool import HOST, Pool, in_parallel
from mindgap.execution.process import Death
from mindgap.execution.serve import load_adapter
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.platforms.environments import MARKER
from mindgap.platforms.messages import first_cause
from mindgap.platforms.registry import environment_damage
from mindgap.records.files import write_whole
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPES

AT_ONCE: Final = 2
"""Interpreters that start at the same time; each reads half a gigabyte from the disk."""


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
    hosts = [
        replace(first if first.is_foreign else HOST, name=f"probe {key}", python=first.python, env=first.env)
        for key, (first, *_) in groups.items()
    ]
    answers = in_parallel(AT_ONCE, lambda pair: _together(pool, *pair), list(zip(hosts, groups.values())))
    for answer in answers:
        found |= answer
    return {spec.name: _whole(spec, found[spec.name]) for spec in specs}


def _whole(spec: PlatformSpec, answer: Probe) -> Probe:
    """The answer, unless somebody removed a part of its environment.

    Where its environment is not installed this interpreter was asked: its versions are not those of the platform.
    """
    broken = environment_damage(spec)
    if not broken and spec.environment and spec.python is None and not answer.available:
        return Probe(False, reason=answer.reason)
    if not broken:
        return answer
    reason = f"its environment is damaged: {broken}"
    return Probe(False, answer.version, answer.device, reason=reason)


def require(pool: Pool, spec: PlatformSpec) -> Probe:
    """Ask a platform in its own worker whether it can be used; raises with the reason if not."""
    found = _together(pool, spec, [spec])[spec.name]
    if not found.available:
        found = _whole(spec, found)
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


def remembered_dtypes(spec: PlatformSpec, names: Sequence[str], works: Callable[[str], bool]) -> tuple[str, ...]:
    """The same, measured once in an environment that mindgap installed: nothing in it changes."""
    file = Path(sys.prefix) / f"dtypes-{hashlib.blake2b(spec.name.encode(), digest_size=6).hexdigest()}.json"
    try:
        known = json.loads(file.read_bytes())
        if isinstance(known, list) and set(known) <= set(names):
            return tuple(known)
    except (OSError, ValueError):
        pass
    found = working(names, works)
    if found and (file.parent.parent / MARKER).exists():
        with contextlib.suppress(UsageError):  # an isolated worker may not write there
            write_whole(file, json.dumps(found))
    return found


def is_two(total: torch.Tensor, dtype: str) -> bool:
    """Whether 1 + 1 came out right; of booleans true or true."""
    right = total.dtype is DTYPES[dtype]
    return right and bool((total.to(torch.complex128) == (1 if dtype == "bool" else 2)).all())
