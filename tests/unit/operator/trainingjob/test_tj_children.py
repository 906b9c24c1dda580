"""The objects a TrainingJob is made of: when there is which, and what it says."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.meta import Body
from swell.operator.framework.children import GANG_ANNOTATION
from swell.operator.trainingjob.settings import TrainingJobSettings
from tests.unit.operator.trainingjob.tj_scene import UID, Scene, a_job, created, elastic, reported

MASTER, PSERVER, TRAINER = "ReplicaSet fit-master", "ReplicaSet fit-pserver", "Job fit-trainer"


def made(scene: Scene) -> dict[str, Body]:
    return created(scene.look())


def pod_spec(body: Body) -> Body:
    spec: Body = body["spec"]["template"]["spec"]
    return spec


def container(body: Body, number: int = 0) -> Body:
    found: Body = pod_spec(body)["containers"][number]
    return found


def env(body: Body) -> dict[str, str]:
    return {v["name"]: v.get("value", "") for v in container(body)["env"]}


@pytest.mark.parametrize(
    ("spec", "workloads"),
    [
        ({}, {PSERVER, TRAINER}),
        ({"fault_tolerant": True}, {MASTER, PSERVER, TRAINER}),
        ({"local_job": True}, {TRAINER}),
        ({"is_nccl": True}, {TRAINER}),
        ({"frame_work": {"type": "local"}}, {TRAINER}),
        ({"frame_work": {"type": "nccl2"}}, {TRAINER}),
        ({"frame_work": {"type": "nccl2"}, "fault_tolerant": True}, {MASTER, TRAINER}),
        ({"frame_work": {"type": "multi"}}, {PSERVER, TRAINER}),
        ({"frame_work": {"name": "tensorflow", "type": "multi"}}, {PSERVER, TRAINER}),
    ],
)
def test_roles_follow_the_spec(spec: Body, workloads: set[str]) -> None:
    """Master when fault tolerant; pserver without framework, local and nccl, or multi; trainer."""
    found = made(Scene(a_job(**spec))).keys() - {"ConfigMap fit-addresses"}

    assert found == workloads | {"PodGroup fit"}


def test_master_has_one_replica_with_etcd() -> None:
    """One replica: a master on 8080, and an etcd of the chosen image on 2379."""
    body = made(
        Scene(a_job(fault_tolerant=True), settings=TrainingJobSettings(etcd_image="etcd:x"))
    )[MASTER]
    master, etcd = pod_spec(body)["containers"]

    assert body["apiVersion"] == "apps/v1"
    assert body["spec"]["replicas"] == 1
    assert [p["containerPort"] for p in master["ports"]] == [8080]
    assert [p["containerPort"] for p in etcd["ports"]] == [2379]
    assert etcd["image"] == "etcd:x"
    assert master["command"] == ["paddle_k8s", "start_new_master"]


def test_master_with_its_own_etcd_gets_none() -> None:
    """No etcd container when an endpoint is given; the master is told of it."""
    job = a_job(fault_tolerant=True, master={"etcd-endpoint": "http://etcd:2379"})
    body = made(Scene(job))[MASTER]

    assert [c["name"] for c in pod_spec(body)["containers"]] == ["master"]
    assert env(body)["ETCD_ENDPOINT"] == "http://etcd:2379"


def test_pserver_has_its_minimum_and_ports() -> None:
    """min-instance replicas; ports from `port` on, ports_num + ports_num_for_sparse of them."""
    job = a_job(pserver={"min-instance": 3}, port=7000, ports_num=2, ports_num_for_sparse=1)
    body = made(Scene(job))[PSERVER]

    assert body["spec"]["replicas"] == 3
    assert container(body)["ports"] == [
        {"name": f"jobport-{n}", "containerPort": n} for n in (7000, 7001, 7002)
    ]
    assert container(body)["command"] == ["paddle_k8s", "start_pserver"]
    assert pod_spec(body)["restartPolicy"] == "Always"


def test_trainer_is_an_indexed_job() -> None:
    """parallelism = completions = target, Indexed, never restarted in place."""
    body = made(Scene(a_job()))[TRAINER]
    spec = body["spec"]

    assert body["apiVersion"] == "batch/v1"
    assert (spec["parallelism"], spec["completions"], spec["completionMode"]) == (2, 2, "Indexed")
    assert pod_spec(body)["restartPolicy"] == "Never"
    assert "ports" not in container(body)


@pytest.mark.parametrize("tolerant", [False, True])
def test_trainer_failures_are_limited(tolerant: bool) -> None:
    """Fault tolerant: so many for each index; otherwise none. A disruption is never one."""
    settings = TrainingJobSettings(restart_limit=7)
    spec = made(Scene(a_job(fault_tolerant=tolerant), settings=settings))[TRAINER]["spec"]

    assert spec.get("backoffLimitPerIndex") == (7 if tolerant else None)
    assert spec.get("backoffLimit") == (None if tolerant else 0)
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["podFailurePolicy"]["rules"] == [
        {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"is_nccl": True},
        {"frame_work": {"type": "nccl2"}},
        {"frame_work": {"name": "tensorflow", "type": "multi"}},
    ],
)
def test_trainers_that_talk_have_ports(spec: Body) -> None:
    """Ports for trainers when nccl2, is_nccl or tensorflow multi."""
    body = made(Scene(a_job(trainer_port=9000, trainer_ports_num=2, **spec)))[TRAINER]

    assert [p["containerPort"] for p in container(body)["ports"]] == [9000, 9001]


def test_local_job_has_one_trainer() -> None:
    """Local jobs are forced to one trainer."""
    body = made(Scene(a_job(local_job=True, trainer={"min-instance": 5})))[TRAINER]

    assert body["spec"]["completions"] == 1


@pytest.mark.parametrize(
    ("name", "label"),
    [(MASTER, "paddle-job-master"), (PSERVER, "paddle-job-pserver"), (TRAINER, "paddle-job")],
)
def test_workload_is_known_by_role_and_uid(name: str, label: str) -> None:
    """The selector is the role's label and the job's UID; pods carry both; the job is the owner."""
    body = made(Scene(a_job(fault_tolerant=True)))[name]
    (owner,) = body["metadata"]["ownerReferences"]
    selector = {label: "fit", "paddle-job-uid": UID}

    assert body["spec"]["selector"]["matchLabels"] == selector
    assert selector.items() <= body["spec"]["template"]["metadata"]["labels"].items()
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainingJob", UID, True)


def test_group_needs_every_minimum() -> None:
    """One PodGroup of all roles' minimum, whatever the target is."""
    scene = Scene(elastic(2, 6, pserver={"min-instance": 3})).targets(5)
    body = made(scene)["PodGroup fit"]

    assert body["spec"]["minMember"] == 1 + 3 + 2
    assert made(scene)[TRAINER]["spec"]["completions"] == 5


