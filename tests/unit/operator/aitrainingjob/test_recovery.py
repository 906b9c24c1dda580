"""A status that was lost or damaged is rebuilt from the job's objects; no running pod is harmed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJobPhase,
    AITrainingJobStatus,
    Ending,
    PhaseRecord,
    Restart,
    RestartScope,
    Suspension,
)
from swell.api.codec import convert, to_body
from swell.api.meta import Body
from swell.api.pod import ContainerState, ContainerStatus, StateRunning
from swell.api.times import format_time
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.decide import decide
from swell.operator.framework.recovery import salvaged
from swell.runtime.plan import DeleteObject, EmitEvent, PatchStatus
from tests.unit.operator.scene import START, Scene, a_job, a_role, deleted, reported

Phase = AITrainingJobPhase
OFTEN = {"restartPolicy": "Always", "restartScope": "All"}


def wiped(scene: Scene, *kept: str) -> Scene:
    """The status is emptied, but for these fields."""
    left = {name: getattr(scene.status, name) for name in kept}
    scene.job = replace(scene.job, status=AITrainingJobStatus(**left))
    return scene


def damaged(scene: Scene, **values: object) -> Scene:
    scene.job = replace(scene.job, status=replace(scene.status, **values))
    return scene


def restarted(scene: Scene, n: int) -> Scene:
    """The job is restarted n times, and runs."""
    for _ in range(n):
        scene.fails("fit-trainer-0").settle().leavers_go().after(400).settle().running()
    return scene


def condition(scene: Scene) -> tuple[str, str]:
    found = [c for c in scene.status.conditions if c.type == "StatusRecovered"]
    return (found[0].reason, found[0].message) if found else ("", "")


def seen(status: AITrainingJobStatus) -> Body:
    """The parts of a status that can be found again."""
    body = to_body(status)
    names = (
        "phase", "ready", "restarts", "replicaStatuses", "targetReplicas", "restartCounts",
        "uncharged", "epoch", "observedGeneration",
    )  # fmt: skip
    return {name: body.get(name) for name in names}


def test_healthy_status_is_left_alone() -> None:
    """Nothing is written for a job that runs, and no condition says otherwise."""
    scene = restarted(Scene(a_job({"trainer": a_role(replicas=2, **OFTEN)})).running(), 2)

    assert scene.look().actions == ()
    assert condition(scene) == ("", "")


@pytest.mark.parametrize("n_restarts", [0, 1, 3])
def test_lost_status_of_a_running_job_is_found_again(n_restarts: int) -> None:
    """Phase, sizes, epoch and restarts are as before; no pod is deleted; a condition tells."""
    scene = restarted(Scene(a_job({"trainer": a_role(replicas=2, **OFTEN)})).running(), n_restarts)
    before, pods, members = scene.status, dict(scene.pods), scene.members

    plan = wiped(scene).look()
    scene.settle()

    assert deleted(plan) == []
    assert isinstance(plan.actions[0], PatchStatus)
    assert "StatusRecovered" in reported(plan)
    assert seen(scene.status) == seen(before)
    assert scene.status.phase is Phase.RUNNING
    assert (scene.pods, scene.members) == (pods, members)
    assert condition(scene)[0] == "StatusLost"
    assert "not known any more" in condition(scene)[1]


@pytest.mark.parametrize("field", AITrainingJobStatus.__struct_fields__)
def test_any_single_field_may_be_lost(field: str) -> None:
    """Whichever part is missing, the job goes on, and its pods with it."""
    scene = restarted(Scene(a_job({"trainer": a_role(replicas=2, **OFTEN)})).running(), 2)
    before, pods = scene.status, dict(scene.pods)
    damaged(scene, **{field: getattr(AITrainingJobStatus(), field)})

    scene.settle().after(7200).settle()  # mere numbers are written late

    assert seen(scene.status) == seen(before)
    assert scene.pods == pods


def test_lost_status_before_all_pods_run() -> None:
    """A job that waits or starts goes on from there."""
    scene = Scene(a_job()).settle()
    seen_phases = [wiped(scene).settle().status.phase]
    for name in scene.pods:
        scene.binds(name)
    seen_phases.append(wiped(scene.settle()).settle().status.phase)

    assert seen_phases == [Phase.PENDING, Phase.CREATING]


def test_lost_status_of_a_new_job_changes_nothing() -> None:
    """Without any object of its own, a job without a status is new."""
    scene = Scene(a_job()).settle()
    assert condition(scene) == ("", "")


def test_restart_of_a_job_that_never_began_is_no_restart() -> None:
    """A status of a new job that names a restart was written by somebody else: the job begins."""
    scene = damaged(Scene(a_job()), restart=Restart(RestartScope.ALL, "trainer"))
    scene.settle().running()

    assert scene.status.phase is Phase.RUNNING
    assert scene.status.restart is None


def test_autoscaled_size_is_kept() -> None:
    """The target of an Auto role is not the spec's: pods beyond `replicas` run on."""
    role = a_role(replicas=1, edlPolicy="Auto", minReplicas=1, maxReplicas=6)
    scene = Scene(a_job({"trainer": role})).running().target("trainer", 5).settle().running()

    wiped(scene)
    assert deleted(scene.look()) == []
    scene.settle()

    assert scene.status.target_replicas == {"trainer": 5}
    assert len(scene.pods) == 5


