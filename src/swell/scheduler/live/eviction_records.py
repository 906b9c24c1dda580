"""Why pods are evicted, in words, and the record of it on the group that loses them.

A pod's own mark goes with the pod. The record stays on its group until the next eviction, so that
the operator can say on the job why its pods are gone, even if it saw neither pod nor mark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from swell.api import codec
from swell.api.kinds import POD_GROUPS
from swell.api.meta import Body, Key, Uid
from swell.api.scheduling import LOSS_ANNOTATION, LossRecord
from swell.api.times import format_time
from swell.api.wording import count_of
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster
from swell.runtime.executor import Executor, FailureKind
from swell.runtime.logs import get_logger
from swell.runtime.plan import Plan, patch_object
from swell.scheduler.live.cache import SchedulerCache, is_virtual
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.tasks import Task

log = get_logger(__name__)

# The reason of Kubernetes for preempted pods; a job does not count such a failure as a restart.
PREEMPTED: Final = "PreemptionByScheduler"
RELEASED: Final = "GangIncomplete"
# By action: the reason that the group keeps, and the verb of its sentence.
_ACTIONS = {
    "preempt": ("Preempted", "preempted"),
    "reclaim": ("Reclaimed", "reclaimed"),
    "shuffle": ("Moved", "moved"),
}


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """Why pods are evicted: the reason and message of their mark, and the reason of the record."""

    reason: str
    message: str
    record: str = "Evicted"
    preemptor: str = ""  # the group that gets the room


def eviction_cause(
    action: str, preemptor: JobInfo | None, tasks: Iterable[Task], price: str = ""
) -> EvictionCause:
    """Returns why these pods of one group leave: by which rule, for which job, at what price."""
    pods = list(tasks)
    victim = pods[0].job
    record, verb = _ACTIONS.get(action, ("Evicted", action))
    n_pods = count_of(len(pods), "pod leaves", "pods leave")
    if preemptor is None:
        return EvictionCause(PREEMPTED, f"{verb} by the scheduler: {n_pods}{price}", record)
    text = f"{verb} by the scheduler for {beneficiary(preemptor)}: {n_pods}"
    if victim is not None and victim.key == preemptor.key:
        text = f"{verb} by the scheduler for more important pods of the same job: {n_pods}"
    elif victim is not None and action == "reclaim":
        text += f"; queue {victim.queue_name} has more than it deserves"
    elif victim is not None:
        text += f"; its own priority is {victim.priority}"
    return EvictionCause(PREEMPTED, text + price, record, preemptor.key)


def beneficiary(job: JobInfo) -> str:
    """Returns the job that gets the room, with what entitles it: `ns/name (queue, priority)`."""
    return f"{job.key} (queue {job.queue_name}, priority {job.priority})"


def groups_of(tasks: Iterable[Task]) -> dict[Key, Uid]:
    """Returns the groups of the tasks that exist as objects of our own kind."""
    jobs = {task.job.key: task.job for task in tasks if task.job is not None}
    ours = [job for job in jobs.values() if job.native is None and not is_virtual(job)]
    metas = [job.group.metadata for job in ours]
    return {meta.key: meta.uid for meta in metas}


class EvictionRecords:
    """Writes the records of evictions on groups."""

    def __init__(self, cluster: Cluster, cache: SchedulerCache, clock: Clock) -> None:
        self._groups = cache.informers.groups
        self._executor = Executor(cluster, informers=[self._groups])
        self._clock = clock

    async def write(self, key: Key, uid: Uid, why: EvictionCause) -> bool:
        """Whether the record is written or cannot be; False if it has to be tried again.

        A group that is gone or refuses the record does not keep its pods: room is waited for.
        """
        record = LossRecord(why.record, why.message, format_time(self._clock.now()))
        note: Body = {LOSS_ANNOTATION: codec.encode(record).decode()}
        # Without the version, since others write the status of the group all the time.
        body: Body = {"metadata": {"annotations": note}}
        step = patch_object(POD_GROUPS, key, uid, body)
        failure = (await self._executor.execute(Plan((step,)))).worst
        if failure is None:
            return True
        log.info("eviction not recorded", group=str(key), why=failure.message)
        if failure.kind is not FailureKind.STALE:
            return failure.kind is FailureKind.REFUSED
        # A server also answers with a conflict where only too many write at once.
        await self._groups.refresh(key)
        held = self._groups.get(key)
        return held is None or held.metadata.uid != uid
