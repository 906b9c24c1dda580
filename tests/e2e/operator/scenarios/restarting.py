"""Which pods restart for what: every policy, every scope, limits and patience."""

from __future__ import annotations

from collections.abc import Callable

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.meta import Body
from swell.api.times import parse_time
from tests.e2e.operator.actions import ends, loses_node, somebody_deletes, waits
from tests.e2e.operator.checks import (
    becomes,
    ever_showed,
    members_are,
    restarts,
    runs,
    says,
    shows,
    went_through,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import Scenario, scenario

POLICIES = ("Always", "OnFailure", "OnNodeFail", "ExitCode", "OnNodeFailWithExitCode", "Never")
SCOPES = {"Pod": ("a-0",), "Replica": ("a-0", "a-1"), "All": ("a-0", "a-1", "b-0")}
RETRYABLE, OTHER = 137, 1

FAILS = {
    "retryable": ends("a-0", code=RETRYABLE),
    "other": ends("a-0", code=OTHER),
    "node": loses_node("a-0"),
}
# What makes a pod restart, by policy.
CURED = {
    "Always": ("retryable", "other", "node"),
    "OnFailure": ("retryable", "other"),
    "OnNodeFail": ("node",),
    "ExitCode": ("retryable",),
    "OnNodeFailWithExitCode": ("retryable", "node"),
    "Never": (),
}


def _two_roles(policy: str, scope: str) -> Body:
    return job(
        {"a": pods(2, restartPolicy=policy, restartScope=scope), "b": pods(1)},
        restartingExitCode="137,128",
    )


def _counts(status: AITrainingJobStatus) -> dict[str, int]:
    return status.restart_counts


def _counted(restarted: tuple[str, ...]) -> Callable[[AITrainingJobStatus], bool]:
    """One restart for each role of which pods restarted, and none for others."""
    return lambda status: _counts(status) == {name[0]: 1 for name in restarted}


def _waited(n: int, seconds: float) -> Callable[[AITrainingJobStatus], bool]:
    """Whether the n-th restart was recorded to wait so long."""

    def holds(status: AITrainingJobStatus) -> bool:
        record = status.restart
        if record is None or record.counts.get("a") != n:
            return False
        if record.not_before is None:
            return seconds == 0
        return parse_time(record.not_before) - parse_time(record.started_at) == seconds

    return holds


# fmt: off
# Each policy meets each thing that may go wrong with a pod.
POLICY = [
    scenario(f"{policy.lower()}-{what}", _two_roles(policy, "Pod"), runs(), happens,
          *([restarts("a-0")] if what in CURED[policy]
            else [becomes("NodeFail" if what == "node" else "Failed")]),
          n_nodes=4 if what == "node" else 0)
    for policy in POLICIES for what, happens in FAILS.items()
]

# Each policy that restarts at all does so in each scope.
SCOPE = [
    scenario(f"{policy.lower()}-scope-{scope.lower()}", _two_roles(policy, scope),
          runs(), FAILS[CURED[policy][0]], restarts(*restarted),
          shows("the counts of what restarted",
                _counted(restarted)),
          # A single pod that restarts does not make the job Terminating.
          went_through("Running", *(() if scope == "Pod" else ("Terminating",)), "Restarting",
                       "Running"),
          shows("no restart is under way", lambda s: s.restart is None),
          ends("a-0", "a-1", "b-0"), becomes("Succeed"),
          n_nodes=4 if CURED[policy][0] == "node" else 0)
    for policy in POLICIES if CURED[policy] for scope, restarted in SCOPES.items()
]

LIMITS = [
    scenario("limit-0", job({"a": pods(1, restartPolicy="Always", restartLimit=0)}),
          runs(), ends("a-0", code=1), becomes("Failed"), says("restartLimit 0 of a is used up")),
    scenario("limit-1", job({"a": pods(1, restartPolicy="Always", restartLimit=1)}),
          runs(), ends("a-0", code=1), restarts("a-0"), ends("a-0", code=1), becomes("Failed"),
          says("restartLimit 1 of a is used up"), shows("one restart", lambda s: s.restarts == 1)),
    scenario("limit-counts-each-pod",
          job({"a": pods(2, restartPolicy="Always", restartScope="Pod", restartLimit=2)}),
          runs(), ends("a-0", code=1), restarts("a-0"), ends("a-1", code=1), restarts("a-1"),
          shows("two restarts", lambda s: _counts(s) == {"a": 2}),
          ends("a-0", code=1), becomes("Failed")),
    scenario("limit-is-of-the-failing-role",
          job({"a": pods(1, restartPolicy="Always", restartLimit=1),
               "b": pods(1, restartPolicy="Always", restartLimit=1)}),
          runs(), ends("a-0", code=1), restarts("a-0", "b-0"), ends("b-0", code=1),
          becomes("Failed")),
    scenario("lost-pods-are-not-charged",
          job({"a": pods(2, restartPolicy="Always", restartLimit=1)}),
          runs(), somebody_deletes("a-1"), restarts("a-0", "a-1"),
          shows("an uncharged restart", lambda s: s.uncharged == {"a": 1}),
          ends("a-0", code=1), restarts("a-0", "a-1"), ends("a-0", code=1), becomes("Failed")),
]

BACK_OFF = [
    scenario("back-off-doubles", job({"a": pods(1, restartPolicy="Always")}),
          runs(), *[step for _ in range(4) for step in (ends("a-0", code=1), restarts("a-0"))],
          *[ever_showed(f"restart {n} waits {s} s", _waited(n, s))
            for n, s in ((1, 0), (2, 1), (3, 2), (4, 4))],
          shows("epoch grew with each", lambda s: s.epoch == 5), members_are({"a": 1})),
    scenario("back-off-is-forgotten", job({"a": pods(1, restartPolicy="Always")}),
          runs(), ends("a-0", code=1), restarts("a-0"), waits(601),
          ends("a-0", code=1), restarts("a-0"),
          ever_showed("restart 2 waits 0 s", _waited(2, 0)), takes_long=True),
    scenario("back-off-is-kept", job({"a": pods(1, restartPolicy="Always")}),
          runs(), ends("a-0", code=1), restarts("a-0"), waits(590),
          ends("a-0", code=1), restarts("a-0"),
          ever_showed("restart 2 waits 1 s", _waited(2, 1)), takes_long=True),
]

SUCCEEDED = [
    scenario("succeeded-inside-the-scope-restarts",
          job({"a": pods(2, restartPolicy="Always", restartScope="Replica")}),
          runs(), ends("a-1"), ends("a-0", code=1), restarts("a-0", "a-1")),
    scenario("succeeded-outside-the-scope-stays",
          job({"a": pods(2, restartPolicy="Always", restartScope="Pod")}),
          runs(), ends("a-1"), ends("a-0", code=1), restarts("a-0"),
          ends("a-0"), becomes("Succeed")),
]
# fmt: on

SCENARIOS: tuple[Scenario, ...] = (*POLICY, *SCOPE, *LIMITS, *BACK_OFF, *SUCCEEDED)
