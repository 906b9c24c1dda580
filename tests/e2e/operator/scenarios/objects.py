"""What a job consists of, and what is said when it cannot be had."""

from __future__ import annotations

from swell.api.kinds import CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from swell.api.meta import Body
from tests.e2e.operator.actions import deletes_job, ends
from tests.e2e.operator.checks import (
    becomes,
    has,
    nothing_is_left,
    pods_are,
    restarts,
    runs,
    says,
    shows,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import STRICT, Scenario, Trial, scenario

# The example that the first users of AITrainingJobs know, with its command left out.
MNIST: Body = {
    "cleanPodPolicy": "All",
    "restartingExitCode": "137,128",
    "replicaSpecs": {
        "trainer": {
            "replicas": 1,
            "completePolicy": "All",
            "failPolicy": "Rank0",
            "restartLimit": 1,
            "restartPolicy": "OnNodeFailWithExitCode",
            "template": {
                "spec": {
                    "hostNetwork": True,
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "aitj-trainer",
                            "image": "images.example/paddlepaddle/book",
                            "ports": [{"name": "aitj-24446", "containerPort": 24446}],
                            "command": ["/bin/bash"],
                            "args": ["-c", "python /book/02.recognize_digits/train.py"],
                            "resources": {
                                "limits": {"cpu": 1.0, "memory": "1.0Gi"},
                                "requests": {"cpu": 1.0, "memory": "1.0Gi"},
                            },
                        }
                    ],
                }
            },
        }
    },
}
REFUSED_BY_THE_SERVER = pods(1)
REFUSED_BY_THE_SERVER["template"]["spec"]["priorityClassName"] = "nowhere"


def _group(group: Body, _: Trial) -> None:
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minTaskMember"] == {"a": 2, "b": 1}
    assert group["spec"]["queue"] == "default"


def _members(held: Body, trial: Trial) -> None:
    hosts = [f"{trial.name}-a-{n}.{trial.key.namespace}:2222\n" for n in range(2)]

    assert held["data"]["a"] == "".join(hosts)
    assert held["data"]["epoch"] == "1"


def _service(service: Body, trial: Trial) -> None:
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert [port["port"] for port in service["spec"]["ports"]] == [2222]


def _pod(pod: Body, trial: Trial) -> None:
    env = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    name, namespace = trial.name, trial.key.namespace

    assert labels["GroupName"] == "elasticdeeplearning.ai"
    assert (labels["TrainingJobName"], labels["JobName"]) == (name, name)
    assert (labels["PodRole"], labels["RestartCount"]) == ("a", "0")
    assert (labels["TrainingJobReplicaName"], labels["TrainingJobReplicaIndex"]) == ("a", "1")
    assert annotations["scheduling.k8s.io/group-name"] == name
    assert annotations["volcano.sh/task-spec"] == "a"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["schedulerName"] == "swell"
    assert env["TRAININGJOB_NAME"] == name
    assert env["TRAININGJOB_REPLICA_INDEX"] == "1"
    assert env["TRAININGJOB_SERVICE"] == f"{name}-a-1.{namespace}"
    assert env["A_INSTANCES"] == f"{name}-a-0.{namespace},{name}-a-1.{namespace}"
    assert env["B_HOSTS"] == f"{name}-b-0.{namespace}:2222"


def _host_network(pod: Body, _: Trial) -> None:
    assert pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def _no_group(pod: Body, _: Trial) -> None:
    assert "scheduling.k8s.io/group-name" not in pod["metadata"]["annotations"]


# fmt: off
SCENARIOS: tuple[Scenario, ...] = (
    scenario("objects", job({"a": pods(2), "b": pods(1)}),
          runs(), has(POD_GROUPS, "", _group), has(CONFIG_MAPS, "-members", _members),
          has(SERVICES, "-a-1", _service), has(PODS, "-a-1", _pod)),
    scenario("paddle-mnist", MNIST,
          runs(), has(PODS, "-trainer-0", _host_network), ends("trainer-0", code=137),
          restarts("trainer-0"), ends("trainer-0"), becomes("Succeed"), pods_are()),
    scenario("role-in-capitals",
          job({"Trainer": pods(1, restartPolicy="ExitCode")}, restartingExitCode=137),
          runs(), ends("trainer-0", code=137), restarts("trainer-0"), ends("trainer-0"),
          becomes("Succeed"), says("completed: trainer")),
    scenario("without-gangs", job({"a": pods(1)}),
          runs(), has(PODS, "-a-0", _no_group), ends("a-0"), becomes("Succeed"),
          namespace=STRICT),
    scenario("pod-refused", job({"a": REFUSED_BY_THE_SERVER}),
          shows("the reason", lambda s: s.reason == "ObjectRefused"), says("nowhere"),
          deletes_job(), nothing_is_left()),
    scenario("conditions", job({"a": pods(1)}),
          runs(),
          shows("Ready", lambda s: {"Running": "True", "Ready": "True", "Scheduled": "True"}.items()
                <= {c.type: c.status for c in s.conditions}.items()),
          ends("a-0"), becomes("Succeed"),
          shows("Completed", lambda s: {"Running": "False", "Ready": "False", "Succeed": "True",
                                        "Completed": "True"}.items()
                <= {c.type: c.status for c in s.conditions}.items())),
)
# fmt: on
