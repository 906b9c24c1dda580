"""Sub-groups: parts of a gang that have a minimum, and a network topology, of their own.

A pod belongs to the first policy of its group that selects it; pods with the same values of the
policy's label keys form one sub-group. Pods that no policy selects form the default sub-group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from swell.api.matching import selector_matches
from swell.api.scheduling import NetworkTopology, SubGroupPolicy
from swell.scheduler.model.pod_notes import ROLE_KEY
from swell.scheduler.model.task_counts import TaskCounts
from swell.scheduler.model.tasks import Task, TaskStatus

# The place of the default sub-group, which no policy describes.
NO_POLICY: Final = -1
DEFAULT_NAME: Final = "default"
# A policy by its place, and the values that tell its sub-groups apart.
PartKey = tuple[int, tuple[str, ...]]


class SubGroup:
    """One sub-group with its tasks, counted by status."""

    __slots__ = (
        "counts", "key", "name", "order", "policy", "size", "starts_at", "tasks", "topology",
    )  # fmt: skip

    def __init__(
        self, policy: int, name: str, values: tuple[str, ...], size: int,
        topology: NetworkTopology | None,
    ) -> None:  # fmt: skip
        self.policy = policy  # its place among the policies, or NO_POLICY
        self.name = name
        self.key: PartKey = (policy, values)
        # As in Volcano: by the first value if that is a number, then by name.
        number = int(values[0]) if values and values[0].isdecimal() else 0
        self.order = (number, name)
        self.size = size
        self.topology = topology
        self.starts_at = ""  # the level that a soft topology begins with, if not the closest
        self.tasks: dict[str, Task] = {}
        self.counts = TaskCounts()

    @property
    def priority(self) -> int:
        return max((task.priority for task in self.tasks.values()), default=0)

    @property
    def shortfall(self) -> int:
        """How many more tasks it must get to be ready."""
        return max(self.size - self.counts.ready_or_best_effort, 0)

    @property
    def is_pipelined(self) -> bool:
        """Whether it is ready, or is once its pipelined tasks have started."""
        return self.counts.ready_or_best_effort + self.counts.waiting >= self.size

    def pending(self) -> Iterator[Task]:
        return (task for task in self.tasks.values() if task.status is TaskStatus.PENDING)


class SubGroups:
    """The sub-groups of one job. They come and go with their tasks.

    Which one a task belongs to, and its size, is what the policies say, unless given otherwise.
    `starts` are the levels that soft topologies of the policies begin with.
    """

    def __init__(
        self,
        policies: tuple[SubGroupPolicy, ...],
        default_topology: NetworkTopology | None,
        *,
        key_of: Callable[[Task], PartKey] | None = None,
        sizes: Mapping[PartKey, int] | None = None,
        starts: tuple[str, ...] = (),
    ) -> None:
        self.policies = policies
        self._default_topology = default_topology
        self._key_of = key_of or (lambda task: _key_of(task, policies))
        self._sizes = sizes or {}
        self._starts = starts
        self._by_key: dict[PartKey, SubGroup] = {}

    def __iter__(self) -> Iterator[SubGroup]:
        """Yields the sub-groups in a fixed order."""
        return iter(sorted(self._by_key.values(), key=lambda one: (one.policy, one.order)))

    def join(self, task: Task) -> SubGroup:
        """Adds the task to the sub-group that it belongs to."""
        policy, values = self._key_of(task)
        found = self._by_key.get((policy, values))
        if found is None:
            found = self._by_key[policy, values] = self._new(policy, values)
        found.tasks[task.key] = task
        return found

    def leave(self, task: Task) -> None:
        found = task.sub_group
        if found is None:
            return
        del found.tasks[task.key]
        if not found.tasks:
            self._by_key.pop(found.key, None)

    def of_policy(self, policy: int) -> list[SubGroup]:
        return [one for one in self._by_key.values() if one.policy == policy]

    def lacks(self) -> Iterator[tuple[SubGroupPolicy, int]]:
        """Yields the policies of which too few sub-groups exist, and how many do."""
        for place, policy in enumerate(self.policies):
            n = sum(one.counts.live > 0 for one in self.of_policy(place))
            if n < (policy.min_sub_groups or 0):
                yield policy, n

    def has_minimum(self, *, with_waiting: bool) -> bool:
        """Whether of each policy as many sub-groups are ready as must be.

        `with_waiting` counts those as ready that are once their pipelined tasks have started.
        """
        for place, policy in enumerate(self.policies):
            if not policy.min_sub_groups:
                continue
            found = self.of_policy(place)
            n = sum(one.is_pipelined if with_waiting else not one.shortfall for one in found)
            if n < policy.min_sub_groups:
                return False
        return True

    def incomplete(self) -> list[SubGroup]:
        """Returns the sub-groups that have fewer pods than they must start with."""
        return [one for one in self if one.counts.live < one.size]

    def _new(self, policy: int, values: tuple[str, ...]) -> SubGroup:
        if policy == NO_POLICY:
            # Beside policies a pod of none is a sub-group's only obligation.
            return SubGroup(policy, DEFAULT_NAME, values, 1, self._default_topology)
        described = self.policies[policy]
        name = "-".join((described.name or f"policy-{policy}", *values))
        size = 1 if described.sub_group_size is None else described.sub_group_size
        size = self._sizes.get((policy, values), size)
        found = SubGroup(policy, name, values, size, described.network_topology)
        found.starts_at = self._starts[policy] if self._starts else ""
        return found


def _key_of(task: Task, policies: Iterable[SubGroupPolicy]) -> PartKey:
    labels = task.pod.metadata.labels
    for place, policy in enumerate(policies):
        # A policy without a selector is about all pods of the group.
        selector = policy.label_selector
        if selector is not None and not selector_matches(selector, labels):
            continue
        values = tuple(_value(task, key) for key in policy.match_label_keys)
        if all(values):
            return place, values
    return NO_POLICY, ()


def _value(task: Task, key: str) -> str:
    return task.role if key == ROLE_KEY else task.pod.metadata.labels.get(key, "")
