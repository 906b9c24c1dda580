"""What the ReplicaSet and the Job controllers see: their owners, pods of those, pods of nobody.

Reads caches and remembers what decisions need from one pass to the next. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol, TypeVar

from swell.api.job import Job
from swell.api.meta import Key, ObjectMeta
from swell.api.pod import LabelSelector, Pod
from swell.api.replicaset import ReplicaSet
from swell.cluster.embedded.controllers.claiming import selects
from swell.cluster.embedded.controllers.job.backoff import NO_FAILURES, FailureRecord
from swell.cluster.embedded.controllers.job.decision import JobView
from swell.cluster.embedded.controllers.job.ending import is_finished
from swell.cluster.embedded.controllers.job.release import TrackedPod
from swell.cluster.embedded.controllers.pods import is_active
from swell.cluster.embedded.controllers.replicaset import ReplicaSetView
from swell.cluster.embedded.controllers.seeds import Seeds
from swell.runtime.cache import Index
from swell.runtime.controller import Refusal
from swell.runtime.informer import Informer

Refusals = Callable[[Key], Refusal | None]

ORPHANS = "orphans"
NAMESPACE = "namespace"


def orphans_by_namespace() -> Index[object]:
    """Finds the objects no controller owns."""
    return Index(ORPHANS, lambda metadata, _: () if metadata.controller else (metadata.namespace,))


def by_namespace() -> Index[object]:
    return Index(NAMESPACE, lambda metadata, _: (metadata.namespace,))


class _Selecting(Protocol):
    @property
    def selector(self) -> LabelSelector | None: ...


class _PodOwner(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> _Selecting: ...


O = TypeVar("O", bound=_PodOwner)  # noqa: E741


def wake_adopters(
    pods: Informer[Pod], owners: Informer[O], wake: Callable[[Key], None]
) -> Callable[[Key], None]:
    """A handler of pods: one that nobody owns concerns every owner whose selector it matches."""

    def on_pod(key: Key) -> None:
        pod = pods.get(key)
        if pod is None or pod.metadata.controller is not None:
            return
        for owner in owners.by_index(NAMESPACE, key.namespace):
            if selects(owner.spec.selector)(pod):
                wake(owner.metadata.key)

    return on_pod


class ReplicaSetSight:
    """Snapshots for `decide_replica_set`."""

    def __init__(self, pods: Informer[Pod], sets: Informer[ReplicaSet], random: Random) -> None:
        self._pods = pods
        self._sets = sets
        self._seeds = Seeds(random)
        self.refusals: Refusals = lambda _: None

    def snapshot(self, key: Key) -> ReplicaSetView | None:
        owner = self._sets.get(key)
        if owner is None:
            self._seeds.forget(key)
            return None
        owned = self._pods.by_owner(owner.metadata.uid)
        return ReplicaSetView(
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


class JobSight:
    """Snapshots for `decide_job` and `decide_release`."""

    def __init__(self, pods: Informer[Pod], jobs: Informer[Job], random: Random) -> None:
        self._pods = pods
        self._jobs = jobs
        self._seeds = Seeds(random)
        self._records: dict[Key, tuple[str, FailureRecord]] = {}
        self.refusals: Refusals = lambda _: None

    def snapshot(self, key: Key) -> JobView | None:
        job = self._jobs.get(key)
        if job is None or is_finished(job):
            self._seeds.forget(key)
            self._records.pop(key, None)
            return None
        owned = self._pods.by_owner(job.metadata.uid)
        return JobView(
            job=job,
            pods=owned + self._pods.by_index(ORPHANS, key.namespace),
            record=self._remember(job, owned),
            refusal=self.refusals(key),
            seed=self._seeds.of(key, job.metadata.uid, owned),
        )

    def tracked(self, key: Key) -> TrackedPod | None:
        """A pod that may wait for a Job that will never come."""
        pod = self._pods.get(key)
        if pod is None:
            return None
        controller = pod.metadata.controller
        job = self._jobs.get(Key(key.namespace, controller.name)) if controller else None
        return TrackedPod(pod, job)

    def wake_pods(self, index: str, wake: Callable[[Key], None]) -> Callable[[Key], None]:
        """A handler of Jobs: one that has ended or gone leaves pods to be let go."""

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
