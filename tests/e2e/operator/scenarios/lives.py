"""When jobs begin, pause, save, grow by others' wish, and go."""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.meta import Body
from tests.e2e.operator.actions import (
    answers,
    changes,
    ends,
    is_to_make_room,
    others_run,
    scales_by_subresource,
)
from tests.e2e.operator.checks import (
    becomes,
    is_asked,
    is_reported,
    nothing_is_left,
    pods_are,
    restarts,
    runs,
    says,
    shows,
    stays,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import Scenario, scenario

ELASTIC: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 4}


def _is_suspended(status: AITrainingJobStatus) -> bool:
    held = {one.type: one.status for one in status.conditions}
    return status.reason == "Suspended" and held.get("Suspended") == "True"


def _never_restarted(status: AITrainingJobStatus) -> bool:
    return status.restarts == 0 and status.suspension is None


# fmt: off
SCENARIOS: tuple[Scenario, ...] = (
    scenario("suspended-and-resumed", job({"a": pods(2)}),
          runs(), changes({"suspend": True}), pods_are(), shows("suspended", _is_suspended),
          stays("Pending"), changes({"suspend": False}), runs(),
          shows("no restart", _never_restarted), ends("a-0", "a-1"), becomes("Succeed")),
    scenario("suspended-from-the-beginning", job({"a": pods(1)}, suspend=True),
          shows("suspended", _is_suspended), pods_are(), changes({"suspend": False}),
          runs(), ends("a-0"), becomes("Succeed")),
    scenario("saves-before-it-is-suspended", job({"a": pods(1)}, saveSeconds=100),
          runs(), changes({"suspend": True}), is_asked("a-0"), pods_are("a-0"),
          answers("a-0"), pods_are(), shows("suspended", _is_suspended)),
    scenario("released-at-its-deadline", job({"a": pods(2, **ELASTIC)}, saveSeconds=3),
          runs(), changes({"replicaSpecs": {"a": {"replicas": 1}}}), is_asked("a-1"),
          pods_are("a-0"), stays("Running")),
    scenario("scaled-by-its-subresource",
          job({"a": pods(1, **ELASTIC), "b": pods(1)}, scale={"replicas": 1}),
          runs(), scales_by_subresource(3), pods_are("a-0", "a-1", "a-2", "b-0"),
          shows("its size", lambda s: s.scale is not None and s.scale.replicas == 3),
          scales_by_subresource(2), pods_are("a-0", "a-1", "b-0")),
    scenario("expires", job({"a": pods(1)}, ttlSecondsAfterFinished=1),
          runs(), ends("a-0"), nothing_is_left()),
    scenario("comes-after-another", job({"a": pods(1)}, after=["comes-after-another-first"]),
          says("there is no comes-after-another-first yet"), pods_are(),
          others_run(job({"a": pods(1, does={"duration": "1s"})}), "first"),
          runs(), ends("a-0"), becomes("Succeed")),
    scenario("misses-its-deadline", job({"a": pods(1)}, deadline="2024-01-01T00:00:00Z"),
          runs(), is_reported("DeadlineMissed"), stays("Running")),
    scenario("ends-when-preempted", job({"a": pods(2)}, requeuePolicy="End"),
          runs(), is_to_make_room("a-1"), becomes("Preempted"), says("default/big")),
    scenario("queues-anew-when-preempted", job({"a": pods(1, restartPolicy="OnNodeFail")}),
          runs(), is_to_make_room("a-0"), restarts("a-0"),
          shows("one preemption", lambda s: s.preemptions == 1)),
)
# fmt: on
