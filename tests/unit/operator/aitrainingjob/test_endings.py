"""What ends a job: policies of roles and job, annotations, the time limit, and what goes then."""

from __future__ import annotations

import pytest

from swell.api.aitrainingjob import STOPPED_ANNOTATION, AITrainingJobPhase
from tests.unit.operator.scene import (
    Scene,
    a_job,
    a_role,
    created,
    deleted,
    phases,
    recorded,
    reported,
)

T0, T1, T2 = "fit-trainer-0", "fit-trainer-1", "fit-trainer-2"


def ended(scene: Scene) -> AITrainingJobPhase | None:
    """The phase the job ends in, after one look; None while it goes on."""
    ending = recorded(scene.look()).get("ending")
    return AITrainingJobPhase(ending["phase"]) if ending else None


@pytest.mark.parametrize(
    ("policy", "succeeded", "ends"),
    [
        ("All", [T0, T1], False),
        ("All", [T0, T1, T2], True),
        ("Any", [T2], True),
        ("Rank0", [T1, T2], False),
        ("Rank0", [T0], True),
        ("None", [T0, T1, T2], False),
    ],
)
def test_role_completes_by_its_policy(policy: str, succeeded: list[str], ends: bool) -> None:
    """A role is complete when Any pod, index 0 or All target pods succeeded, or never."""
    scene = Scene(a_job({"trainer": a_role(replicas=3, completePolicy=policy)})).running()

    assert ended(scene.succeeds(*succeeded)) is (AITrainingJobPhase.SUCCEED if ends else None)


@pytest.mark.parametrize(
    ("policy", "failed", "ends"),
    [
        ("Any", [T2], True),
        ("Rank0", [T1, T2], False),
        ("Rank0", [T0], True),
        ("All", [T0, T1], False),
        ("All", [T0, T1, T2], True),
        ("None", [T0, T1], False),
        ("None", [T0, T1, T2], False),
    ],
)
def test_role_fails_by_its_policy(policy: str, failed: list[str], ends: bool) -> None:
    """A role fails likewise over failed pods that will not be restarted."""
    scene = Scene(a_job({"trainer": a_role(replicas=3, failPolicy=policy)})).running()

    assert ended(scene.fails(*failed)) is (AITrainingJobPhase.FAILED if ends else None)


@pytest.mark.parametrize(
    ("policy", "roles", "succeeded", "ends"),
    [
        ("All", {"a": "All", "b": "All"}, ["a"], False),
        ("All", {"a": "All", "b": "All"}, ["a", "b"], True),
        ("All", {"a": "All", "b": "None"}, ["a"], True),
        ("All", {"a": "None", "b": "None"}, ["a", "b"], False),
        ("Any", {"a": "All", "b": "All"}, ["b"], True),
        ("Any", {"a": "All", "b": "None"}, ["b"], False),
        ("None", {"a": "All", "b": "All"}, ["a", "b"], False),
    ],
)
def test_job_completes_over_its_roles(
    policy: str, roles: dict[str, str], succeeded: list[str], ends: bool
) -> None:
    """All counts the roles whose own policy is not None, and never holds if all are None."""
    specs = {role: a_role(replicas=1, completePolicy=own) for role, own in roles.items()}
    scene = Scene(a_job(specs, completePolicy=policy)).running()

    scene.succeeds(*(f"fit-{role}-0" for role in succeeded))

    assert ended(scene) is (AITrainingJobPhase.SUCCEED if ends else None)


@pytest.mark.parametrize(
    ("policy", "roles", "failed", "ends"),
    [
        ("Any", {"a": "Any", "b": "Any"}, ["b"], True),
        ("Any", {"a": "Any", "b": "None"}, ["b"], False),
        ("All", {"a": "Any", "b": "Any"}, ["a"], False),
        ("All", {"a": "Any", "b": "Any"}, ["a", "b"], True),
        ("All", {"a": "Any", "b": "None"}, ["a"], True),
        ("All", {"a": "None", "b": "None"}, ["a", "b"], False),
        ("None", {"a": "Any", "b": "Any"}, ["a", "b"], False),
    ],
)
def test_job_fails_over_its_roles(
    policy: str, roles: dict[str, str], failed: list[str], ends: bool
) -> None:
    """The job's fail policy is counted in the same way."""
    specs = {role: a_role(replicas=1, failPolicy=own) for role, own in roles.items()}
    scene = Scene(a_job(specs, failPolicy=policy)).running()

    scene.fails(*(f"fit-{role}-0" for role in failed))

    assert ended(scene) is (AITrainingJobPhase.FAILED if ends else None)


