"""The layers of torch.compile, each reached by a backend of its own, and the numerics switches of inductor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from mindgap.platforms.ladder import Knob, Passes, Rung
from mindgap.records.platform import PlatformSpec

LAYERS: Final = {
    "eager": Rung("dynamo", layer="dynamo", says="TorchDynamo's graph on eager kernels already differs"),
    "aot_eager": Rung("aot", layer="aot", says="AOT Autograd (functionalisation) brings it in"),
    "aot_eager_decomp_partition": Rung(
        "decomposition",
        layer="decomposition",
        says="inductor's decompositions on eager kernels already differ",
        cause="decomposition",
    ),
    "inductor": Rung(
        "inductor",
        layer="inductor",
        says="inductor's lowering or code generation brings it in: its decompositions on eager kernels agree",
    ),
}
"""By torch.compile's backend: each adds one layer to the one before."""


def rungs_to(backend: str) -> tuple[Rung, ...]:
    """The layers below a backend, and the backend itself; of one that is not torch's own only dynamo is known."""
    names = list(LAYERS)
    below = names[: names.index(backend)] if backend in LAYERS else names[:1]
    whole = LAYERS.get(backend, Rung(backend, layer=backend, says=f"the backend {backend} brings it in"))
    # A mode and switches belong to the whole compiler: the layers below it know neither.
    return (
        *(replace(LAYERS[name], options={"backend": name, "mode": None, "inductor": None}) for name in below),
        whole,
    )


def _knob(name: str, layer: str, switches: Mapping[str, object]) -> Knob:
    cure = f"torch._inductor.config.patch({dict(switches)!r})"
    return Knob(name, {"inductor": switches}, layer, f"inductor runs with {name}", cure=cure)


KNOBS: Final = (
    _knob("fusion off", "fusion", {"max_fusion_size": 1, "epilogue_fusion": False}),
    _knob("vectorisation off", "vectorisation", {"cpp.simdlen": 0}),
    _knob("fast-math off", "codegen", {"cpp.enable_unsafe_math_opt_flag": False,
                                       "cpp.enable_floating_point_contract_flag": "off"}),
    _knob("precision casts emulated", "lowering", {"emulate_precision_casts": True}),
)  # fmt: skip


DISABLED: Final = "disabled"
"""The option of a compiled platform that takes the names of passes to switch off."""

PASSES: Final = Passes(
    "passes of inductor",
    DISABLED,
    (
        "split_cat_fx_passes", "batch_fusion", "joint_graph_constant_folding", "pattern_matcher",
        "reorder_for_locality", "layout_optimization", "comprehensive_padding", "loop_ordering_after_fusion",
        "inplace_buffers", "use_pre_grad_passes", "use_joint_graph_passes", "use_post_grad_passes",
    ),
    "passes",
    "torch._inductor.config.patch(dict.fromkeys({names}, False))",
    within="inductor",
)  # fmt: skip
"""What changes the graph or the memory before code is written, as torch 2.13's `torch._inductor.config` calls it, whole
groups last; a name that another version does not have is left out."""


def knobs_for(spec: PlatformSpec) -> tuple[Knob, ...]:
    """The switches that matter on a platform's device, each on top of those that the platform has set already."""
    chosen = spec.options.get("inductor")
    kept = chosen if isinstance(chosen, Mapping) else {}
    writes_cpp = spec.device is None and kept.get("cpu_backend", "cpp") == "cpp"
    found = []
    for knob in KNOBS:
        switches = knob.options["inductor"]
        if writes_cpp or not any(name.startswith("cpp.") for name in switches):
            found.append(replace(knob, options={"inductor": {**kept, **switches}}))
    return tuple(found)
