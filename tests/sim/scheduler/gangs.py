"""Gangs of bare pods, and their keeper, which creates a lost pod again under its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from swell.api.injection import RELEASE_ANNOTATION, SAVED_ANNOTATION
from swell.api.kinds import (
    HYPER_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod, PodPhase
from swell.api.saving import SAVE_SECONDS_ANNOTATION
from swell.cluster.embedded.storage import Commit
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.sim.actors.pod_lifecycle import bound_by
from swell.sim.observation import NAMESPACE, pod_states
from swell.sim.scenario import USER
from swell.sim.world import SimulatedWorld
from tests.sim.operator.jobs import RUNS
from tests.storage_objects import a_claim, mounts

KEEPER = "keeper"
GANG = "sim/gang"  # the label of a kept pod
CARD = "example.com/card"  # a resource that only devices stand for


@dataclass(frozen=True, slots=True)
class Gang:
    """So many pods, of which the minimum must start together; a minimum of 0: no group at all."""

    name: str
    size: int
    minimum: int
    cpu: int = 1
    runs_s: float = 30.0
    queue: str = ""
    priority: str = ""
    tier: int | None = None  # the highest that all its pods may span
    save_s: int = 0  # how long its pods may take to save; 0: they do not
    storage: str = ""  # the class of the claim that each pod has, named like the pod
    devices: str = ""  # the template of the resource claim that each pod has
    shared_claim: str = ""  # a resource claim that all pods use
    cards: int = 0  # of the resource that devices stand for, for each pod

    def group(self) -> Body:
        topology = {"mode": "hard", "highestTierAllowed": self.tier}
        limit = {} if self.tier is None else {"networkTopology": topology}
        return {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "minMember": self.minimum,
                "queue": self.queue or "default",
                "priorityClassName": self.priority,
                **limit,
            },
        }

    def pod(self, index: int) -> Body:
        cards = {CARD: str(self.cards)} if self.cards else {}
        amounts = {"cpu": str(self.cpu), "memory": "1Gi", **cards}
        group = {GROUP_ANNOTATION: self.name} if self.minimum else {}
        saves = {SAVE_SECONDS_ANNOTATION: str(self.save_s)} if self.save_s else {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.name}-{index}",
                "namespace": NAMESPACE,
                "labels": {GANG: self.name},
                "annotations": {RUNS: str(self.runs_s), **group, **saves},
            },
            "spec": {
                "schedulerName": "swell",
                "terminationGracePeriodSeconds": 8,
                "volumes": mounts(f"{self.name}-{index}") if self.storage else [],
                "resourceClaims": list(self._resource_claims()),
                "containers": [
                    {
                        "name": "main",
                        "image": "local",
                        "resources": {"requests": amounts, "limits": cards},
                    }
                ],
            },
        }

    def _resource_claims(self) -> Iterator[Body]:
        if self.devices:
            yield {"name": "own", "resourceClaimTemplateName": self.devices}
        if self.shared_claim:
            yield {"name": "shared", "resourceClaimName": self.shared_claim}


async def have_hyper_node(world: SimulatedWorld, name: str, tier: int, **members: str) -> None:
    """A domain with some members, each given with its kind."""
    selected = [
        {"type": kind, "selector": {"exactMatch": {"name": member.replace("_", "-")}}}
        for member, kind in members.items()
    ]
    body: Body = {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.kind,
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": selected},
    }
    await world.connect(USER).create(HYPER_NODES.untyped(), body)


class Keeper:
    """Keeps gangs as complete as their owners want them."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._user = world.connect(USER)
        self._keeper = world.connect(KEEPER)
        self.gangs: dict[str, Gang] = {}
        self._done: set[str] = set()  # pods that have succeeded
        self._to_break: dict[str, float] = {}
        self._away_s: dict[str, float] = {}  # how long a pod stays away when it is lost
        world.storage.on_commit.append(self._on_commit)

    async def submit(self, gang: Gang) -> None:
        """The group and its pods, in any order."""
        self.gangs[gang.name] = gang
        for index in range(gang.size) if gang.storage else ():
            claim = a_claim(f"{gang.name}-{index}", gang.storage, namespace=NAMESPACE)
            del claim["metadata"]["uid"], claim["status"]
            await self._user.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)
        pods_first = self._world.chance.uniform("pods first", gang.name) < 0.4
        if gang.minimum and not pods_first:
            await self._user.create(POD_GROUPS, gang.group())
        for index in range(gang.size):
            await self._create(gang, index)
        if gang.minimum and pods_first:
            await self._world.clock.sleep(self._world.chance.between(0, 5, "late", gang.name))
            await self._user.create(POD_GROUPS, gang.group())

    async def grow(self, gang: Gang) -> None:
        """To another size and minimum: the group first, or the pods."""
        old = self.gangs.get(gang.name)
        if old is None:
            return  # it is through already
        self.gangs[gang.name] = gang
        if self._world.chance.uniform("policy first", gang.name) < 0.5:
            await self._raise(gang)
        for index in range(old.size, gang.size):
            await self._create(gang, index)
        await self._raise(gang)

    async def drop(self, name: str) -> None:
        """Delete the group and all its pods, which then stay away."""
        gang = self.gangs.pop(name, None)
        if gang is None:
            return
        self._forget(gang)
        if gang.minimum:
            await self._user.delete(POD_GROUPS, Key(NAMESPACE, name))
        for index in range(gang.size):
            with suppress(NotFoundError):
                await self._user.delete(PODS, Key(NAMESPACE, f"{name}-{index}"))

    async def until_gone(self, name: str, size: int) -> None:
        keys = [Key(NAMESPACE, f"{name}-{index}") for index in range(size)]
        await self._world.until(
            lambda: all(self._world.storage.get(str(PODS), key) is None for key in keys), 200
        )

    async def until_done(self, name: str) -> None:
        """For owners who would otherwise seem content while a pod stays away."""
        await self._world.until(lambda: name not in self.gangs, within_s=3000)

    async def replace(self, gang: Gang) -> None:
        """By force, under the same names, without a moment in between."""
        self._forget(self.gangs.pop(gang.name, gang))
        await self._user.delete(POD_GROUPS, Key(NAMESPACE, gang.name))
        await self._user.create(POD_GROUPS, gang.group())
        for index in range(gang.size):
            key = Key(NAMESPACE, f"{gang.name}-{index}")
            with suppress(NotFoundError):
                await self._user.delete(PODS, key, Deletion(grace_s=0))
            await self._create(gang, index)
        self.gangs[gang.name] = gang

    def break_when_bound(self, name: str, away_s: float) -> None:
        """Lose a pod of a gang as soon as another one of it is bound, and for some time."""
        self._to_break[name] = away_s

    async def _break(self, gang: Gang, away_s: float) -> None:
        for index in reversed(range(gang.size)):
            key = Key(NAMESPACE, f"{gang.name}-{index}")
            stored = self._world.storage.get(str(PODS), key)
            if stored is not None and not stored.typed(Pod).spec.node_name:
                self._away_s[key.name] = away_s
                await self._user.delete(PODS, key)
                return

    def _forget(self, gang: Gang) -> None:
        self._done -= {f"{gang.name}-{index}" for index in range(gang.size)}

    async def _raise(self, gang: Gang) -> None:
        spec = gang.group()["spec"]
        await self._user.patch(POD_GROUPS, Key(NAMESPACE, gang.name), merge_patch({"spec": spec}))

    async def _create(self, gang: Gang, index: int) -> None:
        with suppress(AlreadyExistsError):  # comes again when that one is gone
            await self._keeper.create(PODS, gang.pod(index))

    def _on_commit(self, commit: Commit) -> None:
        before, after = pod_states(commit)
        pod = after or before
        name = pod.metadata.labels.get(GANG, "") if pod else ""
        if pod is None or name not in self.gangs:
            return
        if after is not None and _is_asked(before, after):
            self._world.spawn(self._answer(after))
        if bound_by(commit) and name in self._to_break:
            self._world.spawn(self._break(self.gangs[name], self._to_break.pop(name)))
        if pod.status.phase is PodPhase.SUCCEEDED:
            self._done.add(pod.metadata.name)
        if all(f"{name}-{index}" in self._done for index in range(self.gangs[name].size)):
            # Through with its work: nothing of it comes again, and who is at it once more may go.
            self._world.spawn(self._leave(self.gangs.pop(name)))
        elif after is None or pod.status.phase is PodPhase.FAILED:
            self._world.spawn(self._again(pod))

    async def _answer(self, pod: Pod) -> None:
        """Save, unless this program is one of those that never get done."""
        meta, chance = pod.metadata, self._world.chance
        if chance.uniform("answers", meta.uid) < 0.6:
            await self._world.clock.sleep(chance.between(0.5, 12, "saves", meta.uid))
            note = {"uid": meta.uid, "annotations": {SAVED_ANNOTATION: "saved"}}
            # Invalid, if another pod has the name by now: a patch with a UID is only for its own.
            with suppress(NotFoundError, ConflictError, InvalidError):
                await self._keeper.patch(PODS, meta.key, merge_patch({"metadata": note}))

    async def _leave(self, gang: Gang) -> None:
        for index in range(gang.size):
            key = Key(NAMESPACE, f"{gang.name}-{index}")
            stored = self._world.storage.get(str(PODS), key)
            if stored is not None and stored.typed(Pod).status.phase is not PodPhase.SUCCEEDED:
                await self._keeper.delete(PODS, key)

    async def _again(self, lost: Pod) -> None:
        world, meta = self._world, lost.metadata
        away_s = world.chance.between(0.1, 3, "again", meta.uid)
        await world.clock.sleep(self._away_s.pop(meta.name, away_s))
        with suppress(NotFoundError, ConflictError):
            await self._keeper.delete(PODS, meta.key, Deletion(uid=meta.uid))
        gang = self.gangs.get(meta.labels[GANG])
        if gang is not None:
            await self._create(gang, int(meta.name.rpartition("-")[2]))


def _is_asked(before: Pod | None, after: Pod) -> bool:
    was_asked = before is not None and RELEASE_ANNOTATION in before.metadata.annotations
    return RELEASE_ANNOTATION in after.metadata.annotations and not was_asked


async def have_classes(world: SimulatedWorld) -> None:
    """Priority classes from low to high."""
    for name, value in (("low", 10), ("middle", 100), ("high", 1000)):
        body: Body = {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": name},
            "value": value,
        }
        await world.connect(USER).create(PRIORITY_CLASSES, body)


async def have_queue(world: SimulatedWorld, name: str, **spec: object) -> None:
    body: Body = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }
    await world.connect(USER).create(QUEUES, body)


async def set_queue_state(world: SimulatedWorld, name: str, state: str) -> None:
    """As `swell queue close` and `open` do."""
    patch = merge_patch({"status": {"state": state}})
    try:
        await world.connect(USER).patch(QUEUES.status, Key("", name), patch)
    except ClusterError as error:
        world.trace.note(f"user was refused: {error}")