def test_completion_is_looked_at_before_failure() -> None:
    """A job that is both complete and failed has succeeded."""
    role = a_role(replicas=2, completePolicy="Rank0", failPolicy="Any")
    scene = Scene(a_job({"trainer": role})).running()

    assert ended(scene.succeeds(T0).fails(T1)) is AITrainingJobPhase.SUCCEED


def test_only_indexes_below_the_target_count_for_completion() -> None:
    """completePolicy All asks for the target's pods, not for those a resize is taking down."""
    role = a_role(replicas=2, minReplicas=1, maxReplicas=4, edlPolicy="Auto")
    scene = Scene(a_job({"trainer": role})).running()
    scene.target("trainer", 1).settle()

    assert ended(scene.succeeds(T0)) is AITrainingJobPhase.SUCCEED


def test_message_says_pod_node_container_reason_and_code() -> None:
    """Whoever reads the ending needs no pod to understand it: they are gone by then."""
    scene = Scene(a_job()).running().fails(T1, codes={"aitj-main": 3})

    message = recorded(scene.look())["ending"]["message"]

    for part in (T1, f"node-of-{T1}", "aitj-main", "Error", "exit code 3"):
        assert part in message


def test_ending_is_recorded_before_anything_is_deleted() -> None:
    """The pods that prove the ending go next, and a restarted operator must not think them lost."""
    plan = Scene(a_job()).running().fails(T0).look()
    kinds = [type(action).__name__ for action in plan.each_action()]

    assert kinds.index("PatchStatus") < kinds.index("DeleteObject")
    assert recorded(plan)["phase"] == "Terminating"


def test_nothing_else_is_decided_once_an_ending_is_recorded() -> None:
    """From then on no pod is created and the final phase is the recorded one."""
    role = a_role(replicas=2, restartPolicy="Always")
    scene = Scene(a_job({"trainer": role})).running().annotate("Preempted", "room").settle()

    scene.annotate("Failed", "too late").fails(T0).goes(T1)
    plan = scene.look()

    assert created(plan) == []
    scene.settle()
    assert scene.goes(*scene.pods).settle().status.phase is AITrainingJobPhase.PREEMPTED


def test_terminating_until_everything_is_gone_then_final() -> None:
    """The final phase is entered when pods, services, group and members are gone."""
    scene = Scene(a_job()).running().succeeds(T0).fails(T1)
    scene.fails(T1).settle()

    assert scene.status.phase is AITrainingJobPhase.FAILED
    assert scene.status.end_time
    assert not scene.pods
    assert not scene.services
    assert scene.group is None
    assert scene.members is None
    assert phases(scene)[-2:] == [AITrainingJobPhase.TERMINATING, AITrainingJobPhase.FAILED]


def test_finished_job_shows_how_its_pods_ended() -> None:
    """Pods are counted for the last time when the ending is recorded, not when they are gone."""
    scene = Scene(a_job()).running().succeeds(T0, T1).settle()

    assert scene.status.phase is AITrainingJobPhase.SUCCEED
    assert scene.status.replica_statuses["trainer"].succeeded == 2
    assert scene.status.ready == "0/2"


def test_running_pods_are_waited_for_at_the_end() -> None:
    """A pod that is being stopped keeps the job Terminating."""
    scene = Scene(a_job()).running().fails(T0).settle()

    assert scene.status.phase is AITrainingJobPhase.TERMINATING
    assert list(scene.pods) == [T1]
    assert scene.leavers_go().settle().status.phase is AITrainingJobPhase.FAILED


