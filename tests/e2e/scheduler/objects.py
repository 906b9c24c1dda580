"""What users of the scheduler write: pods, groups, queues, priorities. Bodies only."""

from __future__ import annotations

from swell.api.kinds import AI_TRAINING_JOBS, POD_GROUPS, PRIORITY_CLASSES, QUEUES
from swell.api.meta import Body
from swell.api.quantity import parse

NAMESPACE = "e2e"
SCHEDULER = "swell"
GROUP_NAME = "scheduling.k8s.io/group-name"
GRACE_S = 1
PRIORITIES = {"low": 10, "high": 1000}


def pod(name: str, group: str, amounts: dict[str, str]) -> Body:
    """A pod of a group; every node it may run on has what it asks for."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": {GROUP_NAME: group} if group else {},
        },
        "spec": {**pod_spec(amounts), "schedulerName": SCHEDULER},
    }


def pod_spec(amounts: dict[str, str]) -> Body:
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "aitj-main", "image": "local", "resources": resources}
    return {"terminationGracePeriodSeconds": GRACE_S, "containers": [container]}


def group(name: str, minimum: int, queue: str, priority: str, amounts: dict[str, str]) -> Body:
    """A group as the operator makes them: it says what its minimum asks for."""
    total = {each: str(parse(text) * minimum) for each, text in amounts.items()}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "minMember": minimum,
            "queue": queue,
            "priorityClassName": priority,
            "minResources": total,
        },
    }


def queue(name: str, **spec: object) -> Body:
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def priority_class(name: str, value: int) -> Body:
    return {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": name},
        "value": value,
    }


def job(name: str, n: int, amounts: dict[str, str], priority: str, **role: object) -> Body:
    """An AITrainingJob of one role."""
    template = {"spec": pod_spec(amounts)}
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedulerName": SCHEDULER,
            "priority": priority,
            "replicaSpecs": {"worker": {"replicas": n, **role, "template": template}},
        },
    }
