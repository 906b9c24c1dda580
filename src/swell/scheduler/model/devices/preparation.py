"""Decides what has to be written for the devices of a gang before it is bound, and back. Pure.

The states of one claim on its way to the pods of a batch, and back:

    free ---> protected ---> allocated and reserved, in one write ---> the pods may be bound
      ^                                |       ^
      |        the batch is released   |       |  allocated before: the pods are only added
      +--- nobody is left: both go ----+-------+--- others are left: the pods are taken off

A pod whose devices stand for extended resources says so in its status: its kubelet looks there.

The finalizer is written first: without it nothing would ever free the devices. Devices and the last
reservation go back in one write: a claim that is allocated and reserved for nobody is never freed.

A process that begins fences the claims that an earlier one may still be writing: the writes that
give devices and take them back name the version that they replace, and fail once it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from swell.api.devices import (
    DELETE_PROTECTION,
    RESERVED_MAX,
    AllocationResult,
    ConsumerReference,
    ResourceClaim,
)
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.times import has_passed, parse_time
from swell.scheduler.model.devices.choices import DeviceChoice
from swell.scheduler.model.devices.extended import ExtendedRequest
from swell.scheduler.model.devices.rules import DeviceTable
from swell.scheduler.model.devices.usage import DeviceUse
from swell.scheduler.model.devices.usage import devices_of as taken_by
from swell.scheduler.model.tasks import Task
from swell.scheduler.model.volumes.preparation import PreparationFailed

_PODS: Final = "pods"
# What was written last to fence a claim: the version that it had. So the text always changes, and
# the version with it.
TAKEN_OVER: Final = "elasticdeeplearning.ai/taken-over"
FindClaim = Callable[[Key], ResourceClaim | None]


@dataclass(frozen=True, slots=True)
class ProtectClaim:
    """A claim is to stay until its devices are free again."""

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class AllocateClaim:
    """A claim is to get devices, for these pods."""

    claim: ResourceClaim
    allocation: AllocationResult
    pods: tuple[ConsumerReference, ...]


@dataclass(frozen=True, slots=True)
class ReserveClaim:
    """These pods are to use a claim that has its devices already."""

    claim: ResourceClaim
    pods: tuple[ConsumerReference, ...]


@dataclass(frozen=True, slots=True)
class UnreserveClaim:
    """These pods are not to use a claim that others go on using."""

    claim: ResourceClaim
    uids: tuple[Uid, ...]


@dataclass(frozen=True, slots=True)
class FreeClaim:
    """A claim is to give its devices back: none but pods that do not need it may use it."""

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class UnprotectClaim:
    """A claim without devices need not stay. It also outdates every earlier write of a version."""

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class NameClaim:
    """A pod is to say which claim has the devices for its extended resources."""

    claim: ResourceClaim
    pod: Pod
    requests: tuple[ExtendedRequest, ...]


@dataclass(frozen=True, slots=True)
class FenceClaim:
    """A write that an earlier process has sent about a claim is to fail if it comes late."""

    claim: ResourceClaim


DeviceWrite = (
    ProtectClaim
    | AllocateClaim
    | ReserveClaim
    | UnreserveClaim
    | FreeClaim
    | UnprotectClaim
    | NameClaim
    | FenceClaim
)


@dataclass(frozen=True, slots=True)
class DeviceWrites:
    """Writes that do not depend on each other. The next step follows when all have succeeded."""

    writes: tuple[DeviceWrite, ...]


@dataclass(frozen=True, slots=True)
class DeviceProgress:
    """The allocations that one batch counts on, and how far it has come.

    `expected` is what a claim has, or is to have, since the batch began: the choice of a task that
    finds its claim allocated does not say so, and another allocation may be on another node.
    """

    expected: dict[Key, AllocationResult] = field(default_factory=dict)
    seen: set[Key] = field(default_factory=set)  # claims that have had what is expected


def claim_key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)


def next_device_step(
    find: FindClaim,
    tasks: Sequence[Task],
    choices: Mapping[str, DeviceChoice],
    progress: DeviceProgress,
    use: DeviceUse,
) -> PreparationFailed | DeviceWrites | None:
    """Returns the writes that are due for the claims of a batch; None when none is left."""
    consumers: dict[Key, dict[Uid, ConsumerReference]] = {}
    chosen: set[Key] = set()
    for task in tasks:
        if not task.shape.claims_devices:
            continue
        choice = choices.get(task.key)
        if choice is None or choice.problem:
            return PreparationFailed(choice.problem if choice else f"{task.key} has no devices")
        for text, allocation in choice.allocations.items():
            chosen.add(claim_key(text))
            progress.expected.setdefault(claim_key(text), allocation)
        for text in choice.claims:
            consumers.setdefault(claim_key(text), {})[task.pod.metadata.uid] = reference_to(task)
    protects: list[DeviceWrite] = []
    writes: list[DeviceWrite] = []
    for key, pods in consumers.items():
        claim = find(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return PreparationFailed(f"resource claim {key} is gone or being deleted")
        step = _step_of(claim, tuple(pods.values()), progress, use, is_chosen=key in chosen)
        if isinstance(step, PreparationFailed):
            return step
        if step is not None:
            (protects if isinstance(step, ProtectClaim) else writes).append(step)
    found = tuple(protects or writes)
    return DeviceWrites(found) if found else None


def next_naming(find: FindClaim, tasks: Sequence[Task], table: DeviceTable) -> DeviceWrites | None:
    """Returns the pods of a batch that have yet to name their claims; None when none is left."""
    writes: list[DeviceWrite] = []
    for task in tasks:
        choice = table.choices.by_task.get(task.key)
        own = table.extended.claim_of(task.pod)
        if choice is None or own is None or task.pod.status.extended_resource_claim_status:
            continue
        claim = find(own.metadata.key)
        if claim is not None and str(own.metadata.key) in choice.claims:
            requests = table.extended.requests_of(task.pod.spec)
            writes.append(NameClaim(claim, task.pod, requests))
    return DeviceWrites(tuple(writes)) if writes else None


def _step_of(
    claim: ResourceClaim,
    pods: tuple[ConsumerReference, ...],
    progress: DeviceProgress,
    use: DeviceUse,
    *,
    is_chosen: bool,
) -> PreparationFailed | DeviceWrite | None:
    key, allocation = claim.metadata.key, claim.status.allocation
    if allocation is None:
        if not is_chosen or key in progress.seen:
            return PreparationFailed(f"resource claim {key} has lost its devices meanwhile")
        if use.is_used_by_others(str(key), taken_by(progress.expected[key])):
            # The server would accept it: it checks nothing across claims.
            return PreparationFailed(f"devices of resource claim {key} were given to another one")
        if DELETE_PROTECTION not in claim.metadata.finalizers:
            return ProtectClaim(claim)
        return AllocateClaim(claim, progress.expected[key], pods)
    expected = progress.expected.setdefault(key, allocation)
    if devices_of(allocation) != devices_of(expected):
        return PreparationFailed(f"resource claim {key} was given other devices meanwhile")
    progress.seen.add(key)
    reserved = {one.uid for one in claim.status.reserved_for}
    missing = tuple(one for one in pods if one.uid not in reserved)
    if len(reserved) + len(missing) > RESERVED_MAX:
        return PreparationFailed(f"resource claim {key} would be used by over {RESERVED_MAX} pods")
    return ReserveClaim(claim, missing) if missing else None


def devices_of(allocation: AllocationResult) -> frozenset[tuple[str, ...]]:
    """Returns what an allocation is about. The server may add to the rest of it."""
    return frozenset(
        (one.request, one.driver, one.pool, one.device) for one in allocation.devices.results
    )


def reference_to(task: Task) -> ConsumerReference:
    meta = task.pod.metadata
    return ConsumerReference(resource=_PODS, name=meta.name, uid=meta.uid)


# --- back


def give_back(
    claim: ResourceClaim, uids: Collection[Uid], *, is_uncertain: bool
) -> UnreserveClaim | FreeClaim | UnprotectClaim | None:
    """Returns the write that takes pods off a claim, and its devices if nobody else uses it.

    A claim that is reserved for none of the pods is left alone: another may have allocated it. With
    `is_uncertain`, a write of ours may still be under way: it must not find the version it names.
    """
    if claim.status.allocation is None:
        is_protected = DELETE_PROTECTION in claim.metadata.finalizers
        return UnprotectClaim(claim) if is_uncertain and is_protected else None
    ours = tuple(one.uid for one in claim.status.reserved_for if one.uid in uids)
    if not ours:
        return None
    if len(ours) < len(claim.status.reserved_for):
        return UnreserveClaim(claim, ours)
    return FreeClaim(claim)


def needs_fence(claim: ResourceClaim, is_at_work: Callable[[ConsumerReference, str], bool]) -> bool:
    """Whether an earlier process may still be giving devices to a claim, or taking them back.

    It has protected the claim before, and takes no devices from pods that have a node.
    """
    if DELETE_PROTECTION not in claim.metadata.finalizers:
        return False
    namespace = claim.metadata.namespace
    return claim.status.allocation is None or not all(
        is_at_work(one, namespace) for one in claim.status.reserved_for
    )


def overdue_claims(
    claims: Iterable[ResourceClaim],
    is_waiting: Callable[[ConsumerReference, str], bool],
    timeout_s: float,
    now: float,
) -> Iterator[ResourceClaim]:
    """Yields allocated claims that nobody uses but pods which have waited too long for a node.

    An earlier process may have ended before it bound them. Their devices are no use to anybody.
    """
    for claim in claims:
        allocation, consumers = claim.status.allocation, claim.status.reserved_for
        if allocation is None or not consumers or not allocation.allocation_timestamp:
            continue
        if has_passed(parse_time(allocation.allocation_timestamp), timeout_s, now) and all(
            is_waiting(one, claim.metadata.namespace) for one in consumers
        ):
            yield claim
