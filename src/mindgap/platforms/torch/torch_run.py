"""Running a case with torch: placement, seeds, names of outputs, changed inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import torch

from mindgap.platforms.base import Platform, Prepared, StageFailure
from mindgap.platforms.probing import guarded, is_two, working
from mindgap.platforms.reproducer import Headings
from mindgap.platforms.torch import knobs
from mindgap.platforms.torch.devices import CPU, DEVICES, Device
from mindgap.platforms.torch.messages import TORCH
from mindgap.platforms.torch.other_versions import VERSIONED
from mindgap.program.build import named_results
from mindgap.program.case import Case
from mindgap.program.graph import Program, map_leaves
from mindgap.program.inputs import copy_of
from mindgap.program.state import BUFFER, ModuleState, seed_python
from mindgap.records.outcome import Ran, Status
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, NamedTensor, same_bits

PlacedCall: TypeAlias = Callable[[Sequence[torch.Tensor]], Any]
"""A case as a function of its placed input tensors."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a case runs."""

    kind: Device = CPU
    device: torch.device | None = None
    """None is the CPU: nothing is moved."""

    @classmethod
    def of(cls, spec: PlatformSpec, table: dict[str, Device]) -> Placement:
        """The device of a platform, its package imported; `cuda:1` is the second of its kind."""
        if spec.device is None:
            return cls()
        name, _, index = spec.device.partition(":")
        kind = table[name]
        kind.load()
        return cls(kind, torch.device(f"{kind.torch_device}:{index}" if index else kind.torch_device))

    def numbered(self) -> Placement:
        """The same with the number that tensors there have: torch_xla's compiler tells `xla` from `xla:0`."""
        if self.device is None or ":" in str(self.device):
            return self
        return replace(self, device=torch.empty(0, device=self.device).device)

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor on the device with exactly the same strides."""
        if self.device is None:
            return copy_of(tensor)
        tensor = tensor.detach()
        placed = tensor.to(self.device, copy=True)
        if tensor.layout is not torch.strided or placed.stride() == tensor.stride() or not tensor.numel():
            return placed
        # A layout with gaps or repeats is not kept: move all the memory that it spans.
        room = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
        span = tensor.as_strided((room,), (1,)).to(self.device, copy=True)
        return span.as_strided(tensor.shape, tensor.stride())

    def program(self, program: Program) -> Program:
        """The program with its device arguments replaced."""
        if self.device is None:
            return program

        def change(leaf: Any) -> Any:
            return self.device if isinstance(leaf, torch.device) else leaf

        nodes = tuple(
            replace(node, args=map_leaves(node.args, change), kwargs=map_leaves(node.kwargs, change))
            for node in program.nodes
        )
        return replace(program, nodes=nodes)

    def model(self, model: Callable[..., Any]) -> Callable[..., Any]:
        """The user's module on the device; a function has nothing to move."""
        if self.device is None or not isinstance(model, torch.nn.Module):
            return model
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self.kind.refuse_missing(name, tensor.dtype)
        return copy.deepcopy(model).to(self.device)


class TorchRun(Prepared):
    """A case that torch runs, whatever was done to it before."""

    def __init__(
        self,
        case: Case,
        placement: Placement,
        ran: Ran,
        call: PlacedCall,
        state: ModuleState | None = None,
        compiled: bool = False,
    ) -> None:
        self.ran = ran
        self._compiled = compiled
        self._case = case
        self._placement = placement
        self._call = call
        self._state = state or ModuleState(None)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        placed = [self._placement.put(tensor) for tensor in tensors]
        try:
            outputs, self.not_compared = named_outputs(self._result(placed))
            outputs += self._buffers()
        finally:
            self._state.restore()
        for item, before, after in zip(self._case.inputs.tensors, tensors, placed):
            changed = fetched(f"input:{item.name}", after)
            if not same_bits(before, changed.tensor):
                outputs.append(changed)
        return outputs

    def _buffers(self) -> list[NamedTensor]:
        """The buffers that the run changed, and those that the program lists because it may change them."""
        if self.ran is Ran.PROGRAM:
            return []  # they are outputs of the program
        found, all_of_them = self._state.changed(), self._state.holds()
        for name, _ in self._case.program.output_leaves() if self._case.program else ():
            if name.startswith(BUFFER) and name.removeprefix(BUFFER) in all_of_them:
                found[name.removeprefix(BUFFER)] = all_of_them[name.removeprefix(BUFFER)]
        return [fetched(f"{BUFFER}{name}", found[name]) for name in sorted(found)]

    def result(self, placed: Sequence[torch.Tensor]) -> Any:
        """What the case returns for tensors that are on the device already."""
        try:
            return self._result(placed)
        finally:
            self._state.restore()

    def _result(self, placed: Sequence[torch.Tensor]) -> Any:
        seed_python(self._case.seed)
        self._placement.kind.set_seed(self._case.seed)
        told = None if self._compiled else self._placement.kind.watch()
        with torch.no_grad():
            result = self._call(placed)
        self._placement.kind.wait()
        if told is not None:
            self.fallback = told()
        return result


