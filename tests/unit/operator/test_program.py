"""The operator as a whole on the embedded API server, whose schemas judge all it writes."""

from __future__ import annotations

import asyncio

import pytest

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
)
from swell.api.meta import Key
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.controller import ACTOR
from swell.runtime.cluster import merge_patch
from swell.runtime.leader import Election, LeadershipLostError
from tests.sim.undecodable import MARK, HalfBlindCluster
from tests.unit.operator.scene import a_role
from tests.unit.operator.stage import NAMESPACE, Stage, play, staged

BOTH = ("fit-trainer-0", "fit-trainer-1")


async def until_running(stage: Stage) -> None:
    await stage.add_node()
    await stage.submit()
    await stage.until(AITrainingJobPhase.PENDING)
    await stage.clock.sleep(1)
    await stage.bind(*BOTH)
    await stage.until(AITrainingJobPhase.CREATING)
    await stage.report(*BOTH, phase="Running")
    await stage.until(AITrainingJobPhase.RUNNING)


def test_life_of_a_job_is_accepted_by_the_schemas() -> None:
    """Every object and every status the operator writes is valid for the server."""

    async def test() -> None:
        async with staged() as stage:
            await until_running(stage)
            await stage.report(*BOTH, phase="Succeeded", code=0)
            job = await stage.until(AITrainingJobPhase.SUCCEED)

            assert job.status.reason == "RolesCompleted"
            for resource in (PODS, SERVICES, POD_GROUPS):
                assert (await stage.user.list(resource.untyped())).items == ()
            reported = {e.reason for e in (await stage.user.list(EVENTS)).items}
            assert {"TrainingJobPending", "TrainingJobRunning", "TrainingJobSucceed"} <= reported

    play(test())


def test_failure_and_restart_are_accepted_by_the_schemas() -> None:
    """Restart records, counts and back-off are valid, and so is the ending."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node()
            role = a_role(replicas=1, restartPolicy="OnFailure", restartLimit=1)
            await stage.submit(roles={"trainer": role}, restartingExitCode=137)
            for _ in range(2):
                await stage.clock.sleep(2)
                await stage.bind(BOTH[0])
                await stage.report(BOTH[0], phase="Failed", code=1)
            job = await stage.until(AITrainingJobPhase.FAILED)

            assert job.status.restart_counts == {"trainer": 1}
            assert job.status.restarts == 1
            text = stage.metrics.exposition().decode()
            assert 'swell_job_restarts_total{cause="PodFailed"} 1.0' in text
            assert 'swell_jobs{phase="Failed"} 1.0' in text
            assert "swell_controller_pass_seconds" in text

    play(test())


def test_lost_node_is_noticed_and_fenced() -> None:
    """A silent node's pods are replaced, and their records dropped when it is fenced."""

    async def test() -> None:
        async with staged() as stage:
            await stage.add_node()
            role = a_role(replicas=1, restartPolicy="OnNodeFail")
            await stage.submit(roles={"trainer": role})
            await stage.until(AITrainingJobPhase.PENDING)
            await stage.clock.sleep(1)
            await stage.bind(BOTH[0])
            await stage.report(BOTH[0], phase="Running")
            await stage.until(AITrainingJobPhase.RUNNING)
            await stage.set_ready("node-a", "Unknown")
            await stage.clock.sleep(29)
            assert (await stage.job()).status.phase is AITrainingJobPhase.RUNNING
            job = await stage.until(AITrainingJobPhase.TERMINATING, within_s=5)
            assert job.status.reason == "NodeLost"
            await stage.until(AITrainingJobPhase.RESTARTING, within_s=100)
            assert (await stage.job()).status.restart_counts == {"trainer": 1}

    play(test())


def test_node_that_vanishes_is_read_before_it_is_believed() -> None:
    """An unknown node is asked for; a node that does not exist is lost at once."""

    async def test() -> None:
        async with staged() as stage:
            await until_running(stage)
            await stage.user.delete(NODES, Key("", "node-a"))
            job = await stage.until(AITrainingJobPhase.NODE_FAIL, within_s=10)

            assert "node-a is lost" in job.status.message

    play(test())


def test_invalid_template_is_reported_by_the_servers_own_words() -> None:
    """The dry run's answer is the job's reason; nothing crashes."""

    async def test() -> None:
        async with staged() as stage:
            role = a_role(replicas=1)
            role["template"]["spec"]["volumes"] = [{"name": "BAD NAME"}]
            await stage.submit(roles={"trainer": role})
            await stage.clock.sleep(5)
            job = await stage.job()

            assert job.status.phase is AITrainingJobPhase.PENDING
            assert job.status.reason == "ObjectRefused"
            assert "BAD NAME" in job.status.message
            assert await stage.pods() == []

    play(test())


def test_same_name_is_another_job() -> None:
    """A job re-created under its name never adopts the old one's pods."""

    async def test() -> None:
        async with staged() as stage:
            await until_running(stage)
            old = await stage.job()
            nothing = merge_patch({"metadata": {"finalizers": None}})
            await stage.user.patch(AI_TRAINING_JOBS, old.metadata.key, nothing)
            await stage.user.delete(AI_TRAINING_JOBS, old.metadata.key)
            await stage.submit()
            await stage.clock.sleep(5)
            job = await stage.job()

            assert job.metadata.uid != old.metadata.uid
            assert job.status.phase is AITrainingJobPhase.PENDING
            assert job.status.ready == "0/2"
            owners = {
                p.metadata.controller.uid
                for p in (await stage.user.list(PODS)).items
                if p.metadata.controller
            }
            assert owners == {old.metadata.uid}

    play(test())


