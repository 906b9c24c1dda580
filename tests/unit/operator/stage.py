"""An embedded API server in virtual time, with an operator on it and hands to play the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NODES,
    POD_GROUPS,
    PODS,
)
from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.controller import ACTOR
from swell.operator.framework.program import operate
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.health import HealthChecks
from swell.runtime.leader import Election
from swell.runtime.metrics import Metrics
from swell.sim.loop import VirtualClock, run
from tests.unit.operator.scene import a_role

NAMESPACE = "default"


@dataclass
class Stage:
    """What a test holds."""

    api: ApiServer
    clock: VirtualClock
    user: InProcessCluster
    metrics: Metrics
    health: HealthChecks
    tasks: list[asyncio.Task[None]]

    async def submit(self, name: str = "fit", roles: Body | None = None, **spec: object) -> None:
        await self.user.create(
            AI_TRAINING_JOBS,
            {
                "apiVersion": AI_TRAINING_JOBS.api_version,
                "kind": AI_TRAINING_JOBS.kind,
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"replicaSpecs": roles or {"trainer": a_role(replicas=2)}, **spec},
            },
        )

    async def job(self, name: str = "fit") -> AITrainingJob:
        return await self.user.get(AI_TRAINING_JOBS, Key(NAMESPACE, name))

    async def until(
        self, phase: AITrainingJobPhase, name: str = "fit", within_s: float = 60
    ) -> AITrainingJob:
        for _ in range(int(within_s / 0.25)):
            job = await self.job(name)
            if job.status.phase is phase:
                return job
            await self.clock.sleep(0.25)
        raise AssertionError(f"{name} is {(await self.job(name)).status}")

    async def pods(self) -> list[str]:
        found = await self.user.list(PODS)
        return [pod.metadata.name for pod in found.items]

    async def bind(self, *names: str, node: str = "node-a") -> None:
        for name in names:
            body: Body = {
                "metadata": {"name": name, "namespace": NAMESPACE},
                "target": {"kind": "Node", "name": node},
            }
            await self.user.create(PODS.sub("binding", dict), body)

    async def report(self, *names: str, phase: str, code: int | None = None) -> None:
        state: Body = {} if code is None else {"terminated": {"exitCode": code, "reason": "X"}}
        status = {"phase": phase, "containerStatuses": [{"name": "aitj-main", "state": state}]}
        for name in names:
            await self.user.patch(
                PODS.status, Key(NAMESPACE, name), merge_patch({"status": status})
            )

    async def add_node(self, name: str = "node-a", ready: str = "True") -> None:
        await self.user.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        )
        await self.set_ready(name, ready)

    async def set_ready(self, name: str, ready: str) -> None:
        conditions = [{"type": "Ready", "status": ready}]
        patch = merge_patch({"status": {"conditions": conditions}})
        await self.user.patch(NODES.status, Key("", name), patch)


@asynccontextmanager
async def staged(
    settings: AITrainingJobSettings | None = None,
    *,
    election: Election | None = None,
    with_groups: bool = True,
    gates: frozenset[str] = frozenset(),
    decodes: Callable[[Cluster], Cluster] = lambda cluster: cluster,
) -> AsyncIterator[Stage]:
    """A stage with one operator at work."""
    clock = VirtualClock()
    api = new_api_server(Storage(clock.now), clock, Random(7), gates)
    stage = Stage(api, clock, InProcessCluster(api, "user"), Metrics(), HealthChecks(), [])
    work: Coroutine[Any, Any, None] = operate(
        ai_training_job_kind(settings or AITrainingJobSettings()),
        decodes(InProcessCluster(api, ACTOR)),
        clock=clock,
        random=Random(1),
        election=election,
        metrics=stage.metrics,
        health=stage.health,
    )
    stage.tasks = [asyncio.create_task(run()) for run in api.background]
    if not with_groups:
        await stage.user.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", f"{POD_GROUPS}"))
        await clock.sleep(1)
    stage.tasks.append(asyncio.create_task(work))
    try:
        yield stage
    finally:
        for task in reversed(stage.tasks):
            task.cancel()
        await asyncio.gather(*stage.tasks, return_exceptions=True)


def play(test: Coroutine[Any, Any, None]) -> None:
    """Run a test in virtual time."""
    run(test)