class TorchPlatform(Platform):
    """What all platforms of torch share; a vendor's package may bring devices of its own."""

    runs_source = True
    families = ("torch",)
    works_in_copies = True
    versioned = VERSIONED
    headings = Headings("🐛 Describe the bug")
    packages = ("torch", *sorted({d.distribution for d in DEVICES.values() if d.distribution}))
    message_rules = TORCH
    options: ClassVar = {
        "threads": "threads inside one operator (1)",
        "torch": "the version of torch that its interpreter must have",
        knobs.MKLDNN: "whether oneDNN kernels may be used (true)",
        knobs.FULL_PRECISION: "true: no TF32 and no sums in reduced precision, on devices that have them",
    }
    device_table: ClassVar[dict[str, Device]] = dict(DEVICES)
    hardware: ClassVar = {name: device.hardware for name, device in DEVICES.items()}

    @classmethod
    def kind_of(cls, spec: PlatformSpec) -> Device:
        """The kind of device of a platform, without importing its package."""
        return CPU if spec.device is None else cls.device_table[spec.device.partition(":")[0]]

    @property
    def placement(self) -> Placement:
        return Placement.of(self.spec, self.device_table)

    @classmethod
    def families_of(cls, spec: PlatformSpec) -> tuple[str, ...]:
        """Eager and compiled code on the CPU share ATen's kernels; a device has kernels of its own."""
        return (cls.kind_of(spec).torch_device,) if spec.device is not None else cls.families

    def probe(self) -> Probe:
        return guarded(self.probe_device)

    def probe_device(self) -> Probe:
        """Version, name and element types of the device, or why it cannot be used."""
        placement = self.placement
        kind = placement.kind
        version = " ".join(filter(None, [torch.__version__, kind.stack()]))
        wanted = str(self.spec.options.get("torch", ""))
        if wanted and torch.__version__.partition("+")[0] != wanted:
            return Probe(False, version, reason=f"this is torch {torch.__version__}, not {wanted}")
        if not kind.is_available():
            return Probe(False, version, reason=f"torch {torch.__version__} finds no {kind.torch_device} device")
        dtypes = working(
            [name for name in DTYPES if name not in kind.lacks],
            lambda name: is_two(self.one_and_one(DTYPES[name], placement), name),
        )
        name = f"CPU {torch.backends.cpu.get_cpu_capability()}" if placement.device is None else kind.name()
        return Probe(True, version, name, dtypes)

    def one_and_one(self, dtype: torch.dtype, placement: Placement) -> torch.Tensor:
        """1 + 1, computed as this platform computes."""
        one = torch.ones(2, dtype=dtype).to(placement.device or "cpu")
        total = (one + one).cpu()
        placement.kind.wait()
        return total

    def placement_for(self, case: Case) -> Placement:
        """Where the case will run; refuses inputs that cannot be there."""
        placement = self.placement.numbered()
        for item in case.inputs.tensors:
            placement.kind.refuse_missing(item.name, item.tensor.dtype)
        return placement


def own_model(case: Case, placement: Placement) -> Callable[..., Any] | None:
    """The user's own code on the device, where this worker has it."""
    return None if case.model is None else placement.model(case.model)


def own_program(case: Case, placement: Placement) -> Program:
    """The exported program for the device, for a worker that has no source."""
    if case.program is None:
        raise StageFailure(Status.UNSUPPORTED, "the model could be neither imported nor exported")
    for constant in case.program.constants:
        placement.kind.refuse_missing(constant.name, DTYPES[constant.meta.dtype])
    return placement.program(case.program)


def call_with(case: Case, model: Callable[..., Any]) -> PlacedCall:
    """The user's own function of nested arguments as a function of tensors."""

    def call(tensors: Sequence[torch.Tensor]) -> Any:
        args, kwargs = case.inputs.call(tensors)
        return model(*args, **kwargs)

    return call


def named_outputs(result: Any) -> tuple[list[NamedTensor], tuple[str, ...]]:
    """Outputs by path as `Program.output_leaves` names them, and those that cannot be compared."""
    outputs: list[NamedTensor] = []
    dropped: list[str] = []
    for name, leaf in named_results(result):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.dtype in DTYPE_NAMES:
            outputs.append(fetched(name, leaf))
        elif isinstance(leaf, torch.Tensor):
            dropped.append(f"{name} ({leaf.layout} tensor of {leaf.dtype})")
        elif leaf is not None:
            dropped.append(f"{name} ({type(leaf).__name__})")
    return outputs, tuple(dropped)


def fetched(name: str, tensor: torch.Tensor) -> NamedTensor:
    """A compact copy on the CPU, sharing memory with nothing, and the strides that it really had."""
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPE_NAMES:
        raise StageFailure(Status.UNSUPPORTED, f"{name} is a {tensor.layout} tensor of {tensor.dtype}")
    compact = tensor.detach().resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    return NamedTensor(name, compact, tuple(tensor.stride()))
