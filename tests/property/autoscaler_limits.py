"""Random clusters of running elastic jobs with every limit a raise may meet, and waiting gangs.

Queues in a tree with capabilities, some of them closed or missing; nodes that take few pods; roles
with host ports or anti-affinity. All pods of running jobs are where they belong.
"""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.scheduling import Queue
from swell.autoscaler.plan import AutoscalerObjects
from tests.autoscaler_cases import a_job, a_node, a_queue, a_role, in_queue, objects_of

QUEUES = ("default", "red", "blue", "green", "gone")
APART = "kubernetes.io/hostname"


def limited_objects(seed: int) -> AutoscalerObjects:
    """A cluster in which no job waits."""
    chance = Random(seed)
    found = objects_of(*_queues(chance))
    for n in range(chance.randint(1, 5)):
        found.nodes.append(
            a_node(
                f"n{n}",
                cpu=chance.randint(2, 12),
                memory="64Gi",
                pods=chance.choice([1, 2, 3, 5, 110]),
                labels={APART: f"n{n}"},
            )
        )
    for n in range(chance.randint(1, 5)):
        _add_job(chance, found, f"job-{n}")
    return found


def waiting_objects(seed: int) -> AutoscalerObjects:
    """The same with one to three gangs that wait, some of them for too much."""
    found = limited_objects(seed)
    chance = Random(-seed)
    for n in range(chance.randint(1, 3)):
        size = chance.randint(1, 6)
        role = a_role(size, size, edl="Never", cpu=str(chance.choice([1, 1, 2, 4])))
        job = a_job(f"gang-{n}", phase="Pending", trainer=role)
        found.training_jobs.append(in_queue(job, chance.choice(QUEUES[:4])))
    return found


def _queues(chance: Random) -> list[Queue]:
    queues = [a_queue("top", cpu=chance.randint(2, 20))]
    for name in ("red", "blue"):
        limits: dict[str, Any] = {"cpu": chance.randint(1, 8)} if chance.random() < 0.7 else {}
        queues.append(a_queue(name, parent="top", **limits))
    state = chance.choice(["", "Open", "Closed", "Closing"])
    queues.append(a_queue("green", state=state, memory=f"{chance.randint(1, 9)}Gi"))
    return queues


def _add_job(chance: Random, found: AutoscalerObjects, name: str) -> None:
    minimum = chance.randint(1, 2)
    spec: Body = {}
    kind = chance.choice(["", "", "port", "apart"])
    if kind == "apart":
        term = {"topologyKey": APART, "labelSelector": {"matchLabels": {"TrainingJobName": name}}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec = {"affinity": {"podAntiAffinity": required}}
    cpu = str(chance.choice([1, 1, 2]))
    role = a_role(minimum, minimum + chance.randint(1, 6), spec=spec, cpu=cpu, memory="1Gi")
    if kind == "port":
        role["template"]["spec"]["containers"][0]["ports"] = [{"hostPort": 7000}]
    n_pods = _place(chance, found, name, role, minimum)
    if n_pods < minimum:
        return
    job = a_job(name, targets={"trainer": n_pods}, trainer=role)
    found.training_jobs.append(in_queue(job, chance.choice(QUEUES)))


def _place(chance: Random, found: AutoscalerObjects, name: str, role: Body, minimum: int) -> int:
    """Put up to a few pods of a job where they fit; none of them if the minimum does not."""
    pods: list[Pod] = []
    for index in range(chance.randint(minimum, role["maxReplicas"])):
        pod = replica(name, role, index)
        node = _node_for(found, [*found.pods, *pods], pod)
        if node is None:
            break
        pods.append(replace(pod, spec=replace(pod.spec, node_name=node)))
    if len(pods) < minimum:
        return 0
    found.pods += pods
    return len(pods)


def replica(job: str, role: Body, index: int, *, group: bool = False) -> Pod:
    """A pod as the operator creates it."""
    body = {
        "metadata": {
            "name": f"{job}-trainer-{index}",
            "namespace": "ns",
            "labels": {
                "TrainingJobName": job,
                "TrainingJobReplicaName": "trainer",
                "TrainingJobReplicaIndex": str(index),
            },
            "annotations": {
                "scheduling.k8s.io/group-name": job,
                "volcano.sh/task-spec": "trainer",
            },
            "ownerReferences": [
                {"kind": "AITrainingJob", "name": job, "uid": f"uid-{job}", "controller": True}
            ],
        },
        "spec": {**role["template"]["spec"], "schedulerName": "swell"},
        "status": {"phase": "Pending" if group else "Running"},
    }
    return convert(body, Pod)


def _node_for(found: AutoscalerObjects, pods: list[Pod], pod: Pod) -> str | None:
    for node in found.nodes:
        name = node.metadata.name
        there = [one for one in pods if one.spec.node_name == name]
        used = sum(_cpu(one) for one in there)
        if used + _cpu(pod) > int(node.status.allocatable["cpu"]):
            continue
        if len(there) >= int(node.status.allocatable["pods"]):
            continue
        is_port = bool(pod.spec.containers[0].ports)
        if is_port and any(one.spec.containers[0].ports for one in there):
            continue
        job = pod.metadata.labels["TrainingJobName"]
        if pod.spec.affinity and any(
            one.metadata.labels["TrainingJobName"] == job for one in there
        ):
            continue
        return name
    return None


def _cpu(pod: Pod) -> int:
    return int(pod.spec.containers[0].resources.requests["cpu"])


def role_of(job: AITrainingJob) -> Body:
    return {"template": job.spec.replica_specs["trainer"].template}
