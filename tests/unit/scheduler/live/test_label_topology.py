"""Topology from node labels on a running scheduler: hot reload, HyperNodes beside it, metrics."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from swell.api.kinds import HYPER_NODES
from swell.api.meta import Key
from swell.runtime.cluster import Deletion
from swell.runtime.metrics import Metrics
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.settings import RELOAD_S, SchedulerSettings
from tests.unit.scheduler.live.stage import Stage, on_stage
from tests.unit.scheduler.live.test_metrics import values
from tests.unit.scheduler.live.test_topology import exact

BY_RACK = {"mode": "hard", "highestTierName": "rack"}
PLUGINS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: proportion}]
- plugins:
  - {name: predicates}
  - {name: nodeorder}
  - name: network-topology-aware
"""
LABELS = "    arguments: {topology.labels: 'block, rack'}\n"


async def racks(stage: Stage) -> None:
    await stage.nodes(4)
    for number in range(4):
        await stage.label_node(f"node-{number}", block="b", rack=f"r{number % 2}")


def test_list_in_the_file_is_in_force_at_once_and_off_while_a_hyper_node_exists(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What runs is not touched; the number of domains and the placements are exported."""
    file = tmp_path / "scheduler.conf"
    file.write_text(PLUGINS)

    async def play(stage: Stage) -> None:
        await racks(stage)
        metrics = Metrics()
        cluster = stage.server.connect("scheduler")
        scheduler = Scheduler(
            cluster, stage.settings, clock=stage.clock, random=Random(1), metrics=metrics
        )
        stage.adopt(scheduler)
        await stage.gang("a", 1, cpu="4")
        await stage.sleep(5)
        assert values(metrics, "swell_scheduler_topology_domains") == {}

        file.write_text(PLUGINS + LABELS)
        await stage.sleep(RELOAD_S + 1)
        before = await stage.where()
        await stage.gang("b", 2, cpu="4", networkTopology=BY_RACK)
        await stage.gang("c", 2, cpu="4", networkTopology=BY_RACK)
        await stage.sleep(15)
        placed = await stage.where()
        assert before.items() <= placed.items()
        racks_used = {int(placed[f"b-{n}"][-1]) % 2 for n in range(2)}
        assert len(racks_used) == 1
        assert "c-0" not in placed
        assert values(metrics, "swell_scheduler_topology_domains") == {"1": 2, "2": 1}
        assert values(metrics, "swell_scheduler_topology_placements_total") == {"hard/1": 1}

        await stage.hyper_node("hn", 1, exact("node-0"))
        await stage.sleep(15)
        assert values(metrics, "swell_scheduler_topology_domains") == {"1": 1}
        await stage.user.delete(HYPER_NODES, Key("", "hn"), Deletion())
        await stage.sleep(15)
        assert values(metrics, "swell_scheduler_topology_domains") == {"1": 2, "2": 1}

    on_stage(play, SchedulerSettings(config_path=file))

    assert caplog.text.count("topology.labels is not used") == 1
