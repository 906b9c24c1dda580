"""What goes when pods, roles or the whole job go, and when it is certain to be gone."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.aitrainingjob import CleanPodPolicy, Ending
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from swell.api.meta import ObjectMeta
from swell.operator.aitrainingjob import labels, nodes
from swell.operator.aitrainingjob.endings import is_deleted_at_end
from swell.operator.aitrainingjob.world import Replica, World
from swell.runtime.plan import Action, DeleteObject, Plan, Step, Together, patch_object


def delete_pods(
    replicas: Iterable[Replica], world: World, now: float, *, as_seen: bool = False
) -> list[Action]:
    """Delete gracefully, once. Only where the processes certainly ended is a record dropped.

    `as_seen` has a pod deleted only if nothing has happened to it since.
    """
    actions: list[Action] = []
    for one in replicas:
        meta = one.pod.metadata
        version = meta.resource_version if as_seen else None
        if nodes.is_fenced(one, world, now):
            actions.append(DeleteObject(PODS, meta.key, meta.uid, grace_s=0, version=version))
        elif not one.is_leaving:
            actions.append(DeleteObject(PODS, meta.key, meta.uid, version=version))
    return actions


def fence_deadline(replicas: Iterable[Replica], world: World, now: float) -> float | None:
    """When a leaving pod's node will count as fenced: the time to look again."""
    times = [nodes.fenced_at(one, world, now) for one in replicas if one.is_leaving]
    return min((at for at in times if at is not None and at > now), default=None)


def delete_services(world: World, names: frozenset[str]) -> list[Action]:
    """Delete the services of these pods, unless that is under way."""
    return [
        DeleteObject(SERVICES, service.metadata.key, service.metadata.uid)
        for service in world.services
        if service.metadata.name in names and service.metadata.deletion_timestamp is None
    ]


def delete_shared(world: World) -> list[Action]:
    """Delete what the job has one of: a finished job must not ask for room."""
    actions: list[Action] = []
    if world.group is not None and world.group.metadata.deletion_timestamp is None:
        meta = world.group.metadata
        actions.append(DeleteObject(POD_GROUPS, meta.key, meta.uid))
    if world.members is not None and world.members.metadata.deletion_timestamp is None:
        meta = world.members.metadata
        actions.append(DeleteObject(CONFIG_MAPS, meta.key, meta.uid))
    return actions


def end_actions(world: World, ending: Ending, now: float) -> list[Action]:
    """What is to be deleted now because the job ends so."""
    doomed, kept = _divided(world, ending)
    names = frozenset(service.metadata.name for service in world.services) - kept
    return [
        # Whoever keeps finished pods must not lose one that finishes just now.
        *delete_pods(doomed, world, now, as_seen=_keeps_finished(world)),
        *delete_services(world, names),
        *delete_shared(world),
    ]


def is_cleaned(world: World, ending: Ending) -> bool:
    """Whether everything that goes with an ending has gone."""
    doomed, kept = _divided(world, ending)
    services_gone = all(service.metadata.name in kept for service in world.services)
    return not doomed and services_gone and world.group is None and world.members is None


def plan_deletion(world: World, now: float) -> Plan:
    """The job object is being deleted: everything it owns goes first, then the finalizer."""
    meta = world.job.metadata
    if labels.FINALIZER not in meta.finalizers:
        return Plan()
    owned = world.everything
    names = frozenset(service.metadata.name for service in world.services)
    actions = [
        *delete_pods(owned, world, now),
        *delete_services(world, names),
        *delete_shared(world),
    ]
    if owned or names or world.group or world.members:
        return Plan(together(actions), wake_at=fence_deadline(owned, world, now))
    return Plan((_without_finalizer(meta),), needs_consistent_read=True)


def _keeps_finished(world: World) -> bool:
    return world.job.spec.clean_pod_policy is CleanPodPolicy.RUNNING


def _divided(world: World, ending: Ending) -> tuple[list[Replica], frozenset[str]]:
    """The pods that go with an ending, and the names of those that stay."""
    policy = world.job.spec.clean_pod_policy
    doomed: list[Replica] = []
    kept: list[str] = []
    for one in world.everything:
        if is_deleted_at_end(one, ending, policy):
            doomed.append(one)
        else:
            kept.append(one.name)
    return doomed, frozenset(kept)


def together(actions: list[Action]) -> tuple[Step, ...]:
    return (Together(tuple(actions)),) if actions else ()


def _without_finalizer(meta: ObjectMeta) -> Action:
    rest = [name for name in meta.finalizers if name != labels.FINALIZER]
    body = {"metadata": {"finalizers": rest}}
    return patch_object(AI_TRAINING_JOBS, meta.key, meta.uid, body, version=meta.resource_version)
