"""Renews the Leases by which a cluster knows that nodes are alive, for all nodes of an agent.

Each node has its turn once a period, with jitter, so that a thousand nodes make a steady load of
small patches. A node that is deleted, or simulates its loss, has no heartbeat.
"""

from __future__ import annotations

import asyncio
from random import Random

from swell.api.kinds import LEASES
from swell.api.meta import Body, Key, Uid
from swell.api.times import format_micro_time
from swell.node.registration import Registration
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import (
    AlreadyExistsError,
    ClusterError,
    MalformedError,
    NotFoundError,
    OutcomeUnknownError,
    UnreachableError,
)
from swell.runtime.logs import get_logger
from swell.runtime.manager import run_workers
from swell.runtime.queue import QueueClosedError, WorkQueue

log = get_logger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
# A kubelet's defaults: a lease of 40 s that is renewed four times in that time.
PERIOD_S = 10.0
LEASE_S = 40
CALL_S = 10.0
FAILURES = (ClusterError, UnreachableError, OutcomeUnknownError, MalformedError, TimeoutError)


class Heartbeat:
    """The heartbeats of all nodes of an agent. `run` it as a service until `stop`."""

    def __init__(
        self,
        cluster: Cluster,
        registration: Registration,
        *,
        clock: Clock,
        random: Random,
        period_s: float = PERIOD_S,
        workers: int = 8,
    ) -> None:
        self._cluster = cluster
        self._registration = registration
        self._clock = clock
        self._random = random
        self._period_s = period_s
        self._n_workers = workers
        self._queue = WorkQueue[str](clock=clock, random=random)
        self._beating: dict[str, None] = {}
        registration.on_change(self._on_node)

    async def run(self) -> None:
        await run_workers(self._worker, self._n_workers)

    def stop(self) -> None:
        self._queue.close()

    def _on_node(self, name: str) -> None:
        """Begin at once with a node that is new or back."""
        if name not in self._beating and self._uid(name) is not None:
            self._beating[name] = None
            self._queue.add(name)

    def _uid(self, name: str) -> Uid | None:
        """Returns the node's UID if it should have a heartbeat."""
        node = self._registration.find(name)
        if node is None or self._registration.is_lost(name):
            return None
        return node.metadata.uid

    async def _worker(self) -> None:
        while True:
            try:
                name = await self._queue.get()
            except QueueClosedError:
                return
            try:
                await self._beat(name)
            finally:
                self._queue.done(name)

    async def _beat(self, name: str) -> None:
        uid = self._uid(name)
        if uid is None:
            self._beating.pop(name, None)
            return
        try:
            async with asyncio.timeout(CALL_S):
                await self._renew(name, uid)
        except FAILURES as error:
            # It is repeated in the next period: a node is lost only after several missed ones.
            log.info("heartbeat missed", node=name, why=str(error))
        self._queue.add_after(name, self._period_s * (0.9 + 0.2 * self._random.random()))

    async def _renew(self, name: str, uid: Uid) -> None:
        key = Key(LEASE_NAMESPACE, name)
        renewed: Body = {"spec": {"renewTime": format_micro_time(self._clock.now())}}
        try:
            await self._cluster.patch(LEASES, key, merge_patch(renewed))
        except NotFoundError:
            await self._create(key, uid, renewed)

    async def _create(self, key: Key, uid: Uid, renewed: Body) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": key.name, "uid": uid}
        body: Body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "ownerReferences": [owner],
            },
            "spec": {
                "holderIdentity": key.name,
                "leaseDurationSeconds": LEASE_S,
                **renewed["spec"],
            },
        }
        try:
            await self._cluster.create(LEASES, body)
        except AlreadyExistsError:
            log.debug("lease made meanwhile", node=key.name)