@pytest.mark.parametrize(("policy", "left"), [("All", []), ("Running", [T0]), ("None", [T0, T1])])
def test_clean_policy_after_failure(policy: str, left: list[str]) -> None:
    """All deletes every pod, Running those still running, None no pod at all."""
    scene = Scene(a_job(cleanPodPolicy=policy)).running().fails(T0).settle().leavers_go().settle()

    assert list(scene.pods) == left
    assert sorted(scene.services) == left
    assert scene.group is None
    assert scene.members is None
    assert scene.status.phase is AITrainingJobPhase.FAILED


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
@pytest.mark.parametrize(
    ("key", "phase"),
    [
        ("Failed", AITrainingJobPhase.FAILED),
        ("FAILED", AITrainingJobPhase.FAILED),
        ("NodeFail", AITrainingJobPhase.NODE_FAIL),
        ("nodeFailed", AITrainingJobPhase.NODE_FAIL),
        ("preempted", AITrainingJobPhase.PREEMPTED),
    ],
)
def test_annotation_ends_the_job_and_deletes_all_pods(
    key: str, phase: AITrainingJobPhase, policy: str
) -> None:
    """Compared without case; the value is the message; the clean-up policy does not matter."""
    scene = Scene(a_job(cleanPodPolicy=policy)).running().annotate(key, "because").settle()
    scene.leavers_go().settle()

    assert scene.status.phase is phase
    assert scene.status.message == "because"
    assert not scene.pods


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
@pytest.mark.parametrize(
    ("others", "phase"),
    [
        ((), AITrainingJobPhase.FAILED),
        (("Failed",), AITrainingJobPhase.FAILED),
        (("Preempted",), AITrainingJobPhase.PREEMPTED),
        (("NodeFail",), AITrainingJobPhase.NODE_FAIL),
    ],
)
def test_stopped_job_ends_with_that_reason_and_without_pods(
    others: tuple[str, ...], phase: AITrainingJobPhase, policy: str
) -> None:
    """It fails, or ends as the annotation beside says; the clean-up policy does not matter."""
    scene = Scene(a_job(cleanPodPolicy=policy)).running()
    for key in (*others, STOPPED_ANNOTATION):
        scene.annotate(key, "enough")
    scene.settle().leavers_go().settle()

    assert (scene.status.phase, scene.status.reason) == (phase, "Stopped")
    assert scene.status.message == "enough"
    assert not scene.pods


def test_other_annotations_mean_nothing() -> None:
    """Only the three words end a job."""
    scene = Scene(a_job()).running().annotate("failed-before", "x")

    assert scene.look().actions == ()


def test_annotated_before_it_began_ends_at_once() -> None:
    """A job that never created anything has nothing to clean up."""
    scene = Scene(a_job()).annotate("Failed", "no").settle()

    assert phases(scene) == [AITrainingJobPhase.FAILED]
    assert not scene.pods


def test_time_limit_counts_from_the_first_running() -> None:
    """timeLimit ends in Timeout, and the plan asks to be woken for it."""
    scene = Scene(a_job(timeLimit=100)).after(50).running()

    assert scene.look().wake_at == scene.now + 100
    assert ended(scene.after(99)) is None
    assert ended(scene.after(1)) is AITrainingJobPhase.TIMEOUT


def test_time_limit_goes_on_through_a_restart() -> None:
    """It is counted from startRunningTime, which is set once."""
    role = a_role(replicas=1, restartPolicy="Always")
    scene = Scene(a_job({"trainer": role}, timeLimit=100)).running()
    scene.after(60).fails(T0).settle()

    assert ended(scene.after(40)) is AITrainingJobPhase.TIMEOUT


def test_timeout_deletes_all_pods_whatever_the_policy() -> None:
    """Every ending but Succeed and Failed deletes all."""
    scene = Scene(a_job(timeLimit=1, cleanPodPolicy="None")).running().after(2)

    assert deleted(scene.look()) == [T0, T1]


def test_final_phase_never_changes() -> None:
    """Nothing is decided about a job that is over, except cleaning up what turns up late."""
    scene = Scene(a_job()).running().succeeds(T0, T1).settle()

    assert scene.status.phase is AITrainingJobPhase.SUCCEED
    assert scene.annotate("Failed", "late").after(9999).look().actions == ()


def test_late_pod_of_a_finished_job_goes() -> None:
    """What a write created that arrived after the end is cleaned up like the rest."""
    scene = Scene(a_job()).running()
    pod = scene.pods[T1]
    scene.succeeds(T0, T1).settle()
    scene.pods[T1] = pod

    assert deleted(scene.look()) == [T1]


def test_spec_change_after_the_end_is_observed() -> None:
    """observedGeneration follows also when nothing else happens any more."""
    scene = Scene(a_job()).running().succeeds(T0, T1).settle().edit(timeLimit=5)

    assert recorded(scene.look())["observedGeneration"] == 2
    assert scene.settle().look().actions == ()


def test_events_of_a_whole_life() -> None:
    """One event a phase; a bad end is a warning."""
    scene = Scene(a_job())
    seen = reported(scene.look())
    scene.settle()
    for name in scene.pods:
        scene.binds(name)
    seen += reported(scene.look())
    scene.running()
    scene.succeeds(T0, T1)
    seen += reported(scene.look())

    assert seen == ["TrainingJobPending", "TrainingJobCreating", "TrainingJobTerminating"]
