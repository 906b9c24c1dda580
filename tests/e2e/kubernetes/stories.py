"""Lives of AITrainingJobs in real containers, all on one cluster at the same time."""

from __future__ import annotations

from swell.api.meta import Body
from tests.e2e.kubernetes.containers import PORT, WAITS, pods
from tests.e2e.kubernetes.happenings import (
    accelerator_breaks,
    another,
    ends,
    leaves_its_nodes,
    log_of,
    of,
    runs_on_both_nodes,
    waits_whole,
)
from tests.e2e.kubernetes.life_stories import LIVES, SAVES
from tests.e2e.operator.actions import deletes_job, scales, somebody_deletes
from tests.e2e.operator.checks import (
    becomes,
    ever_showed,
    group_asks_for,
    is_reported,
    members_are,
    nothing_is_left,
    pods_are,
    restarts,
    runs,
    says,
    shows,
    stays,
    went_through,
)
from tests.e2e.operator.jobs import job
from tests.e2e.operator.scenario import Scenario, scenario

# Each node has two of each, so that every story about room has the room to itself.
GANG, PRIORITY, RIGID, QUEUE = "test/gang", "test/priority", "test/rigid", "test/queue"
GPU = "nvidia.com/gpu"
RESOURCES = (GANG, PRIORITY, RIGID, QUEUE, GPU, SAVES)
N_OF_EACH = 2
# Which pods restart when a-0 fails, and the phases meanwhile.
SCOPES = {
    "Pod": (("a-0",), ("Restarting",)),
    "Replica": (("a-0", "a-1"), ("Terminating", "Restarting")),
    "All": (("a-0", "a-1", "b-0"), ("Terminating", "Restarting")),
}
RETRYABLE, OTHER = 137, 3
TIME_LIMIT_S = 5

# The first life asks for more memory than it may have.
GREEDY = f'[ "$TRAININGJOB_REPLICA_RESTARTCOUNT" = 0 ] && exec tail /dev/zero; {WAITS}'
SERVES = (
    f"while :; do nc -l -p {PORT} -e sh -c 'read who; echo \"$who met $TRAININGJOB_SERVICE\"'; done"
)
# Succeeds when every server of the other role has answered by the name it was found under.
ASKS = """for host in $(echo "$PSERVER_HOSTS" | tr , " "); do
  said=
  until [ -n "$said" ]; do
    sleep 0.5; said=$(echo "$TRAININGJOB_SERVICE" | nc -w 5 "${host%:*}" "${host#*:}")
  done
  echo "$said" | grep "$TRAININGJOB_SERVICE met ${host%:*}" || exit 1
done"""
FOLLOWS = f"""(while :; do
  now=$(wc -w < /members/a)
  [ "$now" = "$last" ] || echo "members $now"
  last=$now; sleep 0.5
done) & {WAITS}"""


def _follower(job_name: str) -> tuple[Body, Body]:
    volume = {"name": "members", "configMap": {"name": f"{job_name}-members"}}
    mount = {"name": "members", "mountPath": "/members"}
    return {"volumes": [volume]}, {"volumeMounts": [mount]}


def _two_roles(policy: str, scope: str) -> Body:
    roles = {"a": pods(2, restartPolicy=policy, restartScope=scope), "b": pods(1)}
    return job(roles, restartingExitCode=f"{RETRYABLE},128")


def _elastic() -> Body:
    pod, container = _follower("elastic")
    bounds: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 4}
    return job({"a": pods(2, script=FOLLOWS, pod=pod, container=container, **bounds)})


def _seed() -> Body:
    """The manifest that users of the older operator know, with a command that is here."""
    amounts = {"cpu": 1.0, "memory": "1.0Gi"}
    container = {
        "name": "aitj-trainer",
        "image": "localhost/busybox:1",
        "ports": [{"name": "aitj-24446", "containerPort": 24446}],
        "command": ["/bin/sh"],
        "args": ["-c", "echo trained"],
        "resources": {"limits": amounts, "requests": amounts},
    }
    template = {"spec": {"hostNetwork": True, "restartPolicy": "Never", "containers": [container]}}
    trainer = {
        "replicas": 1,
        "completePolicy": "All",
        "failPolicy": "Rank0",
        "restartLimit": 1,
        "restartPolicy": "OnNodeFailWithExitCode",
        "template": template,
    }
    return {
        "cleanPodPolicy": "All",
        "restartingExitCode": "137,128",
        "replicaSpecs": {"trainer": trainer},
    }


# fmt: off
SIMPLE = [
    scenario("paddle-mnist", _seed(), becomes("Succeed"), pods_are(),
          shows("times", lambda s: s.start_time and s.end_time)),
    scenario("discovery",
          job({"pserver": pods(2, script=SERVES, completePolicy="None"),
               "trainer": pods(2, script=ASKS)}, cleanPodPolicy="Running"),
          becomes("Succeed"), pods_are("trainer-0", "trainer-1"),
          log_of("trainer-1", "discovery-trainer-1.e2e met discovery-pserver-0.e2e",
                 "discovery-trainer-1.e2e met discovery-pserver-1.e2e")),
    scenario("elastic", _elastic(),
          runs(), log_of("a-0", "members 2"), scales("a", 4),
          pods_are("a-0", "a-1", "a-2", "a-3"), runs(), members_are({"a": 4}), group_asks_for(1),
          log_of("a-0", "members 2", "members 4"), log_of("a-3", "members 4"),
          scales("a", 1), pods_are("a-0"), log_of("a-0", "members 2", "members 4", "members 1"),
          stays("Running"), ends("a-0"), becomes("Succeed")),
    scenario("time-limit", job({"a": pods(2)}, timeLimit=TIME_LIMIT_S),
          runs(), becomes("Timeout"), says(f"{TIME_LIMIT_S}"), pods_are()),
    scenario("deletion", job({"a": pods(3)}), runs(), deletes_job(), nothing_is_left()),
    scenario("deletion-early", job({"a": pods(3)}),
          pods_are("a-0", "a-1", "a-2"), deletes_job(), nothing_is_left()),
    scenario("pod-gone", job({"a": pods(2, restartPolicy="OnFailure")}),
          runs(), somebody_deletes("a-1"), restarts("a-0", "a-1"), is_reported("PodGone")),
]

