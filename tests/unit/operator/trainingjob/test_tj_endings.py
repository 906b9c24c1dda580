"""How a TrainingJob ends, what is released then, and what goes when it is deleted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import STOPPED_ANNOTATION
from swell.api.core import EventSeverity, Node
from swell.api.kinds import JOBS, POD_GROUPS, PODS, REPLICA_SETS
from swell.api.meta import Key, ObjectMeta, Uid
from swell.api.trainingjob import TrainingJob, TrainingJobPhase
from swell.operator.framework.fencing import NodeState
from swell.operator.framework.malformed import decide_malformed, placeholder
from swell.operator.trainingjob.kind import MALFORMED
from swell.operator.trainingjob.labels import FINALIZER
from swell.operator.trainingjob.settings import TrainingJobSettings
from swell.runtime.cluster import Malformed
from swell.runtime.plan import DeleteObject, Plan
from tests.unit.operator.trainingjob.tj_scene import (
    START,
    Scene,
    a_job,
    deleted,
    elastic,
    patched,
    recorded,
    reported,
    writes,
)

CLEAN = TrainingJobSettings(autoclean=True)
NODE = Node(metadata=ObjectMeta(name="node-7"))
TOLERANT = {"fault_tolerant": True}


def ended(plan: Plan) -> str | None:
    found: str | None = recorded(plan).get("phase")
    return found


# -- endings ---------------------------------------------------------------------------------


def test_job_succeeds_when_all_have() -> None:
    """All succeeded and none active: that is what a complete Job says."""
    scene = Scene(a_job()).running().ends(0, "Succeeded")

    assert ended(scene.look()) is None
    scene.ends(1, "Succeeded").job_says("Complete", completed_indexes="0,1")
    assert ended(scene.look()) == "Succeed"


def test_failed_trainer_fails_the_job() -> None:
    """Pods, nodes and container states are named, in a Warning too."""
    plan = Scene(a_job()).running().ends(1, "Failed").look()
    reason = recorded(plan)["reason"]

    assert ended(plan) == "Failed"
    assert "pod fit-trainer-1 on node node-7" in reason
    assert "container trainer terminated with exit code 3 (Error)" in reason
    assert reported(plan)["TrainingJobFailed"].severity is EventSeverity.WARNING
    assert reported(plan)["TrainingJobFailed"].message == reason


def test_failed_trainer_whose_pod_is_gone_still_counts() -> None:
    """What the Job recorded outlives the pod."""
    scene = Scene(a_job()).running().remove(PODS, "fit-trainer-1").job_says("Failed")

    assert ended(scene.look()) == "Failed"
    assert "JobFailed" in recorded(scene.look())["reason"]


@pytest.mark.parametrize("spec", [{}, TOLERANT])
def test_disrupted_trainer_is_no_failure(spec: dict[str, object]) -> None:
    """A preemption is no failure."""
    scene = Scene(a_job(**spec)).running().ends(1, "Failed", disrupted=True)

    assert ended(scene.look()) is None


def test_failing_trainer_ends_a_job_that_never_ran() -> None:
    """Endings are looked at before all trainers have run at once, too."""
    scene = Scene(a_job()).settle().populate()
    scene.change(PODS, "fit-trainer-0", {"status": {"phase": "Pending"}})

    assert ended(scene.ends(1, "Failed").look()) == "Failed"


def test_tolerant_job_outlives_a_failed_trainer() -> None:
    """As long as one is active or to be replaced, the job goes on."""
    scene = Scene(a_job(**TOLERANT)).running().ends(0, "Failed").job_says(failed_indexes="0")

    assert ended(scene.look()) is None


@pytest.mark.parametrize(
    ("done", "lost", "phase", "reason"),
    [
        ("0,1", None, "Succeed", "all 2 trainers succeeded"),
        ("1", "0", "Succeed", "1 of 2 trainers succeeded; failed for good: 0"),
        ("", "0,1", "Failed", "no trainer succeeded: JobFailed: "),
    ],
)
def test_tolerant_job_ends_by_its_survivors(
    done: str, lost: str | None, phase: str, reason: str
) -> None:
    """One that succeeded is enough; the failed indexes are named; none is a failure."""
    scene = Scene(a_job(**TOLERANT)).running()
    scene.job_says("Failed" if lost else "Complete", completed_indexes=done, failed_indexes=lost)
    plan = scene.look()

    assert (ended(plan), recorded(plan)["reason"]) == (phase, reason)


def test_endings_are_looked_at_while_scaling() -> None:
    """A job that ends in the middle of a resize ends; the record says that it was cut short."""
    scene = Scene(elastic(2, 4)).running().targets(3).settle()
    assert scene.status.phase is TrainingJobPhase.SCALING
    scene.job_says("Complete", completed_indexes="0-2")
    plan = scene.look()

    assert ended(plan) == "Succeed"
    assert recorded(plan)["scale_records"][-1]["result"] == "Interrupted"


@pytest.mark.parametrize(("restarts", "phase"), [(4, None), (5, "Failed"), (6, "Failed")])
def test_restarting_pserver_fails_the_job(restarts: int, phase: str | None) -> None:
    """A container of a pserver that restarted as often as the limit, or more often."""
    scene = Scene(a_job()).running()
    container = {"name": "pserver", "restartCount": restarts}
    scene.change(PODS, "fit-pserver-0", {"status": {"containerStatuses": [container]}})

    assert ended(scene.look()) == phase


def test_wall_time_ends_active_trainers() -> None:
    """So many seconds after startTime; until then the time is waited for."""
    scene = Scene(a_job(annotations={"walltime": 60})).running()
    began = scene.now

    assert scene.look().wake_at == began + 60
    scene.now = began + 59
    assert ended(scene.look()) is None
    scene.now = began + 60
    assert ended(scene.look()) == "Timeout"


def test_wall_time_does_not_end_what_is_done() -> None:
    """Only while trainers are active."""
    scene = Scene(a_job(annotations={"walltime": 60})).running()
    scene.now += 1000

    assert ended(scene.job_says("Complete", completed_indexes="0,1").look()) == "Succeed"


def test_no_wall_time_is_no_limit() -> None:
    """Nor is one of zero seconds."""
    for limit in ({}, {"walltime": 0}):
        scene = Scene(a_job(annotations=limit)).running()
        scene.now += 1e7
        assert ended(scene.look()) is None
        assert scene.look().wake_at is None


# -- release ---------------------------------------------------------------------------------


def over(settings: TrainingJobSettings, **spec: object) -> Scene:
    """A job whose trainers have succeeded, and that knows it."""
    scene = Scene(a_job(**TOLERANT, **spec), settings=settings).running()
    scene.ends(0, "Succeeded").ends(1, "Succeeded")
    scene.job_says("Complete", completed_indexes="0,1")
    for action in writes(scene.look()):
        scene.apply(action)
    assert scene.status.phase is TrainingJobPhase.SUCCEED
    return scene


def test_release_begins_with_the_trainer() -> None:
    """Parallelism 0, then its pods; nothing of the others yet."""
    plan = over(CLEAN).look()

    assert patched(plan)["Job fit-trainer"]["spec"] == {"parallelism": 0}
    assert deleted(plan) == ["PodGroup fit", "Pod fit-trainer-0", "Pod fit-trainer-1"]
    kinds = [type(action).__name__ for action in writes(plan)]
    assert kinds == ["DeleteObject", "PatchObject", "DeleteObject", "DeleteObject"]


def test_release_goes_on_with_pserver_and_master() -> None:
    """Replicas 0, then their pods, when the trainers are gone."""
    scene = over(CLEAN)
    for action in writes(scene.look()):
        scene.apply(action)
    plan = scene.look()

    assert patched(plan).keys() == {"ReplicaSet fit-pserver", "ReplicaSet fit-master"}
    assert deleted(plan) == ["Pod fit-pserver-0", "Pod fit-master-0"]


def test_release_is_recorded_and_reported() -> None:
    """When all pods are gone, and the workloads say so too: from a consistent read."""
    scene = over(CLEAN)
    for _ in range(2):
        for action in writes(scene.look()):
            scene.apply(action)
    assert writes(scene.look()) == []
    scene.populate()
    plan = scene.look()

    assert recorded(plan) == {"released": True}
    assert plan.needs_consistent_read
    assert "Released" in reported(plan)


def test_released_job_is_left_alone() -> None:
    """It is not reconciled again."""
    scene = over(CLEAN).settle().populate().settle()
    assert scene.status.released
    scene.change(REPLICA_SETS, "fit-pserver", {"spec": {"replicas": 3}})

    assert scene.look() == Plan()


def stopped(scene: Scene) -> Scene:
    notes = {STOPPED_ANNOTATION: "enough"}
    scene.job = replace(scene.job, metadata=replace(scene.job.metadata, annotations=notes))
    return scene


def test_stopped_job_fails_and_gives_back_what_it_holds() -> None:
    """Also without autoclean, and nothing says that pods are kept."""
    scene = stopped(Scene(a_job(**TOLERANT)).running())
    plan = scene.look()
    assert (ended(plan), recorded(plan)["reason"]) == ("Failed", "Stopped: enough")
    assert "PodsKept" not in reported(plan)
    for action in writes(plan):
        scene.apply(action)

    assert patched(scene.look())["Job fit-trainer"]["spec"] == {"parallelism": 0}
    assert scene.status.phase is TrainingJobPhase.FAILED


def test_job_that_is_stopped_before_it_begins_creates_nothing() -> None:
    """Its trainers would be started only to be ended."""
    scene = stopped(Scene(a_job()))
    scene.settle()

    assert scene.status.phase is TrainingJobPhase.FAILED
    assert scene.pods() == []


def test_without_autoclean_pods_are_kept() -> None:
    """An event says so; only the group goes."""
    scene = Scene(a_job()).running().job_says("Complete", completed_indexes="0,1")
    plan = scene.look()
    pods = scene.pods()
    scene.settle()

    assert "PodsKept" in reported(plan)
    assert scene.pods() == pods
    assert not scene.status.released
    assert (str(POD_GROUPS), "fit") not in scene.held


def test_group_of_others_is_not_deleted() -> None:
    """Only the PodGroup we created goes at the end."""
    scene = Scene(a_job(podGroupName="all")).running()
    scene.job_says("Complete", completed_indexes="0,1").settle()

    assert deleted(scene.look()) == []


def test_active_trainers_are_given_up_by_their_job() -> None:
    """Timed out: the Job takes its active pods down itself, so that none counts as failed."""
    job = a_job(annotations={"walltime": 60})
    scene = Scene(job, settings=CLEAN).running()
    scene.now += 60
    for action in writes(scene.look()):
        scene.apply(action)
    plan = scene.look()

    assert patched(plan)["Job fit-trainer"]["spec"] == {"parallelism": 0}
    assert deleted(plan) == ["PodGroup fit"]


def test_deleted_record_of_a_failed_trainer_is_not_waited_for() -> None:
    """Its Job keeps it for a successor that is not to come."""
    scene = Scene(a_job(**TOLERANT), settings=CLEAN).running().deleted()
    scene.ends(0, "Failed")
    scene.change(PODS, "fit-trainer-0", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    scene.remove(PODS, "fit-trainer-1").job_says(active=0)
    scene.change(JOBS, "fit-trainer", {"spec": {"parallelism": 0}})

    assert patched(scene.look()).keys() == {"ReplicaSet fit-pserver", "ReplicaSet fit-master"}


# -- deletion --------------------------------------------------------------------------------


def test_deletion_releases_then_deletes_then_lets_go() -> None:
    """In the order master, pserver, trainer; the finalizer goes last of all."""
    scene = Scene(a_job(**TOLERANT)).running().deleted()
    first = scene.look()
    assert patched(first).keys() == {"Job fit-trainer"}
    scene.settle().populate().settle().populate()
    plan = scene.look()

    assert deleted(plan) == [
        "ReplicaSet fit-master",
        "ReplicaSet fit-pserver",
        "Job fit-trainer",
        "PodGroup fit",
        "ConfigMap fit-addresses",
    ]
    scene.settle()
    assert scene.job.metadata.finalizers == ()
    assert scene.held == {}


def test_deletion_lets_go_by_a_consistent_read() -> None:
    """That nothing is left must be certain."""
    plan = Scene(a_job()).deleted().look()

    assert patched(plan)["TrainingJob fit"]["metadata"]["finalizers"] == []
    assert plan.needs_consistent_read


def test_deletion_keeps_the_finalizers_of_others() -> None:
    """Ours alone is taken off, and only if it is there."""
    scene = Scene(a_job()).deleted()
    meta = replace(scene.job.metadata, finalizers=("others", FINALIZER))
    scene.job = replace(scene.job, metadata=meta)

    assert patched(scene.look())["TrainingJob fit"]["metadata"]["finalizers"] == ["others"]
    scene.job = replace(scene.job, metadata=replace(meta, finalizers=("others",)))
    assert writes(scene.look()) == []


def test_deletion_waits_for_pods_that_stop() -> None:
    """No workload is deleted while a pod may still run."""
    scene = Scene(a_job()).running().deleted().settle()
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    for pod in scene.pods():
        scene.change(PODS, pod.metadata.name, leaving)

    assert deleted(scene.look()) == []


@pytest.mark.parametrize(
    ("state", "is_dropped", "wakes"),
    [
        (NodeState(None), True, False),
        (NodeState(None, is_fresh=False), False, False),
        (NodeState(NODE, START - 90), True, False),
        (NodeState(NODE, START - 89), False, True),
        (NodeState(NODE), False, False),
    ],
)
def test_deletion_drops_pods_of_fenced_nodes(
    state: NodeState, is_dropped: bool, wakes: bool
) -> None:
    """A node that is gone, or silent for too long, will never say that a pod has ended."""
    scene = Scene(a_job()).running().deleted().settle()
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    scene.change(PODS, "fit-trainer-1", {**leaving, "spec": {"nodeName": "node-7"}})
    scene.nodes = {"node-7": state}
    plan = scene.look()
    forced = [a.key.name for a in writes(plan) if isinstance(a, DeleteObject) and a.grace_s == 0]

    assert forced == (["fit-trainer-1"] if is_dropped else [])
    assert (plan.wake_at is not None) is wakes


# -- malformed -------------------------------------------------------------------------------


def malformed(**spec: object) -> Malformed:
    body = {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "fit", "namespace": "team", "uid": "job-uid", "generation": 3},
        "spec": {"image": "paddle", **spec},
    }
    return Malformed(Key("team", "fit"), Uid("job-uid"), "7", "cannot be decoded", body)


def plan_for(found: Malformed) -> Plan:
    """The plan when nothing but the job itself is there."""
    snapshot = Scene(placeholder(MALFORMED, found)).snapshot
    return decide_malformed(MALFORMED, found, snapshot, START)


def test_malformed_job_fails_and_says_why() -> None:
    """Unknown enum values are named with the allowed ones."""
    found = malformed(frame_work={"type": "mystery"})
    plan = plan_for(found)
    status = recorded(plan)

    assert status["phase"] == "Failed"
    assert status["observedGeneration"] == 3
    assert all(word in status["reason"] for word in ("mystery", "local", "nccl2", "multi"))


def test_malformed_job_that_has_failed_is_quiet() -> None:
    """It is said once."""
    found = malformed(port="many")
    ended = {"type": "Completed", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    found.body["status"] = {"phase": "Failed", "observedGeneration": 3, "conditions": [ended]}

    assert writes(plan_for(found)) == []


def test_malformed_job_can_be_deleted() -> None:
    """Nobody has to repair a job to be rid of it."""
    found = malformed(port="many")
    found.body["metadata"] |= {
        "finalizers": [FINALIZER],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    plan = plan_for(found)

    assert patched(plan)["TrainingJob fit"]["metadata"]["finalizers"] == []


def test_placeholder_survives_anything() -> None:
    """What is left of a job is at least its identity."""
    found = Malformed(Key("team", "fit"), Uid("u"), "7", "?", {"metadata": {"labels": 3}})

    assert isinstance(placeholder(MALFORMED, found), TrainingJob)
    assert placeholder(MALFORMED, found).metadata.key == Key("team", "fit")


def test_ten_thousand_restarts_work_through_the_decision() -> None:
    """Trainers are replaced and pservers restarted as often as the limit says, and not less."""
    settings = TrainingJobSettings(restart_limit=10_001)
    scene = Scene(elastic(1, 4), settings=settings).running()
    pserver = scene.pods("fit-pserver")[0].metadata.name
    for n_restarts in range(0, 10_001, 100):
        held = {"name": "pserver", "restartCount": n_restarts, "state": {"running": {}}}
        scene.change(PODS, pserver, {"status": {"containerStatuses": [held]}})
        scene.job_says(failed=n_restarts).settle()
        assert scene.status.phase is TrainingJobPhase.RUNNING

    held = {"name": "pserver", "restartCount": 10_001, "state": {"running": {}}}
    scene.change(PODS, pserver, {"status": {"containerStatuses": [held]}})
    assert scene.settle().status.phase is TrainingJobPhase.FAILED
