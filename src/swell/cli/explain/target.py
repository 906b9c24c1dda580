"""Finds the object that `swell explain` is about, and the PodGroup it is scheduled by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.api.aitrainingjob import (
    FINAL_PHASES,
    AITrainingJob,
    EdlPolicy,
    ReplicaSpec,
    StartEstimate,
)
from swell.api.kinds import AI_TRAINING_JOBS, NATIVE_GROUPS, POD_GROUPS, PODS, TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import FINAL_PHASES as TRAINING_FINAL
from swell.api.trainingjob import TrainingJob
from swell.cli.command_line import CommandError
from swell.cli.starts import estimate_of
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.errors import NotFoundError
from swell.scheduler.model.native_groups import (
    NATIVE_PREFIX,
    native_group_of,
    native_job_name,
)
from swell.scheduler.model.tasks import GROUP_ANNOTATION
from swell.scheduler.model.ungrouped import virtual_group_name
from swell.scheduler.plan import SchedulerObjects

# A name without a kind is looked for in these, in this order.
_KINDS: tuple[Resource[Body], ...] = (
    AI_TRAINING_JOBS.untyped(),
    TRAINING_JOBS.untyped(),
    POD_GROUPS.untyped(),
    NATIVE_GROUPS.untyped(),
    PODS.untyped(),
)
_JOBS = _KINDS[:2]
# Reversed, so that a name that several kinds share means the first of them.
_KINDS_BY_NAME = {
    name: resource
    for resource in reversed(_KINDS)
    for name in (resource.plural, resource.kind.lower(), *resource.short_names)
} | {NATIVE_PREFIX.rstrip(":"): NATIVE_GROUPS.untyped()}


@dataclass(frozen=True, slots=True)
class TargetName:
    """The name that the user gave; without a kind, every kind is tried."""

    name: str
    namespace: str = ""
    kind: Resource[Body] | None = None


class RoleSize(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The target and the bounds of an elastic role, and its last resize."""

    role: str
    target: int
    minimum: int
    maximum: int
    policy: str
    resized: str = ""


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """The object to explain, reduced to what the report shows, and the key of its PodGroup."""

    kind: str
    key: Key
    group: Key
    phase: str = ""
    message: str = ""
    is_final: bool = False
    since: str | None = None  # when it was created, or when it ended if it has
    sizes: tuple[RoleSize, ...] = ()
    start: StartEstimate | None = None  # of a job that waits


def parse_target_name(arguments: Sequence[str]) -> TargetName:
    """Parse `fit`, `team/fit`, `pg/fit`, `pg team/fit` or `pg fit`.

    What precedes a slash is a kind if it is known as one, and otherwise a namespace.
    """
    kind = _KINDS_BY_NAME.get(arguments[0].lower()) if len(arguments) > 1 else None
    if len(arguments) > 2 or (len(arguments) == 2 and kind is None):
        raise CommandError("one job at a time", "write it as NAME, NS/NAME or KIND/NAME", 2)
    first, slash, name = arguments[-1].partition("/")
    if not slash:
        return TargetName(first, kind=kind)
    named = _KINDS_BY_NAME.get(first.lower()) if kind is None else None
    if not first or not name or "/" in name:
        raise CommandError(f"not a name: {arguments[-1]!r}", "write it as NS/NAME or KIND/NAME", 2)
    return TargetName(name, "", named) if named else TargetName(name, first, kind)


def read_target(given: TargetName, namespace: str, client: OneShot) -> ExplainTarget:
    """Read the target from the cluster; CommandError when no kind has an object of this name."""
    key = Key(namespace, given.name)
    kinds = (given.kind,) if given.kind else _KINDS
    if given.kind == POD_GROUPS.untyped():
        kinds = (given.kind, NATIVE_GROUPS.untyped())  # both kinds have this name
    jobs = [one for kind in kinds if kind in _JOBS and (one := _try_read(kind, key, client))]
    if len(jobs) > 1:
        named = f"an AITrainingJob and a TrainingJob are named {given.name}"
        raise CommandError(named, f"say which: aitj/{given.name} or tj/{given.name}")
    others = (_try_read(kind, key, client) for kind in kinds if kind not in _JOBS)
    for target in jobs or others:
        if target is not None:
            return target
    what = given.kind.kind if given.kind else "job, PodGroup or pod"
    hint = "see: swell get, swell get podgroups"
    raise CommandError(f"no {what} {given.name} in namespace {namespace}", hint)


