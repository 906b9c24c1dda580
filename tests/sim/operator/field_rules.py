"""S3 to S5: jobs are deleted after their end, and what is others' is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from swell.api.aitrainingjob import FINAL_PHASES
from swell.api.meta import Uid
from swell.api.resource import Resource
from swell.api.times import has_passed, parse_time
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob import labels
from swell.operator.framework.managers import is_foreign
from swell.sim.observation import ENDED, pod_states, states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.observation import job_states

# Times are written in whole seconds, and the answer takes a while.
ROUNDED_S = 3.0


@dataclass
class ExpiredJobsOnly:
    """S3: the operator deletes a job only if its end is on record, and its time is up."""

    world: SimulatedWorld
    name: str = "S3 expired jobs only"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = job_states(commit)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if before.metadata.deletion_timestamp or (after and not after.metadata.deletion_timestamp):
            return
        status, ttl_s = before.status, before.spec.ttl_seconds_after_finished
        if status.phase not in FINAL_PHASES or status.ending is None or status.end_time is None:
            yield f"{commit.key} deleted, though it is {status.phase.value} and no end is on record"
        elif ttl_s is None:
            yield f"{commit.key} deleted, though it does not expire"
        elif not has_passed(parse_time(status.end_time), ttl_s - ROUNDED_S, self.world.clock.now()):
            yield f"{commit.key} deleted before {ttl_s} s were over"


@dataclass
class ForeignUntouched:
    """S4: nothing at all is written about a job of another manager."""

    world: SimulatedWorld
    resource: Resource[Any]
    name: str = "S4 foreign jobs untouched"
    _foreign: set[Uid] = field(default_factory=set)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = states(commit, self.resource)
        job = after or before
        if job is not None and is_foreign(job.spec.managed_by):
            self._foreign.add(job.metadata.uid)
        if self.world.is_subject(commit.actor) and self._foreign & set(_about(commit)):
            yield f"{commit.actor} wrote {commit.collection} {commit.key} of another's job"


@dataclass
class HeldWhileRunning:
    """S5: what Kueue holds is let go only when it is deleted and its containers have ended."""

    world: SimulatedWorld
    name: str = "S5 pods of Kueue held while they run"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or not self.world.is_subject(commit.actor):
            return
        if labels.KUEUE_FINALIZER not in before.metadata.finalizers:
            return
        if after is not None and labels.KUEUE_FINALIZER in after.metadata.finalizers:
            return
        meta = before.metadata
        is_deleted = meta.deletion_timestamp is not None
        runs = before.status.phase not in ENDED and before.spec.node_name
        if not is_deleted or (runs and meta.deletion_grace_period_seconds != 0):
            yield f"{commit.key} was let go, though it is {before.status.phase.value}"


def _about(commit: Commit) -> Iterator[str]:
    """The UIDs of the object, its owners, and what it reports on."""
    stored = commit.after or commit.before
    if stored is None:
        return
    meta, body = stored.body["metadata"], stored.body
    yield meta.get("uid", "")
    yield from (owner.get("uid", "") for owner in meta.get("ownerReferences") or [])
    yield (body.get("regarding") or body.get("involvedObject") or {}).get("uid", "")
