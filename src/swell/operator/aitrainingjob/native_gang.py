"""The gang of a job as PodGroups of Kubernetes itself, where the operator is asked for them.

The spec of such a group cannot be changed, it does not say which pods its minimum consists of, and
kube-scheduler does not count pods that have finished. So

- only the pods of the minimum are created until all of them have a node; the others follow;
- a job whose minimum, priority or constraint has changed keeps its group until it has no pods, and
  gets another then, `<job>-<n>`;
- pods that come again when too few others are left to make up the minimum get a group of their
  own, `<job>-r<n>`;
- pods without a node whose group can never have its minimum again are replaced by pods in a group
  that can.

Both numbers are recorded in the job's status before they are used. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.kinds import NATIVE_GROUPS
from swell.api.meta import Body
from swell.api.native_groups import NativeGroup
from swell.api.wording import count_of
from swell.operator.aitrainingjob import labels
from swell.operator.aitrainingjob.snapshot import (
    AITrainingJobSnapshot,
    Replica,
    current,
    is_number,
    missing,
)
from swell.operator.framework.native_groups import (
    ASKED,
    REQUIRED_TOPOLOGY,
    TOPOLOGY_PREFIX,
    canonical,
    native_group_body,
    native_group_spec,
)
from swell.runtime.plan import Action, CreateObject, DeleteObject


@dataclass(frozen=True, slots=True)
class NativeGang:
    """The native groups of a job for one pass: which pods may come, and which group they name."""

    wanted: list[tuple[str, int]]
    group: str
    actions: list[Action]


def numbered(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, *, waits: bool
) -> AITrainingJobStatus:
    """The status with the numbers of the groups that this pass needs.

    `waits` says that a restart holds back new pods: which of them come is not known before.
    """
    if not snapshot.uses_native_gang:
        return status
    # A lost status has lost the numbers; the names of the groups have them, too.
    status = replace(
        status,
        gang_number=max(status.gang_number, *_numbers(snapshot, "-"), 0),
        retry_gangs=max(status.retry_gangs, *_numbers(snapshot, "-r"), 0),
    )
    held = _main(snapshot, status)
    if held is not None and not snapshot.pods and _is_outdated(snapshot, held):
        status = replace(status, gang_number=status.gang_number + 1)
    wanted = [] if waits else [*_admitted(snapshot, status)]
    if _needs_own_group(snapshot, status, wanted) and not _is_open(snapshot, status, wanted):
        status = replace(status, retry_gangs=status.retry_gangs + 1)
    return status


def native_gang(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, *, waits: bool
) -> NativeGang:
    """The pods that may be created now with their group, and the steps to the groups.

    `status` must be one that `numbered` returned, and be written before the steps are taken.
    """
    wanted = [] if waits else [*_admitted(snapshot, status)]
    main = _main_name(snapshot, status)
    spec = gang_spec_of(snapshot)
    actions: list[Action] = []
    if _main(snapshot, status) is None:
        actions.append(CreateObject(NATIVE_GROUPS, _body(snapshot, main, spec)))
    group = main
    if _needs_own_group(snapshot, status, wanted):
        group = _retry_name(snapshot, status)
        if not any(held.metadata.name == group for held in snapshot.native_groups):
            few = {**spec, "schedulingPolicy": {"gang": {"minCount": len(wanted)}}}
            actions.append(CreateObject(NATIVE_GROUPS, _body(snapshot, group, few)))
    actions += _deletions(snapshot, main)
    return NativeGang(wanted, group, actions)


def stranded(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> Iterator[tuple[Replica, str]]:
    """The pods without a node whose group can never have its minimum again, each with the reason.

    kube-scheduler does not look at such a pod, however much room there is. A pod's group cannot be
    changed, so another pod has to take its place.
    """
    if not snapshot.uses_native_gang:
        return
    n_coming = _n_coming(snapshot, status)
    main = _main_name(snapshot, status)
    # Those to come join the first group if they complete it, else the last of the others.
    joined = main if _n_in(main, snapshot, status) + n_coming >= _least(snapshot, status) else ""
    joined = joined or _retry_name(snapshot, status)
    for held in snapshot.native_groups:
        gang, name = held.spec.scheduling_policy.gang, held.metadata.name
        n_alive = _n_in(name, snapshot, status)
        if gang is None or n_alive + (n_coming if name == joined else 0) >= gang.min_count:
            continue
        needed = count_of(gang.min_count, "pod")
        text = f"PodGroup {name} needs {needed} and can have {n_alive} of them only"
        for one in current(snapshot, status):
            if _group_of(one) == name and _lives(one) and not one.is_bound and not one.is_unread:
                yield one, text


def gang_spec_of(snapshot: AITrainingJobSnapshot) -> Body:
    """The spec of the group of a job's minimum."""
    priority = snapshot.job.spec.priority
    return native_group_spec(
        sum(role.gang_minimum for role in snapshot.roles.values()),
        is_elastic=any(role.is_elastic for role in snapshot.roles.values()),
        priority_class=priority if snapshot.priority_class_found else "",
        topology_key=common_topology(snapshot),
    )


