"""Follows the informers for the snapshot, and builds it anew when one of the handlers has failed.

A handler that raised may have left the snapshot half-changed. So the snapshot is emptied, every
object is put in again from the caches, and what was only assumed is assumed again. An object on
which its handler fails again is set aside, so that it stops nothing else; all of those are tried
anew after a back-off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from swell.api.meta import Key
from swell.api.resource import Resource
from swell.runtime.feed import Feed, FeedMeter, Handler
from swell.runtime.logs import get_logger
from swell.runtime.manager import Bug, contain_call
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import Task

log = get_logger(__name__)

# More objects than this are no hostile few: then the fault is ours, and the rebuild backs off.
_SET_ASIDE_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class AssumedState:
    """The tasks with the names of their nodes, and the jobs, as they were before a rebuild."""

    tasks: dict[str, tuple[Task, str]]
    jobs: dict[str, JobInfo]


class TooManyFailuresError(Exception):
    """The handlers fail on so many objects that the snapshot cannot be built."""


class FollowedInformer(Protocol):
    """The part of an informer that is needed here, whatever the type of its objects."""

    @property
    def resource(self) -> Resource[object]: ...

    def keys(self) -> tuple[Key, ...]: ...

    def add_handler(self, handler: Handler, index: str = "", feed: Feed | None = None) -> None: ...


class TakeAside(Protocol):
    """Puts in an object on which its handler fails; without what it belongs to if it `is_bare`."""

    def __call__(self, resource: str, key: Key, why: str, *, is_bare: bool) -> None: ...


class SnapshotFeed:
    """The handlers of the snapshot. `clear` empties it, `resume` takes back what that returned.

    `take_aside` puts in what is safe of an object that is set aside; it is given the resource, the
    key and the reason. `remember` is called before each handler: one that fails may have removed
    what it was to replace.
    """

    def __init__(
        self,
        clear: Callable[[], AssumedState],
        resume: Callable[[AssumedState], None],
        take_aside: TakeAside,
        remember: Callable[[Key | None], None],
        meter: FeedMeter | None = None,
    ) -> None:
        self._clear = clear
        self._remember = remember
        self._resume = resume
        self._take_aside = take_aside
        self._followed: list[tuple[FollowedInformer, Handler]] = []
        self._aside: dict[tuple[str, Key], str] = {}
        # Those that cannot even be set aside with what they belong to.
        self._bare: dict[tuple[str, Key], None] = {}
        self._feed = Feed("scheduler snapshot", self._rebuild, meter=meter)
        # What the last failed rebuild had assumed: the snapshot has lost it by then.
        self._assumed: AssumedState | None = None
        self.on_rebuilt: list[Callable[[], None]] = []

    @property
    def is_broken(self) -> bool:
        """Whether the snapshot may be wrong, so that nothing must be decided on it."""
        return self._feed.is_broken

    @property
    def n_aside(self) -> int:
        """How many objects are set aside."""
        return len(self._aside)

    def follow(self, informer: FollowedInformer, take: Handler) -> None:
        """Have the handler called with the keys that change; informers in the order of following.

        The order matters to a rebuild: a pod is put in after its node and its group.
        """
        resource = str(informer.resource)

        def take_or_set_aside(key: Key) -> None:
            why = self._aside.get((resource, key))
            self._remember(key)
            if why is None:
                take(key)
            else:
                self._take_aside(resource, key, why, is_bare=(resource, key) in self._bare)
            self._remember(None)  # it is done: the snapshot has all there is to know

        self._followed.append((informer, take_or_set_aside))
        informer.add_handler(take_or_set_aside, feed=self._feed)

    def rebuild(self) -> None:
        """Build the snapshot anew now, also if no handler has failed."""
        self._feed.mend()

    def _rebuild(self) -> None:
        self._aside.clear()
        self._bare.clear()
        if self._assumed is None:
            self._assumed = self._clear()
        while not self._put_all():
            if len(self._aside) > _SET_ASIDE_MAX:
                raise TooManyFailuresError(f"handlers fail on {len(self._aside)} objects")
            self._clear()
        self._resume(self._assumed)
        self._assumed = None
        log.info("snapshot rebuilt", n_aside=len(self._aside))
        if self._aside:
            self._feed.mend_later()
        for call in self.on_rebuilt:
            call()

    def _put_all(self) -> bool:
        """Put every object in. Returns whether no handler failed; otherwise one is set aside."""
        for informer, take in self._followed:
            keys = informer.keys()
            for key in keys:
                result = contain_call(take, key)
                if isinstance(result, Bug):
                    why = f"the scheduler cannot take it: {result.error!r}"
                    held = (str(informer.resource), key)
                    if held in self._aside:
                        self._bare[held] = None
                    self._aside[held] = why
                    log.error(
                        "object set aside", resource=str(informer.resource), key=str(key),
                        trace=result.trace,
                    )  # fmt: skip
                    return False
        return True
