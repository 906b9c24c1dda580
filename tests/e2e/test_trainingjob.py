"""TrainingJobs from submission to their end, on the embedded cluster and on a real one."""

from __future__ import annotations

import json
import random

import pytest

from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.operator.framework.controller import JobOperator
from swell.operator.framework.kind import ControllerDependencies
from swell.operator.trainingjob.kind import training_job_kind
from swell.runtime.clock import SystemClock
from tests.contract.controller_world import Opened, embedded, index_of, is_active, real
from tests.e2e.trainingjob_stage import Stage, a_training_job, elastic, stage_play


@pytest.fixture(params=["embedded", "kubernetes"])
def opened(request: pytest.FixtureRequest) -> Opened:
    if request.param == "embedded":
        return embedded
    return real(request.getfixturevalue("control_plane"))


SHAPES: dict[str, tuple[Body, list[str]]] = {
    "plain": ({}, ["pserver"]),
    "local": ({"local_job": True}, []),
    "nccl2": ({"frame_work": {"name": "paddle", "type": "nccl2"}}, []),
    "multi": ({"frame_work": {"name": "paddle", "type": "multi"}}, ["pserver"]),
    "tensorflow": ({"frame_work": {"name": "tensorflow", "type": "multi"}}, ["pserver"]),
    "tolerant": ({"fault_tolerant": True}, ["master", "pserver"]),
    "tolerant nccl2": ({"fault_tolerant": True, "frame_work": {"type": "nccl2"}}, ["master"]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_job_runs_and_succeeds(opened: Opened, shape: str) -> None:
    """A job of any shape gets its workloads, runs when they all do, and succeeds when done."""
    spec, sets = SHAPES[shape]
    n_trainers = 1 if shape == "local" else 2

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", **spec)
        running = await stage.until_running("fit")
        owned = await stage.owned()

        assert owned["Job"] == ["fit-trainer"]
        assert owned.get("ReplicaSet", []) == [f"fit-{role}" for role in sets]
        assert owned["PodGroup"] == ["fit"]
        assert running["startTime"]
        assert running["trainer_target"] == n_trainers

        for index in range(n_trainers):
            await stage.end_trainer("fit", index)
        done = await stage.until_phase("fit", "Succeed", "Failed")
        await stage.world.until_gone(POD_GROUPS, "fit")

        assert done["phase"] == "Succeed"
        assert done["startTime"] == running["startTime"]

    stage_play(opened, scenario)


def test_pods_are_indexed(opened: Opened) -> None:
    """Trainers show their index, pservers of a multi job one each; a replaced one is reused."""

    async def scenario(stage: Stage) -> None:
        spec = {"frame_work": {"type": "multi"}, "pserver": {"min-instance": 2}}
        await stage.submit("fit", **spec)
        await stage.until_running("fit")
        await _until_indexes(stage, "paddle-job", "fit-trainer-idx", ["0", "1"])
        await _until_indexes(stage, "paddle-job-pserver", "fit-pserver-idx", ["0", "1"])
        pods = await stage.world.pods("paddle-job-pserver=fit")
        lost = pods[0]["metadata"]["name"]
        await stage.world.delete(PODS, lost)
        await stage.world.until_gone(PODS, lost)
        await _until_indexes(stage, "paddle-job-pserver", "fit-pserver-idx", ["0", "1"])

    stage_play(opened, scenario)


def test_scaling_up_and_down(opened: Opened) -> None:
    """A new target moves the trainer Job in one update; surplus trainers are no failures."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", **elastic(2, 4))
        await stage.until_running("fit")
        for target in (4, 3):
            await stage.set_target("fit", target)
            await _until_scaled(stage, target)
            job = await stage.world.get(JOBS, "fit-trainer")
            pods = await stage.world.until_pods(target, "paddle-job=fit")

            assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (target, target)
            assert [index_of(pod) for pod in pods] == list(range(target))
        status = await stage.until_running("fit")
        reported = [(r["from"], r["to"], r["result"]) for r in status["scale_records"]]

        assert reported == [(2, 4, "Succeeded"), (4, 3, "Succeeded")]

        for index in range(3):
            await stage.end_trainer("fit", index)
        await stage.until_phase("fit", "Succeed")
        job = await stage.world.get(JOBS, "fit-trainer")

        assert not job["status"].get("failed")

    stage_play(opened, scenario)


def test_job_ends_while_scaling(opened: Opened) -> None:
    """Endings are looked at in Scaling as in Running."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", **elastic(2, 4))
        await stage.until_running("fit")
        await stage.cordon()
        await stage.set_target("fit", 3)
        await stage.until_phase("fit", "Scaling")
        for index in range(2):
            await stage.end_trainer("fit", index)
        await stage.set_target("fit", 2)
        status = await stage.until_phase("fit", "Succeed", "Failed")

        assert status["phase"] == "Succeed"

    stage_play(opened, scenario)


def test_failed_trainer_fails_the_job(opened: Opened) -> None:
    """Without fault tolerance one failed trainer ends the job, and the reason names it."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit")
        await stage.until_running("fit")
        pod = await stage.trainer("fit", 1)
        await stage.end_trainer("fit", 1, exit_code=3)
        status = await stage.until_phase("fit", "Failed", "Succeed")
        reported = await stage.until_reported("TrainingJobFailed")

        assert pod["metadata"]["name"] in status["reason"]
        assert f"on node {stage.node}" in status["reason"]
        assert "exit code 3" in status["reason"]
        assert reported["type"] == "Warning"

    stage_play(opened, scenario)


def test_tolerant_job_replaces_trainers_within_the_limit(opened: Opened) -> None:
    """A failed index is tried again; given up for good, it is named in a success of the others."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", fault_tolerant=True)
        await stage.until_running("fit")
        await stage.end_trainer("fit", 0, exit_code=1)
        await stage.end_trainer("fit", 0, exit_code=1)
        await stage.end_trainer("fit", 1)
        status = await stage.until_phase("fit", "Failed", "Succeed")

        assert status["phase"] == "Succeed"
        assert status["reason"] == "1 of 2 trainers succeeded; failed for good: 0"

    stage_play(opened, scenario, restart_limit=1)


