"""How a script without mindgap runs a model with torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindgap.platforms.base import threads_of
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.devices import DEVICES
from mindgap.records.platform import PlatformSpec

WITHOUT_MKLDNN: Final = "torch.backends.mkldnn.flags(enabled=False)"


def on_torch(spec: PlatformSpec, call: str, around: Sequence[str] = (), brings: str = "") -> ReproducerText:
    """The text that runs `call` (`model`, or the model compiled) on a device, inside these context managers.

    `brings` is a package that must be imported because it brings the compiler.
    """
    lines = ["def on_platform(model, inputs):"]
    kind = DEVICES.get(spec.device.partition(":")[0]) if spec.device else None
    package = brings or ((kind.package or "") if kind is not None else "")
    if package:
        what = "compiler" if brings else "device"
        lines += [f"    import {package}  # noqa: F401 - torch knows the {what} from now on", ""]
    if threads_of(spec) > 1:
        lines.append(f"    torch.set_num_threads({threads_of(spec)})")
    indent = "    "
    if around:
        lines.append(f"    with {', '.join(around)}:")
        indent += "    "
    body = _ON_DEVICE.format(device=spec.device, call=call) if spec.device else _ON_CPU.format(call=call)
    lines += [indent + line for line in body.strip().splitlines()]
    packages = (kind.distribution,) if kind is not None and kind.distribution else (brings,) if brings else ()
    return ReproducerText("\n".join(lines) + "\n", packages=packages, short=_short(spec, call, around, package))


def _short(spec: PlatformSpec, call: str, around: Sequence[str], package: str) -> tuple[str, ...]:
    """A few lines; on a device they move the model there and back."""
    with_ = f"with {', '.join(('torch.no_grad()', *around))}:"
    as_list = "actual if isinstance(actual, (list, tuple)) else [actual]"
    if not spec.device:
        threads = f"torch.set_num_threads({threads_of(spec)})"
        imported = (f"import {package}",) if package else ()
        return (*imported, threads, with_, f"    actual = {call}(*inputs)", f"actual = list({as_list})")
    return (
        *((f"import {package}",) if package else ()),
        with_,
        f'    model.to("{spec.device}")',
        f'    actual = {call}(*[x.to("{spec.device}") for x in inputs])',
        f"actual = [result.cpu() for result in ({as_list})]",
        "model.cpu()",
    )


_ON_CPU: Final = """
return as_list({call}(*inputs))
"""

_ON_DEVICE: Final = """
if isinstance(model, torch.nn.Module):
    model = copy.deepcopy(model).to("{device}")
moved = [x.to("{device}") for x in inputs]
results = as_list({call}(*moved))
for x, there in zip(inputs, moved):
    x.copy_(there)
return [result.cpu() for result in results]
"""
