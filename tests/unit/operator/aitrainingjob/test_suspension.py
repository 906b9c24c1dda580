"""A suspended job has no pods, waits, and queues anew."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import QUEUE_LABEL, AITrainingJobPhase
from swell.api.meta import Body
from swell.api.times import format_time
from swell.runtime.plan import DeleteObject, PatchStatus
from tests.unit.operator.scene import (
    START,
    Scene,
    a_job,
    a_role,
    created,
    deleted,
    recorded,
    reported,
)

T0, T1 = "fit-trainer-0", "fit-trainer-1"


def suspended(scene: Scene) -> Scene:
    """The job has been suspended, and all its pods are gone."""
    return scene.edit(suspend=True).settle().leavers_go().settle()


def condition_of(scene: Scene) -> tuple[str, str]:
    found = next(c for c in scene.status.conditions if c.type == "Suspended")
    return found.status, found.reason


def test_intent_is_recorded_before_pods_and_group_go() -> None:
    """The record comes first; the deletes follow in the same plan."""
    plan = Scene(a_job()).running().edit(suspend=True).look()
    writes = [a for a in plan.each_action() if isinstance(a, PatchStatus | DeleteObject)]

    assert isinstance(writes[0], PatchStatus)
    assert writes[0].status["suspension"] == {"startedAt": format_time(START)}
    assert writes[0].status["phase"] == "Pending"
    assert writes[0].status["reason"] == "Suspended"
    assert deleted(plan) == [T0, T1]
    assert deleted(plan, "podgroups") == ["fit"]
    assert "Suspended" in reported(plan)


def test_suspended_job_is_at_rest() -> None:
    """Without pods and group it waits, says so, and nothing more is written."""
    scene = suspended(Scene(a_job()).running())

    assert (scene.pods, scene.group) == ({}, None)
    assert scene.status.phase is AITrainingJobPhase.PENDING
    assert condition_of(scene) == ("True", "Suspended")
    assert scene.members is not None
    assert scene.look().actions == ()


def test_resumed_job_queues_anew_without_a_restart() -> None:
    """The pods are created again with the counts of before, in a new epoch."""
    scene = suspended(Scene(a_job()).running())
    epoch, began = scene.status.epoch, scene.status.start_time
    scene.after(60).edit(suspend=False)
    plan = scene.look()

    assert plan.needs_consistent_read
    assert created(plan) == []
    assert "Resumed" in reported(plan)
    scene.running()
    assert sorted(scene.pods) == [T0, T1]
    assert scene.group is not None
    assert scene.status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.restart_counts == {}
    assert (scene.status.epoch, scene.status.start_time) == (epoch, began)
    assert condition_of(scene) == ("False", "Resumed")


def test_no_pod_of_after_is_beside_one_of_before() -> None:
    """A job that is resumed while its pods leave waits until all of them are gone."""
    scene = Scene(a_job()).running().edit(suspend=True).settle().edit(suspend=False)
    scene.settle()
    assert scene.status.suspension is not None
    scene.goes(T0).settle()
    assert sorted(scene.pods) == [T1]
    scene.goes(T1).settle()

    assert sorted(scene.pods) == [T0, T1]
    assert scene.status.restart_counts == {}


def test_pod_that_turns_up_late_goes_as_well() -> None:
    """A pod that another process created after the record is deleted."""
    scene = Scene(a_job()).running()
    late = scene.pods[T1]
    suspended(scene)
    scene.pods[T1] = late

    assert deleted(scene.look()) == [T1]


def test_job_may_be_suspended_from_its_beginning() -> None:
    """It has no pods, no group and no start, until it is resumed."""
    scene = Scene(a_job(suspend=True)).settle()
    assert (scene.pods, scene.group, scene.status.start_time) == ({}, None, None)
    assert scene.status.phase == AITrainingJobPhase.PENDING
    scene = scene.after(30).edit(suspend=False).running()

    assert scene.status.start_time == format_time(START + 30)
    assert scene.status.phase is AITrainingJobPhase.RUNNING


def test_new_job_that_is_suspended_is_checked_again_when_it_starts() -> None:
    """Until it starts its spec may change; what is wrong with it then ends it."""
    scene = Scene(a_job(suspend=True)).settle()
    scene.problems = ("spec: oh",)

    assert scene.settle().status.phase is AITrainingJobPhase.FAILED


def test_time_limit_does_not_count_suspensions() -> None:
    """Neither the suspension nor the time until the job runs again counts."""
    scene = Scene(a_job(timeLimit=100)).running().after(50)
    suspended(scene).after(1000)
    assert scene.look().wake_at is None
    scene.edit(suspend=False).settle()
    scene.after(40)
    for name in list(scene.pods):
        scene.starts(name)
    scene.settle()
    assert scene.status.paused_seconds == 1040
    assert scene.look().wake_at == START + 1040 + 100
    scene.after(49)
    assert recorded(scene.look()).get("ending") is None
    scene.after(1)

    assert recorded(scene.look())["ending"]["phase"] == "Timeout"


def test_completed_job_is_not_suspended() -> None:
    """Work that is done counts, also if the job is suspended at that moment."""
    scene = Scene(a_job()).running().succeeds(T0, T1).edit(suspend=True)

    assert recorded(scene.look())["ending"]["phase"] == "Succeed"


def test_pod_that_ends_while_it_leaves_proves_nothing() -> None:
    """A program that exits with 0 because it was told to stop has not completed its work."""
    scene = Scene(a_job()).running().edit(suspend=True).settle().succeeds(T0, T1)

    assert "ending" not in recorded(scene.look())


@pytest.mark.parametrize("at_rest", [False, True])
def test_suspended_job_can_be_ended(at_rest: bool) -> None:
    """The annotations that end a job end a suspended one, too."""
    scene = Scene(a_job()).running().edit(suspend=True).settle()
    if at_rest:
        scene.leavers_go().settle()
    scene.annotate("Preempted", "no use").settle().leavers_go().settle()

    assert scene.status.phase is AITrainingJobPhase.PREEMPTED
    assert scene.status.suspension is None


def test_restart_under_way_is_done_with() -> None:
    """The counts stay; the record of the restart goes, since all pods do."""
    role = a_role(replicas=2, restartPolicy="Always")
    scene = Scene(a_job({"trainer": role})).running().fails(T0).settle()
    assert scene.status.restart
    suspended(scene)
    assert not scene.status.restart
    scene.edit(suspend=False).running()

    assert scene.status.restart_counts == {"trainer": 1}
    assert scene.pods[T0].metadata.labels["RestartCount"] == "1"


def test_job_of_kueue_is_suspended_until_kueue_says_otherwise() -> None:
    """With the label, a missing field means true; a field that is there decides."""
    job = a_job()
    job.metadata.labels[QUEUE_LABEL] = "team"
    scene = Scene(job).settle()
    assert scene.pods == {}

    assert sorted(scene.edit(suspend=False).running().pods) == [T0, T1]
    for pod in scene.pods.values():
        marks, notes = pod.metadata.labels, pod.metadata.annotations
        assert marks[QUEUE_LABEL] == "team"
        assert marks["kueue.x-k8s.io/pod-group-name"] == "fit"
        assert notes["kueue.x-k8s.io/pod-group-total-count"] == "2"


def test_what_kueue_writes_is_honoured_and_taken_back() -> None:
    """Fewer pods of an Auto role, with labels and places for them; and the same back again."""
    auto = {"edlPolicy": "Auto", "minReplicas": 1, "maxReplicas": 8}
    job = a_job({"trainer": a_role(replicas=4, **auto)})
    job.metadata.labels[QUEUE_LABEL] = "team"
    scene = Scene(job).settle()
    template = scene.job.spec.replica_specs["trainer"].template
    meta = {"labels": {"kueue.x-k8s.io/podset": "trainer"}, "annotations": {"set": "by-kueue"}}
    spec = {**template["spec"], "nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot"}]}
    admitted(scene, 2, {"metadata": meta, "spec": spec}, suspend=False).running()
    assert sorted(scene.pods) == [T0, T1]
    pod = scene.pods[T0]
    assert pod.spec.node_selector == {"pool": "spot"}
    assert [one.key for one in pod.spec.tolerations] == ["spot"]
    assert pod.metadata.labels["kueue.x-k8s.io/podset"] == "trainer"
    assert pod.metadata.annotations["set"] == "by-kueue"
    assert pod.metadata.annotations["kueue.x-k8s.io/pod-group-total-count"] == "2"
    targets = replace(scene.status, target_replicas={"trainer": 4})
    scene.job = replace(scene.job, status=targets)
    assert scene.settle().status.target_replicas == {"trainer": 2}

    admitted(scene, 4, template, suspend=True).settle().leavers_go().settle()
    admitted(scene, 4, template, suspend=False).settle()
    assert scene.pods[T0].spec.node_selector == {}


def admitted(scene: Scene, replicas: int, template: Body, *, suspend: bool) -> Scene:
    role = replace(scene.job.spec.replica_specs["trainer"], replicas=replicas, template=template)
    scene.job = replace(scene.job, spec=replace(scene.job.spec, replica_specs={"trainer": role}))
    return scene.edit(suspend=suspend)


def test_kueue_is_told_of_pods_that_need_no_quota_any_more() -> None:
    """Those that have succeeded, by role, as batch's Job does; other jobs have no such list."""
    job = a_job()
    job.metadata.labels[QUEUE_LABEL] = "team"
    scene = Scene(job).edit(suspend=False).running()
    plain = Scene(a_job()).running()
    assert not list(scene.status.reclaimable_pods)
    for one in (scene, plain):
        one.succeeds(T0).after(10).settle()

    told = [(pods.name, pods.count) for pods in scene.status.reclaimable_pods]
    assert told == [("trainer", 1)]
    assert plain.status.reclaimable_pods == ()


def test_conditions_tell_kueue_of_quota_and_end() -> None:
    """Quota is held until the last pod of a suspended job is gone, and never after its end."""

    def told(scene: Scene) -> list[tuple[str, str, str]]:
        names = ("Finished", "QuotaReserved")
        return [(c.type, c.status, c.reason) for c in scene.status.conditions if c.type in names]

    job = a_job()
    job.metadata.labels[QUEUE_LABEL] = "team"
    scene = Scene(job).settle()
    waits = [("Finished", "False", "JobNotFinished"), ("QuotaReserved", "False", "NotAdmitted")]
    runs = [("Finished", "False", "JobNotFinished"), ("QuotaReserved", "True", "Admitted")]

    assert told(scene) == waits
    assert told(scene.edit(suspend=False).settle().running()) == runs
    assert told(scene.edit(suspend=True).settle()) == runs
    assert told(scene.leavers_go().settle()) == waits
    scene.edit(suspend=False).settle().running()
    assert told(scene.succeeds(T0, T1).settle().leavers_go().settle()) == [
        ("Finished", "True", "JobFinished"),
        ("QuotaReserved", "False", "NotAdmitted"),
    ]
    assert not told(Scene(a_job()).running())
