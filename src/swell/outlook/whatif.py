"""The outlook of a job that is not there yet: the controllers' decisions on a copy. Pure.

The operator's decision makes the job's pods and group, one cycle of the scheduler places them, and
the autoscaler's decision says who shrinks for it, and which size it would get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from swell.api.aitrainingjob import (
    STOPPED_ANNOTATION,
    AITrainingJob,
    AITrainingJobPhase,
    StartEstimate,
)
from swell.api.codec import convert, to_body
from swell.api.kinds import POD_GROUPS, PODS
from swell.api.meta import Uid
from swell.api.pod import Pod, PodPhase
from swell.api.scheduling import PodGroup, PodGroupPhase
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.estimates.keeper import EstimateKeeper
from swell.autoscaler.job_views import id_of as job_id
from swell.autoscaler.plan import AutoscalerPlan, inquiry_resource
from swell.autoscaler.views import JobId
from swell.operator.aitrainingjob.decide import decide
from swell.operator.aitrainingjob.labels import FINALIZER
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.outlook.sizing import OutlookRules, SizingWorld, sizing_objects
from swell.outlook.starts import sentence
from swell.outlook.variants import OutlookError, Variant, changed_cluster, changed_job
from swell.runtime.plan import CreateObject, Plan, Together
from swell.scheduler.cycle import SchedulingPlan
from swell.scheduler.plan import SchedulerObjects, plan_schedule

# No object of a cluster has this UID.
_UID = Uid("what-if")
# Nodes and jobs in one cell of a table; all of them are in JSON.
_SHOWN = 4


class Start(StrEnum):
    """When a job would start."""

    NOW = "now"
    AFTER_OTHERS = "after others make room"
    WAITS = "waits"
    NEVER = "never"


def _few(texts: Sequence[str]) -> list[str]:
    """Returns the first of many texts, and how many more there are."""
    more = len(texts) - _SHOWN
    return [*texts[:_SHOWN], *([f"{more} more"] if more > 0 else [])]


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """The answer for one variant: when and where the job starts, who makes room, its size."""

    variant: str
    start: Start
    nodes: dict[str, int]
    makes_room: tuple[str, ...]
    size: str
    why: str
    when: StartEstimate | None = None  # of one that waits

    def body(self) -> dict[str, object]:
        """Returns the answer as JSON data."""
        return {
            "variant": self.variant,
            "starts": self.start.value,
            "nodes": dict(sorted(self.nodes.items())),
            "makesRoom": list(self.makes_room),
            "size": self.size,
            "why": self.why,
            "startEstimate": None if self.when is None else to_body(self.when),
        }

    def row(self) -> tuple[str, ...]:
        """Returns the answer as a line of a table."""
        places = [f"{node} x{n}" for node, n in sorted(self.nodes.items())]
        return (
            self.variant,
            self.start.value,
            ", ".join(_few(places)),
            "; ".join(_few(self.makes_room)),
            self.size,
            self.why,
        )


def what_if(
    objects: SchedulerObjects,
    job: AITrainingJob,
    variants: Sequence[Variant],
    rules: OutlookRules,
) -> list[JobOutlook]:
    """Returns what would happen to the job in a copy of the cluster, by variant."""
    sizing = SizingWorld(objects, rules)
    return [_outlook(objects, job, variant, sizing, rules) for variant in variants]


def _outlook(
    objects: SchedulerObjects,
    job: AITrainingJob,
    variant: Variant,
    sizing: SizingWorld,
    rules: OutlookRules,
) -> JobOutlook:
    world = changed_cluster(objects, variant)
    job = _begun(changed_job(job, variant))
    key = job.metadata.key
    if any(one.metadata.key == key for one in world.training_jobs):
        raise OutlookError(f"there is a job {key} already", f"leave it out: --without {key}")
    group, pods = _children(job, world)
    world = replace(
        world,
        training_jobs=[*world.training_jobs, job],
        groups=[*world.groups, group],
        pods=[*world.pods, *pods],
    )
    plan = plan_schedule(world, rules.config)
    name = str(key)
    own = frozenset(str(pod.metadata.key) for pod in pods)
    nodes = _nodes(plan, own)
    status = plan.groups.get(name)
    refusal = status.refusal.message if status is not None and status.refusal is not None else ""
    minimum = sum(spec.gang_minimum for spec in job.spec.replica_specs.values())
    if sum(task.key in own for task in plan.binds) >= minimum:
        # Nobody shrinks for a job that has started: the autoscaler sees it run.
        grown = _size(sizing.sizes(_running(world, job, plan)), name)
        return JobOutlook(variant.label, Start.NOW, nodes, (*_evicted(plan, name),), *grown)
    sizes = sizing.sizes(world)
    room = (*_evicted(plan, name), *_shrunk(sizes, name))
    if room:
        return JobOutlook(variant.label, Start.AFTER_OTHERS, nodes, room, *_size(sizes, name))
    if not _fits_alone(world, job, group, pods, rules):
        return JobOutlook(
            variant.label, Start.NEVER, {}, (), "", refusal or "it fits no empty cluster"
        )
    why, when, now = refusal or "there is no room", None, rules.parameters.now
    if now is not None:
        when = _estimates(world, sizing.snapshot(world), now).get(job_id(job))
        why += "" if when is None else f"; starts {sentence(when, now)}"
    return JobOutlook(variant.label, Start.WAITS, {}, (), "", why, when)


def _begun(job: AITrainingJob) -> AITrainingJob:
    """Returns the job as the API server would store it, before the operator has seen it.

    It is neither suspended nor stopped: the question is what would happen if it were let go.
    """
    meta = msgspec.structs.replace(
        job.metadata,
        namespace=job.metadata.namespace or "default",
        uid=_UID,
        resource_version="1",
        finalizers=(FINALIZER,),
        annotations={
            name: value
            for name, value in job.metadata.annotations.items()
            if name != STOPPED_ANNOTATION
        },
    )
    spec = msgspec.structs.replace(job.spec, suspend=False)
    return msgspec.structs.replace(job, metadata=meta, spec=spec, status=type(job.status)())


def _children(job: AITrainingJob, world: SchedulerObjects) -> tuple[PodGroup, list[Pod]]:
    """Returns the group and the pods that the operator would create, in as many plans as needed."""
    classes = {one.metadata.name for one in world.priority_classes}
    snapshot = AITrainingJobSnapshot(job, priority_class_found=job.spec.priority in classes)
    group: PodGroup | None = None
    pods: list[Pod] = []
    while made := list(_creates(decide(snapshot, 0.0))):
        new = [convert(one.body, Pod) for one in made if one.resource.kind == PODS.kind]
        found = [
            convert(one.body, PodGroup) for one in made if one.resource.kind == POD_GROUPS.kind
        ]
        group = found[0] if found else group
        if not new:
            break
        pods += new
        snapshot = replace(snapshot, pods=tuple(pods), group=group)
    if group is None or not pods:
        raise OutlookError(f"job {job.metadata.key} would create no pods", "check: swell validate")
    # The scheduler lets a group in before it places it: that is no refusal of the job.
    status = msgspec.structs.replace(group.status, phase=PodGroupPhase.INQUEUE)
    return msgspec.structs.replace(group, status=status), pods


def _creates(plan: Plan) -> Iterator[CreateObject]:
    for step in plan.actions:
        for action in step.actions if isinstance(step, Together) else (step,):
            if isinstance(action, CreateObject) and not action.dry_run:
                yield action


def estimated_starts(world: SchedulerObjects, now: float) -> dict[JobId, StartEstimate]:
    """Returns when the waiting jobs of a cluster would start, in the order they are tried in."""
    return _estimates(world, inquiry_resource(sizing_objects(world)), now)


def _estimates(
    world: SchedulerObjects, snapshot: AutoscalerSnapshot, now: float
) -> dict[JobId, StartEstimate]:
    values = {one.metadata.name: one.value for one in world.priority_classes}
    keeper = EstimateKeeper(lambda priority: values.get(priority, 0))
    for job in world.training_jobs:
        keeper.note_run(job)
    return {id_: spread.body(now) for id_, spread in keeper.estimate(snapshot, now).items()}


def _running(world: SchedulerObjects, job: AITrainingJob, plan: SchedulingPlan) -> SchedulerObjects:
    """Returns the cluster once the pods that were placed run."""
    places = {task.key: node for task, node in plan.binds.items()}
    pods = []
    for pod in world.pods:
        node = places.get(str(pod.metadata.key))
        if node is not None:
            spec = msgspec.structs.replace(pod.spec, node_name=node)
            status = msgspec.structs.replace(pod.status, phase=PodPhase.RUNNING)
            pods.append(msgspec.structs.replace(pod, spec=spec, status=status))
        else:
            pods.append(pod)
    targets = {name.lower(): spec.size for name, spec in job.spec.replica_specs.items()}
    grown = msgspec.structs.replace(
        job.status, phase=AITrainingJobPhase.RUNNING, target_replicas=targets
    )
    begun = msgspec.structs.replace(job, status=grown)
    jobs = [begun if one is job else one for one in world.training_jobs]
    return replace(world, pods=pods, training_jobs=jobs)


def _fits_alone(
    world: SchedulerObjects,
    job: AITrainingJob,
    group: PodGroup,
    pods: list[Pod],
    rules: OutlookRules,
) -> bool:
    """Whether the job would start if no other pod were there."""
    empty = replace(world, pods=pods, groups=[group], training_jobs=[job])
    return bool(plan_schedule(empty, rules.config).binds)


def _nodes(plan: SchedulingPlan, pods: frozenset[str]) -> dict[str, int]:
    placed = {**plan.pipelined, **plan.binds}
    return dict(Counter(node for task, node in placed.items() if task.key in pods))


def _evicted(plan: SchedulingPlan, group: str) -> Iterator[str]:
    for one in sorted(plan.evictions, key=lambda one: one.task.key):
        if one.preemptor == group:
            yield f"{one.task.key} is evicted ({one.action})"


def _shrunk(plan: AutoscalerPlan, group: str) -> Iterator[str]:
    for job, roles in plan.by_job().items():
        for role, one in roles.items():
            if one.for_group == group != job:
                yield f"{job} {role} shrinks from {one.current} to {one.target}"


def _size(plan: AutoscalerPlan, job: str) -> tuple[str, str]:
    """Returns the sizes that the autoscaler would give the job, and why."""
    roles = plan.by_job().get(job, {})
    sizes = ", ".join(f"{role} {one.target}" for role, one in roles.items())
    return sizes, "; ".join(one.message for one in roles.values())