def common_topology(snapshot: AITrainingJobSnapshot) -> str:
    """The label key that all roles require alike; empty if there is none."""
    keys = {_notes(role.template).get(REQUIRED_TOPOLOGY, "") for role in snapshot.roles.values()}
    return keys.pop() if len(keys) == 1 else ""


def remarks(snapshot: AITrainingJobSnapshot) -> Iterator[tuple[str, str]]:
    """Reason and text of the events about what the group of a job does not say.

    Each is about the spec, so it is said when the spec is new.
    """
    job = snapshot.job
    if not snapshot.uses_native_gang or job.metadata.generation == job.status.observed_generation:
        return
    if _has_more_topology(snapshot):
        text = "its PodGroup can say one required label only; kube-scheduler ignores the rest"
        yield "TopologyNotInGroup", text
    held = _main(snapshot, job.status)
    if held is not None and snapshot.pods and _is_outdated(snapshot, held):
        text = (
            f"PodGroup {held.metadata.name} cannot be changed: the new minimum, priority or "
            "constraint counts when all pods of the job have gone the next time"
        )
        yield "GangChangeWaits", text


def _numbers(snapshot: AITrainingJobSnapshot, mark: str) -> list[int]:
    """The numbers behind a mark in the names of the job's groups."""
    prefix = snapshot.job.metadata.name + mark
    names = (one.metadata.name for one in snapshot.native_groups)
    ends = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return [int(end) for end in ends if is_number(end)]


def _admitted(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus
) -> Iterator[tuple[str, int]]:
    """The missing replicas that may be created: those of the minimum first."""
    has_minimum = _has_minimum(snapshot, status)
    for role, index in missing(snapshot, status):
        if has_minimum or index < snapshot.roles[role].gang_minimum:
            yield role, index


