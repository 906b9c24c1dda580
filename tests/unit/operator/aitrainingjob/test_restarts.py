"""Restart scopes, limits, back-off, records, and restarts that meet one another."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.restarts import BACKOFF
from swell.runtime.plan import EmitEvent
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

W0, W1, P0 = "fit-worker-0", "fit-worker-1", "fit-ps-0"


def a_scene(scope: str, **fields: object) -> Scene:
    """Two workers and a parameter server; the workers are restarted when they fail."""
    worker = a_role(replicas=2, **{"restartPolicy": "OnFailure", "restartScope": scope, **fields})
    return Scene(a_job({"worker": worker, "ps": a_role(replicas=1)})).running()


@pytest.mark.parametrize(
    ("scope", "to_delete", "counts"),
    [
        ("Pod", [W1], {"worker": 1}),
        ("Replica", [W0, W1], {"worker": 1}),
        ("All", [P0, W0, W1], {"ps": 1, "worker": 1}),
    ],
)
def test_scope_says_what_restarts_together(
    scope: str, to_delete: list[str], counts: dict[str, int]
) -> None:
    """Pod is that pod, Replica the role, All the job; counts grow for every role in scope."""
    scene = a_scene(scope).fails(W1)

    plan = scene.look()

    assert deleted(plan) == to_delete
    assert recorded(plan)["restartCounts"] == counts
    assert recorded(plan)["restart"]["counts"] == counts
    # The others go on while a single pod restarts.
    assert recorded(plan)["phase"] == ("Restarting" if scope == "Pod" else "Terminating")
    assert recorded(plan)["restarts"] == len(counts)
    assert sorted(recorded(plan)["lastRestartTime"]) == sorted(counts)


def test_restart_is_recorded_before_anything_is_deleted() -> None:
    """A crash between the two is safe: the next pass finishes what the status says."""
    plan = a_scene("All").fails(W1).look()
    kinds = [type(action).__name__ for action in plan.each_action()]

    assert kinds.index("PatchStatus") < kinds.index("DeleteObject")
    assert created(plan) == []


def test_new_pods_carry_the_new_count_and_epoch() -> None:
    """RestartCount is the label, the variable follows, the epoch grows."""
    scene = a_scene("Replica").fails(W1).settle().leavers_go().settle()

    assert scene.pods[W0].metadata.labels["RestartCount"] == "1"
    assert scene.pods[P0].metadata.labels["RestartCount"] == "0"
    assert scene.status.epoch == 2
    assert scene.members is not None
    assert scene.members.data["epoch"] == "2"


def test_phases_of_a_restart() -> None:
    """Terminating while old pods go, Restarting until the new ones are active, then Running."""
    scene = a_scene("All").fails(W1).settle().leavers_go().settle()
    for name in scene.pods:
        scene.starts(name)
    scene.settle()

    assert scene.status.restart is None
    assert phases(scene)[-4:] == [
        AITrainingJobPhase.RUNNING,
        AITrainingJobPhase.TERMINATING,
        AITrainingJobPhase.RESTARTING,
        AITrainingJobPhase.RUNNING,
    ]


def test_pods_inside_the_scope_restart_though_they_succeeded() -> None:
    """The world is new; outside the scope they stay."""
    scene = a_scene("Replica").succeeds(W0, P0).fails(W1)

    assert deleted(scene.look()) == [W0, W1]


def test_nothing_is_created_before_all_old_pods_are_gone() -> None:
    """New pods must not meet old ones."""
    scene = a_scene("All").fails(W1).settle()
    scene.goes(P0)

    assert created(scene.look()) == []
    assert created(scene.leavers_go().look()) == [P0, W0, W1]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_limit_bounds_charged_restarts(limit: int) -> None:
    """A charged restart begins only while counts less uncharged ones are below the limit."""
    scene = a_scene("Pod", restartLimit=limit)
    for _ in range(limit):
        scene.fails(W1).settle().after(400).settle()
        scene.starts(W1)
        scene.settle()
    scene.fails(W1)

    status = recorded(scene.look())

    assert status["ending"]["phase"] == "Failed"
    assert f"restartLimit {limit}" in status["ending"]["message"]


def test_no_limit_means_any_number() -> None:
    """restartLimit none is unlimited."""
    scene = a_scene("Pod")
    for n in range(1, 8):
        scene.fails(W1).settle().after(400).settle()
        scene.starts(W1)
        scene.settle()
        assert scene.status.restart_counts == {"worker": n}


def test_scope_pod_charges_every_pod_restarted() -> None:
    """Two pods that fail together are two restarts, and carry one count."""
    scene = a_scene("Pod").fails(W0, W1)

    status = recorded(scene.look())

    assert status["restartCounts"] == {"worker": 2}
    assert status["restart"]["indexes"] == [0, 1]
    scene.settle()
    assert {scene.pods[n].metadata.labels["RestartCount"] for n in (W0, W1)} == {"2"}


def test_limit_that_does_for_some_pods_only_ends_the_job() -> None:
    """With scope Pod and one restart left, of two failures one is for good."""
    scene = a_scene("Pod", restartLimit=1).fails(W0, W1)

    assert recorded(scene.look())["ending"]["phase"] == "Failed"


def test_other_roles_in_scope_are_counted_but_not_asked() -> None:
    """Only the failing role's limit decides."""
    roles = {
        "ps": a_role(replicas=1, restartLimit=0),
        "worker": a_role(replicas=1, restartPolicy="OnFailure", restartLimit=1),
    }
    scene = Scene(a_job(roles)).running().fails(W0)

    assert recorded(scene.look())["restartCounts"] == {"ps": 1, "worker": 1}