def test_tolerant_job_fails_when_no_trainer_succeeds(opened: Opened) -> None:
    """When every index is given up, the job has failed."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", fault_tolerant=True)
        await stage.until_running("fit")
        for index in range(2):
            await stage.end_trainer("fit", index, exit_code=1)
        status = await stage.until_phase("fit", "Failed", "Succeed")

        assert status["phase"] == "Failed"

    stage_play(opened, scenario, restart_limit=0)


@pytest.mark.parametrize("tolerant", [False, True])
def test_preempted_trainer_is_no_failure(opened: Opened, tolerant: bool) -> None:
    """A disrupted trainer is replaced and charged to nobody."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", fault_tolerant=tolerant)
        await stage.until_running("fit")
        lost = await stage.trainer("fit", 1)
        await stage.end_trainer("fit", 1, exit_code=143, disrupted=True)

        async def read() -> Body:
            return await stage.trainer("fit", 1)

        await stage.world.until(read, lambda pod: pod["metadata"]["uid"] != lost["metadata"]["uid"])
        for index in range(2):
            await stage.end_trainer("fit", index)
        status = await stage.until_phase("fit", "Succeed", "Failed")
        job = await stage.world.get(JOBS, "fit-trainer")

        assert status["phase"] == "Succeed"
        assert not job["status"].get("failed")

    stage_play(opened, scenario, restart_limit=0)


def test_restarting_pserver_fails_the_job(opened: Opened) -> None:
    """A pserver whose container restarted as often as the limit says ends the job."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit")
        await stage.until_running("fit")
        (pod,) = await stage.world.pods("paddle-job-pserver=fit")
        await stage.end_pod(pod, exit_code=1)
        status = await stage.until_phase("fit", "Failed")

        assert "restarted 1 times" in status["reason"]

    stage_play(opened, scenario, restart_limit=1)


def test_wall_time_ends_the_job(opened: Opened) -> None:
    """Trainers that are active when the wall time is over time the job out."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", annotations={"walltime": 2})
        await stage.until_running("fit")
        await stage.until_phase("fit", "Timeout")
        await stage.until_status("fit", lambda status: status.get("released"))

    stage_play(opened, scenario, autoclean=True)