def _has_minimum(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> bool:
    """Whether every pod of the minimum has a node, or had one and has finished."""
    placed = {
        (one.role, one.index)
        for one in current(snapshot, status)
        if (one.is_bound or one.is_finished) and not one.is_leaving
    }
    return all(
        (role, index) in placed
        for role, spec in snapshot.roles.items()
        for index in range(min(spec.gang_minimum, status.target_replicas.get(role, 0)))
    )


def _needs_own_group(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, wanted: list[tuple[str, int]]
) -> bool:
    """Whether the first group would not have its minimum even with all pods that are to come.

    It is so after some have finished, while some live in a group of their own, and after the job
    has become smaller than the group that it has.
    """
    n_alive = _n_in(_main_name(snapshot, status), snapshot, status)
    return bool(wanted) and n_alive + _n_coming(snapshot, status) < _least(snapshot, status)


def _is_open(
    snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus, wanted: list[tuple[str, int]]
) -> bool:
    """Whether the pods to come are the rest of those that the last own group was made for."""
    name = _retry_name(snapshot, status)
    held = next((one for one in snapshot.native_groups if one.metadata.name == name), None)
    gang = None if held is None else held.spec.scheduling_policy.gang
    if gang is None or status.retry_gangs == 0:
        return False
    return _n_in(name, snapshot, status) + len(wanted) == gang.min_count


def _least(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> int:
    """The minimum of the first group: what it says, which may not be what the job says by now."""
    held = _main(snapshot, status)
    if held is not None and held.spec.scheduling_policy.gang is not None:
        return held.spec.scheduling_policy.gang.min_count
    return sum(role.gang_minimum for role in snapshot.roles.values())


def _n_in(group: str, snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> int:
    """The number of pods of a group that kube-scheduler counts, and that stay."""
    return sum(_group_of(one) == group and _lives(one) for one in current(snapshot, status))


def _n_coming(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> int:
    """The number of replicas that will get a pod, now or when their last one has gone."""
    there = {
        (one.role, one.index)
        for one in current(snapshot, status)
        if one.is_finished or not one.is_leaving
    }
    has_minimum = _has_minimum(snapshot, status)
    n_coming = 0
    for role, spec in snapshot.roles.items():
        target = status.target_replicas.get(role, 0)
        n_admitted = target if has_minimum else min(target, spec.gang_minimum)
        n_coming += sum((role, index) not in there for index in range(n_admitted))
    return n_coming


def _lives(replica: Replica) -> bool:
    return not (replica.is_finished or replica.is_leaving)


def _group_of(replica: Replica) -> str:
    group = replica.pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def _main_name(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> str:
    name = snapshot.job.metadata.name
    return f"{name}-{status.gang_number}" if status.gang_number else name


def _retry_name(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> str:
    return f"{snapshot.job.metadata.name}-r{status.retry_gangs}"


def _main(snapshot: AITrainingJobSnapshot, status: AITrainingJobStatus) -> NativeGroup | None:
    name = _main_name(snapshot, status)
    return next((one for one in snapshot.native_groups if one.metadata.name == name), None)


def _is_outdated(snapshot: AITrainingJobSnapshot, held: NativeGroup) -> bool:
    asked = held.metadata.annotations.get(ASKED)
    return asked is not None and asked != canonical(gang_spec_of(snapshot))


def _deletions(snapshot: AITrainingJobSnapshot, main: str) -> list[Action]:
    """Delete the groups that another has replaced: none of their pods was left then."""
    own = f"{snapshot.job.metadata.name}-r"
    return [
        DeleteObject(NATIVE_GROUPS, one.metadata.key, one.metadata.uid)
        for one in snapshot.native_groups
        if one.metadata.name != main
        and not one.metadata.name.startswith(own)
        and one.metadata.deletion_timestamp is None
    ]


def _body(snapshot: AITrainingJobSnapshot, name: str, spec: Body) -> Body:
    job = snapshot.job
    marks = {**job.metadata.labels, **labels.of_job(job.metadata.name)}
    queue = job.spec.queue or "default"
    return native_group_body(job, name, spec, queue=queue, labels=marks)


def _has_more_topology(snapshot: AITrainingJobSnapshot) -> bool:
    spec = snapshot.job.spec
    if spec.network_topology or any(role.network_topology for role in snapshot.roles.values()):
        return True
    asked = [
        {name for name in _notes(role.template) if name.startswith(TOPOLOGY_PREFIX)}
        for role in snapshot.roles.values()
    ]
    known = {REQUIRED_TOPOLOGY} if common_topology(snapshot) else set()
    return any(names != known for names in asked)


def _notes(template: Body) -> Body:
    meta = template.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    return notes if isinstance(notes, dict) else {}