def _try_read(resource: Resource[Body], key: Key, client: OneShot) -> ExplainTarget | None:
    try:
        if resource.plural == AI_TRAINING_JOBS.plural:
            return _of_job(client.send(calls.get(AI_TRAINING_JOBS, key)))
        if resource.plural == TRAINING_JOBS.plural:
            return _of_training_job(client.send(calls.get(TRAINING_JOBS, key)))
        if resource.plural == PODS.plural:
            return _of_pod(client.send(calls.get(PODS, key)))
        if resource.group == NATIVE_GROUPS.group:
            return _of_native_group(client.send(calls.get(NATIVE_GROUPS, key)))
        return _of_group(client.send(calls.get(POD_GROUPS, key)))
    except NotFoundError:
        return None  # also when the cluster does not serve the kind


def target_in(given: TargetName, namespace: str, objects: SchedulerObjects) -> ExplainTarget:
    """Find the target among objects that were read from files; they hold no TrainingJobs."""
    key = Key(namespace, given.name)
    finders: tuple[tuple[Resource[object], Iterable[ExplainTarget]], ...] = (
        (AI_TRAINING_JOBS, (_of_job(j) for j in objects.training_jobs if j.metadata.key == key)),
        (POD_GROUPS, (_of_group(g) for g in objects.groups if g.metadata.key == key)),
        (
            NATIVE_GROUPS,
            (_of_native_group(g) for g in objects.native_groups if g.metadata.key == key),
        ),
        (PODS, (_of_pod(p) for p in objects.pods if p.metadata.key == key)),
    )
    for resource, found in finders:
        if given.kind is None or given.kind.plural == resource.plural:
            for target in found:
                return target
    raise CommandError(f"no job, PodGroup or pod {key} in these files")


def _of_group(group: PodGroup) -> ExplainTarget:
    meta = group.metadata
    phase = group.status.phase.value
    return ExplainTarget(group.kind, meta.key, meta.key, phase, since=meta.creation_timestamp)


def _of_native_group(group: NativeGroup) -> ExplainTarget:
    meta = group.metadata
    name = Key(meta.namespace, native_job_name(meta.name))
    return ExplainTarget(group.kind, meta.key, name, since=meta.creation_timestamp)


def _of_job(job: AITrainingJob) -> ExplainTarget:
    # The operator gives the PodGroup the name of its job.
    status, key = job.status, job.metadata.key
    is_final = status.phase in FINAL_PHASES
    since = status.end_time if is_final else job.metadata.creation_timestamp
    sizes = tuple(
        _size_of(job, name.lower(), spec)
        for name, spec in sorted(job.spec.replica_specs.items())
        if spec.is_elastic
    )
    phase, start = status.phase.value, estimate_of(job)
    return ExplainTarget(job.kind, key, key, phase, status.message, is_final, since, sizes, start)


def _size_of(job: AITrainingJob, role: str, spec: ReplicaSpec) -> RoleSize:
    last = next((r for r in reversed(job.status.scale_records) if r.role == role), None)
    for_ = f" for {last.for_}" if last and last.for_ else ""
    return RoleSize(
        role=role,
        target=job.status.target_replicas.get(role, spec.size),
        minimum=spec.minimum,
        maximum=spec.maximum,
        policy=spec.edl_policy.value,
        resized=f"from {last.from_} to {last.to} by the {last.by.value}{for_}" if last else "",
    )


def _of_training_job(job: TrainingJob) -> ExplainTarget:
    status, key = job.status, job.metadata.key
    group = Key(key.namespace, job.spec.pod_group_name or key.name)
    is_final = status.phase in TRAINING_FINAL
    since = job.metadata.creation_timestamp
    sizes = (_trainer_size(job),) if job.spec.is_elastic else ()
    phase = status.phase.value
    return ExplainTarget(job.kind, key, group, phase, status.reason, is_final, since, sizes)


def _trainer_size(job: TrainingJob) -> RoleSize:
    spec, target = job.spec, job.status.trainer_target
    last = job.status.scale_records[-1] if job.status.scale_records else None
    return RoleSize(
        role="trainer",
        target=spec.trainer_minimum if target is None else target,
        minimum=spec.trainer_minimum,
        maximum=spec.trainer_maximum,
        policy=EdlPolicy.AUTO.value,
        resized=f"from {last.from_} to {last.to} by the {last.by}" if last else "",
    )


def _of_pod(pod: Pod) -> ExplainTarget:
    meta = pod.metadata
    native = native_group_of(pod)
    own = native_job_name(native) if native else virtual_group_name(pod)
    name = meta.annotations.get(GROUP_ANNOTATION) or own
    group = Key(meta.namespace, name)
    since = meta.creation_timestamp
    return ExplainTarget(
        "Pod", meta.key, group, pod.status.phase.value, pod.status.message, since=since
    )