@pytest.mark.parametrize(
    ("k", "wait_s"), [(1, 0), (2, 1), (3, 2), (4, 4), (9, 128), (11, 300), (15, 300)]
)
def test_backoff_doubles_up_to_five_minutes(k: int, wait_s: int) -> None:
    """The first restart is immediate, the k-th waits min(2^(k-2), 300) s."""
    scene = a_scene("Pod")
    for _ in range(k - 1):
        scene.fails(W1).settle().after(300).settle()
        scene.starts(W1)
        scene.settle()
    scene.fails(W1).settle()

    assert scene.status.backoff == {"worker": k}
    assert (W1 in scene.pods) is (wait_s == 0)
    if wait_s:
        assert scene.look().wake_at == scene.now + wait_s
        assert created(scene.after(wait_s - 1).look()) == []
        assert created(scene.after(1).look()) == [W1]


def test_backoff_is_reset_after_ten_minutes_of_running() -> None:
    """What ran calmly may fail again at no price; the limit still counts all restarts."""
    scene = a_scene("Pod")
    for _ in range(3):
        scene.fails(W1).settle().after(10).settle()
        scene.starts(W1)
        scene.settle()
    assert scene.status.backoff == {"worker": 3}

    scene.after(600).fails(W1).settle()

    assert scene.status.backoff == {"worker": 1}
    assert scene.status.restart_counts == {"worker": 4}
    assert W1 in scene.pods


def test_backoff_does_not_wait_for_a_clock_that_was_set_back() -> None:
    """A record that began in the future says that the clock went back, not how long to wait."""
    scene = a_scene("Pod")
    scene.fails(W1).settle()
    scene.starts(W1)
    scene.settle().fails(W1).settle()
    assert W1 not in scene.pods

    assert created(scene.after(-3600).look()) == [W1]


def test_single_pods_join_a_restart_under_way() -> None:
    """A second pod that fails while the first is being replaced is taken in."""
    scene = a_scene("Pod")
    scene.leaves(W0)
    scene.fails(W1).settle()
    scene.goes(W0)

    scene.settle().after(10).settle()

    assert scene.status.restart_counts == {"worker": 1}
    assert sorted(scene.pods) == [P0, W0, W1]


