"""Damping: a resize is finished before the next one begins, and is not undone at once.

`damp` turns the targets that a policy wants into the targets to write now. It is pure: the time and
what this process has observed are arguments. `DampingMemory` holds those observations. A new
process starts without them; it waits longer than necessary, but is never less safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from swell.api.backoff import Backoff
from swell.api.meta import Key
from swell.api.pod import PodPhase
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.policies.interface import RoleId, RoleTarget, RoleTargets, SizeReason
from swell.autoscaler.views import AutoscalerJob, Resize

AUTOSCALER = "autoscaler"
# Also the mark by which a failed raise is recognised in the scale records: see `is_taken_back`.
TAKEN_BACK = "its new pods were not bound in time"


@dataclass(frozen=True, slots=True)
class DampingInput:
    """The time and the observations of one pass. Without a time, no rule about time holds.

    `waiting` has the groups that wait for room now, `waited` when each group was last seen waiting.
    `settled` has the time of a role's last resize if it is known to be complete. `stuck` has the
    roles whose last raise failed and for which nothing has changed since that could help.
    """

    now: float | None = None
    cooldown_s: float = 60.0
    waiting: frozenset[Key] = frozenset()
    waited: Mapping[Key, float] = field(default_factory=dict)
    settled: Mapping[RoleId, float] = field(default_factory=dict)
    stuck: frozenset[RoleId] = frozenset()

    def is_recent(self, at: float) -> bool:
        """Whether a moment lies within the cooldown, before or after now.

        After the wall clock was set back, records lie in the future. Only those within one
        cooldown of now count, otherwise a job could not be resized for as long as the clock
        jumped.
        """
        return self.now is not None and abs(self.now - at) < self.cooldown_s


def damp(
    wanted: RoleTargets, jobs: Iterable[JobState], seen: DampingInput
) -> dict[RoleId, RoleTarget]:
    """Returns targets for the same roles; a role that must wait keeps its size, with the reason."""
    result: dict[RoleId, RoleTarget] = {}
    for job in jobs:
        for state in job.roles:
            id_ = RoleId(job.view.id, state.view.name)
            if id_ in wanted:
                result[id_] = _RoleDamping(id_, job.view, state, seen).damp(wanted[id_])
    return result


def damp_stopped(
    wanted: RoleTargets, stopped: Iterable[JobState], seen: DampingInput
) -> dict[RoleId, RoleTarget]:
    """Returns what becomes of the jobs that have stopped for others.

    One of which the policy says nothing goes on: it may be another policy than the one that
    stopped it, or another spec. None goes on within the cooldown of its stop.
    """
    found = {}
    for job in stopped:
        is_new = job.view.yielded_since is not None and seen.is_recent(job.view.yielded_since)
        for state in job.roles:
            id_ = RoleId(job.view.id, state.view.name)
            size = max(state.view.target, state.view.minimum)
            alone = RoleTarget(0, size, SizeReason.GOES_ON, "nothing keeps it from going on")
            target = wanted.get(id_, alone)
            if target.goes_on and is_new:
                target = _keep(target, SizeReason.COOLING_DOWN, "it was stopped a moment ago")
            found[id_] = target
    return found


def is_settled(state: RoleState, last: Resize) -> bool:
    """Whether a resize is complete: all new pods are bound, or all surplus pods are gone."""
    if last.is_raise:
        n_bound = sum(last.before <= index < last.after for index in state.bound())
        return n_bound >= last.after - last.before
    return not any(
        pod.claim is not None
        and pod.claim.index is not None
        and pod.claim.index >= last.after
        and not pod.is_finished
        for pod in state.pods
    )


def is_taken_back(resize: Resize) -> bool:
    """Whether a resize took back a raise whose pods found no node."""
    return resize.by == AUTOSCALER and not resize.is_raise and resize.reason.startswith(TAKEN_BACK)


class DampingMemory:
    """Observations of this process: when groups waited, which resizes are complete or stuck."""

    def __init__(self, cooldown_s: float) -> None:
        self._cooldown_s = cooldown_s
        self._waited: dict[Key, float] = {}
        self._settled: dict[RoleId, float] = {}
        # The time of a failed raise, and the count of changes when it was first seen.
        self._failed: dict[RoleId, tuple[float, int]] = {}

    def observe(self, snapshot: AutoscalerSnapshot, now: float, changes: int) -> DampingInput:
        """Record the present state, and return the input of `damp` for it.

        `changes` counts the events that may have made room: see `Ledger`.
        """
        recent = {
            group: at for group, at in self._waited.items() if abs(now - at) < self._cooldown_s
        }
        self._waited = recent | dict.fromkeys(sorted(snapshot.waiting_groups), now)
        self._observe_resizes(snapshot.jobs, changes)
        stuck = (id_ for id_, (_, seen) in self._failed.items() if seen == changes)
        return DampingInput(
            now=now,
            cooldown_s=self._cooldown_s,
            waiting=snapshot.waiting_groups,
            waited=self._waited,
            settled=self._settled,
            stuck=frozenset(stuck),
        )

    def _observe_resizes(self, jobs: tuple[JobState, ...], changes: int) -> None:
        settled: dict[RoleId, float] = {}
        failed: dict[RoleId, tuple[float, int]] = {}
        for job in jobs:
            if not job.view.resizes:
                continue
            for state in job.roles:
                id_ = RoleId(job.view.id, state.view.name)
                last = job.view.last_resize(id_.role)
                if last is None:
                    continue
                # A resize that was complete once stays so: a pod that is lost later is a restart.
                if self._settled.get(id_) == last.at or is_settled(state, last):
                    settled[id_] = last.at
                if is_taken_back(last):
                    known = self._failed.get(id_)
                    failed[id_] = known if known and known[0] == last.at else (last.at, changes)
        self._settled, self._failed = settled, failed


def _keep(target: RoleTarget, reason: SizeReason, message: str) -> RoleTarget:
    kept = replace(target, target=target.current, reason=reason, message=message)
    return replace(kept, for_group="", moves=False)


@dataclass(frozen=True, slots=True)
class _RoleDamping:
    """Damps the target of one role, given its pods and its earlier resizes."""

    id: RoleId
    job: AutoscalerJob
    state: RoleState
    seen: DampingInput

    def damp(self, target: RoleTarget) -> RoleTarget:
        last = self.job.last_resize(self.id.role)
        if last is not None and last.after != target.current:
            last = None  # that record is about another size
        back = self._take_back(last) if last is not None else None
        # Shrinking so that a pending job can start is exempt from all waiting.
        is_urgent = target.reason is SizeReason.PENDING_JOB
        if back is not None and not (is_urgent and target.target < back.target):
            return back
        if not target.changes:
            return target
        held = None if is_urgent else self._hold(last, is_raise=target.delta > 0)
        if held is not None:
            return _keep(target, *held)
        if target.stops:
            return target  # the operator ends the job's pods together, whichever are missing
        return self._spare_minimum(target) if target.delta < 0 else target

    def _spare_minimum(self, target: RoleTarget) -> RoleTarget:
        """Limit a shrink so that the minimum stays at work.

        The pods with the highest indexes go. Where lower ones are missing, the role cannot shrink
        as far, because the missing ones have to be there first.
        """
        role = self.state.view
        n_kept = max(role.minimum, 1)
        # Running pods are preferred; where fewer than the minimum run, bound ones are spared.
        whole = (some for some in (self._running(), self._bound()) if len(some) >= n_kept)
        at_work = next(whole, None)
        if self.seen.now is None or at_work is None:
            return target
        size = max(target.target, min(at_work[n_kept - 1] + 1, role.maximum))
        if size < target.current:
            return replace(target, target=size)
        return _keep(
            target, SizeReason.PODS_MISSING, "with pods missing it would fall below its minimum"
        )

    def _running(self) -> list[int]:
        return self._below_target(self.state.running())

    def _bound(self) -> list[int]:
        return self._below_target(self.state.bound())

    def _below_target(self, indexes: Iterable[int]) -> list[int]:
        return sorted(index for index in indexes if index < self.state.view.target)

    def _hold(self, last: Resize | None, *, is_raise: bool) -> tuple[SizeReason, str] | None:
        """Returns the reason why a resize has to wait, or None."""
        if last is not None and not self._is_complete(last):
            return SizeReason.IN_PROGRESS, "its last resize is not finished"
        resizes = [one for one in self.job.resizes if one.role == self.id.role]
        if self._was_resized_recently(is_raise=not is_raise):
            return SizeReason.COOLING_DOWN, "it was resized the other way a moment ago"
        if not is_raise:
            return None
        group = next(filter(self._is_held_for_group, resizes), None)
        if group is not None:
            return SizeReason.HELD_FOR_GROUP, f"its room was given to {group.for_group}"
        if self._is_backing_off(resizes):
            return SizeReason.RAISE_FAILED, "its last raise failed; it waits for a change"
        return None

    def _was_resized_recently(self, *, is_raise: bool) -> bool:
        return any(
            one.role == self.id.role and one.is_raise == is_raise and self.seen.is_recent(one.at)
            for one in self.job.resizes
        )

    def _is_complete(self, last: Resize) -> bool:
        return self.seen.settled.get(self.id) == last.at or is_settled(self.state, last)

    def _take_back(self, last: Resize) -> RoleTarget | None:
        """Returns the size to go back to if the pods of the last raise found no room in time."""
        if self.seen.now is None or not last.is_raise or last.by != AUTOSCALER:
            return None
        if self._is_complete(last) or not self._lacks_room(last):
            return None
        # All raises, not only the last one: after the clock was set back an earlier record may
        # be nearer to now.
        if self._was_resized_recently(is_raise=True):
            return None
        role = self.state.view
        highest = max(self._bound(), default=-1)
        # The bounds may have changed since the raise.
        size = min(max(highest + 1, last.before, role.minimum), role.maximum)
        if size >= role.target:
            return None
        return RoleTarget(role.target, size, SizeReason.NOT_BOUND, TAKEN_BACK)

    def _lacks_room(self, last: Resize) -> bool:
        """Whether the raise itself lacks room. Pods created later are replacements or restarts."""
        if not (self.job.is_running or self.job.is_waiting):
            return False
        return not any(
            pod.created_at > last.at + self.seen.cooldown_s
            and pod.claim is not None
            and pod.claim.index is not None
            and last.before <= pod.claim.index < last.after
            and pod.phase is PodPhase.PENDING
            for pod in self.state.pods
        )

    def _is_held_for_group(self, resize: Resize) -> bool:
        """Whether the group for which this resize made room still waits, or did a moment ago.

        Growing again at once would take the room from the group before its pods are bound.
        """
        if not resize.for_group:
            return False
        namespace, _, name = resize.for_group.rpartition("/")
        group = Key(namespace or self.job.id.namespace, name)
        waited_at = self.seen.waited.get(group, resize.at)
        return group in self.seen.waiting or self.seen.is_recent(max(waited_at, resize.at))

    def _is_backing_off(self, resizes: list[Resize]) -> bool:
        """Whether the last raises failed. Each failure doubles the time until the next attempt."""
        n_failures = 0
        # Records alternate: a raise, and the shrink that took it back.
        for at in range(len(resizes) - 1, 0, -2):
            if not (is_taken_back(resizes[at]) and resizes[at - 1].is_raise):
                break
            n_failures += 1
        if not n_failures or self.seen.now is None:
            return False
        wait_s = Backoff(self.seen.cooldown_s, cap_s=inf).full_s(n_failures)
        return self.id in self.seen.stuck or abs(self.seen.now - resizes[-1].at) < wait_s
