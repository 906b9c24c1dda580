"""What a scheduler warns of when it starts."""

from __future__ import annotations

from structlog.testing import capture_logs

from swell.api.kinds import DEVICE_TAINT_RULES
from swell.runtime.cluster import Cluster
from swell.scheduler.live.start_warnings import warn_of_device_rules
from swell.sim.loop import run
from tests.unit.runtime.world import World


async def warned_of(cluster: Cluster) -> list[str]:
    with capture_logs() as logs:
        await warn_of_device_rules(cluster)
    return [entry["resource"] for entry in logs if entry["log_level"] == "warning"]


def test_rules_for_devices_are_warned_of_where_they_are_served() -> None:
    """Where they are not, or may not be listed, nothing is said."""

    async def story() -> None:
        world = World()
        assert await warned_of(world.line()) == []

        world.serve(DEVICE_TAINT_RULES)
        line = world.line()
        line.refuse = lambda *_: True

        assert await warned_of(line) == []
        assert await warned_of(world.line()) == [str(DEVICE_TAINT_RULES)]

    run(story())
