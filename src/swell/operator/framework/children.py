"""Content that the child objects of all job kinds have in common. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from swell.api.meta import Body, ObjectMeta
from swell.api.quantity import ZERO, Quantity
from swell.runtime.plan import Action, Step, Together

# Volcano's annotations, by which the scheduler finds a pod's gang and its task in it.
GANG_ANNOTATION = "scheduling.k8s.io/group-name"
TASK_ANNOTATION = "volcano.sh/task-spec"


class OwnerJob(Protocol):
    """A job of any kind, as far as its children refer to it."""

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def metadata(self) -> ObjectMeta: ...


def controller_reference(job: OwnerJob) -> Body:
    """The job as the controller of its children; by UID, so a namesake never inherits them."""
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def gang_spec(
    minimum: Mapping[str, int],
    requests: Mapping[str, Mapping[str, Quantity]],
    *,
    queue: str,
    priority_class: str,
) -> Body:
    """The spec of a PodGroup: how many pods of each role must start together, and their requests.

    `requests` are those of one pod of each role.
    """
    total: dict[str, Quantity] = {}
    for role, asked in requests.items():
        for name, amount in asked.items():
            total[name] = total.get(name, ZERO) + amount * minimum[role]
    spec: Body = {
        "minMember": sum(minimum.values()),
        "minTaskMember": dict(minimum),
        "queue": queue,
        "minResources": {name: str(amount) for name, amount in sorted(total.items())},
    }
    return {**spec, "priorityClassName": priority_class} if priority_class else spec


def together(actions: Sequence[Action]) -> tuple[Step, ...]:
    """One step that runs the actions at once; no step for no actions."""
    return (Together(tuple(actions)),) if actions else ()
