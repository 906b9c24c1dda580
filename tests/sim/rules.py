"""Rules for every controller of jobs and pods. A subject says what its jobs are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swell.api.meta import ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.resource import ApiObject, Resource
from swell.cluster.embedded.storage import Commit, Stored
from swell.runtime.informer import Informer
from swell.sim.observation import ENDED, owned, pod_states, states

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """The part of a job that these rules read."""

    metadata: ObjectMeta
    phase: str
    is_over: bool

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletion_timestamp is not None


Jobs = Callable[[], Iterable[ObservedJob]]


@dataclass
class OneLivePod:
    """There is at most one live pod for each replica; a pod that is terminating counts."""

    place_of: Callable[[Pod], Hashable | None]
    name: str = "one live pod"
    _live: dict[Hashable, set[Uid]] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        pod = after or before
        place = self.place_of(pod) if pod is not None else None
        if pod is None or place is None:
            return
        live = self._live.setdefault(place, set())
        if after is not None and after.status.phase not in ENDED:
            live.add(pod.metadata.uid)
        else:
            live.discard(pod.metadata.uid)
        # Only when a pod is created: an old one that ends late is reported once.
        if before is None and len(live) > 1:
            yield f"{len(live)} pods for {place}: {commit.key} is one too many"


@dataclass(frozen=True, slots=True)
class Creation:
    """The author and version of an object's creation."""

    actor: str
    version: int


@dataclass
class NothingLeftBehind:
    """When a finalizer is removed, nothing that the job owns is left.

    Objects that the remover cannot know of are excepted: by default, those of other authors.
    """

    world: SimulatedWorld
    resource: Resource[ApiObject]
    finalizer: str
    owned_by: Callable[[Uid], Iterable[tuple[str, Stored]]]
    is_known: Callable[[Creation, Commit], bool] = lambda made, commit: made.actor == commit.actor
    name: str = "nothing left behind"
    _made: dict[str, Creation] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        if commit.before is None and commit.after is not None:
            self._made[commit.after.uid] = Creation(commit.actor, commit.version)
        before, after = states(commit, self.resource)
        if before is None or self.finalizer not in before.metadata.finalizers:
            return
        # Users may remove a finalizer by force.
        if not self.world.is_subject(commit.actor):
            return
        if after is not None and self.finalizer in after.metadata.finalizers:
            return
        left = [
            what
            for what, stored in self.owned_by(before.metadata.uid)
            if self.is_known(self._made[stored.uid], commit)
        ]
        if left:
            yield f"{commit.key} let go with {', '.join(left)} still there"


@dataclass
class JobsEnd:
    """Every job that is not deleted ends."""

    jobs: Jobs
    name: str = "jobs end"

    def missing(self) -> Iterator[str]:
        for job in self.jobs():
            if not job.is_deleted and not job.is_over:
                yield f"{job.metadata.key} is {job.phase or 'untouched'}"


@dataclass
class DeletedGo:
    """Deleted jobs disappear, with everything that they own."""

    world: SimulatedWorld
    jobs: Jobs
    collections: tuple[str, ...]
    name: str = "deleted jobs go"

    def missing(self) -> Iterator[str]:
        jobs = list(self.jobs())
        for job in jobs:
            if job.is_deleted:
                yield f"{job.metadata.key} is still there"
        known = {job.metadata.uid for job in jobs}
        for collection in self.collections:
            for key, stored in self.world.storage.list(collection).items:
                owners = stored.body["metadata"].get("ownerReferences") or ()
                if owners and owners[0]["uid"] not in known and not self._is_owned(owners[0]):
                    yield f"{collection} {key} outlives its job"

    def _is_owned(self, owner: dict[str, str]) -> bool:
        """Whether the owner is an object between it and its job that still exists."""
        return any(
            stored.uid == owner["uid"]
            for collection in self.collections
            for _, stored in self.world.storage.list(collection).items
        )


@dataclass
class CachesAreTrue:
    """The informers that processes expose hold the objects of the store, in the same versions."""

    world: SimulatedWorld
    is_followed: Callable[[str, Stored], bool] = lambda *_: True
    name: str = "caches are true"

    def missing(self) -> Iterator[str]:
        for process in self.world.processes:
            for name, informer in process.exposed.items():
                if not isinstance(informer, Informer):
                    continue
                held = {o.metadata.key: o.metadata.resource_version for o in informer.all()}
                stored = {
                    key: str(state.version)
                    for key, state in self.world.storage.list(str(informer.resource)).items
                    if self.is_followed(name, state)
                }
                if held != stored:
                    yield f"{process.name} has other {name} than there are"


def owned_by(
    world: SimulatedWorld, collections: Iterable[str], uid: Uid
) -> Iterator[tuple[str, Stored]]:
    """Returns the objects of these kinds that a job owns, with their names."""
    for collection in collections:
        for key, stored in owned(world, collection, uid):
            yield f"{collection} {key}", stored
