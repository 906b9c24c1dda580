"""Safety rules about evictions: victims are marked first, and leave whole or as surplus.

Which pods may leave is judged when it is decided. Its pods may be lost to others before the marks
are written, and after; the room is promised by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from swell.api.injection import RELEASE_ANNOTATION
from swell.api.kinds import POD_GROUPS, PODS
from swell.api.meta import Key, Uid
from swell.api.pod import Pod
from swell.api.scheduling import LOSS_ANNOTATION, PodGroup
from swell.cluster.embedded.storage import Commit
from swell.scheduler.live.controller import Scheduler
from swell.scheduler.live.eviction_records import RELEASED, EvictionCause
from swell.scheduler.live.evictor import NO_GROUPS
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.resources import CPU
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.sim.faults.network import CLIENT_TIMEOUT_S
from swell.sim.observation import ENDED, pod_states, states
from swell.sim.world import SimulatedWorld
from tests.sim.operator.departure_rules import OpenDeadlines
from tests.sim.scheduler.observation import (
    SCHEDULER,
    group_at,
    group_key,
    is_native,
    mark_of,
    pod_key,
    priority_of,
    scheduler_of,
)
from tests.sim.undecodable import MARK, PHASE

HOLDING = frozenset({TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING})
CONFIRMED = (TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)
_RECORD = f"patch {POD_GROUPS}"
_MARK = f"patch {PODS}/status"
DECIDED = "decided evictions"


class DecidedEvictions:
    """Judges evictions as they are decided, and keeps what is wrong with them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._wrong: list[str] = []
        evict = scheduler.evictor.evict

        def judge_and_evict(
            parts: Iterable[tuple[Sequence[Task], EvictionCause]],
            groups: Mapping[Key, Uid] = NO_GROUPS,
        ) -> None:
            decided = list(parts)
            for tasks, why in decided:
                self._judge(tasks, why)
            evict(decided, groups)

        scheduler.evictor.evict = judge_and_evict  # type: ignore[method-assign]

    def take(self) -> list[str]:
        taken, self._wrong = self._wrong, []
        return taken

    def _judge(self, tasks: Sequence[Task], why: EvictionCause) -> None:
        # A gang whose binding failed goes as its bindings become known, one or more at a time.
        if why.reason == RELEASED:
            return
        # Of an elastic role the last pods leave, which its job has no place for any more.
        jobs: dict[str, JobInfo] = {
            task.job.key: task.job
            for task in tasks
            if task.job and not (task.elastic and task.index >= task.elastic.target)
        }
        for job in jobs.values():
            # Those whose binding is under way may yet be lost.
            if job.counts.of(CONFIRMED) >= job.min_member:
                continue
            stay = [task.key for task in job.tasks.values() if task.status in HOLDING]
            if stay:
                self._wrong.append(f"of {job.key} only {', '.join(stay)} would stay")


