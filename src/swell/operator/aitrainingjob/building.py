"""Makes what exists what the status says should exist: group, members, services, pods.

What pods have to know goes before them; what they leave behind goes with them.
"""

from __future__ import annotations

from itertools import islice

from swell.api.aitrainingjob import AITrainingJobPhase, AITrainingJobStatus
from swell.api.kinds import CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from swell.api.meta import Body
from swell.operator.aitrainingjob import cleanup, gang, labels, restarts
from swell.operator.aitrainingjob.causes import Cause
from swell.operator.aitrainingjob.membership import members_body, members_data
from swell.operator.aitrainingjob.pods import owner_reference, pod_bodies, service_body
from swell.operator.aitrainingjob.world import World, is_restarting, is_surplus, missing
from swell.runtime.plan import Action, CreateObject, Step, patch_object

# So much is created for one job before others have their turn; the rest follows at the next look.
CREATES_MAX = 500


def build(
    world: World,
    status: AITrainingJobStatus,
    final: tuple[Cause, ...],
    now: float,
    *,
    is_told: bool,
) -> list[Step]:
    """The steps from what there is to what should be.

    `is_told` says that the status in the cluster is this one. Until then the group keeps its
    size: it follows the same numbers, at the same pace.
    """
    owner = owner_reference(world)
    doomed = [
        one for one in world.replicas if is_restarting(one, status) or is_surplus(one, status)
    ]
    waits = restarts.must_wait(world, status, now)
    wanted = [] if waits else list(islice(missing(world, status), CREATES_MAX))
    pods = pod_bodies(world, status, wanted, now)
    shared = [*_first_opinion(world, pods), *_members_steps(world, status, owner)]
    if world.group is None or is_told:
        shared += _group_steps(world, status, final, owner)
    steps: list[Step] = [*cleanup.together(shared)]
    steps += cleanup.together(
        [
            *cleanup.delete_pods(doomed, world, now),
            *cleanup.delete_services(world, _surplus_services(world, status)),
        ]
    )
    if not waits:
        # Pods first: until they look for their services, a node has started them.
        services = _service_steps(world, status)[:CREATES_MAX]
        steps += cleanup.together([*(CreateObject(PODS, body) for body in pods), *services])
    return steps


def _first_opinion(world: World, pods: list[Body]) -> list[Action]:
    """Before the first pod is created, ask the API server what it thinks of it."""
    if world.job.status.phase is not AITrainingJobPhase.EMPTY or world.pods:
        return []
    return [CreateObject(PODS, body, dry_run=True) for body in pods[:1]]


def _group_steps(
    world: World, status: AITrainingJobStatus, final: tuple[Cause, ...], owner: Body
) -> list[Action]:
    if not (world.settings.gang and world.gang_served):
        return []
    spec = gang.group_spec(world, status, final)
    if world.group is None:
        return [CreateObject(POD_GROUPS, gang.group_body(world, spec, owner))]
    change = gang.group_change(world, status, spec)
    meta = world.group.metadata
    if not change or meta.deletion_timestamp is not None:
        return []
    return [patch_object(POD_GROUPS, meta.key, meta.uid, {"spec": change})]


def _members_steps(world: World, status: AITrainingJobStatus, owner: Body) -> list[Action]:
    """The version makes sure that no older membership is ever written over a newer one."""
    held = world.members
    if held is None:
        return [CreateObject(CONFIG_MAPS, members_body(world, status, owner))]
    data = members_data(world, status)
    if data == held.data:
        return []
    stale: Body = {name: None for name in held.data if name not in data}
    meta = held.metadata
    body: Body = {"data": {**data, **stale}}
    version = meta.resource_version
    return [patch_object(CONFIG_MAPS, meta.key, meta.uid, body, version=version)]


def _wanted_names(world: World, status: AITrainingJobStatus) -> dict[str, tuple[str, int]]:
    job = world.job.metadata.name
    return {
        labels.pod_name(job, role, index): (role, index)
        for role in world.roles
        for index in range(status.target_replicas.get(role, 0))
    }


def _surplus_services(world: World, status: AITrainingJobStatus) -> frozenset[str]:
    wanted = _wanted_names(world, status)
    return frozenset(service.metadata.name for service in world.services) - wanted.keys()


def _service_steps(world: World, status: AITrainingJobStatus) -> list[Action]:
    held = {service.metadata.name for service in world.services}
    return [
        CreateObject(SERVICES, service_body(world, role, index))
        for name, (role, index) in _wanted_names(world, status).items()
        if name not in held
    ]
