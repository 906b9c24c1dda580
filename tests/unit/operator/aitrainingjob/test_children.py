"""What is created for a job: group, members, pods, services, and what containers are told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api import codec
from swell.api.meta import Body
from swell.runtime.plan import PatchObject
from tests.unit.operator.scene import (
    Scene,
    a_job,
    a_role,
    body_of,
    created,
    recorded,
    reported,
    with_ports,
)


def env_of(scene: Scene, pod: str, container: int = 0) -> dict[str, str]:
    body = body_of(scene.look(), "pods", pod)
    return {e["name"]: e["value"] for e in body["spec"]["containers"][container]["env"]}


def born(roles: dict[str, Body] | None = None, **spec: object) -> Scene:
    """A job at its first look."""
    return Scene(a_job(roles, **spec))


# -- group -------------------------------------------------------------------------------------


def test_group_asks_for_the_minimum_of_elastic_and_all_of_rigid_roles() -> None:
    """minMember, minTaskMember and minResources follow the spec, never the target."""
    roles = {
        "ps": a_role(replicas=1),
        "worker": a_role(replicas=4, minReplicas=2, maxReplicas=8, edlPolicy="Auto"),
    }
    scene = born(roles, queue="night", priority="high")

    spec = body_of(scene.look(), "podgroups")["spec"]

    assert spec == {
        "minMember": 3,
        "minTaskMember": {"ps": 1, "worker": 2},
        "queue": "night",
        "minResources": {"cpu": "6", "memory": "3Gi"},
        "priorityClassName": "high",
    }
    assert scene.running().target("worker", 8).settle().group is not None
    assert scene.group is not None
    assert scene.group.spec.min_member == 3


def test_group_has_the_topology_of_the_job_and_of_its_roles() -> None:
    """Copied as it is; a role with one of its own is a sub-group of its minimum."""
    near = {"mode": "hard", "highestTierAllowed": 1}
    roles = {
        "ps": a_role(replicas=1),
        "worker": a_role(
            replicas=4, minReplicas=2, maxReplicas=8, edlPolicy="Auto", networkTopology=near
        ),
    }
    scene = born(roles, networkTopology={"mode": "hard", "highestTierName": "block"})

    spec = body_of(scene.look(), "podgroups")["spec"]

    assert spec["networkTopology"] == {"mode": "hard", "highestTierName": "block"}
    assert spec["subGroupPolicy"] == [
        {
            "name": "worker",
            "labelSelector": {"matchLabels": {"TrainingJobReplicaName": "worker"}},
            "subGroupSize": 2,
            "minSubGroups": 1,
            "networkTopology": near,
        }
    ]
    # What the server returns of it asks for no further write.
    later = scene.running().settle().look()
    assert not [a for a in later.each_action() if isinstance(a, PatchObject)]


def test_group_of_a_job_without_topology_does_not_mention_it() -> None:
    spec = body_of(born().look(), "podgroups")["spec"]

    assert not {"networkTopology", "subGroupPolicy"} & set(spec)


@pytest.mark.parametrize("end", ["succeeds", "fails"])
def test_group_no_longer_asks_for_pods_that_are_done(end: str) -> None:
    """Pods that ended for good need no room any more; those to be restarted do."""
    role = a_role(replicas=2, failPolicy="None")
    scene = born({"trainer": role}).running()
    getattr(scene, end)("fit-trainer-1")
    scene.after(10).settle()

    assert scene.group is not None
    assert scene.group.spec.min_member == 1
    assert scene.group.spec.min_resources == {"cpu": "2", "memory": "1Gi"}


def test_group_follows_the_spec() -> None:
    """A lower minimum is a lower bar."""
    role = a_role(replicas=4, minReplicas=3, maxReplicas=8, edlPolicy="Manual")
    scene = born({"trainer": role}).running().edit_role("trainer", minReplicas=1).settle()

    assert scene.group is not None
    assert scene.group.spec.min_task_member == {"trainer": 1}


@pytest.mark.parametrize("why", ["off", "not served"])
def test_no_group_where_gangs_are_off_or_not_served(why: str) -> None:
    """On without it; a cluster without the kind is a warning."""
    scene = Scene(a_job(), gang=why != "off")
    scene.gang_served = why != "not served"

    plan = scene.look()

    assert created(plan, "podgroups") == []
    assert created(plan) == ["fit-trainer-0", "fit-trainer-1"]
    assert ("GangNotServed" in reported(plan)) is (why == "not served")
    annotations = body_of(plan, "pods")["metadata"]["annotations"]
    assert "scheduling.k8s.io/group-name" not in annotations


# -- members -----------------------------------------------------------------------------------


def test_members_list_hosts_by_role_and_the_epoch() -> None:
    """One host[:port] a line; created before the pods."""
    roles = {"ps": with_ports(a_role(replicas=1)), "worker": a_role(replicas=2)}
    plan = born(roles).look()

    assert body_of(plan, "configmaps")["data"] == {
        "ps": "fit-ps-0.team\n",
        "worker": "fit-worker-0.team:2222\nfit-worker-1.team:2222\n",
        "epoch": "1",
    }
    order = [a.resource.plural for a in plan.each_action() if not getattr(a, "dry_run", False)]
    assert order.index("configmaps") < order.index("pods")


def test_members_edited_by_somebody_are_set_right() -> None:
    """The ConfigMap is ours."""
    scene = born().running()
    assert scene.members is not None
    scene.members = replace(scene.members, data={"trainer": "evil\n", "epoch": "1", "more": "x"})

    scene.settle()

    assert scene.members is not None
    assert len(scene.members.data["trainer"].splitlines()) == 2
    assert "more" not in scene.members.data


# -- pods --------------------------------------------------------------------------------------


def test_pod_has_our_marks_and_the_jobs_own_labels() -> None:
    """Ours win over the job's, and the job's over the template's."""
    role = a_role(replicas=1)
    role["template"]["metadata"] = {
        "labels": {"team": "template", "PodRole": "no"},
        "annotations": {"note": "x", "volcano.sh/task-spec": "no"},
    }
    scene = born({"trainer": role}, priority="high")
    marks = {"team": "red", "JobName": "no", "x": "y"}
    scene.job = replace(scene.job, metadata=replace(scene.job.metadata, labels=marks))

    meta = body_of(scene.look(), "pods")["metadata"]

    assert meta["name"] == "fit-trainer-0"
    assert meta["labels"] == {
        "GroupName": "elasticdeeplearning.ai",
        "TrainingJobName": "fit",
        "JobName": "fit",
        "PodRole": "trainer",
        "RestartCount": "0",
        "TrainingJobReplicaName": "trainer",
        "TrainingJobReplicaIndex": "0",
        "priority": "high",
        "team": "red",
        "x": "y",
    }
    assert meta["annotations"] == {
        "note": "x",
        "scheduling.k8s.io/group-name": "fit",
        "volcano.sh/task-spec": "trainer",
    }
    owner = meta["ownerReferences"]
    assert [(o["kind"], o["uid"], o["controller"]) for o in owner] == [
        ("AITrainingJob", "job-uid", True)
    ]