FAILING = [
    *[scenario(f"scope-{scope.lower()}", _two_roles("ExitCode", scope),
            runs(), ends("a-0", code=RETRYABLE), restarts(*restarted),
            went_through("Running", *phases, "Running"),
            ends("a-0", "a-1", "b-0"), becomes("Succeed"))
      for scope, (restarted, phases) in SCOPES.items()],
    scenario("exit-code-is-final", _two_roles("ExitCode", "Pod"),
          runs(), ends("a-1", code=OTHER), becomes("Failed"), says("a-1", f"{OTHER}"), pods_are()),
    scenario("exit-code-over-limit", job({"a": pods(1, restartPolicy="OnFailure", restartLimit=1)}),
          runs(), ends("a-0", code=OTHER), restarts("a-0"), ends("a-0", code=OTHER),
          becomes("Failed"), says("restartLimit 1 of a is used up")),
    scenario("out-of-memory",
          job({"a": pods(1, script=GREEDY, limits={"memory": "32Mi"}, restartPolicy="ExitCode"),
               "b": pods(1)}, restartingExitCode="137"),
          shows("restarted", lambda s: s.restart_counts == {"a": 1, "b": 1}),
          ever_showed("says why", lambda s: "OOMKilled" in s.message),
          runs(), ends("a-0", "b-0"), becomes("Succeed")),
    scenario("no-image", job({"a": pods(1), "b": pods(1, image="localhost/absent:1")}),
          shows("says why", lambda s: "ImagePull" in s.message),
          becomes("Failed"), shows("reason", lambda s: s.reason == "ContainerCreationFailed"),
          pods_are()),
    scenario("no-command", job({"a": pods(1, container={"command": ["/absent"]})}),
          becomes("Failed"), says("a-0")),
    scenario("gpu-fault",
          job({"a": pods(2, limits={GPU: "1"}, restartPolicy="OnNodeFail", restartScope="Pod")}),
          runs(), accelerator_breaks("a-1", "GPUUnhealthy"), is_reported("GPUFault"),
          ends("a-0", "a-1"), becomes("Succeed")),
]

ROOM = [
    scenario("gang", job({"a": pods(3, limits={GANG: "1"})}),
          runs(), runs_on_both_nodes("a"),
          another("second", job({"a": pods(2, limits={GANG: "1"})})),
          of("second", waits_whole("WaitingForRoom")),
          ends("a-0", "a-1", "a-2"), becomes("Succeed"),
          of("second", runs(), ends("a-0", "a-1"), becomes("Succeed"))),
    scenario("priority",
          job({"a": pods(4, limits={PRIORITY: "1"}, edlPolicy="Auto", minReplicas=2,
                         maxReplicas=4)}, priority="low", queue="ranked"),
          runs(), another("high", job({"a": pods(2, limits={PRIORITY: "1"})}, priority="high",
                                      queue="ranked")),
          of("high", runs()), pods_are("a-0", "a-1"), members_are({"a": 2}),
          shows("shrunk, not restarted", lambda s: (s.ready, s.restarts) == ("2/2", 0)),
          of("high", ends("a-0", "a-1"), becomes("Succeed")),
          pods_are("a-0", "a-1", "a-2", "a-3"), runs(), ends("a-0", "a-1", "a-2", "a-3"),
          becomes("Succeed")),
    scenario("priority-of-rigid",
          job({"a": pods(3, limits={RIGID: "1"}, restartPolicy="OnFailure")}, priority="low",
              queue="ranked"),
          runs(), another("high", job({"a": pods(3, limits={RIGID: "1"})}, priority="high",
                                      queue="ranked")),
          of("high", runs()), leaves_its_nodes(), of("high", stays("Running")),
          of("high", ends("a-0", "a-1", "a-2"), becomes("Succeed")),
          runs(anew=True), ends("a-0", "a-1", "a-2"), becomes("Succeed")),
    scenario("queue", job({"a": pods(2, limits={QUEUE: "1"})}, queue="narrow"),
          runs(), another("second", job({"a": pods(1, limits={QUEUE: "1"})}, queue="narrow")),
          another("wide", job({"a": pods(1, limits={QUEUE: "1"})}, queue="wide")),
          of("wide", runs()), of("second", waits_whole("QueueQuotaExceeded")),
          ends("a-0", "a-1"), becomes("Succeed"),
          of("second", runs())),
]
# fmt: on

STORIES: tuple[Scenario, ...] = (*SIMPLE, *FAILING, *ROOM, *LIVES)
PRIORITIES = {"low": 10, "high": 1000}
# Who preempts looks for victims in its own queue: the stories about nothing else are in another.
QUEUES: dict[str, Body] = {"narrow": {"capability": {QUEUE: "2"}}, "wide": {}, "ranked": {}}