def test_autoscaled_size_is_kept_without_the_members() -> None:
    """If the ConfigMap is gone as well, the pods' indexes say how many there are."""
    role = a_role(replicas=1, edlPolicy="Auto", minReplicas=1, maxReplicas=6)
    scene = Scene(a_job({"trainer": role})).running().target("trainer", 5).settle().running()
    epoch, scene.members = scene.status.epoch, None
    meta = replace(scene.job.metadata, creation_timestamp=format_time(START))
    scene.job = replace(scene.job, metadata=meta)

    wiped(scene.after(3600)).settle()

    assert scene.status.target_replicas == {"trainer": 5}
    assert scene.status.epoch > epoch
    assert len(scene.pods) == 5


def test_lost_restart_is_carried_on() -> None:
    """The ConfigMap names the restart: old pods go, none is deleted twice, one count it is."""
    scene = Scene(a_job({"trainer": a_role(replicas=3, **OFTEN)})).running()
    began = scene.fails("fit-trainer-1").settle().status.phase
    again = wiped(scene).settle().status.phase
    wiped(scene.leavers_go()).settle()
    assert scene.status.restart_counts == {"trainer": 1}
    scene.running()

    assert [began, again] == [Phase.TERMINATING, Phase.TERMINATING]
    assert scene.status.phase is Phase.RUNNING
    assert {pod.metadata.labels[labels.RESTART_COUNT] for pod in scene.pods.values()} == {"1"}


def test_restart_limit_holds_without_a_status() -> None:
    """Labels prove the restarts, also if nothing else is left."""
    role = a_role(replicas=2, restartLimit=2, **OFTEN)
    scene = restarted(Scene(a_job({"trainer": role})).running(), 2)
    scene.members = None

    wiped(scene).settle()
    scene.fails("fit-trainer-0").settle().leavers_go().settle()

    assert scene.status.phase is Phase.FAILED
    assert "restartLimit 2" in scene.status.message


def test_restart_limits_hold_without_status_and_pods() -> None:
    """The ConfigMap has the restarts of every role, not only those of the last restart."""
    role = a_role(replicas=1, restartLimit=1, restartPolicy="Always", restartScope="Replica")
    scene = Scene(a_job({"chief": role, "trainer": role})).running()
    for name in ("chief", "trainer"):
        scene.fails(f"fit-{name}-0").settle().leavers_go().after(400).settle().running()
    assert scene.status.restart_counts == {"chief": 1, "trainer": 1}

    scene.pods.clear()
    wiped(scene).settle()

    assert scene.status.restart_counts == {"chief": 1, "trainer": 1}