@dataclass
class VictimsMarked:
    """G6: a victim is marked first, is of lower priority where the queue is the same, and
    leaves with its whole gang, or as surplus of it."""

    world: SimulatedWorld
    name: str = "G6 victims"
    # The versions at which pods were created and records written: clocks jump, versions do not.
    _created: dict[Uid, int] = field(default_factory=dict)
    _recorded: dict[Uid, int] = field(default_factory=dict)
    # By call that writes a record: the versions and times at which it was sent.
    _tried: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    _refused_until_s: float = 0.0
    # The times from which on, and until which, all writes to groups were refused.
    _refusals: list[tuple[float, float]] = field(default_factory=list)
    _called_s: float = 0.0
    # By call that marks a pod, with its UID: for each queue, those above it that were over their
    # limits, by name. A mark that arrives late belongs to a decision of that time.
    _over: dict[tuple[str, Uid], dict[str, dict[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.network.on_call.append(self._on_call)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        self._note_record(commit)
        before, after = pod_states(commit)
        if before is None and after is not None:
            self._created[after.metadata.uid] = commit.version
        if before is None or not commit.actor.startswith(SCHEDULER):
            return
        if before.metadata.deletion_timestamp:
            return
        if after is not None and not after.metadata.deletion_timestamp:
            yield from self._judge_mark(commit, before, after)
            return
        if not mark_of(before):
            yield f"{commit.key} deleted, and nothing was on record"
        # A native group has a condition instead, and only where it leaves as a whole.
        key = group_key(before)
        group = None if is_native(key) else group_at(self.world, key)
        # A group that was made anew since then has no part in it.
        if group is not None and _is_older(group, before):
            created = self._created.get(before.metadata.uid, 0)
            is_recorded = self._recorded.get(group.metadata.uid, -1) >= created
            if not is_recorded and not self._was_refused(commit, group, created):
                yield f"{commit.key} deleted, and its group does not say why"

    def _was_refused(self, commit: Commit, group: PodGroup, created: int) -> bool:
        """Whether the record was tried after the pod was created, and the server refused it.

        Evictions go on without it then, also if their marks are refused for much longer.
        """
        site = f"{commit.actor} {_RECORD} {group.metadata.key}"
        # What was on its way when the refusals began was refused, too.
        return any(
            version >= created
            and any(b - CLIENT_TIMEOUT_S <= tried_s < e for b, e in self._refusals)
            for version, tried_s in self._tried.get(site, ())
        )

    def _note_record(self, commit: Commit) -> None:
        old, new = states(commit, POD_GROUPS)
        said = old.metadata.annotations.get(LOSS_ANNOTATION, "") if old is not None else ""
        if new is not None and new.metadata.annotations.get(LOSS_ANNOTATION, "") != said:
            self._recorded[new.metadata.uid] = commit.version

    def _judge_mark(self, commit: Commit, before: Pod, after: Pod) -> Iterator[str]:
        mark = mark_of(after)
        if mark_of(before) or " for " not in mark:
            return
        winner = mark.partition(" for ")[2].split()[0]
        preemptor, victim = group_at(self.world, winner), group_key(before)
        group = group_at(self.world, victim)
        if preemptor is not None:
            yield from self._judge_quota(commit, mark, preemptor, before.metadata.uid)
        if preemptor is None or group is None or preemptor.spec.queue != group.spec.queue:
            return
        if priority_of(self.world, preemptor) <= priority_of(self.world, group):
            yield f"{commit.key} has to go {mark}, which is no more important"

    def _judge_quota(
        self, commit: Commit, mark: str, preemptor: PodGroup, victim: Uid
    ) -> Iterator[str]:
        """The preemptor must fit below the limit of every queue above it, with these victims gone.

        What was reserved for it is in the scheduler's sums already, and the victims no longer are.
        """
        over = self._over.get((f"{commit.actor} {_MARK} {commit.key}", victim), {})
        for text in over.get(preemptor.spec.queue, {}).values():
            yield f"{commit.key} has to go {mark}: {text}"

    def _note_limits(self, actor: str, site: str) -> None:
        """Note which limits are exceeded as a mark is sent, and were whenever it was sent."""
        pod = self.world.storage.get(str(PODS), pod_key(site))
        scheduler = scheduler_of(self.world, actor)
        if pod is None or scheduler is None:
            return
        queues = scheduler.cache.snapshot.queues
        now = {name: dict(_exceeded(queue)) for name, queue in queues.items()}
        known = self._over.setdefault((site, pod.typed(Pod).metadata.uid), now)
        for name, levels in known.items():
            known[name] = {k: v for k, v in levels.items() if k in now.get(name, {})}

    def _on_call(self, actor: str, site: str) -> None:
        """Reports what was wrong with the evictions decided since the last call."""
        ends_s = self.world.network.refused_until_s.get(str(POD_GROUPS), 0.0)
        now_s = self.world.clock.monotonic()
        if ends_s > self._refused_until_s:
            # It has begun with an earlier call.
            self._refusals.append((self._called_s, ends_s))
            self._refused_until_s = ends_s
        self._called_s = now_s
        if site.startswith(f"{actor} {_RECORD} "):
            self._tried.setdefault(site, []).append((self.world.storage.version, now_s))
        if site.startswith(f"{actor} {_MARK} "):
            self._note_limits(actor, site)
        process = next((one for one in self.world.processes if one.name == actor), None)
        decided = process.exposed.get(DECIDED) if process is not None else None
        for text in decided.take() if isinstance(decided, DecidedEvictions) else ():
            self.world.checker.report(self.name, text)


def _exceeded(queue: QueueInfo) -> Iterator[tuple[str, str]]:
    """Yields the queues above this one that hold more than their limits, each with how much."""
    for level in queue.lineage[1:]:
        if level.subtree[CPU] > level.capability[CPU]:
            held, limit = level.subtree[CPU] / 1000, level.capability[CPU] / 1000
            yield level.name, f"{level.name} has {held:g} of {limit:g} cpus"


def _is_older(group: PodGroup, pod: Pod) -> bool:
    return (group.metadata.creation_timestamp or "") <= (pod.metadata.creation_timestamp or "")


@dataclass
class SaversSpared:
    """S2: no pod with an open save deadline is deleted by the scheduler, if it could know of it.

    The operator asks pods as well, and the scheduler hears of that by its watch.
    """

    world: SimulatedWorld
    name: str = "S2 saved before deleted"
    _deadlines: OpenDeadlines = field(init=False)
    # The deletes that were last sent for a pod of which was known that it had been asked.
    _knowing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._deadlines = OpenDeadlines(self.world)
        self.world.network.on_call.append(self._on_call)

    def _on_call(self, actor: str, site: str) -> None:
        scheduler = scheduler_of(self.world, actor) if f" delete {PODS} " in site else None
        if scheduler is None:
            return
        pod = scheduler.informers.pods.get(pod_key(site))
        is_asked = pod is not None and RELEASE_ANNOTATION in pod.metadata.annotations
        (self._knowing.add if is_asked else self._knowing.discard)(site)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        self._deadlines.note(after)
        if before is None or f"{commit.actor} delete {PODS} {commit.key}" not in self._knowing:
            return
        if before.metadata.deletion_timestamp or (after and not after.metadata.deletion_timestamp):
            return
        if self._deadlines.is_open(before):
            yield f"{commit.key} deleted before it had saved"


@dataclass
class EndedKept:
    """G6: no pod that has succeeded or failed is deleted by the scheduler.

    It holds no room, and all that tells its job how it ended is the pod. A pod whose phase the
    scheduler cannot read may run for all it knows, so that it holds room, which may be needed.
    """

    world: SimulatedWorld
    name: str = "G6 ended pods kept"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        before, after = pod_states(commit)
        if before is None or not commit.actor.startswith(SCHEDULER):
            return
        if before.metadata.deletion_timestamp or (after and not after.metadata.deletion_timestamp):
            return
        is_read = before.metadata.annotations.get(MARK) != PHASE
        if is_read and before.status.phase in ENDED:
            yield f"{commit.key} deleted after it had {before.status.phase.value}"
