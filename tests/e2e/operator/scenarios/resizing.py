"""Who may change the size of a role, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.meta import Body
from tests.e2e.operator.actions import changes, ends, scales, sets_target
from tests.e2e.operator.checks import (
    becomes,
    group_asks_for,
    members_are,
    pods_are,
    refused,
    restarts,
    runs,
    shows,
    stays,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import Scenario, scenario

AUTO: Body = {"edlPolicy": "Auto", "minReplicas": 1, "maxReplicas": 4}
MANUAL: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 4}


def _sized(role: str, ready: str, by: str) -> Callable[[AITrainingJobStatus], bool]:
    """The target is reached, and the last to set it was the one who should have."""

    def holds(status: AITrainingJobStatus) -> bool:
        last = status.scale_records[-1] if status.scale_records else None
        return (
            status.ready == ready and last is not None and (last.role, last.by.value) == (role, by)
        )

    return holds


# fmt: off
TARGET = [
    scenario("auto-grows", job({"a": pods(2, **AUTO)}),
          runs(), sets_target("a", 4), pods_are("a-0", "a-1", "a-2", "a-3"),
          shows("4/4, by the autoscaler", _sized("a", "4/4", "autoscaler")),
          members_are({"a": 4}), group_asks_for(1),
          shows("a resize is an epoch, no restart", lambda s: (s.epoch, s.restarts) == (2, 0)),
          stays("Running"), ends("a-0", "a-1", "a-2", "a-3"), becomes("Succeed")),
    scenario("auto-shrinks", job({"a": pods(3, **AUTO)}),
          runs(), sets_target("a", 1), pods_are("a-0"), members_are({"a": 1}),
          shows("1/1, by the autoscaler", _sized("a", "1/1", "autoscaler")), stays("Running"),
          ends("a-0"), becomes("Succeed")),
    scenario("auto-target-is-bounded", job({"a": pods(2, **AUTO)}),
          runs(), sets_target("a", 9), pods_are("a-0", "a-1", "a-2", "a-3"),
          shows("4/4, set right by the operator", _sized("a", "4/4", "operator"))),
    scenario("auto-size-is-not-the-users", job({"a": pods(2, **AUTO)}),
          runs(), refused({"replicaSpecs": {"a": {"replicas": 3}}}, "Manual"), stays("Running")),
    scenario("auto-is-frozen-by-success", job({"a": pods(2, **AUTO)}),
          runs(), ends("a-1"), shows("one succeeded", lambda s: s.replica_statuses["a"].succeeded),
          sets_target("a", 4), shows("set back", lambda s: s.target_replicas == {"a": 2}),
          stays("Running"), ends("a-0"), becomes("Succeed")),
    scenario("auto-thaws-by-restart",
          job({"a": pods(2, restartPolicy="Always", restartScope="Replica", **AUTO)}),
          runs(), ends("a-1"), ends("a-0", code=1), restarts("a-0", "a-1"),
          sets_target("a", 3), pods_are("a-0", "a-1", "a-2"),
          shows("3/3, by the autoscaler", _sized("a", "3/3", "autoscaler"))),
]

USER = [
    scenario("manual-grows", job({"a": pods(2, **MANUAL)}),
          runs(), scales("a", 3), pods_are("a-0", "a-1", "a-2"),
          shows("3/3, by the user", _sized("a", "3/3", "user")), members_are({"a": 3})),
    scenario("manual-shrinks", job({"a": pods(3, **MANUAL)}),
          runs(), scales("a", 2), pods_are("a-0", "a-1"),
          shows("2/2, by the user", _sized("a", "2/2", "user")), members_are({"a": 2})),
    scenario("manual-keeps-to-its-bounds", job({"a": pods(2, **MANUAL)}),
          runs(), refused({"replicaSpecs": {"a": {"replicas": 5}}}), stays("Running")),
    scenario("manual-target-is-the-spec", job({"a": pods(2, **MANUAL)}),
          runs(), sets_target("a", 3), shows("set back", lambda s: s.target_replicas == {"a": 2}),
          pods_are("a-0", "a-1")),
    scenario("never-is-refused", job({"a": pods(2, edlPolicy="Never")}),
          runs(), refused({"replicaSpecs": {"a": {"replicas": 3}}}), stays("Running")),
    scenario("bounds-may-move", job({"a": pods(3, **AUTO)}),
          runs(), changes({"replicaSpecs": {"a": {"minReplicas": 2}}}), group_asks_for(2),
          stays("Running")),
]
# fmt: on

SCENARIOS: tuple[Scenario, ...] = (*TARGET, *USER)
