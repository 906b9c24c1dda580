"""Objects for tests of native groups: nodes, PodGroups of Kubernetes itself, and their pods."""

from __future__ import annotations

from typing import Any

import msgspec

from swell.api.core import Node
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.plan import SchedulerObjects, answer, plan_schedule

RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


def node(name: str, cpu: int, **labels: str) -> Node:
    body = {
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.convert(body, Node)


def native(name: str, least: int, notes: dict[str, str] | None = None, **spec: Any) -> NativeGroup:
    """Returns a gang with a minimum, or a basic group for a minimum of 0."""
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    body = {
        "metadata": {
            "name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": notes or {},
        },
        "spec": {"schedulingPolicy": policy, **spec},
    }  # fmt: skip
    return msgspec.convert(body, NativeGroup)


def member(
    name: str, group: str, *, on: str = "", phase: str = "", notes: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:  # fmt: skip
    """Returns a pod of one core that names a native group; on a node it runs."""
    body = {
        "metadata": {
            "name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": notes or {},
        },
        "spec": {
            "schedulerName": "swell",
            "schedulingGroup": {"podGroupName": group},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            "nodeName": on,
            **spec,
        },
        "status": {"phase": phase or ("Running" if on else "Pending")},
    }  # fmt: skip
    return msgspec.convert(body, Pod)


def members(group: str, n: int, **more: Any) -> list[Pod]:
    return [member(f"{group}-{index}", group, **more) for index in range(n)]


def planned(
    nodes: list[Node],
    groups: list[NativeGroup],
    pods: list[Pod],
    *,
    volcano: list[PodGroup] | None = None,
    queues: tuple[str, ...] = ("default",),
    classes: list[PriorityClass] | None = None,
) -> dict[str, Any]:
    """Returns the answer of `swell plan schedule` for these objects."""
    objects = SchedulerObjects(
        nodes=nodes,
        pods=pods,
        groups=volcano or [],
        native_groups=groups,
        queues=[msgspec.convert({"metadata": {"name": name}}, Queue) for name in queues],
        priority_classes=classes or [],
    )
    return msgspec.convert(answer(plan_schedule(objects)), dict[str, Any])
