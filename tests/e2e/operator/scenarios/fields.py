"""What the fields of a spec come to in the objects of a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from swell.api.kinds import POD_GROUPS, PODS, SERVICES
from swell.api.meta import Body
from tests.e2e.operator.actions import deletes_job, ends, labels_job
from tests.e2e.operator.checks import (
    becomes,
    group_asks_for,
    has,
    is_reported,
    nothing_is_left,
    pods_are,
    restarts,
    runs,
    says,
)
from tests.e2e.operator.jobs import PRIORITY, PRIORITY_CLASS, job, pods
from tests.e2e.operator.scenario import Scenario, Step, Trial, scenario

Look = Callable[[Body, Trial], None]


def _with(role: Body, **container: object) -> Body:
    """The role with other fields of its container; those that are None are left out."""
    template = role["template"]
    (own,) = template["spec"]["containers"]
    changed = {k: v for k, v in {**own, **container}.items() if v is not None}
    return {**role, "template": {**template, "spec": {**template["spec"], "containers": [changed]}}}


def _unsized(role: Body) -> Body:
    return {name: value for name, value in role.items() if name != "replicas"}


def _asks(requests: Body, limits: Body) -> Body:
    return _with(pods(1), resources={"requests": requests, "limits": limits})


def variables(pod: str, **expected: str) -> Step:
    """The container's variables; `{}` in a value stands for the job, `{ns}` for its namespace."""

    def holds(body: Body, trial: Trial) -> None:
        env = _env(body)
        filled = {
            name: value.replace("{}", trial.name).replace("{ns}", trial.key.namespace)
            for name, value in expected.items()
        }

        assert {name: env.get(name) for name in filled} == filled

    return has(PODS, f"-{pod}", holds)


def _env(pod: Body) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}


def _tf_config(pod: Body, trial: Trial) -> None:
    config = json.loads(_env(pod)["TF_CONFIG"])
    hosts = [f"{trial.name}-worker-{n}.{trial.key.namespace}:2222" for n in range(2)]

    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"]["worker"] == hosts


def _is(path: str, value: object) -> Look:
    """A field, by its path, has a value."""

    def holds(body: Body, _: Trial) -> None:
        found: object = body
        for step in path.split("."):
            assert isinstance(found, Mapping)
            found = found.get(step)

        assert found == value

    return holds


def _theirs_come_last(pod: Body, _: Trial) -> None:
    names = [one["name"] for one in pod["spec"]["containers"][0]["env"]]

    assert names[-2:] == ["WHERE", "TRAININGJOB_NAME"]
    assert {"A_HOSTS", "TRAININGJOB_NAME"} <= set(names[:-2])


# fmt: off
FRAMEWORKS = [
    scenario("pytorch", job({"master": pods(1), "worker": pods(2)}, frameworkType="pytorch"),
          runs(), variables("worker-1", MASTER_ADDR="{}-master-0.{ns}", MASTER_PORT="2222",
                            WORLD_SIZE="3", RANK="2", PET_NNODES="3", PET_NODE_RANK="2")),
    scenario("pytorch-elastic",
          job({"worker": pods(2, edlPolicy="Auto", minReplicas=1, maxReplicas=4)},
              frameworkType="pytorch"),
          runs(), variables("worker-1", MASTER_ADDR="{}-worker-0.{ns}", PET_NNODES="1:4")),
    scenario("tensorflow", job({"chief": pods(1), "worker": pods(2)}, frameworkType="tensorflow"),
          runs(), has(PODS, "-worker-1", _tf_config)),
    scenario("paddle", job({"pserver": pods(1), "trainer": pods(2)}, frameworkType="paddlepaddle"),
          runs(), variables("trainer-1", PADDLE_TRAINER_ID="1", PADDLE_TRAINERS_NUM="2",
                            PADDLE_CURRENT_ENDPOINT="{}-trainer-1.{ns}:2222",
                            PADDLE_PSERVERS_IP_PORT_LIST="{}-pserver-0.{ns}:2222",
                            TRAINING_ROLE="TRAINER"),
          variables("pserver-0", TRAINING_ROLE="PSERVER")),
    scenario("jax", job({"worker": pods(2)}, frameworkType="jax"),
          runs(), variables("worker-1", JAX_COORDINATOR_ADDRESS="{}-worker-0.{ns}:2222",
                            JAX_NUM_PROCESSES="2", JAX_PROCESS_ID="1")),
]

SCHEDULING = [
    scenario("priority-class", job({"a": pods(1)}, priority=PRIORITY_CLASS),
          runs(), has(PODS, "-a-0", _is("spec.priorityClassName", PRIORITY_CLASS)),
          has(PODS, "-a-0", _is("spec.priority", PRIORITY)),
          has(PODS, "-a-0", _is("metadata.labels.priority", PRIORITY_CLASS)),
          has(POD_GROUPS, "", _is("spec.priorityClassName", PRIORITY_CLASS))),
    scenario("priority-class-missing", job({"a": pods(1)}, priority="nowhere"),
          is_reported("PriorityClassMissing"), runs(),
          has(PODS, "-a-0", _is("metadata.labels.priority", "nowhere")),
          has(PODS, "-a-0", _is("spec.priority", 0)), ends("a-0"), becomes("Succeed")),
    scenario("queue-and-scheduler", job({"a": pods(1)}, queue="another", schedulerName="nobody"),
          becomes("Pending"), pods_are("a-0"),
          has(POD_GROUPS, "", _is("spec.queue", "another")),
          has(PODS, "-a-0", _is("spec.schedulerName", "nobody"))),
    scenario("sizes-by-default",
          job({"a": _unsized(pods(1, minReplicas=2, maxReplicas=3)), "b": _unsized(pods(1))},
              faultTolerant=True),
          runs(), pods_are("a-0", "a-1", "b-0"), group_asks_for(3)),
    scenario("rigid-within-bounds", job({"a": pods(2, minReplicas=1, maxReplicas=3)}),
          runs(), pods_are("a-0", "a-1"), group_asks_for(2)),
]

PODS_OF_A_JOB = [
    scenario("labels-of-the-job", job({"a": pods(1, restartPolicy="Always")}),
          runs(), labels_job({"team": "blue", "PodRole": "mine"}),
          ends("a-0", code=1), restarts("a-0"),
          has(PODS, "-a-0", _is("metadata.labels.team", "blue")),
          has(PODS, "-a-0", _is("metadata.labels.PodRole", "a")),
          has(PODS, "-a-0", _is("metadata.labels.RestartCount", "1"))),
    scenario("variables-of-the-user",
          job({"a": _with(pods(1), env=[{"name": "WHERE", "value": "$(A_HOSTS)"},
                                        {"name": "TRAININGJOB_NAME", "value": "mine"}])}),
          runs(), has(PODS, "-a-0", _theirs_come_last)),
    scenario("no-ports", job({"a": _with(pods(1), ports=None)}),
          runs(), has(SERVICES, "-a-0", _is("spec.ports", None)), ends("a-0"), becomes("Succeed")),
]

# What no schema can say: the operator says it, and makes nothing.
INVALID = [
    scenario("invalid-in-two-roles",
          job({"a": _asks({"cpu": "2"}, {"cpu": "1"}), "b": _asks({"cpu": "many"}, {})}),
          becomes("Failed"), says("spec.replicaSpecs.a", "spec.replicaSpecs.b", "many"),
          pods_are(), deletes_job(), nothing_is_left()),
]
# fmt: on

SCENARIOS: tuple[Scenario, ...] = (*FRAMEWORKS, *SCHEDULING, *PODS_OF_A_JOB, *INVALID)
