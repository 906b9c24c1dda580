"""The snapshots on which the controllers decide, read from caches and from the store.

Each class keeps what its decisions need from one pass to the next, and decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol, TypeVar

from swell.api.core import Lease, Namespace, Node
from swell.api.meta import Body, Key, ObjectMeta, Uid
from swell.api.pod import LabelSelector, Pod
from swell.api.resource import Resource
from swell.api.workloads import Job, ReplicaSet
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.controllers.claiming import selects
from swell.cluster.embedded.controllers.job.backoff import NO_FAILURES, FailureRecord
from swell.cluster.embedded.controllers.job.decide import BatchJobSnapshot, TrackedPod
from swell.cluster.embedded.controllers.job.end import is_finished
from swell.cluster.embedded.controllers.namespace import (
    NamespacedObject,
    NamespaceSnapshot,
    is_emptying,
)
from swell.cluster.embedded.controllers.nodelifecycle import NodeLeaseSnapshot
from swell.cluster.embedded.controllers.pods import is_active
from swell.cluster.embedded.controllers.replicaset import ReplicaSetSnapshot
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import Commit
from swell.runtime.cache import CacheIndex
from swell.runtime.clock import Clock
from swell.runtime.controller import RejectedWrite
from swell.runtime.informer import Informer

Refusals = Callable[[Key], RejectedWrite | None]

ORPHANS = "orphans"
NAMESPACE = "namespace"


def orphans_by_namespace() -> CacheIndex[object]:
    """The index of objects that have no controller."""
    return CacheIndex(
        ORPHANS, lambda metadata, _: () if metadata.controller else (metadata.namespace,)
    )


def by_namespace() -> CacheIndex[object]:
    return CacheIndex(NAMESPACE, lambda metadata, _: (metadata.namespace,))


class _SelectorSpec(Protocol):
    """A spec with a label selector."""

    @property
    def selector(self) -> LabelSelector | None: ...


class _PodOwner(Protocol):
    """A kind that owns pods by a label selector."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> _SelectorSpec: ...


O = TypeVar("O", bound=_PodOwner)  # noqa: E741


def wake_adopters(
    pods: Informer[Pod], owners: Informer[O], wake: Callable[[Key], None]
) -> Callable[[Key], None]:
    """A handler of pods: one without a controller wakes every owner whose selector matches it."""

    def on_pod(key: Key) -> None:
        pod = pods.get(key)
        if pod is None or pod.metadata.controller is not None:
            return
        for owner in owners.by_index(NAMESPACE, key.namespace):
            if selects(owner.spec.selector)(pod):
                wake(owner.metadata.key)

    return on_pod


class ReplicaSetSnapshots:
    """Snapshots for `decide_replica_set`."""

    def __init__(self, pods: Informer[Pod], sets: Informer[ReplicaSet], random: Random) -> None:
        self._pods = pods
        self._sets = sets
        self._seeds = NameSeeds(random)
        self.refusals: Refusals = lambda _: None

    def snapshot(self, key: Key) -> ReplicaSetSnapshot | None:
        owner = self._sets.get(key)
        if owner is None:
            self._seeds.forget(key)
            return None
        owned = self._pods.by_owner(owner.metadata.uid)
        return ReplicaSetSnapshot(
            replica_set=owner,
            pods=owned + self._pods.by_index(ORPHANS, key.namespace),
            related=tuple(self._related(owner)),
            refusal=self.refusals(key),
            seed=self._seeds.of(key, owner.metadata.uid, owned),
        )

    def _related(self, owner: ReplicaSet) -> Iterable[Pod]:
        controller = owner.metadata.controller
        for related in self._sets.by_owner(controller.uid) if controller else ():
            yield from filter(is_active, self._pods.by_owner(related.metadata.uid))


class JobSnapshots:
    """Snapshots for `decide_job` and `decide_release`."""

    def __init__(self, pods: Informer[Pod], jobs: Informer[Job], random: Random) -> None:
        self._pods = pods
        self._jobs = jobs
        self._seeds = NameSeeds(random)
        self._records: dict[Key, tuple[str, FailureRecord]] = {}
        self.refusals: Refusals = lambda _: None

    def snapshot(self, key: Key) -> BatchJobSnapshot | None:
        job = self._jobs.get(key)
        if job is None or is_finished(job):
            self._seeds.forget(key)
            self._records.pop(key, None)
            return None
        owned = self._pods.by_owner(job.metadata.uid)
        return BatchJobSnapshot(
            job=job,
            pods=owned + self._pods.by_index(ORPHANS, key.namespace),
            record=self._remember(job, owned),
            refusal=self.refusals(key),
            seed=self._seeds.of(key, job.metadata.uid, owned),
        )

    def tracked(self, key: Key) -> TrackedPod | None:
        """A pod, with the Job that its owner reference names, for `decide_release`."""
        pod = self._pods.get(key)
        if pod is None:
            return None
        controller = pod.metadata.controller
        job = self._jobs.get(Key(key.namespace, controller.name)) if controller else None
        return TrackedPod(pod, job)

    def wake_pods(self, index: str, wake: Callable[[Key], None]) -> Callable[[Key], None]:
        """A handler of Jobs: one that has ended or was deleted wakes its pods, to be released."""

        def on_job(key: Key) -> None:
            job = self._jobs.get(key)
            if job is None or is_finished(job):
                for pod in self._pods.keys_by_index(index, key):
                    wake(pod)

        return on_job

    def _remember(self, job: Job, owned: tuple[Pod, ...]) -> FailureRecord:
        uid = job.metadata.uid
        known_uid, record = self._records.get(job.metadata.key, (uid, NO_FAILURES))
        record = (record if known_uid == uid else NO_FAILURES).after_seeing(job, owned)
        self._records[job.metadata.key] = (uid, record)
        return record


