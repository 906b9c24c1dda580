"""Gangs whose pods say by Kueue's annotations how close they must be: the sub-groups that follow.

The annotations count where the group has neither networkTopology nor subGroupPolicy. The sub-groups
depend on all pods of the gang, so they are worked out when a session begins and pods have changed.

| annotations of a role | sub-groups |
| --- | --- |
| required | one of all its pods, hard; its size is the role's minimum |
| preferred | the same, soft, from the named level on |
| slices | one for each index // size, hard; an outer level becomes the constraint of the gang |
| group name | one of all roles with that name |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from swell.api.scheduling import NetworkTopology, SubGroupPolicy
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.podset_annotations import PodSetRequest, index_of
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.sub_groups import NO_POLICY, PartKey, SubGroups
from swell.scheduler.model.tasks import Task, TaskStatus

# Pods that are on their way out no longer say what the gang wants.
_GONE = frozenset({TaskStatus.RELEASING, TaskStatus.FAILED})


def regroup(job: JobInfo) -> None:
    """Gives the job the sub-groups that the annotations of its pods ask for now."""
    sets = _pod_sets(job)
    asking = {role: one for role, one in sets.items() if one.request is not None}
    problem = next((text for one in asking.values() if (text := one.problem)), "")
    problem = problem or _outer_problem(asking.values())
    is_used = bool(asking) and not problem
    job.topology, job.starts_at = _outer(asking.values()) if is_used else (None, "")
    job.levels = tuple(dict.fromkeys(lv for one in asking.values() for lv in one.levels))
    job.sub_groups = _sub_groups(job, asking, n_sets=len(sets)) if is_used else None
    job.is_constrained = is_used
    job.is_annotated = bool(asking)
    job.topology_refusal = Refusal(WaitReason.TOPOLOGY_NOT_SUPPORTED, problem) if problem else None
    for task in job.tasks.values():
        task.sub_group = None if job.sub_groups is None else job.sub_groups.join(task)
        if task.sub_group is not None:
            best_effort = task.shape.best_effort
            task.sub_group.counts.add(task.status, 1, best_effort=best_effort)


@dataclass(slots=True)
class _PodSet:
    """The live pods of one role, and what they ask for."""

    role: str
    tasks: list[Task] = field(default_factory=list)
    requests: dict[PodSetRequest | None, None] = field(default_factory=dict)

    @property
    def request(self) -> PodSetRequest | None:
        """The request of the role; any one if its pods disagree."""
        return next((one for one in self.requests if one is not None), None)

    @property
    def problem(self) -> str:
        request, name = self.request, f"role {self.role!r}" if self.role else "the gang"
        if len(self.requests) > 1:
            return f"pods of {name} have different annotations about topology"
        if request is None or request.problem:
            return f"{name}: {request.problem}" if request else ""
        if request.slice_level and any(index_of(task.pod.metadata) is None for task in self.tasks):
            return f"{name}: a pod without index belongs to no slice"
        return ""

    @property
    def levels(self) -> tuple[str, ...]:
        request = self.request
        found = () if request is None else (request.level, request.slice_level)
        return tuple(level for level in found if level)


def _pod_sets(job: JobInfo) -> dict[str, _PodSet]:
    sets: dict[str, _PodSet] = {}
    for task in job.tasks.values():
        if task.status not in _GONE:
            one = sets.setdefault(task.role, _PodSet(task.role))
            one.tasks.append(task)
            one.requests[task.podset_request] = None
    return dict(sorted(sets.items()))


def _outer_problem(sets: Iterable[_PodSet]) -> str:
    """Returns why the levels of several roles do not go together."""
    requests = {one.role: one.request for one in sets if one.request is not None}
    if any(one.slice_level and one.level for one in requests.values()):
        outer = {(one.required, one.preferred) for one in requests.values()}
        if len(outer) > 1:
            return "beside slices all roles must name the same outer level"
    by_group: dict[str, set[tuple[str, str]]] = {}
    for one in requests.values():
        if one.group:
            by_group.setdefault(one.group, set()).add((one.required, one.preferred))
    for group, levels in by_group.items():
        if len(levels) > 1:
            return f"roles of the group {group!r} name different levels"
    return ""


def _outer(sets: Iterable[_PodSet]) -> tuple[NetworkTopology | None, str]:
    """Returns the constraint of the whole gang, and the level with which a soft one begins."""
    for one in sets:
        request = one.request
        if request is not None and request.slice_level and request.level:
            return _topology(request), request.preferred
    return None, ""


def _topology(request: PodSetRequest) -> NetworkTopology:
    if request.required:
        return NetworkTopology(mode="hard", highest_tier_name=request.required)
    return NetworkTopology(mode="soft")


def _sub_groups(job: JobInfo, asking: Mapping[str, _PodSet], *, n_sets: int) -> SubGroups:
    """Returns the sub-groups, empty. A policy has no selector: roles say which pods are its."""
    has_outer = job.topology is not None
    names: dict[str, int] = {}  # of policies, with their places
    policies: list[SubGroupPolicy] = []
    starts: list[str] = []
    sizes: dict[PartKey, int] = {}
    place_of: dict[str, int] = {}
    for role, one in asking.items():
        request = one.request
        if request is None or (has_outer and not request.slice_level):
            continue  # the constraint of the gang says it all
        name = request.group or role or "pods"
        if name not in names:
            names[name] = len(policies)
            topology = _topology(request)
            if request.slice_level:
                topology = NetworkTopology(mode="hard", highest_tier_name=request.slice_level)
            policies.append(SubGroupPolicy(name=name, network_topology=topology))
            starts.append("" if request.slice_level else request.preferred)
        place = place_of[role] = names[name]
        if request.slice_level:
            sizes.update(_slice_sizes(place, one, request.slice_size))
        else:
            key: PartKey = (place, ())
            sizes[key] = sizes.get(key, 0) + _minimum(job, one, n_sets=n_sets)

    def key_of(task: Task) -> PartKey:
        place = place_of.get(task.role, NO_POLICY)
        request = task.podset_request
        if place == NO_POLICY or request is None:
            return NO_POLICY, ()
        return place, _values(task, request)

    return SubGroups(
        tuple(policies), job.topology, key_of=key_of, sizes=sizes, starts=tuple(starts)
    )


def _values(task: Task, request: PodSetRequest) -> tuple[str, ...]:
    if not request.slice_level:
        return ()
    return (str((index_of(task.pod.metadata) or 0) // request.slice_size),)


def _slice_sizes(place: int, one: _PodSet, size: int) -> dict[PartKey, int]:
    """Returns the size of each slice; the last one counts with the pods it has."""
    counts: dict[int, int] = {}
    for task in one.tasks:
        at = (index_of(task.pod.metadata) or 0) // size
        counts[at] = counts.get(at, 0) + 1
    last = max(counts)
    sizes = {at: min(size, n) if at == last else size for at, n in counts.items()}
    return {(place, (str(at),)): n for at, n in sizes.items()}


def _minimum(job: JobInfo, one: _PodSet, *, n_sets: int) -> int:
    """Returns how many pods of a role must start together: its minimum, or all that it has."""
    minimum = job.role_minimums.get(one.role)
    if minimum is None and n_sets == 1 and job.min_member:
        minimum = job.min_member  # the gang has one role, so its minimum is the role's
    return len(one.tasks) if minimum is None else max(minimum, 1)