def test_uncharged_restarts_stay_uncharged() -> None:
    """Pods that others deleted do not use up the limit after a wipe."""
    role = a_role(replicas=2, restartLimit=1, **OFTEN)
    scene = Scene(a_job({"trainer": role})).running()
    for _ in range(3):
        scene.goes("fit-trainer-0").settle().leavers_go().after(400).settle().running()
    assert scene.status.uncharged == {"trainer": 3}

    wiped(scene).settle()
    scene.fails("fit-trainer-0").settle()

    assert scene.status.uncharged == {"trainer": 3}
    assert scene.status.phase is Phase.TERMINATING
    assert scene.status.ending is None


def replaced_twice() -> Scene:
    """Both pods could not be created and were replaced, as often as is allowed; status lost."""
    scene = Scene(
        a_job(),
        creating_restart_limit=2,
        creating_restart_period_s=1e6,
        enable_creating_failed=True,
    ).settle()
    stick(scene).settle().leavers_go().settle().after(400).settle()
    assert scene.status.creation_restarts == {"trainer": 2}
    return wiped(scene)


def stick(scene: Scene) -> Scene:
    """No pod can be created, for as long as that is waited for."""
    for name in ("fit-trainer-0", "fit-trainer-1"):
        scene.binds(name)
        scene.waits(name, "ErrImagePull")
    return scene.settle().after(900)


def test_limit_of_creation_restarts_holds_without_a_status() -> None:
    """The members ConfigMap proves them."""
    scene = replaced_twice().settle()
    assert scene.status.creation_restarts == {"trainer": 2}
    assert "creationRestarts count from 0" not in condition(scene)[1]
    stick(scene).settle()

    assert scene.status.ending is not None
    assert "replaced 2 times" in scene.status.ending.message


def test_creation_restarts_that_nothing_proves_are_reported() -> None:
    """Labels count restarts of all causes alike."""
    scene = replaced_twice()
    scene.members = None
    scene.settle()

    assert scene.status.creation_restarts == {}
    assert scene.status.restart_counts == {"trainer": 2}
    assert "creationRestarts count from 0" in condition(scene)[1]


@pytest.mark.parametrize("n", [-1, 5, 10**12])
def test_creation_restarts_are_no_more_than_restarts(n: int) -> None:
    """A number that no operator wrote neither ends the job nor lifts its limit."""
    scene = restarted(Scene(a_job({"trainer": a_role(replicas=2, **OFTEN)})).running(), 2)
    damaged(scene, creation_restarts={"trainer": n}).settle()

    assert 0 <= scene.status.creation_restarts.get("trainer", 0) <= 2


ENDINGS: dict[str, Callable[[Scene], Scene]] = {
    "Succeed": lambda scene: scene.succeeds("fit-trainer-0", "fit-trainer-1"),
    "Failed": lambda scene: scene.fails("fit-trainer-1"),
    "Preempted": lambda scene: scene.annotate("Preempted", "room"),
    "Timeout": lambda scene: scene.after(1000),
}


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
@pytest.mark.parametrize("phase", sorted(ENDINGS))
@pytest.mark.parametrize("when", ["ending", "ended"])
def test_lost_status_of_a_job_that_ends_or_ended(phase: str, policy: str, when: str) -> None:
    """It ends as it would have, creates nothing, and keeps what its policy keeps."""
    job = a_job(cleanPodPolicy=policy, timeLimit=900)
    other = ENDINGS[phase](Scene(job).running()).settle().leavers_go().settle()
    scene = ENDINGS[phase](Scene(job).running()).settle()
    if when == "ended":
        scene.leavers_go().settle()

    wiped(scene).settle().leavers_go().settle()

    assert scene.status.phase.value == phase
    assert seen(scene.status)["phase"] == seen(other.status)["phase"]
    assert scene.status.message == other.status.message
    assert sorted(scene.pods) == sorted(other.pods)
    assert scene.status.end_time is not None