def test_garbage_is_swept_up() -> None:
    """What outlived its job goes, by UID; what is not ours stays."""

    async def test() -> None:
        async with staged(AITrainingJobSettings(gc_period_s=30)) as stage:
            await until_running(stage)
            old = await stage.job()
            nothing = merge_patch({"metadata": {"finalizers": None}})
            await stage.user.patch(AI_TRAINING_JOBS, old.metadata.key, nothing)
            await stage.user.delete(AI_TRAINING_JOBS, old.metadata.key)
            mine = {"metadata": {"name": "mine", "namespace": NAMESPACE}}
            await stage.user.create(CONFIG_MAPS, mine)
            await stage.clock.sleep(40)

            left = (await stage.user.list(CONFIG_MAPS)).items
            assert [c.metadata.name for c in left] == ["mine"]
            assert (await stage.user.list(SERVICES)).items == ()
            pods = (await stage.user.list(PODS)).items
            assert all(pod.metadata.deletion_timestamp for pod in pods)

    play(test())


def test_deletion_goes_through_the_finalizer() -> None:
    """The object goes when all it owned has gone."""

    async def test() -> None:
        async with staged() as stage:
            await stage.submit()
            await stage.until(AITrainingJobPhase.PENDING)
            await stage.clock.sleep(1)
            await stage.user.delete(AI_TRAINING_JOBS, Key(NAMESPACE, "fit"))
            await stage.clock.sleep(5)

            for resource in (AI_TRAINING_JOBS, PODS, SERVICES, CONFIG_MAPS, POD_GROUPS):
                assert (await stage.user.list(resource.untyped())).items == ()

    play(test())


def test_cluster_without_groups_is_served_too() -> None:
    """Where the kind is missing, a warning and on without it."""

    async def test() -> None:
        async with staged(with_groups=False) as stage:
            await stage.submit()
            await stage.until(AITrainingJobPhase.PENDING)
            await stage.clock.sleep(1)

            assert await stage.pods() == list(BOTH)
            reported = {e.reason for e in (await stage.user.list(EVENTS)).items}
            assert "GangNotServed" in reported

    play(test())


def test_only_the_holder_of_the_lease_works() -> None:
    """A lease held by somebody else keeps the operator waiting, and its loss ends it."""

    async def test() -> None:
        election = Election(Key(NAMESPACE, "lock"), "us")
        async with staged(election=election) as stage:
            await stage.submit()
            await stage.until(AITrainingJobPhase.PENDING)
            lease = await stage.user.get(LEASES.untyped(), election.lease)
            assert lease["spec"]["holderIdentity"] == "us"
            for _ in range(3):
                lease = await stage.user.get(LEASES.untyped(), election.lease)
                lease["spec"] |= {"holderIdentity": "them", "leaseDurationSeconds": 600}
                await stage.user.update(LEASES.untyped(), lease)
                await stage.clock.sleep(4)
            await stage.clock.sleep(20)

            assert stage.tasks[-1].done()
            assert isinstance(stage.tasks[-1].exception(), LeadershipLostError)

    play(test())


def test_readiness_says_what_is_missing() -> None:
    """Ready when every cache that decisions need is there."""

    async def test() -> None:
        async with staged() as stage:
            await stage.clock.sleep(1)

            assert stage.health.readyz().status == 200

    play(test())


@pytest.mark.parametrize("n_jobs", [20])
def test_shutdown_finishes_what_was_begun(n_jobs: int) -> None:
    """Cancelled, the operator stops without an error."""

    async def test() -> None:
        async with staged() as stage:
            for n in range(n_jobs):
                await stage.submit(f"job-{n}")
            await stage.clock.sleep(0.05)
            stage.tasks[-1].cancel()
            results = await asyncio.gather(stage.tasks[-1], return_exceptions=True)

            assert isinstance(results[0], asyncio.CancelledError)
            assert ACTOR == "swell-operator"

    play(test())


@pytest.mark.parametrize("field", ["spec.containers", "status.phase", "status.containerStatuses"])
def test_undecodable_pod_has_no_twin_and_costs_no_restart(field: str) -> None:
    """The job waits for it, as it was read last, and goes on when it can be read again."""

    async def test() -> None:
        async with staged(decodes=HalfBlindCluster) as stage:
            await until_running(stage)
            before = {p.metadata.name: p.metadata.uid for p in (await stage.user.list(PODS)).items}
            await mark_pod(stage, BOTH[0], field)
            await stage.clock.sleep(900)
            after = {p.metadata.name: p.metadata.uid for p in (await stage.user.list(PODS)).items}
            assert after == before
            assert (await stage.job()).status.phase is AITrainingJobPhase.RUNNING
            await stage.report(*BOTH, phase="Succeeded", code=0)
            await mark_pod(stage, BOTH[0], None)

            await stage.until(AITrainingJobPhase.SUCCEED)

    play(test())


async def mark_pod(stage: Stage, name: str, field: str | None) -> None:
    patch = merge_patch({"metadata": {"annotations": {MARK: field}}})
    await stage.user.patch(PODS, Key(NAMESPACE, name), patch)