def test_group_of_others_is_joined() -> None:
    """With podGroupName nothing is created; pods name that group."""
    bodies = made(Scene(a_job(podGroupName="all")))

    assert "PodGroup fit" not in bodies
    assert _group(bodies) == "all"


@pytest.mark.parametrize(
    ("settings", "served"),
    [(TrainingJobSettings(gang=False), True), (TrainingJobSettings(), False)],
)
def test_group_only_with_gang_scheduling(settings: TrainingJobSettings, served: bool) -> None:
    """Without gangs, or without the kind, there is no group and no pod names one."""
    scene = Scene(a_job(), settings=settings, gang_served=served)
    bodies = made(scene)

    assert "PodGroup fit" not in bodies
    assert _group(bodies) is None
    assert ("GangNotServed" in reported(scene.look())) == settings.gang


def test_entrypoint_is_split_into_words() -> None:
    """Quotes hold words together."""
    body = made(Scene(a_job(trainer={"entrypoint": "python 'my train.py' --fast"})))[TRAINER]

    assert container(body)["command"] == ["python", "my train.py", "--fast"]


@pytest.mark.parametrize(("tolerant", "verb"), [(False, "start"), (True, "start_new")])
def test_command_without_an_entrypoint(tolerant: bool, verb: str) -> None:
    """paddle_k8s starts the role, as a new one when fault tolerant."""
    bodies = made(Scene(a_job(fault_tolerant=tolerant)))

    assert container(bodies[TRAINER])["command"] == ["paddle_k8s", f"{verb}_trainer"]
    assert container(bodies[PSERVER])["command"] == ["paddle_k8s", f"{verb}_pserver"]


