"""The report of `swell explain`: reads a cluster and runs the scheduler's explanation over it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    HYPER_NODES,
    NAMESPACES,
    NATIVE_GROUPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from swell.api.meta import Body, Key
from swell.api.native_groups import GROUP_SCHEDULED
from swell.api.pod import Pod
from swell.api.resource import ApiObject, Resource
from swell.api.scheduling import PodGroup, PodGroupCondition
from swell.cli.explain.target import ExplainTarget
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.cluster import Malformed
from swell.runtime.errors import ForbiddenError, NotFoundError
from swell.runtime.salvage import salvage
from swell.scheduler.config import Config
from swell.scheduler.explain.explain import explain
from swell.scheduler.explain.explanation import Explanation, GroupStanding
from swell.scheduler.model.native_groups import native_group_of, native_job_name
from swell.scheduler.model.queue_rules import DEFAULT_QUEUE
from swell.scheduler.model.snapshot import SCHEDULER_NAMES
from swell.scheduler.model.tasks import GROUP_ANNOTATION
from swell.scheduler.model.ungrouped import with_virtual_groups
from swell.scheduler.plan import SchedulerObjects

T = TypeVar("T", bound=ApiObject)
# Names that our scheduler also serves when it is told to; a pod that asks for one may be ours.
_ALSO_SERVED = frozenset({"volcano"})


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """The answer about one object.

    `reported` is the condition that the scheduler last wrote; `notes` are limits of the answer.
    """

    target: ExplainTarget
    explanation: Explanation | None = None
    reported: PodGroupCondition | None = None
    notes: tuple[str, ...] = ()
    pod_problems: tuple[str, ...] = ()  # of pods that have a node and do not run
    is_live: bool = True

    @property
    def summary(self) -> str:
        return f"{self.target.key} {_conclusion(self)}"

    def body(self) -> Body:
        facts = msgspec.to_builtins(self.explanation) if self.explanation is not None else {}
        reported = msgspec.to_builtins(self.reported) if self.reported is not None else None
        return {
            "job": str(self.target.key),
            "kind": self.target.kind,
            "phase": self.target.phase,
            "summary": self.summary,
            **facts,
            "sizes": msgspec.to_builtins(self.target.sizes),
            "startEstimate": msgspec.to_builtins(self.target.start),
            "podTroubles": list(self.pod_problems),
            "schedulerSaid": reported,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class ExplainInput:
    """The objects a report is made from.

    No session can be run over them unless `is_whole`: it would find room that is taken.
    """

    objects: SchedulerObjects
    notes: tuple[str, ...] = ()
    is_whole: bool = True
    is_live: bool = True  # of a cluster, not of files


def report_on(
    target: ExplainTarget,
    found: ExplainInput,
    config: Config,
    scheduler_names: Collection[str],
    now: float | None = None,
) -> ExplainReport:
    """Explain the target; of one that has ended only its end is reported.

    `now` counts for a cluster only: objects in a file have no present time.
    """
    if target.is_final:
        return ExplainReport(target)
    objects, notes = found.objects, list(found.notes)
    target = _with_native_group(target, objects)
    group = next((g for g in objects.groups if g.metadata.key == target.group), None)
    pods = [pod for pod in objects.pods if _is_of(pod, target)]
    names = {*SCHEDULER_NAMES, *scheduler_names}
    asked = sorted({pod.spec.scheduler_name or "default-scheduler" for pod in pods})
    names.update(_ALSO_SERVED & set(asked))
    foreign = [name for name in asked if name not in names]
    if foreign:
        notes.append(f"its pods ask for scheduler {', '.join(foreign)}, which places them")
    # A pod without a group is scheduled as a group of one; make the same groups here.
    objects.pods, alone = with_virtual_groups(objects.pods, names, DEFAULT_QUEUE)
    objects.groups += alone
    at = now if found.is_live else None
    explanation = explain(objects, str(target.group), config, names, at) if found.is_whole else None
    if found.is_whole and explanation is None:
        notes.append(f"there is no PodGroup {target.group}: has its controller seen the job?")
    return ExplainReport(
        target,
        explanation,
        _reported_on_group(group)
        if group is not None
        else _reported_on_native(target, objects) or _reported_on_pods(pods),
        tuple(notes),
        tuple(filter(None, map(_problem, pods))),
        found.is_live,
    )


def read_input(client: OneShot, target: ExplainTarget) -> ExplainInput:
    """Read the input of a report on a target; none is needed for one that has ended."""
    if target.is_final:
        return ExplainInput(SchedulerObjects(are_whole=True))
    found = read_objects(client)
    # A user who may not list the whole cluster can often still read the group of the own job.
    if not found.is_whole and not found.objects.groups:
        with suppress(NotFoundError, ForbiddenError):
            found.objects.groups.append(client.send(calls.get(POD_GROUPS, target.group)))
    return found


def read_objects(client: OneShot) -> ExplainInput:
    """List everything a session depends on. What cannot be listed is left out, with a note."""
    objects = SchedulerObjects(are_whole=True)
    notes: list[str] = []
    hidden: list[str] = []

    def fill(place: list[T], resource: Resource[T], *, needed: bool = False) -> None:
        try:
            page = client.send(calls.list_page(resource))
            place.extend(page.items)
            place.extend(_placeholder(found, resource, objects, notes) for found in page.malformed)
        except NotFoundError:
            if needed:
                notes.append(f"the cluster has no {resource.plural}")
        except ForbiddenError:
            if needed:
                hidden.append(resource.plural)

    fill(objects.nodes, NODES, needed=True)
    fill(objects.pods, PODS, needed=True)
    fill(objects.groups, POD_GROUPS, needed=True)
    fill(objects.native_groups, NATIVE_GROUPS)
    fill(objects.queues, QUEUES, needed=True)
    # The rest refines the answer: without it priorities, budgets or claims count as absent.
    fill(objects.priority_classes, PRIORITY_CLASSES)
    fill(objects.budgets, POD_DISRUPTION_BUDGETS)
    fill(objects.namespaces, NAMESPACES)
    fill(objects.training_jobs, AI_TRAINING_JOBS)
    fill(objects.claims, PERSISTENT_VOLUME_CLAIMS)
    fill(objects.volumes, PERSISTENT_VOLUMES)
    fill(objects.storage_classes, STORAGE_CLASSES)
    fill(objects.csi_nodes, CSI_NODES)
    fill(objects.csi_drivers, CSI_DRIVERS)
    fill(objects.storage_capacities, CSI_STORAGE_CAPACITIES)
    fill(objects.volume_attachments, VOLUME_ATTACHMENTS)
    fill(objects.hyper_nodes, HYPER_NODES)
    if hidden:
        known = "only what the scheduler wrote is known"
        notes.append(f"you may not list {', '.join(hidden)} of the whole cluster: {known}")
    return ExplainInput(objects, tuple(notes), is_whole=not hidden)


def _placeholder(
    found: Malformed, resource: Resource[T], objects: SchedulerObjects, notes: list[str]
) -> T:
    """Return what can be read of an object, as the scheduler counts it, and note the rest."""
    seen = salvage(found, resource.struct, None)
    why = f"{resource.kind} {found.key}: {found.error}"
    notes.append(f"cannot be read: {why}")
    # The room that an object takes does not depend on its status.
    if not all(path.partition(".")[0] == "status" for path in seen.unknown):
        objects.unreadable[resource.kind, found.key] = why
    return seen.object


def _is_of(pod: Pod, target: ExplainTarget) -> bool:
    meta, native = pod.metadata, native_group_of(pod)
    groups = (meta.annotations.get(GROUP_ANNOTATION, ""), native_job_name(native) if native else "")
    in_group = target.group in {Key(meta.namespace, group) for group in groups if group}
    return in_group or (target.kind == "Pod" and meta.key == target.key)


def _with_native_group(target: ExplainTarget, objects: SchedulerObjects) -> ExplainTarget:
    """Return the target with its native group, where it has one and none of Volcano.

    Of several groups of a job the last that was made counts: its pods came last.
    """
    if any(group.metadata.key == target.group for group in objects.groups):
        return target
    owned = [
        group.metadata
        for group in objects.native_groups
        if group.metadata.namespace == target.key.namespace
        and (owner := group.metadata.controller) is not None
        and (owner.kind, owner.name) == (target.kind, target.key.name)
    ]
    if not owned:
        return target
    last = max(owned, key=lambda meta: (meta.creation_timestamp or "", meta.name))
    return replace(target, group=Key(last.namespace, native_job_name(last.name)))


def _reported_on_native(
    target: ExplainTarget, objects: SchedulerObjects
) -> PodGroupCondition | None:
    """Return the condition of a native group that waits; its message begins with the reason."""
    for group in objects.native_groups:
        meta = group.metadata
        if Key(meta.namespace, native_job_name(meta.name)) != target.group:
            continue
        for one in group.status.conditions:
            if one.type == GROUP_SCHEDULED and one.status == "False":
                reason, _, message = one.message.partition(": ")
                return PodGroupCondition(
                    type=one.type,
                    status=one.status,
                    reason=reason,
                    message=message,
                    last_transition_time=one.last_transition_time,
                )
    return None


def _reported_on_group(group: PodGroup) -> PodGroupCondition | None:
    """Return the newest condition that holds."""
    held = [c for c in group.status.conditions if c.status == "True"]
    return max(held, key=lambda c: c.last_transition_time or "", default=None)


def _reported_on_pods(pods: Iterable[Pod]) -> PodGroupCondition | None:
    """Return the condition of a pod without a PodGroup; its message begins with the reason."""
    for condition in (c for pod in pods for c in pod.status.conditions):
        if condition.type == "PodScheduled" and condition.status == "False":
            reason, _, message = condition.message.partition(": ")
            return PodGroupCondition(
                type=condition.reason,
                status="True",
                reason=reason,
                message=message,
                last_transition_time=condition.last_transition_time,
            )
    return None


def _problem(pod: Pod) -> str:
    """Return why a placed pod does not run, as its node reports it; empty if it does."""
    status = pod.status
    if not pod.spec.node_name:
        return ""
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason:
            message = f": {waiting.message}" if waiting.message else ""
            return f"{pod.metadata.name} on {pod.spec.node_name}: {waiting.reason}{message}"
    return ""


def _conclusion(report: ExplainReport) -> str:
    target, found = report.target, report.explanation
    if target.is_final:
        message = f": {target.message}" if target.message else ""
        return f"has ended: {target.phase}{message}"
    if found is None:
        return f"is {target.phase}" if target.phase else "has not been looked at yet"
    return _CONCLUSIONS[found.standing](found)


def _waits(found: Explanation) -> str:
    if found.never:
        return f"can never start on this cluster as it is: {found.never}"
    n_asking = sum(one.n_pods for one in found.classes)
    together = f"; {found.min_member} must start together" if found.min_member > 1 else ""
    if not n_asking:
        return f"waits: {found.message or found.reason}"
    has = "pod has" if n_asking == 1 else "pods have"
    return f"waits: {n_asking} {has} no node{together}"


def _starts(found: Explanation) -> str:
    if found.pods.get("Pending"):
        return "can start: there is room, and the scheduler's next cycle places its pods"
    n_bound = found.pods.get("Bound", 0)
    return f"starts: its pods have nodes, {n_bound} of them do not run yet"


def _runs(found: Explanation) -> str:
    n_running, n_pending = found.pods.get("Running", 0), found.pods.get("Pending", 0)
    more = f"; {n_pending} more would like to" if n_pending else ""
    return f"runs: {n_running} {'pod' if n_running == 1 else 'pods'}{more}"


_CONCLUSIONS: dict[GroupStanding, Callable[[Explanation], str]] = {
    GroupStanding.WAITING: _waits,
    GroupStanding.MAKING_ROOM: lambda _: "waits for others to leave: nodes are promised to it",
    GroupStanding.STARTING: _starts,
    GroupStanding.RUNNING: _runs,
    GroupStanding.COMPLETED: lambda _: "is complete: its pods have finished",
}