def test_autoclean_releases_in_order(opened: Opened) -> None:
    """With autoclean workloads are sized to nothing and their pods go; then the job is released."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit", fault_tolerant=True)
        await stage.until_running("fit")
        for index in range(2):
            await stage.end_trainer("fit", index)
        await stage.until_status("fit", lambda status: status.get("released"))
        reported = await stage.until_reported("Released")
        owned = await stage.owned()

        assert owned == {"ReplicaSet": ["fit-master", "fit-pserver"], "Job": ["fit-trainer"]}
        assert (await stage.world.get(JOBS, "fit-trainer"))["spec"]["parallelism"] == 0
        assert (await stage.world.get(REPLICA_SETS, "fit-master"))["spec"]["replicas"] == 0
        assert reported["type"] == "Normal"

    stage_play(opened, scenario, autoclean=True)


def test_without_autoclean_pods_are_kept(opened: Opened) -> None:
    """Without autoclean a finished job keeps its pods, an event says so, and all is quiet."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit")
        await stage.until_running("fit")
        for index in range(2):
            await stage.end_trainer("fit", index)
        await stage.until_reported("PodsKept")
        await stage.world.until_gone(POD_GROUPS, "fit")
        await stage.world.stays(stage.owned, for_s=1.0)
        owned = await stage.owned()

        assert len(owned["Pod"]) == 3
        assert "released" not in await stage.status("fit")

    stage_play(opened, scenario)


def test_operator_restarts_in_every_phase(opened: Opened) -> None:
    """All state is in the API: an operator that begins anew in any phase goes on from there."""

    async def scenario(stage: Stage) -> None:
        await stage.stop_operator()
        await stage.submit("fit", **elastic(1, 3))
        await stage.cordon()
        await stage.start_operator()
        await stage.until_phase("fit", "Creating")
        await stage.world.until_pods(1, "paddle-job=fit")
        await stage.restart_operator()
        await stage.uncordon()
        running = await stage.until_running("fit")
        await stage.restart_operator()
        await stage.cordon()
        await stage.set_target("fit", 2)
        await stage.until_phase("fit", "Scaling")
        await stage.restart_operator()
        await stage.uncordon()
        await _until_scaled(stage, 2)
        for index in range(2):
            await stage.end_trainer("fit", index)
        await stage.until_phase("fit", "Succeed")
        await stage.restart_operator()
        await stage.until_status("fit", lambda status: status.get("released"))
        await stage.restart_operator()
        await stage.world.stays(stage.owned, for_s=1.0)
        status = await stage.status("fit")

        assert status["phase"] == "Succeed"
        assert status["startTime"] == running["startTime"]
        assert [record["to"] for record in status["scale_records"]] == [2]

    stage_play(opened, scenario, autoclean=True)


PHASES = ["", "Creating", "Running", "Scaling", "Succeed", "Failed", "Timeout", "released"]


@pytest.mark.parametrize("phase", PHASES)
def test_deletion_in_every_phase(opened: Opened, phase: str) -> None:
    """A deleted job goes with everything it owns, whatever it was doing."""

    async def scenario(stage: Stage) -> None:
        if phase == "Creating":
            await stage.cordon()
        limit = {"annotations": {"walltime": 1}} if phase == "Timeout" else {}
        await stage.submit("fit", **elastic(1, 3), **limit)
        if phase == "Creating":
            await stage.world.until_pods(1, "paddle-job=fit")
        elif phase and phase != "Timeout":
            await stage.until_running("fit")
        if phase == "Scaling":
            await stage.cordon()
            await stage.set_target("fit", 3)
            await stage.until_phase("fit", "Scaling")
            await stage.world.until_pods(3, "paddle-job=fit")
        if phase in {"Succeed", "Failed", "released"}:
            await stage.end_trainer("fit", 0, exit_code=int(phase == "Failed"))
        if phase in {"Succeed", "Failed", "Timeout"}:
            await stage.until_phase("fit", phase)
        if phase == "released":
            await stage.until_status("fit", lambda status: status.get("released"))
        await stage.world.delete(TRAINING_JOBS, "fit")
        await stage.world.until_gone(TRAINING_JOBS, "fit")
        await stage.until_owned(lambda owned: not owned)

    stage_play(opened, scenario, autoclean=phase == "released", restart_limit=0)


