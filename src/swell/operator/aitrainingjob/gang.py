"""The PodGroup of a job: how many pods must start together, and what they ask for.

It follows the spec, never the target: growing must not raise the bar for a running job.
"""

from __future__ import annotations

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.meta import Body
from swell.api.pod import PodPhase
from swell.api.quantity import ZERO, Quantity
from swell.api.requests import template_requests
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.causes import Cause
from swell.operator.aitrainingjob.world import World, current


def group_spec(world: World, status: AITrainingJobStatus, final: tuple[Cause, ...]) -> Body:
    """What the group should say. Pods that are finished for good no longer need room."""
    done = {(cause.role, cause.index) for cause in final} | {
        (one.role, one.index) for one in current(world, status) if one.phase is PodPhase.SUCCEEDED
    }
    minimum: dict[str, int] = {}
    total: dict[str, Quantity] = {}
    for role, spec in world.roles.items():
        n_done = sum(name == role for name, _ in done)
        minimum[role] = max(spec.gang_minimum - n_done, 0)
        for name, amount in _requests(spec.template).items():
            total[name] = total.get(name, ZERO) + amount * minimum[role]
    made: Body = {
        "minMember": sum(minimum.values()),
        "minTaskMember": minimum,
        "queue": world.job.spec.queue or "default",
        "minResources": {name: str(amount) for name, amount in sorted(total.items())},
    }
    if world.job.spec.priority and world.priority_class_found:
        made["priorityClassName"] = world.job.spec.priority
    return made


def _requests(template: Body) -> dict[str, Quantity]:
    """What one pod asks for. A template that makes no pod asks for nothing: the API server will
    say of the pod itself what is wrong with it."""
    try:
        return template_requests(template)
    except ValueError:
        return {}


def _asks(world: World, status: AITrainingJobStatus) -> bool:
    """Whether a pod of the job has no node yet."""
    here = current(world, status)
    n_wanted = sum(status.target_replicas.values())
    return len(here) < n_wanted or any(not one.is_bound for one in here)


def group_body(world: World, spec: Body, owner: Body) -> Body:
    meta = world.job.metadata
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": {
                **meta.labels,
                labels.GROUP_NAME: labels.GROUP_VALUE,
                labels.TRAINING_JOB_NAME: meta.name,
                labels.JOB_NAME: meta.name,
            },
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def group_change(world: World, status: AITrainingJobStatus, spec: Body) -> Body:
    """What has to change in the group that is there; empty when nothing.

    That pods have finished matters to whoever waits for room with the rest of the group. While
    nobody does, it is told when it is half of the job, not pod by pod.
    """
    held = world.group.spec if world.group else None
    if held is None:
        return {}
    n_full = sum(role.gang_minimum for role in world.roles.values())
    n_fewer = held.min_member - spec["minMember"]
    if 0 < n_fewer < n_full / 2 and held.min_member <= n_full and not _asks(world, status):
        return {}
    now: Body = {
        "minMember": held.min_member,
        "minTaskMember": held.min_task_member,
        "queue": held.queue,
        "minResources": held.min_resources or {},
        "priorityClassName": held.priority_class_name,
    }
    wanted = {"priorityClassName": "", **spec}
    return {name: _over(now[name], value) for name, value in wanted.items() if value != now[name]}


def _over(held: object, wanted: object) -> object:
    """A merge patch from one value to the other: what a map no longer has is taken out."""
    if not isinstance(held, dict) or not isinstance(wanted, dict):
        return wanted
    return {**dict.fromkeys(held), **wanted}
