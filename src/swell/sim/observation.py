"""Reads a run: objects of the store, states of a commit, their history, and the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from swell.api.kinds import PODS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod, PodPhase
from swell.api.resource import ApiObject, Resource
from swell.cluster.embedded.storage import Commit, Stored

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld


from collections.abc import Callable
from hashlib import sha256

from swell.sim.faults.plan import Fault

T = TypeVar("T")
J = TypeVar("J", bound=ApiObject)

NAMESPACE = "default"  # where simulated users work
ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


def all_of(world: SimulatedWorld, resource: Resource[T]) -> list[T]:
    found = world.storage.list(str(resource)).items
    return [stored.typed(resource.struct) for _, stored in found]


def pods_in(world: SimulatedWorld) -> list[Pod]:
    return all_of(world, PODS)


def one_of(world: SimulatedWorld, resource: Resource[T], name: str) -> T | None:
    """Returns the object of that name in the users' namespace, if there is one."""
    key = Key(NAMESPACE if resource.namespaced else "", name)
    stored = world.storage.get(str(resource), key)
    return stored.typed(resource.struct) if stored else None


def states(commit: Commit, resource: Resource[T]) -> tuple[T | None, T | None]:
    """Returns the object before and after a commit, or nothing if it is of another kind."""
    if commit.collection != str(resource):
        return None, None
    return (
        commit.before.typed(resource.struct) if commit.before else None,
        commit.after.typed(resource.struct) if commit.after else None,
    )


def pod_states(commit: Commit) -> tuple[Pod | None, Pod | None]:
    return states(commit, PODS)


def owner_of(pod: Pod) -> Uid:
    """Returns the UID of a pod's controller, or an empty one."""
    owner = pod.metadata.controller
    return owner.uid if owner else Uid("")


def owned(world: SimulatedWorld, collection: str, uid: Uid) -> list[tuple[Key, Stored]]:
    """Returns the objects of a kind that have an owner of this UID."""
    return [
        (key, stored)
        for key, stored in world.storage.list(collection).items
        if any(o["uid"] == uid for o in stored.body["metadata"].get("ownerReferences") or ())
    ]


class ObjectHistory(Generic[J]):
    """The states of every job by version, to find the state at the time a write was sent.

    A job that another actor has removed with its finalizer counts as it last was: a process cannot
    know at once what others do, only what it has done itself.
    """

    def __init__(self, world: SimulatedWorld, resource: Resource[J]) -> None:
        self._world = world
        self._resource = resource
        self._states: dict[Uid, list[tuple[int, J | None]]] = {}
        self._gone: dict[Uid, int] = {}
        world.storage.on_commit.append(self._on_commit)

    def was_gone(self, uid: Uid, version: int) -> bool:
        """Whether the job was gone at this version, whichever actor deleted it."""
        return self._gone.get(uid, version + 1) <= version

    def at(self, uid: Uid, version: int) -> J | None:
        found = None
        for at, state in self._states.get(uid, []):
            if at > version:
                break
            found = state
        return found

    def when_sent(self, commit: Commit, verb: str, uid: Uid) -> J | None:
        """Returns the job at the time this commit's write was sent."""
        return self.at(uid, self.version_when_sent(commit, verb))

    def version_when_sent(self, commit: Commit, verb: str) -> int:
        site = f"{commit.actor} {verb} {commit.collection} {commit.key}"
        return self._world.issued_version(site)

    def _on_commit(self, commit: Commit) -> None:
        before, after = states(commit, self._resource)
        job = after or before
        if before is not None and after is None:
            self._gone[before.metadata.uid] = commit.version
        if job is None or (after is None and not self._world.is_subject(commit.actor)):
            return
        self._states.setdefault(job.metadata.uid, []).append((commit.version, after))


class Trace:
    """Records commits, calls and faults in order: as a digest, and on request as lines of text."""

    def __init__(self, monotonic: Callable[[], float], *, keep: bool = False) -> None:
        self._monotonic = monotonic
        self._digest = sha256()
        self._keep = keep
        self.lines: list[str] = []

    def on_commit(self, commit: Commit) -> None:
        state = commit.after or commit.before
        self._note(
            f"commit {commit.version} {commit.actor} {commit.verb} {commit.collection}"
            f" {commit.key} {state.uid if state else ''}"
        )

    def on_call(self, _actor: str, site: str) -> None:
        self._note(f"call {site}")

    def on_fault(self, fault: Fault) -> None:
        self._note(f"fault {fault}")

    def note(self, text: str) -> None:
        """Record any other fact; it counts for the digest."""
        self._note(text)

    def log(self, text: str) -> None:
        """Add a line for readers, which does not count for the digest."""
        if self._keep:
            self.lines.append(f"{self._monotonic():10.3f}  log {text}")

    def digest(self) -> str:
        return self._digest.hexdigest()[:16]

    def _note(self, text: str) -> None:
        line = f"{self._monotonic():10.3f}  {text}"
        self._digest.update(line.encode())
        if self._keep:
            self.lines.append(line)