def test_deletion_does_not_wait_for_a_dead_node(opened: Opened) -> None:
    """Pods on a node that is silent for too long are given up when their job goes."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit")
        await stage.until_running("fit")
        await stage.lose_node()
        await stage.world.delete(TRAINING_JOBS, "fit")
        await stage.world.until_gone(TRAINING_JOBS, "fit")
        await stage.until_owned(lambda owned: not owned)

    stage_play(opened, scenario, node_fence_after_s=1.0)


def test_completion_comes_before_failure(opened: Opened) -> None:
    """Of a job whose last trainer succeeds just as a pserver gives up, success is told."""

    async def scenario(stage: Stage) -> None:
        await stage.submit("fit")
        await stage.until_running("fit")
        (pod,) = await stage.world.pods("paddle-job-pserver=fit")
        await stage.stop_operator()
        for index in range(2):
            await stage.end_trainer("fit", index)
        await stage.world.until_status(
            JOBS, "fit-trainer", lambda status: "Complete" in str(status.get("conditions"))
        )
        restarted = {**pod["status"]["containerStatuses"][0], "restartCount": 9}
        await stage.world.report(pod, {"containerStatuses": [restarted]})
        await stage.start_operator()
        status = await stage.until_phase("fit", "Failed", "Succeed")

        assert status["phase"] == "Succeed"

    stage_play(opened, scenario)


def test_orphans_are_collected_and_nothing_else(opened: Opened) -> None:
    """What belongs to a job that is gone goes; what has its job stays, however fresh it is."""

    async def scenario(stage: Stage) -> None:
        job = await stage.submit("fit")
        await stage.until_running("fit")
        await stage.stop_operator()
        await _create_late(stage, JOBS, "fit-trainer", job["metadata"]["uid"])
        await _create_late(stage, REPLICA_SETS, "fit-pserver", job["metadata"]["uid"])
        dependencies = ControllerDependencies(stage.world.cluster, SystemClock(), random.Random(1))
        operator = JobOperator(training_job_kind(stage.settings), dependencies)
        await operator.collector.collect()
        await stage.world.until_gone(JOBS, "late-trainer")
        await stage.world.until_gone(REPLICA_SETS, "late-pserver")
        await stage.until_owned(lambda owned: "late-" not in str(owned))
        await stage.world.stays(stage.owned, for_s=1.0)
        owned = await stage.owned()

        assert owned["Job"] == ["fit-trainer"]
        assert owned["ReplicaSet"] == ["fit-pserver"]
        assert len(owned["Pod"]) == 3

    stage_play(opened, scenario)


def test_invalid_job_fails_with_every_reason(opened: Opened) -> None:
    """What the API server cannot check ends the job before anything is created."""

    async def scenario(stage: Stage) -> None:
        await stage.submit(
            "fit",
            trainer={"entrypoint": "python 'train.py"},
            pserver={"entrypoint": 'run "it'},
        )
        status = await stage.until_phase("fit", "Failed")

        assert "spec.trainer.entrypoint" in status["reason"]
        assert "spec.pserver.entrypoint" in status["reason"]
        assert await stage.owned() == {}

    stage_play(opened, scenario)


def test_older_version_is_served_alike(opened: Opened) -> None:
    """A manifest of v1alpha1 runs as one of v1 does; fields nobody knows are kept."""

    async def scenario(stage: Stage) -> None:
        body = a_training_job("fit", stray={"kept": True})
        await stage.submit_body({**body, "apiVersion": "paddlepaddle.org/v1alpha1"})
        await stage.until_running("fit")
        job = await stage.world.get(TRAINING_JOBS, "fit")

        assert job["spec"]["stray"] == {"kept": True}

    stage_play(opened, scenario)


async def _until_scaled(stage: Stage, target: int) -> None:
    def is_scaled(status: Body) -> bool:
        last: Body = (status.get("scale_records") or [{}])[-1]
        return last.get("to") == target and bool(last.get("result"))

    await stage.until_status("fit", is_scaled)


async def _until_indexes(stage: Stage, role: str, label: str, wanted: list[str]) -> None:
    async def read() -> Body:
        pods = [pod for pod in await stage.world.pods(f"{role}=fit") if is_active(pod)]
        return {"indexes": sorted(pod["metadata"]["labels"].get(label, "") for pod in pods)}

    await stage.world.until(read, lambda found: found["indexes"] == wanted)


async def _create_late(stage: Stage, kind: Resource[object], name: str, job_uid: str) -> None:
    """A create that arrives when its job is gone: the same, for a UID that exists no more."""
    like = json.dumps(await stage.world.get(kind, name))
    body: Body = json.loads(like.replace(job_uid, "gone-uid").replace("fit", "late"))
    metadata = body["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "labels", "ownerReferences")}
    await stage.world.cluster.create(kind.untyped(), {**body, "metadata": kept, "status": {}})
