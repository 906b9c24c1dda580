"""Watches all pods and groups, and says where a gang was bound twice, by halves, or where a node
got more than it has. Looks at what the API server says alone; knows nothing of the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swell.api.core import Node
from swell.api.meta import Key, Uid
from swell.api.pod import Pod, PodPhase
from swell.api.quantity import parse
from swell.api.requests import pod_requests, scheduling_amount, scheduling_amounts
from swell.api.scheduling import PodGroup
from swell.runtime.clock import Clock
from swell.runtime.informer import Informer
from tests.e2e.scheduler.objects import GROUP_NAME

FINAL = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


@dataclass
class Gang:
    """What has been seen of one group, by its UID."""

    key: Key
    bound: dict[Uid, str] = field(default_factory=dict)  # live pods with their nodes
    was_complete: bool = False
    partial_since: float | None = None


class Recorder:
    """Told of every change by informers; `faults` is what must stay empty."""

    def __init__(
        self,
        pods: Informer[Pod],
        groups: Informer[PodGroup],
        nodes: Informer[Node],
        *,
        clock: Clock,
        bind_window_s: float,
    ) -> None:
        self.faults: list[str] = []
        self.n_binds = 0
        self._pods, self._groups, self._nodes = pods, groups, nodes
        self._clock = clock
        self._bind_window_s = bind_window_s
        self._node_of: dict[Uid, str] = {}
        self._held: dict[str, dict[Uid, Mapping[str, int]]] = {}
        self._known: dict[Key, Uid] = {}
        self._gangs: dict[Uid, Gang] = {}
        self._gang_of: dict[Uid, Uid] = {}
        pods.add_handler(self._on_pod)

    def close(self) -> None:
        """Count gangs that are by halves now as such if their time is over."""
        for gang in self._gangs.values():
            self._look(gang)

    def _on_pod(self, key: Key) -> None:
        found = self._pods.get(key)
        known = self._known.get(key)
        if known is not None and (found is None or found.metadata.uid != known):
            self._gone(known)
        if found is None:
            self._known.pop(key, None)
            return
        self._known[key] = found.metadata.uid
        if found.status.phase in FINAL:
            self._gone(found.metadata.uid)
        elif found.spec.node_name:
            self._bound(found)

    def _bound(self, pod: Pod) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        before = self._node_of.setdefault(uid, node)
        if before != node:
            self.faults.append(f"{pod.metadata.key} moved from {before} to {node}")
        held = self._held.setdefault(node, {})
        if uid in held:
            return
        self.n_binds += 1
        held[uid] = {**scheduling_amounts(pod_requests(pod.spec)), "pods": 1}
        self._check_room(node)
        gang = self._find_gang(pod)
        if gang is not None:
            self._gang_of[uid] = gang
            self._gangs[gang].bound[uid] = node
            self._look(self._gangs[gang])

    def _gone(self, uid: Uid) -> None:
        self._held.get(self._node_of.get(uid, ""), {}).pop(uid, None)
        gang = self._gangs.get(self._gang_of.get(uid, Uid("")))
        if gang is not None:
            gang.bound.pop(uid, None)
            self._look(gang)

    def _find_gang(self, pod: Pod) -> Uid | None:
        name = pod.metadata.annotations.get(GROUP_NAME)
        if not name:
            return None
        key = Key(pod.metadata.namespace, name)
        group = self._groups.get(key)
        if group is None:
            self.faults.append(f"{pod.metadata.key} was bound without its group {key}")
            return None
        self._gangs.setdefault(group.metadata.uid, Gang(key))
        return group.metadata.uid

    def _look(self, gang: Gang) -> None:
        """Halves are excused while binds are on their way, and after a gang was complete once."""
        group = self._groups.get(gang.key)
        now, n_bound = self._clock.monotonic(), len(gang.bound)
        since = gang.partial_since
        if since is not None and now - since > self._bind_window_s:
            self.faults.append(f"{gang.key} was bound by halves for {now - since:.0f} s")
        is_partial = group is not None and 0 < n_bound < group.spec.min_member
        gang.was_complete = gang.was_complete or (n_bound > 0 and not is_partial)
        if gang.was_complete or not is_partial:
            gang.partial_since = None
        elif since is None:
            gang.partial_since = now

    def _check_room(self, name: str) -> None:
        node = self._nodes.get(Key("", name))
        if node is None:
            return
        used: dict[str, int] = {}
        for amounts in self._held[name].values():
            for resource, amount in amounts.items():
                used[resource] = used.get(resource, 0) + amount
        for resource, amount in used.items():
            text = node.status.allocatable.get(resource, "0")
            if amount > scheduling_amount(resource, parse(text)):
                self.faults.append(f"{name} was given {amount} {resource} of {text}")
