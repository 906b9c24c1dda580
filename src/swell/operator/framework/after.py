"""Finds, among the jobs of one kind, those that others come after (`spec.after`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from enum import Enum
from typing import Generic, Protocol, TypeVar

from swell.api.meta import Key, ObjectMeta
from swell.operator.framework.dependencies import marked, state_of
from swell.operator.framework.managers import is_foreign
from swell.runtime.cache import CacheIndex
from swell.runtime.informer import Informer


class _Spec(Protocol):
    @property
    def after(self) -> tuple[str, ...]: ...
    @property
    def managed_by(self) -> str: ...


class _Status(Protocol):
    @property
    def phase(self) -> Enum: ...
    @property
    def start_time(self) -> str | None: ...


class JobAfterOthers(Protocol):
    """A job as this module reads it. One with a start time has begun, and waits for no other."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def spec(self) -> _Spec: ...
    @property
    def status(self) -> _Status: ...


JobT = TypeVar("JobT", bound=JobAfterOthers)


class AfterOthers(Generic[JobT]):
    """The jobs of a kind by those that they come after. `index` is one of their informer.

    `annotation` is where a job keeps what it has seen of the others.
    """

    def __init__(self, final_phases: Collection[Enum], annotation: str) -> None:
        self._final = final_phases
        self._annotation = annotation
        self.index: CacheIndex[JobT] = CacheIndex("after", _awaited_by)

    def states(self, job: JobT, jobs: Informer[JobT]) -> dict[str, str]:
        """The states of the jobs that this one comes after, of those that exist."""
        if job.status.start_time is not None:
            return {}
        found = (jobs.get(Key(job.metadata.namespace, name)) for name in job.spec.after)
        phases = {one.metadata.name: one.status.phase for one in found if one is not None}
        return {
            name: state_of(phase.value, is_final=phase in self._final)
            for name, phase in phases.items()
        }

    def is_awaited(self, job: JobT, jobs: Informer[JobT]) -> bool:
        """Whether a job that comes after this one has yet to see how it ended.

        One that is left to another controller never will, as far as can be seen here. A status
        that has seen it is not enough: if it got lost, nothing would tell of the end any more.
        """
        meta, phase = job.metadata, job.status.phase
        return phase in self._final and any(
            one.status.start_time is None
            and not is_foreign(one.spec.managed_by)
            and one.status.phase not in self._final
            and marked(one.metadata, self._annotation).get(meta.name) != phase.value
            for one in jobs.by_index(self.index.name, meta.key)
        )

    def follow(self, jobs: Informer[JobT], wake: Callable[[Key], None]) -> None:
        """Has the jobs woken that come after one that changes, and those that it comes after.

        The latter also when it is deleted: an expired job stays until no other waits for it.
        """

        def wake_later(key: Key) -> None:
            for one in jobs.by_index(self.index.name, key):
                wake(one.metadata.key)

        jobs.add_handler(wake_later)
        jobs.add_handler(wake, self.index.name)


def _awaited_by(meta: ObjectMeta, job: JobAfterOthers | None) -> Iterable[Hashable]:
    names = job.spec.after if job is not None else ()
    return tuple(Key(meta.namespace, name) for name in names)