def test_restart_of_another_role_waits_for_the_one_under_way() -> None:
    """One record at a time: the first is finished before the next begins."""
    again = {"restartPolicy": "OnFailure", "restartScope": "Pod"}
    roles = {"ps": a_role(replicas=1, **again), "worker": a_role(replicas=2, **again)}
    scene = Scene(a_job(roles)).running()
    scene.fails(W1).settle()
    assert scene.status.restart is not None

    scene.fails(P0).settle()

    assert scene.status.restart_counts == {"ps": 1, "worker": 1}
    assert scene.pods[W1].metadata.labels["RestartCount"] == "1"
    assert scene.status.uncharged == {}


def test_wider_restart_takes_over_a_narrower_one() -> None:
    """Scope All contains whatever is under way."""
    roles = {
        "ps": a_role(replicas=1, restartPolicy="OnFailure", restartScope="All"),
        "worker": a_role(replicas=2, restartPolicy="OnFailure", restartScope="Pod"),
    }
    scene = Scene(a_job(roles)).running()
    scene.fails(W1)
    for action in list(scene.look().each_action())[:1]:
        scene.apply(action)
    scene.fails(P0)

    plan = scene.look()

    assert recorded(plan)["restart"]["scope"] == "All"
    assert deleted(plan) == [P0, W0, W1]


def test_restart_is_reported_with_its_cause() -> None:
    """Events and metrics name the cause by a stable reason."""
    assert reported(a_scene("Pod").fails(W1).look())[0] == "PodFailed"


def test_elastic_restart_is_done_with_the_minimum() -> None:
    """An elastic role need not wait for all of its pods to count as running again."""
    worker = a_role(
        replicas=3,
        minReplicas=1,
        maxReplicas=3,
        edlPolicy="Manual",
        restartPolicy="OnFailure",
        restartScope="Replica",
    )
    scene = Scene(a_job({"worker": worker})).running().fails(W0).settle().leavers_go().settle()
    scene.starts(W0)

    assert scene.settle().status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.restart is None
    assert scene.status.restart_counts == {"worker": 1}


def test_ten_thousand_restarts_work_through_the_decision() -> None:
    """Past the 1,025th the delay stays at its cap, counts go on, and the job still runs.

    Those around the 1,026th, and around the last, are carried out one by one.
    """
    scene = Scene(a_job({"trainer": a_role(replicas=1, restartPolicy="Always")})).running()

    def restart() -> None:
        scene.fails("fit-trainer-0")
        carry_out(scene)
        assert scene.status.restart is not None
        carry_out(scene.leavers_go().after(BACKOFF.cap_s + 1))
        scene.starts("fit-trainer-0")
        carry_out(scene)

    def skip_to(n: int) -> None:
        pod = scene.pods["fit-trainer-0"]
        marks = {**pod.metadata.labels, labels.RESTART_COUNT: str(n)}
        scene.pods["fit-trainer-0"] = replace(pod, metadata=replace(pod.metadata, labels=marks))
        counts = {"trainer": n}
        status = replace(scene.status, restart_counts=counts, backoff=counts, restarts=n)
        scene.job = replace(scene.job, status=status)

    for n in (0, 1_000, 9_970):
        skip_to(n)
        for _ in range(40):
            restart()

    assert scene.status.phase is AITrainingJobPhase.RUNNING
    assert scene.status.restarts == 10_010
    assert scene.status.backoff == {"trainer": 10_010}
    assert scene.pods["fit-trainer-0"].metadata.labels[labels.RESTART_COUNT] == "10010"


def carry_out(scene: Scene) -> None:
    """Carry out one plan."""
    for action in scene.look().each_action():
        if not isinstance(action, EmitEvent):
            scene.apply(action)
