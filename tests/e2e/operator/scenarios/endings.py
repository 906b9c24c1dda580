"""What ends a job: policies of roles and job, the time limit, annotations; what is left of it."""

from __future__ import annotations

from tests.e2e.operator.actions import annotates, ends, loses_node
from tests.e2e.operator.checks import (
    becomes,
    group_asks_for,
    only_pods_left,
    pods_are,
    runs,
    says,
    shows,
    stays,
    went_through,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import Scenario, scenario

# fmt: off
COMPLETE = [
    scenario("complete-all", job({"a": pods(2, completePolicy="All")}),
          runs(), ends("a-0"), stays("Running"), ends("a-1"), becomes("Succeed"),
          says("completed: a"), pods_are(), went_through("Running", "Terminating", "Succeed")),
    scenario("complete-any", job({"a": pods(2, completePolicy="Any")}),
          runs(), ends("a-1"), becomes("Succeed"), pods_are()),
    scenario("complete-rank0", job({"a": pods(2, completePolicy="Rank0")}),
          runs(), ends("a-1"), stays("Running"), ends("a-0"), becomes("Succeed")),
    scenario("complete-none", job({"a": pods(1, completePolicy="None"), "b": pods(1)}),
          runs(), ends("a-0"), stays("Running"), ends("b-0"), becomes("Succeed")),
    scenario("job-completes-any", job({"a": pods(1), "b": pods(1)}, completePolicy="Any"),
          runs(), ends("b-0"), becomes("Succeed"), says("completed: b")),
    scenario("job-completes-all", job({"a": pods(1), "b": pods(1)}, completePolicy="All"),
          runs(), ends("b-0"), stays("Running"), ends("a-0"), becomes("Succeed")),
    scenario("job-completes-none", job({"a": pods(1)}, completePolicy="None"),
          runs(), ends("a-0"), stays("Running")),
    scenario("job-all-of-none", job({"a": pods(1, completePolicy="None", failPolicy="None")},
                                 failPolicy="All"),
          runs(), ends("a-0"), stays("Running")),
]

# The operator looks a moment after the first news, so it sees both at once.
BOTH = [
    scenario("completes-though-another-fails", job({"a": pods(2, completePolicy="Any")}),
          runs(), ends("a-0", also={"a-1": 1}), becomes("Succeed"), says("completed: a"),
          shows("both were seen", lambda s: s.replica_statuses["a"].succeeded == 1)),
]

FAIL = [
    scenario("fail-any", job({"a": pods(2, failPolicy="Any")}),
          runs(), ends("a-1", code=3), becomes("Failed"),
          says("fail-any-a-1", "node common-", "container aitj-main", "exit code 3"),
          shows("reason RolesFailed", lambda s: s.reason == "RolesFailed"), pods_are()),
    scenario("fail-rank0", job({"a": pods(2, failPolicy="Rank0")}),
          runs(), ends("a-1", code=1), stays("Running"), ends("a-0", code=1), becomes("Failed"),
          says("fail-rank0-a-0")),
    scenario("fail-all", job({"a": pods(2, failPolicy="All")}),
          runs(), ends("a-0", code=1), stays("Running"), ends("a-1", code=1), becomes("Failed")),
    scenario("fail-none", job({"a": pods(1, failPolicy="None"), "b": pods(1)}),
          runs(), ends("a-0", code=1), stays("Running"), group_asks_for(1),
          ends("b-0", code=1), becomes("Failed")),
    scenario("job-fails-any", job({"a": pods(1), "b": pods(1)}, failPolicy="Any"),
          runs(), ends("b-0", code=1), becomes("Failed")),
    scenario("job-fails-all", job({"a": pods(1), "b": pods(1)}, failPolicy="All"),
          runs(), ends("b-0", code=1), stays("Running"), ends("a-0", code=1), becomes("Failed")),
    scenario("job-fails-none", job({"a": pods(1)}, failPolicy="None"),
          runs(), ends("a-0", code=1), stays("Running")),
    scenario("node-fail-ends-the-job", job({"a": pods(1)}),
          runs(), loses_node("a-0"), becomes("NodeFail"), says("is lost"), pods_are(), n_nodes=1),
]

TIME_LIMIT = [
    scenario("time-limit", job({"a": pods(2)}, timeLimit=2, cleanPodPolicy="None"),
          runs(), becomes("Timeout"), says("longer than 2 s"), pods_are()),
    scenario("time-limit-waits-for-running",
          job({"a": pods(1)}, timeLimit=1, schedulerName="nobody"),
          becomes("Pending"), pods_are("a-0"), stays("Pending")),
]

# An ending by annotation deletes every pod, whatever the clean policy says.
ANNOTATIONS = [
    scenario(f"annotated-{key.lower()}-{number}", job({"a": pods(2)}, cleanPodPolicy="None"),
          runs(), annotates(key, "because"), becomes(phase), says("because"),
          shows("reason EndedByAnnotation", lambda s: s.reason == "EndedByAnnotation"),
          pods_are())
    for number, (key, phase) in enumerate([
        ("Failed", "Failed"), ("failed", "Failed"), ("NodeFail", "NodeFail"),
        ("NodeFailed", "NodeFail"), ("NODEFAIL", "NodeFail"), ("Preempted", "Preempted"),
        ("preempted", "Preempted"),
    ])
]

# So does a stop; as which it ends, an annotation beside it says.
STOPS = [
    scenario("stopped", job({"a": pods(2)}, cleanPodPolicy="None"),
          runs(), annotates("elasticdeeplearning.ai/stopped", "enough"), becomes("Failed"),
          says("enough"), shows("reason Stopped", lambda s: s.reason == "Stopped"), pods_are()),
]

FINAL = [
    scenario("final-is-final", job({"a": pods(1)}),
          runs(), ends("a-0"), becomes("Succeed"), pods_are(), annotates("Failed", "too late"),
          stays("Succeed")),
]

# One of three pods has ended: which are left when the job is over.
LEFT = {"All": (), "Running": ("a-0",), "None": ("a-0", "a-1", "b-0")}
CLEAN = [
    scenario(f"clean-{policy.lower()}-after-{phase.lower()}",
          job({"a": pods(2, completePolicy="Rank0", failPolicy="Rank0"),
               "b": pods(1, completePolicy="None", failPolicy="None")}, cleanPodPolicy=policy),
          runs(), ends("a-0", code=code), becomes(phase), pods_are(*left), only_pods_left(),
          stays(phase))
    for policy, left in LEFT.items() for phase, code in (("Succeed", 0), ("Failed", 1))
]
# fmt: on

SCENARIOS: tuple[Scenario, ...] = (
    *COMPLETE,
    *BOTH,
    *FAIL,
    *TIME_LIMIT,
    *ANNOTATIONS,
    *STOPS,
    *FINAL,
    *CLEAN,
)
