"""A campaign on a real Ray cluster of three nodes, one of which dies in the middle."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mindgap.campaign.cluster import resource_of
from mindgap.campaign.hunt import hunt
from mindgap.campaign.progress import Snapshot
from mindgap.errors import PlatformUnavailable
from tests.campaign import programs
from tests.campaign.comparing import assert_same

ray = pytest.importorskip("ray")
COUNT = 24


def test_platforms_map_to_resources() -> None:
    offered = {"CPU": 4.0, "GPU": 1.0, "platform:mps": 1.0, "platform:openvino": 1.0}
    assert resource_of("eager", offered) == {}
    assert resource_of("inductor:cuda:1", offered) == {"GPU": 0.25}
    assert resource_of("eager:mps", offered) == {"platform:mps": 0.25}
    assert resource_of("openvino", offered) == {"platform:openvino": 0.25}
    with pytest.raises(PlatformUnavailable, match="no node of the cluster offers eager:npu"):
        resource_of("eager:npu", offered)


def test_a_dying_node_changes_nothing(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    local = tmp_path / "local"
    hunt(
        local,
        programs.plan("wrong", count=COUNT),
        config=programs.config(),
        numbering=programs.numbering(),
        jobs=1,
        explain_s=0,
    )

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    nodes = [cluster.add_node(num_cpus=1, resources={"platform:wrong": 1}) for _ in range(2)]
    cluster.wait_for_nodes()
    killed = threading.Event()

    def watch(now: Snapshot) -> None:
        if now.finished >= 4 and not killed.is_set():
            killed.set()
            own = ray._private.worker.global_worker.node.raylet_socket_name  # mostly, but not always, the head's
            doomed = next(node for node in nodes if node.raylet_socket_name != own)
            cluster.remove_node(doomed, allow_graceful=False)

    try:
        far = tmp_path / "far"
        slowly = programs.MadeHere(lambda: programs.slowly(0.3))
        ending = hunt(
            far,
            programs.plan("wrong", count=COUNT),
            config=programs.config(),
            numbering=slowly,
            explain_s=0,
            cluster=cluster.address,
            watch=watch,
            jobs=1,
        )
        assert ending.complete and killed.is_set()
        assert_same(local, far)
    finally:
        ray.shutdown()
        cluster.shutdown()