def test_ended_job_that_is_submitted_again_runs() -> None:
    """A manifest copied from an ended job has its annotation, but another UID."""
    scene = Scene(a_job()).running().succeeds("fit-trainer-0", "fit-trainer-1").settle()
    assert scene.status.phase is Phase.SUCCEED
    again = Scene(a_job())
    again.job = replace(
        again.job,
        metadata=replace(
            again.job.metadata, uid="other", annotations=scene.job.metadata.annotations
        ),
    )

    assert again.running().status.phase is Phase.RUNNING


def test_ended_job_that_is_set_running_ends_again() -> None:
    """A phase that somebody writes over a final one does not bring the job back."""
    scene = Scene(a_job()).running().succeeds("fit-trainer-0", "fit-trainer-1").settle()

    damaged(scene, phase=Phase.RUNNING, ending=None).settle()

    assert scene.status.phase is Phase.SUCCEED
    assert scene.pods == {}


def test_final_phase_without_a_record_is_cleaned_up() -> None:
    """What a final phase deletes is deleted, even if the record of the ending is gone."""
    scene = Scene(a_job()).running()

    damaged(scene, phase=Phase.SUCCEED).settle().leavers_go().settle()

    assert (scene.status.phase, scene.pods) == (Phase.SUCCEED, {})


