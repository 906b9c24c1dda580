"""A rigid job that the scheduler preempts queues anew, as often as it may, or ends."""

from __future__ import annotations

import pytest

from swell.api.aitrainingjob import AITrainingJobPhase as Phase
from swell.api.meta import Condition
from tests.unit.operator.scene import Scene, a_job, a_role, recorded

T0, T1 = "fit-trainer-0", "fit-trainer-1"
MARK = Condition(
    type="DisruptionTarget",
    status="True",
    reason="PreemptionByScheduler",
    message="preempt for team/big",
)


def preempted(scene: Scene) -> Scene:
    """The scheduler marks both pods and deletes them; the operator looks in between."""
    for name in (T0, T1):
        scene._set(name, conditions=(*scene.pods[name].status.conditions, MARK))
        scene.leaves(name)
    return scene.settle()


def goes_on(scene: Scene) -> Scene:
    scene.leavers_go().settle()
    for name in list(scene.pods):
        scene.starts(name)
    return scene.settle()


def test_preempted_job_queues_anew() -> None:
    """Uncharged, any number of times; each is counted once."""
    scene = Scene(a_job()).running()
    for n in (1, 2, 3):
        goes_on(preempted(scene))
        assert scene.status.preemptions == n

    assert scene.status.phase is Phase.RUNNING
    assert scene.status.restart_counts == scene.status.uncharged


def test_preempted_job_queues_anew_at_once() -> None:
    """It has not failed: no back-off grows, and the one that there is does not hold it."""
    scene = Scene(a_job({"trainer": a_role(replicas=2, restartPolicy="Always")})).running()
    for _ in range(3):
        scene.fails(T0).settle().after(10).settle()
        goes_on(scene)
    for _ in range(5):
        preempted(scene).leavers_go().settle()

        assert {T0, T1} <= scene.pods.keys()
        assert scene.status.backoff == {"trainer": 3}
        goes_on(scene)
    scene.fails(T0).settle()

    assert scene.status.backoff == {"trainer": 4}
    assert scene.look().wake_at == scene.now + 4


@pytest.mark.parametrize("scope", ["Pod", "Replica", "All"])
def test_gang_that_leaves_one_by_one_is_preempted_once(scope: str) -> None:
    """Each pod saves for as long as it takes; where they restart alone, each begins an epoch."""
    role = a_role(replicas=2, restartScope=scope)
    scene = Scene(a_job({"trainer": role}, maxRetriesOnPreemption=1)).running()
    for n in (1, 2):
        for name in (T0, T1):
            scene._set(name, conditions=(*scene.pods[name].status.conditions, MARK))
        scene.settle()
        for name in (T0, T1):
            scene.leaves(name)
            scene.settle().goes(name).settle().after(5).settle()

        assert scene.status.preemptions == n
        if n == 1:
            goes_on(scene)

    assert scene.status.phase is Phase.PREEMPTED


def test_job_that_may_not_queue_again_ends() -> None:
    """As Preempted, with the scheduler's words on whom the room is for."""
    scene = preempted(Scene(a_job(requeuePolicy="End")).running()).leavers_go().settle()

    assert (scene.status.phase, scene.status.reason) == (Phase.PREEMPTED, "PreemptedByScheduler")
    assert scene.status.message == "pod fit-trainer-0 was preempted (preempt for team/big)"


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_retries_are_bounded(limit: int) -> None:
    """The preemption after the last retry ends the job."""
    scene = Scene(a_job(maxRetriesOnPreemption=limit)).running()
    for _ in range(limit):
        goes_on(preempted(scene))
        assert scene.status.phase is Phase.RUNNING
    preempted(scene).leavers_go().settle()

    assert scene.status.phase is Phase.PREEMPTED
    assert f"maxRetriesOnPreemption is {limit}" in scene.status.message


def test_elastic_role_is_not_ended() -> None:
    """It goes on with fewer pods: nothing of it was preempted as a whole."""
    sizes = {"minReplicas": 1, "maxReplicas": 2, "edlPolicy": "Auto"}
    role = a_role(replicas=2, **sizes)
    scene = preempted(Scene(a_job({"trainer": role}, requeuePolicy="End")).running())

    assert recorded(scene.look()).get("ending") is None
    assert scene.status.preemptions == 0
