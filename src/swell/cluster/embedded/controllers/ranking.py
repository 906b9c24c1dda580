"""The order in which surplus pods are deleted: first those whose loss costs least.

It is Kubernetes' order (ActivePodsWithRanks): pods that are not scheduled, not running, not ready,
cheap by annotation, on a node with many related pods, ready for a short time, restarted often,
young. A ReplicaSet compares ages by their order of magnitude, with the UID as tie-break, so that
not always the youngest pod is deleted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cmp_to_key

from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.controllers.pods import (
    created_at,
    is_active,
    is_ready,
    ready_since,
    sidecar_statuses,
)

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST = re.compile(r"-?[0-9]{1,10}")
_INT32_MAX = 2**31 - 1
_PHASES = {PodPhase.PENDING: 0, PodPhase.UNKNOWN: 1, PodPhase.RUNNING: 2}
_NS_PER_S = 1e9


def dispensable_first(pods: Iterable[Pod]) -> list[Pod]:
    """Active pods in the order in which a Job deletes them.

    Unlike for a ReplicaSet, annotation and node do not count, and ages are compared exactly.
    """
    return sorted(pods, key=cmp_to_key(_compare_plainly))


def cheapest_first(pods: Iterable[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """Active pods in the order in which a ReplicaSet deletes them.

    `related` are the pods of all sets with the same controller: pods on nodes that hold many of
    them go first.
    """
    related_per_node = Counter(pod.spec.node_name for pod in related if is_active(pod))

    def compare(one: Pod, other: Pod) -> int:
        return (
            _by_stage(one, other)
            or deletion_cost(one) - deletion_cost(other)
            or related_per_node[other.spec.node_name] - related_per_node[one.spec.node_name]
            or _by_magnitude(ready_since(one), ready_since(other), (one, other), now)
            or _by_restarts(one, other)
            or _by_magnitude(created_at(one), created_at(other), (one, other), now)
        )

    return sorted(pods, key=cmp_to_key(compare))


def deletion_cost(pod: Pod) -> int:
    """The annotation's value; anything but a plain 32-bit number counts as 0."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    if not _COST.fullmatch(text) or (text.startswith("0") and text != "0"):
        return 0
    cost = int(text)
    return cost if -_INT32_MAX - 1 <= cost <= _INT32_MAX else 0


def _compare_plainly(one: Pod, other: Pod) -> int:
    return (
        _by_stage(one, other)
        or _newer_first(ready_since(one), ready_since(other))
        or _by_restarts(one, other)
        or _newer_first(created_at(one), created_at(other))
    )


def _by_stage(one: Pod, other: Pod) -> int:
    def stage(pod: Pod) -> tuple[bool, int, bool]:
        return bool(pod.spec.node_name), _PHASES.get(pod.status.phase, 0), is_ready(pod)

    return (stage(one) > stage(other)) - (stage(one) < stage(other))


def _newer_first(one: float | None, other: float | None) -> int:
    """Compare two times, newer first; a missing time counts as the newest."""
    one, other = one or math.inf, other or math.inf
    return (one < other) - (one > other)


def _by_magnitude(one: float | None, other: float | None, pods: tuple[Pod, Pod], now: float) -> int:
    if one == other or not one or not other:
        return _newer_first(one, other)
    difference = _magnitude(now - one) - _magnitude(now - other)
    uids = [pod.metadata.uid for pod in pods]
    return difference or (uids[0] > uids[1]) - (uids[0] < uids[1])


def _magnitude(age_s: float) -> int:
    """The binary order of magnitude of an age, in nanoseconds as in Kubernetes."""
    return int(math.log2(age_s * _NS_PER_S)) if age_s > 0 else -1


def _by_restarts(one: Pod, other: Pod) -> int:
    """Compare restarts, more first: those of ordinary containers, then those of sidecars."""
    mine, others = _restarts(one), _restarts(other)
    return (mine < others) - (mine > others)


def _restarts(pod: Pod) -> tuple[int, int]:
    ordinary = max((s.restart_count for s in pod.status.container_statuses), default=0)
    return ordinary, max((s.restart_count for s in sidecar_statuses(pod)), default=0)