HUGE = 9_000_000_000
HOSTILE: dict[str, dict[str, object]] = {
    "negative counts": {"restart_counts": {"trainer": -5}, "uncharged": {"trainer": -9}},
    "huge counts": {"restart_counts": {"trainer": HUGE}, "backoff": {"trainer": HUGE}},
    "more uncharged than restarts": {"uncharged": {"trainer": 1000}},
    "low epoch": {"epoch": 0},
    "negative epoch": {"epoch": -7},
    "huge epoch": {"epoch": HUGE},
    "negative target": {"target_replicas": {"trainer": -3}},
    "targets of strangers": {"target_replicas": {"trainer": 2, "ghost": 4}},
    "ending without a phase": {"ending": Ending()},
    "ending in a living phase": {"ending": Ending(phase=Phase.RUNNING)},
    "empty restart": {"restart": Restart()},
    "restart of a huge count": {
        "restart": Restart(RestartScope.ALL, "trainer", (), {"trainer": HUGE}, "", "nonsense")
    },
    "times that are none": {
        "start_time": "soon",
        "start_running_time": "",
        "last_reconcile_time": "yesterday",
        "phase_history": (PhaseRecord(Phase.RUNNING, "then", ""),),
        "last_restart_time": {"trainer": "x"},
    },
    "counts of pods that never were": {"replica_statuses": {}},
    "restarts that are not the sum": {"restarts": 77},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_values_that_no_operator_wrote_do_no_harm(name: str) -> None:
    """They are replaced by what the objects prove; pods run on, and later restarts work."""
    scene = restarted(Scene(a_job({"trainer": a_role(replicas=2, **OFTEN)})).running(), 2)
    before, pods = scene.status, dict(scene.pods)

    damaged(scene, **HOSTILE[name]).settle()

    assert scene.status.phase is Phase.RUNNING
    assert scene.pods == pods
    assert scene.status.restart_counts == before.restart_counts
    assert scene.status.restarts == before.restarts
    assert scene.status.epoch >= before.epoch
    assert scene.status.target_replicas == before.target_replicas
    restarted(scene, 1)
    assert scene.status.restart_counts == {"trainer": 3}
    assert scene.status.epoch == before.epoch + 1


@pytest.mark.parametrize("name", HOSTILE)
def test_values_that_no_operator_wrote_do_not_stop_a_restart(name: str) -> None:
    """Damage in the middle of a restart: it ends, and every pod is of the new count."""
    scene = restarted(Scene(a_job({"trainer": a_role(replicas=2, **OFTEN)})).running(), 1)
    scene.fails("fit-trainer-0").settle()

    damaged(scene, **HOSTILE[name]).settle().leavers_go().after(400).settle().running()

    assert scene.status.phase is Phase.RUNNING
    assert scene.status.restart_counts == {"trainer": 2}
    assert len(scene.pods) == 2


def test_suspension_that_began_at_no_time_begins_now() -> None:
    """The job stays suspended, and the record has a time that everybody can read."""
    scene = Scene(a_job()).running().edit(suspend=True).settle().leavers_go().settle()
    assert scene.status.suspension is not None

    damaged(scene, suspension=Suspension(started_at="at dawn")).settle()

    assert scene.status.suspension is not None
    assert scene.status.suspension.started_at == format_time(scene.now)
    assert scene.pods == {}


def test_long_wait_is_cut_to_the_longest_back_off() -> None:
    """A `notBefore` in a hundred years does not stop the job for that long."""
    scene = Scene(a_job({"trainer": a_role(replicas=1, **OFTEN)})).running()
    scene.fails("fit-trainer-0").settle().leavers_go()
    assert scene.status.restart is not None
    never = replace(scene.status.restart, not_before="2126-01-01T00:00:00Z")

    damaged(scene, restart=never).after(301).settle().running()

    assert scene.status.phase is Phase.RUNNING


def test_start_of_the_time_limit_is_found_again() -> None:
    """`startRunningTime` is the latest start of a container, so the limit still ends the job."""
    scene = Scene(a_job(timeLimit=900)).running()
    started = format_time(START + 60)
    state = ContainerState(running=StateRunning(started))
    for name in scene.pods:
        scene._set(name, container_statuses=(ContainerStatus("aitj-main", True, 0, state),))

    wiped(scene.after(500)).settle()
    assert scene.status.start_running_time == started
    scene.after(461).settle().leavers_go().settle()

    assert scene.status.phase is Phase.TIMEOUT


def test_spec_that_became_invalid_does_not_end_a_job_whose_status_was_lost() -> None:
    """Only a new job is refused for its spec."""
    scene = Scene(a_job()).running()
    scene.problems = ("a newer release does not like it",)

    assert wiped(scene).settle().status.phase is Phase.RUNNING


def test_fields_that_cannot_be_decoded_are_replaced() -> None:
    """An unknown phase or a wrong type costs that field, not the job."""
    scene = restarted(Scene(a_job({"trainer": a_role(replicas=2, **OFTEN)})).running(), 2)
    before = scene.status
    stored = {**to_body(before), "phase": "Levitating", "restart": "no", "epoch": "many", "x": 1}
    status = convert(salvaged(stored, AITrainingJobStatus), AITrainingJobStatus)
    assert status.phase_history == before.phase_history
    assert status.backoff == before.backoff
    scene.job = replace(scene.job, status=status)

    plan = decide(dataclasses.replace(scene.snapshot, stored_status=stored), scene.now)

    (write,) = [step for step in plan.actions if isinstance(step, PatchStatus)]
    assert write.status["phase"] == "Running"
    assert write.status["epoch"] == before.epoch
    assert write.status["restart"] is None  # which removes it
    assert not any(isinstance(action, DeleteObject) for action in plan.each_action())


def test_recovery_is_reported_once() -> None:
    """The event comes with the write, and the next pass has nothing to say."""
    scene = wiped(Scene(a_job()).running())
    assert reported(scene.look()).count("StatusRecovered") == 1
    scene.settle()
    assert [a for a in scene.look().each_action() if isinstance(a, EmitEvent)] == []


def test_mark_is_written_between_the_record_and_the_deletes() -> None:
    """Otherwise pods that prove the ending could be gone when the status is lost."""
    scene = Scene(a_job()).running().succeeds("fit-trainer-0", "fit-trainer-1")
    kinds = [type(a).__name__ for a in scene.look().each_action() if not isinstance(a, EmitEvent)]

    assert kinds[:2] == ["PatchStatus", "PatchObject"]
    assert set(kinds[2:]) == {"DeleteObject"}
    assert scene.settle().status.phase in FINAL_PHASES
