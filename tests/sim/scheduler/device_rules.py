"""What must hold of devices on every commit and at rest: one user each, and before its node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swell.api.devices import ResourceClaim
from swell.api.kinds import PODS, RESOURCE_CLAIMS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.storage import Commit
from swell.scheduler.model.devices.claims import device_claims_of
from swell.scheduler.model.devices.extended import IS_EXTENDED
from swell.sim.actors.pod_lifecycle import bound_by
from swell.sim.invariants import LivenessCheck, SafetyCheck
from swell.sim.observation import all_of, pod_states
from swell.sim.world import SimulatedWorld
from tests.sim.scheduler.gangs import CARD
from tests.sim.scheduler.liveness import liveness
from tests.sim.scheduler.rules import safety

Device = tuple[str, str, str]


def device_safety(world: SimulatedWorld) -> list[SafetyCheck]:
    return [*safety(world), DevicesFirst(world), DeviceHasOneClaim(world)]


def device_liveness(world: SimulatedWorld) -> list[LivenessCheck]:
    return [*liveness(world), DevicesSettled(world)]


@dataclass
class DevicesFirst:
    """D3: a pod that is bound may use all its claims, on its node."""

    world: SimulatedWorld
    name: str = "D3 devices first"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = pod_states(commit)
        if pod is None or not bound_by(commit):
            return
        node, n_cards = pod.spec.node_name, _cards_of(pod)
        named = pod.status.extended_resource_claim_status
        keys = [use.key for use in device_claims_of(pod)]
        if named is not None:
            keys.append(f"{pod.metadata.namespace}/{named.resource_claim_name}")
        elif n_cards:
            yield f"{pod.metadata.key} is bound to {node}, and names no claim for its cards"
        for key in keys:
            namespace, _, name = key.partition("/")
            stored = self.world.storage.get(str(RESOURCE_CLAIMS), Key(namespace, name))
            claim = None if stored is None else stored.typed(ResourceClaim)
            if claim is None or claim.status.allocation is None:
                yield f"{pod.metadata.key} is bound to {node}, its claim {key} has no devices"
                continue
            if all(one.uid != pod.metadata.uid for one in claim.status.reserved_for):
                yield f"{pod.metadata.key} is bound to {node}, and may not use {key}"
            results = claim.status.allocation.devices.results
            pools = {one.pool for one in results}
            if pools != {node}:
                yield f"{pod.metadata.key} is bound to {node}, its devices are on {pools}"
            if _is_for_cards(claim) and len(results) != n_cards:
                yield f"{pod.metadata.key} has {len(results)} cards and asked for {n_cards}"


@dataclass
class DeviceHasOneClaim:
    """D3: no device is in two claims, at any time."""

    world: SimulatedWorld
    name: str = "D3 one claim a device"
    _held: dict[Key, frozenset[Device]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.collection != str(RESOURCE_CLAIMS):
            return
        claim = None if commit.after is None else commit.after.typed(ResourceClaim)
        devices = _devices_of(claim)
        for key, others in self._held.items():
            if key != commit.key and devices & others:
                yield f"{commit.key} and {key} both have {sorted(devices & others)}"
        self._held[commit.key] = devices


@dataclass
class DevicesSettled:
    """D2, D3: at rest a claim has devices for bound pods, or none at all."""

    world: SimulatedWorld
    name: str = "D2 devices settled"

    def missing(self) -> Iterator[str]:
        pods = {one.metadata.uid: one for one in all_of(self.world, PODS)}
        with_cards: set[Uid] = set()
        for claim in all_of(self.world, RESOURCE_CLAIMS):
            if _is_for_cards(claim):
                owners = {one.uid for one in claim.metadata.owner_references}
                if owners & with_cards:
                    yield f"{claim.metadata.key} is a second claim for the cards of one pod"
                with_cards |= owners
            if claim.status.allocation is None:
                continue
            users = [pods.get(one.uid) for one in claim.status.reserved_for]
            if not users:
                yield f"{claim.metadata.key} has devices, and nobody may use them"
            if any(pod is None or not _is_at_work(pod) for pod in users):
                yield f"{claim.metadata.key} is reserved for a pod that is not at work"


def _is_at_work(pod: Pod) -> bool:
    over = {PodPhase.SUCCEEDED, PodPhase.FAILED}
    return bool(pod.spec.node_name) and pod.status.phase not in over


def _is_for_cards(claim: ResourceClaim) -> bool:
    """Whether the scheduler has made a claim for what a pod requests as an extended resource."""
    return claim.metadata.annotations.get(IS_EXTENDED) == "true"


def _cards_of(pod: Pod) -> int:
    amounts = (one.resources.limits.get(CARD, 0) for one in pod.spec.containers)
    return sum(int(amount) for amount in amounts)


def _devices_of(claim: ResourceClaim | None) -> frozenset[Device]:
    if claim is None or claim.status.allocation is None:
        return frozenset()
    return frozenset(
        (one.driver, one.pool, one.device) for one in claim.status.allocation.devices.results
    )
