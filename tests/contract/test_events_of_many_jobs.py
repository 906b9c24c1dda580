"""Events of many jobs that are submitted together: complete and in order, over HTTPS.

`python -m bench events` prints how late they are.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from pathlib import Path
from random import Random

from swell.api.kinds import AI_TRAINING_JOBS, EVENTS, RECORDED_EVENTS
from swell.api.meta import Body, Key
from swell.api.times import parse_time
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, EventType, Selection, merge_patch
from swell.runtime.manager import Manager
from swell.sim.observation import NAMESPACE
from tests.contract.targets import embedded_server, over_https
from tests.sim.operator.jobs import a_job, a_role

N_JOBS = 200
# What the operator tells of a job that waits for room, and of one that is ended.
TOLD = ["TrainingJobPending", "TrainingJobTerminating", "TrainingJobPreempted"]


async def _follow(cluster: Cluster, late_s: list[float]) -> None:
    """Note how long after its time each event is seen by a watch."""
    first = await cluster.list(RECORDED_EVENTS, Selection(NAMESPACE))
    version, selection = first.resource_version, Selection(NAMESPACE)
    async with cluster.watch(RECORDED_EVENTS, selection, resource_version=version) as events:
        async for event in events:
            body = event.object
            if event.type is EventType.ADDED and isinstance(body, dict):
                seen_at = time.time()
                late_s.append(seen_at - parse_time(body["eventTime"]))


async def sweep(cluster: Cluster) -> list[float]:
    """Submit jobs and end them; return how late each of their events was seen."""
    clock, late_s = SystemClock(), list[float]()
    await install_crds(cluster, clock)
    following = asyncio.create_task(_follow(cluster, late_s))
    settings = AITrainingJobSettings(namespace=NAMESPACE, gang=False)
    manager = Manager(clock=clock)
    kind = ai_training_job_kind(settings)
    manager.add("operator", lambda: operate(kind, cluster, clock=clock, random=Random(1)))
    # The operator finds all jobs at once, as after an outage.
    for n in range(N_JOBS):
        await cluster.create(AI_TRAINING_JOBS.untyped(), _job(n))
    running = asyncio.create_task(manager.run())
    try:
        await _preempt(cluster)
        async with asyncio.timeout(60):
            while len(late_s) < N_JOBS * len(TOLD):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    finally:
        manager.stop()
        await running
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return late_s


def _job(n: int) -> Body:
    return a_job(f"job-{n}", {"replicaSpecs": {"trainer": a_role(replicas=1)}})


async def _preempt(cluster: Cluster) -> None:
    """End every job as soon as it waits for room."""
    patch = merge_patch({"metadata": {"annotations": {"Preempted": "room"}}})
    for n in range(N_JOBS):
        key = Key(NAMESPACE, f"job-{n}")
        async with asyncio.timeout(60):
            while True:
                job = await cluster.get(AI_TRAINING_JOBS, key)
                if job.status.phase.value == "Pending":
                    break
                await asyncio.sleep(0.05)
        await cluster.patch(AI_TRAINING_JOBS, key, patch)


def test_events_of_a_sweep_are_complete_and_in_order(tmp_path: Path) -> None:
    """Each job has all its events, listed in their order."""

    async def act() -> dict[str, list[str]]:
        async with over_https(tmp_path / "kubeconfig") as cluster:
            await sweep(cluster)
            told = defaultdict[str, list[str]](list)
            for event in (await cluster.list(EVENTS, Selection(NAMESPACE))).items:
                told[event.involved_object.name].append(event.reason)
            return told

    with embedded_server(tmp_path):
        told = asyncio.run(act())

    assert dict(told) == {f"job-{n}": TOLD for n in range(N_JOBS)}