# --- namespaces ----------------------------------------------------------------------------------


class NamespaceSnapshots:
    """Snapshots for `decide_namespace`, read from the store.

    A namespace has objects of every kind; informers for all of them would cache the whole cluster.
    """

    def __init__(self, api: ApiServer, namespaces: Informer[Namespace]) -> None:
        self._api = api
        self._namespaces = namespaces
        self._emptying: dict[str, None] = {}

    def snapshot(self, key: Key) -> NamespaceSnapshot | None:
        namespace = self._namespaces.get(key)
        if namespace is None or not is_emptying(namespace):
            self._emptying.pop(key.name, None)
            return None
        self._emptying[key.name] = None
        return NamespaceSnapshot(namespace, tuple(self._contents(key.name)))

    def on_removal(self, wake: Callable[[Key], object]) -> None:
        """Wake a namespace that is being emptied whenever an object in it was removed."""

        def on_commit(commit: Commit) -> None:
            if commit.after is None and commit.key.namespace in self._emptying:
                wake(Key("", commit.key.namespace))

        self._api.storage.on_commit.append(on_commit)

    def _contents(self, namespace: str) -> Iterable[NamespacedObject]:
        for kind in self._api.registry:
            # Several kinds may serve one collection; each collection is read once.
            if not kind.namespaced or self._api.registry.stored(kind.collection) is not kind:
                continue
            resource = _resource(kind)
            for key, stored in self._api.storage.list(kind.collection, namespace).items:
                metadata = stored.metadata
                yield NamespacedObject(
                    resource=resource,
                    key=key,
                    uid=Uid(stored.uid),
                    is_deleted=bool(metadata.get("deletionTimestamp")),
                    finalizers=tuple(metadata.get("finalizers") or ()),
                )


def _resource(kind: ServedKind) -> Resource[Body]:
    return Resource(kind.group, kind.version, kind.kind, kind.plural, dict)


# --- nodes ---------------------------------------------------------------------------------------

LEASE_NAMESPACE = "kube-node-lease"


class NodeSnapshots:
    """Snapshots for `decide_node`: a node, and how long its Lease has not been renewed.

    That time is measured from the moment a renewal was seen here, on a clock that stops while the
    machine sleeps: a laptop that wakes up must not take all its nodes for lost.
    """

    def __init__(
        self, nodes: Informer[Node], leases: Informer[Lease], clock: Clock, grace_s: float
    ) -> None:
        self._nodes = nodes
        self._leases = leases
        self._clock = clock
        self._grace_s = grace_s
        # By node: the renewal last seen, and when it was seen.
        self._seen: dict[str, tuple[tuple[str, str | None], float]] = {}

    def watch_leases(self, wake: Callable[[Key], None]) -> None:
        """Record when renewals are seen, and wake nodes whose Lease is new.

        A renewal itself wakes nothing: the next pass is due when the node would be late, which
        `decide_node` has already asked for.
        """

        def on_lease(key: Key) -> None:
            lease = self._leases.get(key)
            if lease is None:
                self._seen.pop(key.name, None)
                return
            # With the UID, since a new Lease of the same name is a sign of life too.
            renewal = (lease.metadata.uid, lease.spec.renew_time)
            seen = self._seen.get(key.name)
            if seen is None or seen[0] != renewal:
                self._seen[key.name] = (renewal, self._clock.monotonic())
            if seen is None:
                wake(Key("", key.name))

        self._leases.add_handler(on_lease)

    def snapshot(self, key: Key) -> NodeLeaseSnapshot | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        seen = self._seen.get(key.name)
        silent_s = self._clock.monotonic() - seen[1] if seen else None
        return NodeLeaseSnapshot(node, silent_s, self._grace_s)


# --- seeds of pod names --------------------------------------------------------------------------

_SEED_BITS = 64


class NameSeeds:
    """Random seeds of pod names, one for each owner and set of its pods.

    While the pods are the same, so is the seed, and a repeated attempt names the same pods. So a
    create that was refused or whose answer was lost is never repeated under another name.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._drawn: dict[Key, tuple[tuple[Uid, ...], int]] = {}

    def of(self, owner: Key, uid: Uid, pods: Iterable[Pod]) -> int:
        """The seed for an owner with these pods."""
        uids = (uid, *sorted(pod.metadata.uid for pod in pods))
        drawn = self._drawn.get(owner)
        if drawn is None or drawn[0] != uids:
            drawn = self._drawn[owner] = (uids, self._random.getrandbits(_SEED_BITS))
        return drawn[1]

    def forget(self, owner: Key) -> None:
        self._drawn.pop(owner, None)