def test_template_is_changed_in_named_ways_only() -> None:
    """Everything else goes into the pod as it came."""
    role = a_role(replicas=1)
    spec = role["template"]["spec"]
    spec |= {"restartPolicy": "Always", "hostNetwork": True, "unheard": {"of": [1]}}
    spec["containers"][0]["command"] = ["sh"]

    made = body_of(born({"trainer": role}).look(), "pods")["spec"]

    assert made["restartPolicy"] == "Never"
    assert made["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert made["schedulerName"] == "swell"
    assert made["unheard"] == {"of": [1]}
    assert made["containers"][0]["command"] == ["sh"]
    assert set(made) == {*spec, "dnsPolicy", "schedulerName"}


def test_dns_policy_of_the_user_stays() -> None:
    """It is set only where there is none."""
    role = a_role(replicas=1)
    role["template"]["spec"] |= {"hostNetwork": True, "dnsPolicy": "Default"}

    assert body_of(born({"trainer": role}).look(), "pods")["spec"]["dnsPolicy"] == "Default"


def test_scheduler_name_of_the_job_wins() -> None:
    """The job's, else the template's, else the operator's default."""
    role = a_role(replicas=1)
    role["template"]["spec"]["schedulerName"] = "mine"

    assert body_of(born({"trainer": role}).look(), "pods")["spec"]["schedulerName"] == "mine"
    ours = born({"trainer": role}, schedulerName="volcano").look()
    assert body_of(ours, "pods")["spec"]["schedulerName"] == "volcano"


@pytest.mark.parametrize("found", [True, False])
def test_priority_class_is_used_if_it_exists(found: bool) -> None:
    """The label is always there; a missing class is a Warning event, not a stuck job."""
    scene = born(priority="high")
    scene.priority_class_found = found

    plan = scene.look()

    pod = body_of(plan, "pods")
    assert pod["metadata"]["labels"]["priority"] == "high"
    assert ("priorityClassName" in pod["spec"]) is found
    assert ("priorityClassName" in body_of(plan, "podgroups")["spec"]) is found
    assert ("PriorityClassMissing" in reported(plan)) is not found


def test_roles_with_capitals_are_lower_cased() -> None:
    """Names of pods must be DNS names."""
    scene = born({"Trainer": a_role(replicas=1)}).running()

    assert list(scene.pods) == ["fit-trainer-0"]
    assert scene.status.target_replicas == {"trainer": 1}


def test_first_pod_is_shown_to_the_server_before_any_is_created() -> None:
    """The API server's own opinion of it, by a dry run, once."""
    scene = born()
    pods = [a for a in scene.look().each_action() if a.resource.plural == "pods"]

    assert [getattr(a, "dry_run", False) for a in pods] == [True, False, False]
    assert pods[0].key == pods[1].key
    assert not any(getattr(a, "dry_run", False) for a in scene.settle().look().each_action())


# -- services ----------------------------------------------------------------------------------


def test_service_is_headless_and_selects_exactly_its_pod() -> None:
    """With the ports of containers like ours that are named like ours, each once."""
    role = with_ports(a_role(replicas=2), 1, 2)
    first = role["template"]["spec"]["containers"][0]
    first["ports"] += [{"name": "http", "containerPort": 80}]
    second = {"name": "aitj-two", "image": "x", "ports": [{"name": "aitj-1", "containerPort": 1}]}
    other = {"name": "web", "image": "x", "ports": [{"name": "aitj-9", "containerPort": 9}]}
    role["template"]["spec"]["containers"] += [second, other]

    made = body_of(born({"trainer": role}).look(), "services", "fit-trainer-1")

    assert made["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "ports": [{"name": "aitj-1", "port": 1}, {"name": "aitj-2", "port": 2}],
        "selector": {
            "GroupName": "elasticdeeplearning.ai",
            "TrainingJobName": "fit",
            "JobName": "fit",
            "PodRole": "trainer",
            "TrainingJobReplicaName": "trainer",
            "TrainingJobReplicaIndex": "1",
        },
    }


def test_service_without_ports_has_none() -> None:
    """A name is all it is then."""
    made = body_of(born({"trainer": with_ports(a_role(replicas=1))}).look(), "services")

    assert "ports" not in made["spec"]


def test_service_that_was_deleted_comes_back() -> None:
    """Pods are found by it."""
    scene = born().running()
    del scene.services["fit-trainer-1"]

    assert created(scene.look(), "services") == ["fit-trainer-1"]


# -- environment -------------------------------------------------------------------------------


def test_container_learns_who_it_is() -> None:
    """In every container and init container, before the user's own variables."""
    role = with_ports(a_role(replicas=2), 7, 8)
    role["template"]["spec"]["initContainers"] = [{"name": "init", "image": "x"}]
    role["template"]["spec"]["containers"][0]["env"] = [
        {"name": "TRAININGJOB_NAME", "value": "mine"}
    ]
    scene = born({"my-role": role})

    body = body_of(scene.look(), "pods", "fit-my-role-1")
    env = body["spec"]["containers"][0]["env"]
    values = {e["name"]: e["value"] for e in env[:-1]}

    assert env[-1] == {"name": "TRAININGJOB_NAME", "value": "mine"}
    assert values == {
        "TRAININGJOB_NAME": "fit",
        "TRAININGJOB_NAMESPACE": "team",
        "TRAININGJOB_REPLICA_NAME": "my-role",
        "TRAININGJOB_REPLICA_TYPE": "my-role",
        "TRAININGJOB_REPLICA_INDEX": "1",
        "TRAININGJOB_REPLICA_RESTARTCOUNT": "0",
        "TRAININGJOB_EPOCH": "1",
        "TRAININGJOB_SERVICE": "fit-my-role-1.team",
        "TRAININGJOB_PORTS": "7,8",
        "MY_ROLE_INSTANCES": "fit-my-role-0.team,fit-my-role-1.team",
        "MY_ROLE_INSTANCES_NUM": "2",
        "MY_ROLE_PORTS": "7,8",
        "MY_ROLE_PORTS_NUM": "2",
        "MY_ROLE_HOSTS": "fit-my-role-0.team:7,fit-my-role-0.team:8,"
        "fit-my-role-1.team:7,fit-my-role-1.team:8",
        "MY_ROLE_HOSTS_NUM": "4",
    }
    init = {e["name"]: e["value"] for e in body["spec"]["initContainers"][0]["env"]}
    assert init["TRAININGJOB_PORTS"] == ""
    assert init["MY_ROLE_HOSTS_NUM"] == "4"


def test_list_over_96_kib_is_left_out() -> None:
    """The members ConfigMap has it; the number is still told."""
    scene = born({"trainer": a_role(replicas=6000)})

    env = env_of(scene, "fit-trainer-0")

    assert "TRAINER_INSTANCES" not in env
    assert "TRAINER_HOSTS" not in env
    assert env["TRAINER_INSTANCES_NUM"] == "6000"


def test_pytorch_variables() -> None:
    """The master is pod 0 of role master; ranks count over roles in that order."""
    roles = {"aux": a_role(replicas=2), "master": with_ports(a_role(replicas=1), 23456)}
    env = env_of(born(roles, frameworkType="pytorch"), "fit-aux-1")

    assert env["MASTER_ADDR"] == "fit-master-0.team"
    assert env["MASTER_PORT"] == "23456"
    assert (env["WORLD_SIZE"], env["RANK"]) == ("3", "2")
    assert env["PET_NNODES"] == "3"
    assert env["PET_NODE_RANK"] == "2"


def test_pytorch_elastic_bounds() -> None:
    """PET_NNODES is min:max when elastic; the port is 29500 where there is none."""
    role = with_ports(a_role(replicas=2, minReplicas=1, maxReplicas=4, edlPolicy="Auto"))
    env = env_of(born({"trainer": role}, frameworkType="PyTorch"), "fit-trainer-1")

    assert env["PET_NNODES"] == "1:4"
    assert env["PET_RDZV_BACKEND"] == "c10d"
    assert env["MASTER_PORT"] == "29500"


def test_torchrun_keeps_its_store_in_pod_0_and_waits_for_seconds() -> None:
    """Only where it is elastic: a static group meets once."""
    role = a_role(replicas=2, minReplicas=1, maxReplicas=4, edlPolicy="Auto")
    scene = born({"trainer": role}, frameworkType="pytorch")
    first, second = (env_of(scene, f"fit-trainer-{i}")["PET_RDZV_CONF"] for i in range(2))
    rules = dict(rule.split("=") for rule in first.split(","))

    assert rules.pop("is_host") == "1"
    assert second == first.replace("is_host=1", "is_host=0")
    assert float(rules["last_call_timeout"]) <= 5
    lost_s = float(rules["keep_alive_interval"]) * float(rules["keep_alive_max_attempt"])
    assert lost_s <= 5
    fixed = born({"trainer": a_role(replicas=2)}, frameworkType="pytorch")
    assert "PET_RDZV_CONF" not in env_of(fixed, "fit-trainer-0")


def test_role_master_keeps_the_store_of_all_agents() -> None:
    """So that it may be a pod in which nothing else runs (docs/launch.md)."""
    trainers = a_role(replicas=2, minReplicas=1, maxReplicas=4, edlPolicy="Auto")
    roles = {"master": with_ports(a_role(replicas=1), 23456), "trainer": trainers}
    scene = born(roles, frameworkType="pytorch")
    pods = ("fit-master-0", "fit-trainer-0", "fit-trainer-1")
    found = [env_of(scene, pod) for pod in pods]

    assert {env["PET_RDZV_ENDPOINT"] for env in found} == {"fit-master-0.team:23456"}
    hosts = [env["PET_RDZV_CONF"].split(",")[0] for env in found]
    assert hosts == ["is_host=1", "is_host=0", "is_host=0"]


def test_torchrun_does_not_share_its_store() -> None:
    """A shared store makes every agent crash after a resize; a user's own value comes last."""
    own = {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "0"}
    role = a_role(replicas=1)
    role["template"]["spec"]["containers"][0]["env"] = [own]
    body = body_of(born({"trainer": role}, frameworkType="pytorch").look(), "pods", "fit-trainer-0")
    held = [e for e in body["spec"]["containers"][0]["env"] if e["name"] == own["name"]]

    assert held == [{**own, "value": "1"}, own]
    assert own["name"] not in env_of(born({"trainer": a_role()}), "fit-trainer-0")


def test_tensorflow_variables() -> None:
    """TF_CONFIG names the cluster and the task."""
    roles = {"chief": a_role(replicas=1), "ps": a_role(replicas=1)}
    env = env_of(born(roles, frameworkType="tensorflow"), "fit-ps-0")

    assert codec.decode(env["TF_CONFIG"].encode(), dict) == {
        "cluster": {"chief": ["fit-chief-0.team:2222"], "ps": ["fit-ps-0.team:2222"]},
        "task": {"type": "ps", "index": 0},
    }


def test_paddlepaddle_variables() -> None:
    """Trainers, and parameter servers when there are any."""
    roles = {"pserver": a_role(replicas=1), "trainer": a_role(replicas=2)}
    env = env_of(born(roles, frameworkType="paddlepaddle"), "fit-trainer-1")

    assert env["PADDLE_TRAINER_ID"] == "1"
    assert env["PADDLE_TRAINERS_NUM"] == "2"
    assert env["PADDLE_TRAINER_ENDPOINTS"] == "fit-trainer-0.team:2222,fit-trainer-1.team:2222"
    assert env["PADDLE_CURRENT_ENDPOINT"] == "fit-trainer-1.team:2222"
    assert env["PADDLE_PSERVERS_IP_PORT_LIST"] == "fit-pserver-0.team:2222"
    assert env["TRAINING_ROLE"] == "TRAINER"
    alone = env_of(born({"trainer": a_role()}, frameworkType="paddlepaddle"), "fit-trainer-0")
    assert "TRAINING_ROLE" not in alone


def test_jax_variables() -> None:
    """Coordinator address, process count and id; chief leads where there is no master."""
    roles = {"a": a_role(replicas=1), "chief": a_role(replicas=1)}
    env = env_of(born(roles, frameworkType="jax"), "fit-a-0")

    assert env["JAX_COORDINATOR_ADDRESS"] == "fit-chief-0.team:2222"
    assert (env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"]) == ("2", "1")


@pytest.mark.parametrize("framework", ["", "python", "mxnet"])
def test_other_frameworks_get_nothing_more(framework: str) -> None:
    """Free text is allowed and means nothing to us."""
    env = env_of(born({"trainer": a_role()}, frameworkType=framework), "fit-trainer-0")

    assert all(name.startswith(("TRAININGJOB_", "TRAINER_")) for name in env)


def test_refused_object_is_reported() -> None:
    """What the API server has against an object of the job is the job's reason and message."""
    scene = born().settle()
    scene.refused = "Pod fit-trainer-0: no such volume"

    status = recorded(scene.look())

    assert status["reason"] == "ObjectRefused"
    assert "no such volume" in status["message"]


def test_pods_wait_after_one_was_refused() -> None:
    """Nothing is written for them meanwhile: what the job itself writes would wake it again."""
    scene = Scene(a_job({"trainer": a_role(replicas=2)}, reporting=True)).settle()
    scene.goes("fit-trainer-1")
    scene.refused, scene.no_pods_before = "Pod fit-trainer-1: exceeded quota", scene.now + 4
    scene.settle()

    assert created(scene.look()) == []
    assert scene.look().wake_at == scene.now + 4
    assert created(scene.after(4).look()) == ["fit-trainer-1"]


def test_clock_that_was_set_back_holds_no_pods() -> None:
    """No refusal lasts for an hour."""
    scene = Scene(a_job({"trainer": a_role(replicas=1)})).settle()
    scene.goes("fit-trainer-0")
    scene.no_pods_before = scene.now + 3600

    assert created(scene.settle().look()) == []
    assert "fit-trainer-0" in scene.pods


def test_type_of_a_role_is_told_to_its_pods() -> None:
    """Where the spec gives one; the name of the role is another variable."""
    scene = Scene(a_job({"trainer": a_role(replicas=1, replicaType="worker")}))
    env = body_of(scene.look(), "pods", "fit-trainer-0")["spec"]["containers"][0]["env"]
    values = {one["name"]: one.get("value") for one in env}

    assert values["TRAININGJOB_REPLICA_TYPE"] == "worker"
    assert values["TRAININGJOB_REPLICA_NAME"] == "trainer"
