"""Statuses that somebody empties or damages, and what rules are then to compare with."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from swell.api.meta import Body, Uid
from swell.api.resource import ApiObject, Resource
from swell.cluster.embedded.storage import Commit
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ClusterError
from swell.sim.faults.plan import Fault
from swell.sim.observation import ObjectHistory, all_of, states
from swell.sim.world import SimulatedWorld

J = TypeVar("J", bound=ApiObject)

# Restores backups without statuses, and lets old clients replace them.
RESTORER = "restorer"
WIPED = "F27 status wiped"


class StatusWiper:
    """Takes statuses away: half of the time all of one, else some of its fields."""

    def __init__(
        self, world: SimulatedWorld, resource: Resource[Any], damages: tuple[Body, ...]
    ) -> None:
        self._world = world
        self._resource = resource
        self._damages = damages
        self._cluster = world.connect(RESTORER)

    async def wipe(self, fault: Fault) -> bool:
        jobs = all_of(self._world, self._resource)
        if not jobs:
            return False
        job = jobs[int(fault.amount * 997) % len(jobs)]
        turn = int(fault.amount * 7919) % (2 * len(self._damages))
        status = self._damages[turn] if turn < len(self._damages) else None
        patch = merge_patch({"metadata": {"uid": job.metadata.uid}, "status": status})
        try:
            await self._cluster.patch(self._resource.status, job.metadata.key, patch)
        except ClusterError as error:
            self._world.trace.note(f"restorer was refused: {error}")
            return False
        return True


class SoundHistory(ObjectHistory[J]):
    """The states of every job, with the status that it had before somebody damaged it.

    That holds until the subject writes the status again.
    """

    def __init__(self, world: SimulatedWorld, resource: Resource[J]) -> None:
        self._sound: dict[Uid, Any] = {}
        super().__init__(world, resource)

    def judged(self, commit: Commit) -> tuple[Any, Any]:
        """A job before and after a commit, as rules compare them; of the restorer's, nothing."""
        before, after = states(commit, self._resource)
        if commit.actor == RESTORER:
            return None, None
        if before is None or after is None:
            return before, after
        known = self.at(before.metadata.uid, commit.version - 1) or before
        if not _is_same(known, before) and not self._world.is_subject(commit.actor):
            return None, None  # others may add to a damaged status without knowing
        return known, _with_status(after, known) if _is_same(before, after) else after

    def is_repair(self, commit: Commit) -> bool:
        """Whether a commit writes a status that was damaged until then."""
        before, after = states(commit, self._resource)
        if before is None or after is None or _is_same(before, after):
            return False
        if not self._world.is_subject(commit.actor):
            return False
        known = self.at(before.metadata.uid, commit.version - 1)
        return known is not None and not _is_same(known, before)

    def _on_commit(self, commit: Commit) -> None:
        before, after = states(commit, self._resource)
        if before is not None and after is not None:
            uid = after.metadata.uid
            if commit.actor == RESTORER:
                self._sound.setdefault(uid, before)
            if uid in self._sound:
                by_others = not self._world.is_subject(commit.actor)
                if not by_others and not _is_same(before, after):
                    del self._sound[uid]
                else:
                    whole = _with_status(after, self._sound[uid])
                    self._states.setdefault(uid, []).append((commit.version, whole))
                    return
        super()._on_commit(commit)


def _is_same(one: Any, other: Any) -> bool:
    return bool(one.status == other.status)


def _with_status(job: Any, sound: Any) -> Any:
    return replace(job, status=sound.status)