def test_environment_tells_the_job() -> None:
    """Every variable of the list, with its value."""
    trainer = {
        "min-instance": 2,
        "entrypoint": "python t.py",
        "workspace": "/root",
        "resources": {"limits": {"cpu": "2500m"}},
        "envs": {"MINE": "1", "NAMESPACE": "other"},
    }
    job = a_job(trainer=trainer, pserver={"min-instance": 3}, passes=50, port=7000, ports_num=2)
    found = env(made(Scene(job))[TRAINER])

    assert found == {
        "PADDLE_JOB_NAME": "fit",
        "TRAINERS": "2",
        "PSERVERS": "3",
        "ENTRY": "python t.py",
        "TOPOLOGY": "python t.py",
        "TRAINER_PACKAGE": "/root",
        "PADDLE_INIT_PORT": "7000",
        "PADDLE_INIT_TRAINER_COUNT": "2",
        "PADDLE_INIT_PORTS_NUM": "2",
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
        "PADDLE_INIT_NUM_PASSES": "50",
        "PADDLE_INIT_USE_GPU": "0",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/usr/local/nvidia/lib64",
        "NAMESPACE": "other",
        "POD_IP": "",
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_PORT": "7000",
        "PADDLE_CURRENT_ENDPOINT": "$(POD_IP):$(PADDLE_PORT)",
        "PADDLE_TRAINER_ID": "",
        "PADDLE_TRAINERS_NUM": "",
        "PADDLE_PSERVERS_IP_PORT_LIST": "",
        "PADDLE_TRAINER_ENDPOINTS": "",
        "MINE": "1",
    }


def test_each_process_of_paddle_is_told_its_part() -> None:
    """Its role maker takes a pserver for one by these, and finds it in the list by its port."""
    role = {"min-instance": 2}
    bodies = made(Scene(a_job(trainer=role, pserver=role, port=7000, trainer_port=7100)))
    names = ("TRAINING_ROLE", "PADDLE_PORT")
    found = [tuple(env(bodies[role])[name] for name in names) for role in (TRAINER, PSERVER)]

    assert found == [("TRAINER", "7100"), ("PSERVER", "7000")]
    assert "PADDLE_TRAINER_ID" not in env(bodies[PSERVER])


@pytest.mark.parametrize(
    ("limits", "count", "gpu"),
    [
        ({"nvidia.com/gpu": "4", "cpu": "8"}, "4", "1"),
        ({"cpu": "3900m"}, "3", "0"),
        ({"cpu": "200m"}, "1", "0"),
        ({}, "1", "0"),
    ],
)
def test_trainer_count_is_gpus_or_cpus(limits: Body, count: str, gpu: str) -> None:
    """GPUs of a trainer, else whole CPUs, at least one."""
    found = env(made(Scene(a_job(trainer={"resources": {"limits": limits}})))[TRAINER])

    assert (found["PADDLE_INIT_TRAINER_COUNT"], found["PADDLE_INIT_USE_GPU"]) == (count, gpu)


