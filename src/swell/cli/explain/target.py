"""Finds the object that `swell explain` is about, by the name that the user gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swell.api.kinds import AI_TRAINING_JOBS, NATIVE_GROUPS, POD_GROUPS, PODS, TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli.command_line import CommandError
from swell.cli.sweep_names import one_sweep
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.outlook import target as targets
from swell.outlook.target import ExplainTarget
from swell.runtime.errors import NotFoundError
from swell.scheduler.model.native_groups import NATIVE_PREFIX
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


def parse_target_name(arguments: Sequence[str]) -> TargetName:
    """Parse `fit`, `team/fit`, `pg/fit`, `pg team/fit` or `pg fit`.

    What precedes a slash is a kind if it is known as one, and otherwise a namespace.
    """
    kind = _KINDS_BY_NAME.get(arguments[0].lower()) if len(arguments) > 1 else None
    if len(arguments) > 2 or (len(arguments) == 2 and kind is None):
        raise CommandError("one job at a time", "write it as NAME, NS/NAME or KIND/NAME", 2)
    if sweep := one_sweep(arguments[-1]):
        hint = f"why each of them waits: swell get sweep {sweep}; one: swell explain {sweep}-0"
        raise CommandError("a sweep has many jobs", hint, 2)
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
            return targets.of_job(client.send(calls.get(AI_TRAINING_JOBS, key)))
        if resource.plural == TRAINING_JOBS.plural:
            return targets.of_training_job(client.send(calls.get(TRAINING_JOBS, key)))
        if resource.plural == PODS.plural:
            return targets.of_pod(client.send(calls.get(PODS, key)))
        if resource.group == NATIVE_GROUPS.group:
            return targets.of_native_group(client.send(calls.get(NATIVE_GROUPS, key)))
        return targets.of_group(client.send(calls.get(POD_GROUPS, key)))
    except NotFoundError:
        return None  # also when the cluster does not serve the kind


def target_in(given: TargetName, namespace: str, objects: SchedulerObjects) -> ExplainTarget:
    """Find the target among objects that were read from files; they hold no TrainingJobs."""
    key = Key(namespace, given.name)
    finders: tuple[tuple[Resource[object], Iterable[ExplainTarget]], ...] = (
        (
            AI_TRAINING_JOBS,
            (targets.of_job(j) for j in objects.training_jobs if j.metadata.key == key),
        ),
        (POD_GROUPS, (targets.of_group(g) for g in objects.groups if g.metadata.key == key)),
        (
            NATIVE_GROUPS,
            (targets.of_native_group(g) for g in objects.native_groups if g.metadata.key == key),
        ),
        (PODS, (targets.of_pod(p) for p in objects.pods if p.metadata.key == key)),
    )
    for resource, found in finders:
        if given.kind is None or given.kind.plural == resource.plural:
            for target in found:
                return target
    raise CommandError(f"no job, PodGroup or pod {key} in these files")
