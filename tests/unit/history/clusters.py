"""Embedded clusters without files, for tests of the history."""

from __future__ import annotations

import random

from swell.api.kinds import NAMESPACES
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster


async def fresh_cluster() -> Cluster:
    """Returns an empty cluster with the namespaces that the tests use."""
    clock = SystemClock()
    api = new_api_server(Storage(clock.now), clock, random.Random(0))
    cluster = InProcessCluster(api, "history")
    for name in ("lab", "other"):
        await cluster.create(NAMESPACES, {"metadata": {"name": name}})
    return cluster
