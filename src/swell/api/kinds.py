"""The resources Swell talks about, each with its struct."""

from __future__ import annotations

from swell.api.node import Node
from swell.api.pod import Pod
from swell.api.podgroup import PodGroup
from swell.api.queue import Queue
from swell.api.resource import Resource

SCHEDULING = "scheduling.volcano.sh"

PODS = Resource("", "v1", "Pod", "pods", Pod, short_names=("po",))
NODES = Resource("", "v1", "Node", "nodes", Node, namespaced=False, short_names=("no",))
POD_GROUPS = Resource(
    SCHEDULING, "v1beta1", "PodGroup", "podgroups", PodGroup, short_names=("pg", "podgroup-v1beta1")
)
QUEUES = Resource(
    SCHEDULING,
    "v1beta1",
    "Queue",
    "queues",
    Queue,
    namespaced=False,
    short_names=("q", "queue-v1beta1"),
)
