"""How a standalone script runs a model on a platform."""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.records.platform import PlatformSpec


@dataclass(frozen=True, slots=True)
class ReproducerText:
    """What a script needs to use a runtime.

    The script imports torch, and `copy` where the text uses it; `as_list` makes a list of whatever a model returns.
    """

    text: str
    """Source of `on_platform(model, inputs)`, which returns a list of tensors."""
    exports: bool = False
    """Whether the runtime reads an exported program: it wants a module, and writes to inputs become outputs."""
    short: tuple[str, ...] = ()
    """The same in a few lines for an issue: from `model` and the tuple `inputs` to a list of tensors, `actual`; empty
    where that takes more than a few."""
    recorder: str = ""
    """Where these lines depend on the program: source that knows `model` and `inputs`, and prints `SHORT` and a list of
    the lines."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions the script should name, besides torch."""


@dataclass(frozen=True, slots=True)
class Headings:
    """What the issue template of a project calls the parts of a report."""

    happens: str = "What happens"
    due: str = "What should happen"
    reproduce: str = "To reproduce"
    versions: str = "Versions"


def with_mindgap(spec: PlatformSpec) -> ReproducerText:
    """The text for a runtime that offers none of its own: it needs mindgap for one call."""
    return ReproducerText(_WITH_MINDGAP.format(name=spec.name), packages=("mindgap",))


_WITH_MINDGAP = """
def on_platform(model, inputs):
    import mindgap  # {name} offers no text of its own

    outcome = mindgap.check(model, inputs, on=["{name}"], program=True).platforms["{name}"].outcome
    if not outcome.ok:
        raise RuntimeError(outcome.message)
    return [item.tensor for item in outcome.outputs]
"""
