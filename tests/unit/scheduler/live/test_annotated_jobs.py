"""Training jobs with Kueue's annotations, from the job to the nodes, by operator and scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.controller import JobOperator
from swell.operator.framework.kind import ControllerDependencies
from swell.scheduler.live.settings import SchedulerSettings
from tests.topology_clusters import with_labels
from tests.unit.operator.scene import a_role
from tests.unit.scheduler.live.stage import NAMESPACE, Stage, on_stage

BY_LABELS = SchedulerSettings(config=with_labels("block, rack"))
KUEUE = "kueue.x-k8s.io/podset-"


async def racks(stage: Stage) -> None:
    """Two blocks with two racks of two nodes each, of four cpus; racks of both have one name."""
    for number in range(8):
        name = f"n{number}"
        await stage.node(name)
        await stage.label_node(name, block=f"b{number // 4}", rack=f"r{number // 2 % 2}")


def job(name: str, replicas: int, cpu: str, **annotations: str) -> Body:
    """A job whose trainers are annotated, and that nothing but its scheduler's name is ours of."""
    role = a_role(replicas=replicas)
    template = role["template"]
    notes = {f"{KUEUE}{key.replace('_', '-')}": value for key, value in annotations.items()}
    template["metadata"] = {"annotations": notes}
    template["spec"]["schedulerName"] = "swell"
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicaSpecs": {"trainer": role}},
    }


def with_operator(play: Callable[[Stage], Awaitable[None]]) -> None:
    """Have a play played with the scheduler and the operator."""

    async def whole(stage: Stage) -> None:
        await racks(stage)
        stage.start()
        dependencies = ControllerDependencies(
            stage.server.connect("operator"), stage.clock, Random(2)
        )
        operator = JobOperator(ai_training_job_kind(AITrainingJobSettings()), dependencies)
        running = asyncio.gather(*(service.run() for service in operator.services))
        try:
            await play(stage)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    on_stage(whole, BY_LABELS)


async def nodes_of(stage: Stage, name: str) -> list[int]:
    """The numbers of the nodes that a job's pods are on, by index of the pods."""
    where = await stage.where()
    return [int(where[pod][1:]) for pod in sorted(where) if pod.startswith(f"{name}-")]


@pytest.mark.parametrize(
    ("replicas", "annotations", "expected"),
    [
        # Two nodes of a rack have room for two such pods; three need a block.
        (2, {"required_topology": "rack"}, "one rack"),
        (3, {"required_topology": "rack"}, "none"),
        (3, {"required_topology": "block"}, "one block"),
        (3, {"preferred_topology": "rack"}, "one block"),
        (5, {"preferred_topology": "rack"}, "all"),
        (5, {"unconstrained_topology": "true"}, "all"),
        (4, {"slice_required_topology": "rack", "slice_size": "2"}, "pairs"),
        (2, {"required_topology": "floor"}, "none"),
    ],
)
def test_annotations_decide_where_a_job_runs(
    replicas: int, annotations: dict[str, str], expected: str
) -> None:
    """Each pod takes most of a node, so the number of nodes in a rack or block is what counts."""

    async def play(stage: Stage) -> None:
        await stage.user.create(
            AI_TRAINING_JOBS.untyped(), job("fit", replicas, "3", **annotations)
        )
        await stage.sleep(30)
        nodes = await nodes_of(stage, "fit")

        assert len(nodes) == (0 if expected == "none" else replicas)
        if expected == "one rack":
            assert len({node // 2 for node in nodes}) == 1
        elif expected == "one block":
            assert len({node // 4 for node in nodes}) == 1
        elif expected == "pairs":
            assert nodes[0] // 2 == nodes[1] // 2
            assert nodes[2] // 2 == nodes[3] // 2

    with_operator(play)


def test_lost_pod_of_an_annotated_job_comes_back_to_its_rack() -> None:
    """Also when another rack has more room."""

    async def play(stage: Stage) -> None:
        body = job("fit", 2, "3", required_topology="rack")
        again = {"restartPolicy": "Always", "restartScope": "Pod"}
        body["spec"]["replicaSpecs"]["trainer"] |= again
        await stage.user.create(AI_TRAINING_JOBS.untyped(), body)
        await stage.sleep(30)
        before = {node // 2 for node in await nodes_of(stage, "fit")}
        await stage.run_pods()
        lost = sorted(await stage.where())[0]
        await stage.remove(lost)
        await stage.sleep(60)

        assert len(await nodes_of(stage, "fit")) == 2
        assert {node // 2 for node in await nodes_of(stage, "fit")} == before

    with_operator(play)
