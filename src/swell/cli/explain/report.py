"""Everything `swell explain` knows about one job: gathered from the cluster, and put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    STORAGE_CLASSES,
)
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.scheduling import PodGroup, PodGroupCondition
from swell.cli.explain.target import ExplainTarget
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.errors import ForbiddenError, NotFoundError
from swell.scheduler.config import Config
from swell.scheduler.explain.explain import explain
from swell.scheduler.explain.explanation import Explanation, GroupStanding
from swell.scheduler.model.queues import DEFAULT
from swell.scheduler.model.snapshot import SCHEDULER_NAMES
from swell.scheduler.model.tasks import GROUP_ANNOTATION
from swell.scheduler.model.ungrouped import with_virtual_groups
from swell.scheduler.plan import SchedulerObjects

T = TypeVar("T")
# Served by this scheduler when it is asked to.
_ALSO_SERVED = frozenset({"volcano"})


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """`said` is what the scheduler last wrote on the group; `notes` what limits the answer."""

    subject: ExplainTarget
    explanation: Explanation | None = None
    said: PodGroupCondition | None = None
    notes: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()  # of pods that have a node and do not run
    is_live: bool = True

    @property
    def summary(self) -> str:
        return f"{self.subject.key} {_verdict(self)}"

    def body(self) -> Body:
        facts = msgspec.to_builtins(self.explanation) if self.explanation is not None else {}
        said = msgspec.to_builtins(self.said) if self.said is not None else None
        return {
            "job": str(self.subject.key),
            "kind": self.subject.kind,
            "phase": self.subject.phase,
            "summary": self.summary,
            **facts,
            "sizes": msgspec.to_builtins(self.subject.sizes),
            "podTroubles": list(self.troubles),
            "schedulerSaid": said,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class ExplainInput:
    """What a report is made from; without `is_whole` no session can be run over it."""

    objects: SchedulerObjects
    notes: tuple[str, ...] = ()
    is_whole: bool = True
    is_live: bool = True  # of a cluster, not of files


def report_on(
    subject: ExplainTarget, scene: ExplainInput, config: Config, scheduler_names: Collection[str]
) -> ExplainReport:
    if subject.is_final:
        return ExplainReport(subject)
    objects, notes = scene.objects, list(scene.notes)
    group = next((g for g in objects.groups if g.metadata.key == subject.group), None)
    pods = [pod for pod in objects.pods if _is_of(pod, subject)]
    names = {*SCHEDULER_NAMES, *scheduler_names}
    asked = sorted({pod.spec.scheduler_name or "default-scheduler" for pod in pods})
    names.update(_ALSO_SERVED & set(asked))
    foreign = [name for name in asked if name not in names]
    if foreign:
        notes.append(f"its pods ask for scheduler {', '.join(foreign)}, which places them")
    objects.pods, alone = with_virtual_groups(objects.pods, names, DEFAULT)
    objects.groups += alone
    explanation = explain(objects, str(subject.group), config, names) if scene.is_whole else None
    if scene.is_whole and explanation is None:
        notes.append(f"there is no PodGroup {subject.group}: has its controller seen the job?")
    return ExplainReport(
        subject,
        explanation,
        _said_of_group(group) if group is not None else _said_of_pods(pods),
        tuple(notes),
        tuple(filter(None, map(_trouble, pods))),
        scene.is_live,
    )


def read_input(client: OneShot, subject: ExplainTarget) -> ExplainInput:
    """All that a session goes by. What cannot be listed is left out, with a word about it."""
    objects = SchedulerObjects()
    if subject.is_final:
        return ExplainInput(objects)
    notes: list[str] = []
    hidden: list[str] = []

    def fill(place: list[T], resource: Resource[T], *, needed: bool = False) -> None:
        try:
            place.extend(client.send(calls.list_page(resource)).items)
        except NotFoundError:
            if needed:
                notes.append(f"the cluster has no {resource.plural}")
        except ForbiddenError:
            if needed:
                hidden.append(resource.plural)

    fill(objects.nodes, NODES, needed=True)
    fill(objects.pods, PODS, needed=True)
    fill(objects.groups, POD_GROUPS, needed=True)
    fill(objects.queues, QUEUES, needed=True)
    fill(objects.priority_classes, PRIORITY_CLASSES)
    fill(objects.budgets, POD_DISRUPTION_BUDGETS)
    fill(objects.namespaces, NAMESPACES)
    fill(objects.training_jobs, AI_TRAINING_JOBS)
    fill(objects.claims, PERSISTENT_VOLUME_CLAIMS)
    fill(objects.storage_classes, STORAGE_CLASSES)
    if hidden:
        told = "only what the scheduler wrote is known"
        notes.append(f"you may not list {', '.join(hidden)} of the whole cluster: {told}")
    if POD_GROUPS.plural in hidden:
        with suppress(NotFoundError, ForbiddenError):
            objects.groups.append(client.send(calls.get(POD_GROUPS, subject.group)))
    return ExplainInput(objects, tuple(notes), is_whole=not hidden)


def _is_of(pod: Pod, subject: ExplainTarget) -> bool:
    meta = pod.metadata
    group = meta.annotations.get(GROUP_ANNOTATION, "")
    in_group = (meta.namespace, group) == subject.group
    return in_group or (subject.kind == "Pod" and meta.key == subject.key)


def _said_of_group(group: PodGroup) -> PodGroupCondition | None:
    """The newest condition that holds."""
    held = [c for c in group.status.conditions if c.status == "True"]
    return max(held, key=lambda c: c.last_transition_time or "", default=None)


def _said_of_pods(pods: Iterable[Pod]) -> PodGroupCondition | None:
    """What stands on a pod that has no group: the reason is at the head of the message."""
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


def _trouble(pod: Pod) -> str:
    """What keeps a placed pod from running, in the words of its node."""
    status = pod.status
    if not pod.spec.node_name:
        return ""
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason:
            told = f": {waiting.message}" if waiting.message else ""
            return f"{pod.metadata.name} on {pod.spec.node_name}: {waiting.reason}{told}"
    return ""


def _verdict(report: ExplainReport) -> str:
    subject, found = report.subject, report.explanation
    if subject.is_final:
        told = f": {subject.message}" if subject.message else ""
        return f"has ended: {subject.phase}{told}"
    if found is None:
        return f"is {subject.phase}" if subject.phase else "has not been looked at yet"
    return _WORDS[found.standing](found)


def _waits(found: Explanation) -> str:
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


_WORDS: dict[GroupStanding, Callable[[Explanation], str]] = {
    GroupStanding.WAITING: _waits,
    GroupStanding.MAKING_ROOM: lambda _: "waits for others to leave: nodes are promised to it",
    GroupStanding.STARTING: _starts,
    GroupStanding.RUNNING: _runs,
    GroupStanding.COMPLETED: lambda _: "is complete: its pods have finished",
}
