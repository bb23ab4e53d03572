"""What a platform says about itself, measured and never raised."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

from mindgap.platforms.messages import first_cause
from mindgap.records.platform import Probe


def guarded(ask: Callable[[], Probe]) -> Probe:
    """The answer, or the reason why there is none."""
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