@pytest.mark.parametrize(
    ("role", "has_hook"),
    [
        ({"pre_stop_cmd": ["save"], "grace_period_seconds": 60}, True),
        ({"pre_stop_cmd": ["save"]}, False),
        ({"grace_period_seconds": 60}, False),
    ],
)
def test_pre_stop_needs_command_and_grace(role: Body, has_hook: bool) -> None:
    """The hook is there when both it and a grace period are given."""
    body = made(Scene(a_job(trainer=role)))[TRAINER]

    assert ("lifecycle" in container(body)) == has_hook
    grace = pod_spec(body).get("terminationGracePeriodSeconds")
    assert grace == role.get("grace_period_seconds")


def test_each_role_has_its_own_placement() -> None:
    """Tolerations, selectors, probes and secrets are each role's own."""
    own = {
        "tolerations": [{"key": "gpu"}],
        "node_selector": {"disk": "ssd"},
        "liveness_probe": {"tcpSocket": {"port": 1}},
        "readiness_probe": {"tcpSocket": {"port": 2}},
        "imagePullSecrets": [{"name": "s"}],
    }
    bodies = made(Scene(a_job(pserver=own)))
    spec = pod_spec(bodies[PSERVER])

    assert spec["tolerations"] == own["tolerations"]
    assert spec["nodeSelector"] == own["node_selector"]
    assert spec["imagePullSecrets"] == own["imagePullSecrets"]
    assert container(bodies[PSERVER])["livenessProbe"] == own["liveness_probe"]
    assert container(bodies[PSERVER])["readinessProbe"] == own["readiness_probe"]
    assert not {"tolerations", "nodeSelector"} & pod_spec(bodies[TRAINER]).keys()


def test_whole_job_settings_reach_every_pod() -> None:
    """Host network, scheduler, volumes, priority and users are the job's."""
    job = a_job(
        host_network=True,
        schedulerName="mine",
        volumes=[{"name": "data"}],
        VolumeMounts=[{"name": "data", "mountPath": "/data"}],
        nfsmount="files:/all",
        mountpath="/mnt",
        annotations={"priority": "high", "userid": "u1", "usergroupid": "g1"},
    )
    body = made(Scene(job))[TRAINER]
    spec, notes = pod_spec(body), body["spec"]["template"]["metadata"]["annotations"]

    assert spec["hostNetwork"] is True
    assert spec["schedulerName"] == "mine"
    assert spec["priorityClassName"] == "high"
    assert spec["volumes"][1]["nfs"] == {"server": "files", "path": "/all"}
    assert [m["mountPath"] for m in container(body)["volumeMounts"]] == ["/data", "/mnt"]
    assert {"u1", "g1"} <= set(notes.values())


def test_unknown_priority_is_reported() -> None:
    """A PriorityClass that does not exist is left out, and an event says so."""
    scene = Scene(a_job(annotations={"priority": "high"}), priority_class_found=False)

    assert "priorityClassName" not in pod_spec(made(scene)[TRAINER])
    assert "PriorityClassMissing" in reported(scene.look())


def _group(bodies: dict[str, Body]) -> str | None:
    notes: Body = bodies[TRAINER]["spec"]["template"]["metadata"]["annotations"]
    found: str | None = notes.get(GANG_ANNOTATION)
    return found


@pytest.mark.parametrize(
    ("spec", "annotations", "queue"),
    [
        ({}, {}, "default"),
        ({"queue": "blue"}, {}, "blue"),
        ({}, {"scheduling.volcano.sh/queue-name": "red"}, "red"),
        ({"queue": "blue"}, {"scheduling.volcano.sh/queue-name": "red"}, "blue"),
        ({"queue": ""}, {"scheduling.volcano.sh/queue-name": ""}, "default"),
    ],
)
def test_group_is_in_the_queue_of_the_job(
    spec: Body, annotations: dict[str, str], queue: str
) -> None:
    """That of the spec, else that of Volcano's annotation, else the default one."""
    job = a_job(**spec)
    job = replace(job, metadata=replace(job.metadata, annotations=annotations))

    assert made(Scene(job))["PodGroup fit"]["spec"]["queue"] == queue
