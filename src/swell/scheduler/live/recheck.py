"""Whether a node still takes a pod that was given it a moment ago. Room is only counted here."""

from __future__ import annotations

from swell.api.matching import node_selector_matches, tolerates_all
from swell.api.node import Node
from swell.api.pod import Pod
from swell.scheduler.model.resources import TOLERANCE
from swell.scheduler.model.snapshot import Snapshot
from swell.scheduler.model.tasks import NOWHERE, Task


def still_takes(snapshot: Snapshot, task: Task) -> bool:
    """The node is there, ready and willing, and not over-full with the task counted in."""
    nodes, place = snapshot.nodes, task.node
    if place == NOWHERE or not nodes.ready[place] or nodes.cordoned[place]:
        return False
    node = nodes.objects[place]
    if node is None or not _admits(node, task.pod):
        return False
    idle = nodes.idle[:, place]
    return all(idle[p] > -TOLERANCE for p in task.shape.fit_places)


def _admits(node: Node, pod: Pod) -> bool:
    spec, labels = pod.spec, node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is not None and not node_selector_matches(required, node):
        return False
    return tolerates_all(spec.tolerations, node.spec.taints)
