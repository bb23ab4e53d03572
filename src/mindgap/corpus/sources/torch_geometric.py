"""`torch_geometric:CLASS`: a graph convolution or graph model on a small graph."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, Final

import torch

from mindgap.corpus import signatures
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.registry import register

NODES: Final = 12
CHANNELS: Final = 16
EDGE_CHANNELS: Final = 4
RELATIONS: Final = 3

_GRAPH_WIDE: Final = ("batch", "batch_index")
_DEGREES: Final = {
    "aggregators": ["mean", "max"],
    "scalers": ["identity", "amplification"],
    "deg": torch.tensor([0, 3, 4, 5]),
}
_PASSED_ON: Final[tuple[dict[str, Any], ...]] = ({"add_self_loops": False}, {}, _DEGREES)
"""Extra arguments for models that pass them to their convolutions. Adding self-loops selects edges by their values,
which cannot be exported."""


@register
class GraphModel(Catalogue):
    """A class of torch_geometric's tables of convolutions and models that takes plain tensors."""

    forms = ("torch_geometric:CLASS",)
    prefix = "torch_geometric"
    packages = ("torch_geometric",)
    extra = "graph"
    domain = "graph"

    def models(self) -> dict[str, Any]:
        nn = self.imported("torch_geometric.nn")
        names = [*nn.conv.__all__, *nn.dense.__all__, *nn.models.__all__]
        return signatures.buildable(nn, names, settings(CHANNELS), graph(0))

    def family(self, name: str, model: Any) -> str:
        return str(model.__module__).split(".")[-2]

    def attempts(self, name: str, model: Any, seed: int) -> Iterator[Attempt]:
        """Plain features first; then edges with features or kinds; dense graphs; inner networks of other widths."""
        given = graph(seed)
        takes = signatures.parameters(model.forward)
        dense = {"x": given["x"][None], "adj": given["adj"]} if "adj" in takes else {}
        # A model hands what it does not know to the convolutions inside it; a convolution itself takes no more.
        is_convolution = issubclass(model, self.imported("torch_geometric.nn").MessagePassing)
        passed_on = _PASSED_ON if signatures.takes_any(model.__init__) and not is_convolution else ({},)
        for optional in ((), ("edge_attr",), ("edge_type",), ("edge_attr", "edge_type"), ("edge_weight",), _GRAPH_WIDE):
            if not set(optional) <= set(takes) and optional != _GRAPH_WIDE:
                continue
            call = signatures.arguments(model.forward, {**given, **dense}, optional)
            for width, rest in itertools.product((CHANNELS, 2 * CHANNELS, EDGE_CHANNELS), passed_on):
                yield Attempt(functools.partial(_build, model, width, bool(optional), rest), (), call)


def settings(width: int) -> dict[str, Any]:
    """Small values by parameter name; networks inside a convolution take features of this width."""
    return {
        "in_channels": CHANNELS, "hidden_channels": CHANNELS, "out_channels": CHANNELS, "channels": CHANNELS,
        "num_layers": 2, "K": 2, "alpha": 0.5, "theta": 0.5, "num_relations": RELATIONS, "dim": EDGE_CHANNELS,
        "kernel_size": 2, "filter_size": 2, "k": 3, "space_dimensions": 3, "propagate_dimensions": 8,
        "edge_dim": EDGE_CHANNELS, "num_node_types": 2, "num_edge_types": RELATIONS, "edge_type_emb_dim": 4,
        "edge_attr_emb_dim": 4, "num_nodes": NODES, "embedding_dim": CHANNELS, "num_timesteps": 2, "depth": 2,
        "num_blocks": 2, "num_bilinear": 4, "num_spherical": 3, "num_radial": 3, "int_emb_size": 8, "basis_emb_size": 4,
        "out_emb_channels": 8, "hidden_node_channels": 8, "hidden_edge_channels": 8, "num_classes": 4,
        # What reads an edge's own features gives a matrix for it.
        "nn": _two_layers(width, CHANNELS**2 if width == EDGE_CHANNELS else CHANNELS),
        "mlp_h": _two_layers(width, 3), "mlp_f": _two_layers(width + 3),
        "mlp_g": _two_layers(CHANNELS), "first_aggr": True,
        "add_self_loops": False, "mode": "cat", **_DEGREES,
    }  # fmt: skip


def graph(seed: int) -> dict[str, Any]:
    """A ring of nodes with chords, its features, positions and kinds, by parameter name."""
    ring = torch.arange(NODES)
    edges = torch.cat([torch.stack([ring, (ring + step) % NODES]) for step in (1, 5)], dim=1)
    count = edges.shape[1]
    features = floats(seed, "x", (NODES, CHANNELS))
    return {
        "x": features, "x_0": floats(seed, "x_0", (NODES, CHANNELS)), "edge_index": edges,
        "edge_weight": floats(seed, "edge_weight", (count,)).abs(), "pos_edge_index": edges,
        "neg_edge_index": edges.flip(0), "hyperedge_index": edges,
        "edge_attr": floats(seed, "edge_attr", (count, EDGE_CHANNELS)), "pos": floats(seed, "pos", (NODES, 3)),
        "normal": floats(seed, "normal", (NODES, 3)), "edge_type": integers(seed, "edge_type", (count,), 0, RELATIONS),
        "node_type": integers(seed, "node_type", (NODES,), 0, 2), "z": integers(seed, "z", (NODES,), 1, 9),
        "batch": torch.zeros(NODES, dtype=torch.int64), "adj": floats(seed, "adj", (1, NODES, NODES)).abs(),
        "y": integers(seed, "y", (NODES,), 0, 4), "mask": integers(seed, "mask", (NODES,), 0, 2).bool(),
        "xs": [features, floats(seed, "xs", (NODES, CHANNELS))],
    }  # fmt: skip


def _build(kind: type[torch.nn.Module], width: int, with_edges: bool, passed_on: dict[str, Any]) -> torch.nn.Module:
    # Convolutions that read edge features are told their width; the others must not be.
    optional = ("add_self_loops", "edge_dim") if with_edges else ("add_self_loops",)
    return kind(**signatures.arguments(kind.__init__, settings(width), optional), **passed_on)


def _two_layers(width: int, out: int = CHANNELS) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(width, CHANNELS), torch.nn.ReLU(), torch.nn.Linear(CHANNELS, out))
