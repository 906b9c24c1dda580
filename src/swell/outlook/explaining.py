"""The report of `swell explain`: the scheduler's explanation over objects that were read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

import msgspec

from swell.api.meta import Body, Key
from swell.api.native_groups import GROUP_SCHEDULED
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, PodGroupCondition
from swell.outlook.reading import ExplainInput
from swell.outlook.target import ExplainTarget
from swell.scheduler.config import SCHEDULER_NAMES, Config
from swell.scheduler.explain.explain import explain
from swell.scheduler.explain.explanation import Explanation, GroupStanding
from swell.scheduler.model.native_groups import native_group_of, native_job_name
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.queue_rules import DEFAULT_QUEUE
from swell.scheduler.model.ungrouped import with_virtual_groups
from swell.scheduler.plan import SchedulerObjects

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
    if found.is_whole and explanation is None and not target.held:
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
    if found is None and target.held:
        return target.held
    if found is None:
        unseen = "has not been looked at yet: does an operator run in this cluster?"
        return f"is {target.phase}" if target.phase else unseen
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
