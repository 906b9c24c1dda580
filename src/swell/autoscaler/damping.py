"""What keeps decisions calm: a resize is finished before the next, and is not undone at once.

Takes what a policy wants and gives what is to be done now. Pure: time, and what only this process
has seen, are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from swell.api.backoff import Backoff
from swell.api.meta import Key
from swell.api.pod import PodPhase
from swell.autoscaler.cluster_resource import AutoscalerSnapshot, JobState
from swell.autoscaler.job_state import RoleState
from swell.autoscaler.policies.interface import RoleId, RoleTarget, RoleTargets, SizeReason
from swell.autoscaler.views import AutoscalerJob, Resize

AUTOSCALER = "autoscaler"
TAKEN_BACK = "its new pods were not bound in time"


@dataclass(frozen=True, slots=True)
class DampingInput:
    """What damping goes by. Without a time, nothing that depends on time is held back.

    `waiting` has the groups that wait for room, `waited` when groups were last seen to. `settled`
    has the time of a role's raise that is known to have come true; `stuck` the roles whose last
    raise failed, with nothing having changed since that could help.
    """

    now: float | None = None
    cooldown_s: float = 60.0
    waiting: frozenset[Key] = frozenset()
    waited: Mapping[Key, float] = field(default_factory=dict)
    settled: Mapping[RoleId, float] = field(default_factory=dict)
    stuck: frozenset[RoleId] = frozenset()

    def is_recent(self, at: float) -> bool:
        """Whether a moment is within the cool-down. A clock that was set back makes records seem
        to come from the future: those far from now, either way, say nothing."""
        return self.now is not None and abs(self.now - at) < self.cooldown_s


def damped(
    wanted: RoleTargets, jobs: Iterable[JobState], calm: DampingInput
) -> dict[RoleId, RoleTarget]:
    """Targets of the same roles; those that must wait keep their current size, and say why."""
    damped: dict[RoleId, RoleTarget] = {}
    for job in jobs:
        for state in job.roles:
            id_ = RoleId(job.view.id, state.view.name)
            if id_ in wanted:
                damped[id_] = _RoleDamping(id_, job.view, state, calm).damped(wanted[id_])
    return damped


def is_settled(state: RoleState, last: Resize) -> bool:
    """Whether the pods are what a resize made the target: new ones bound, others gone."""
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
    return resize.by == AUTOSCALER and not resize.is_raise and resize.reason.startswith(TAKEN_BACK)


def _kept(target: RoleTarget, reason: SizeReason, message: str) -> RoleTarget:
    return replace(target, target=target.current, reason=reason, message=message, for_group="")


@dataclass(frozen=True, slots=True)
class _RoleDamping:
    """One role, seen with its history."""

    id: RoleId
    job: AutoscalerJob
    state: RoleState
    calm: DampingInput

    def damped(self, target: RoleTarget) -> RoleTarget:
        last = self.job.last_resize(self.id.role)
        if last is not None and last.after != target.current:
            last = None  # a record of another size tells nothing about this one
        back = self._taken_back(last) if last is not None else None
        is_urgent = target.reason is SizeReason.PENDING_JOB
        if back is not None and not (is_urgent and target.target < back.target):
            return back
        if not target.delta:
            return target
        held = None if is_urgent else self._held(last, is_raise=target.delta > 0)
        if held is not None:
            return _kept(target, *held)
        return self._spared(target) if target.delta < 0 else target

    def _spared(self, target: RoleTarget) -> RoleTarget:
        """A shrink that leaves the minimum at work. The highest indexes go, so where lower ones
        are missing it cannot go as far: those have to be there first."""
        role = self.state.view
        n_kept = max(role.minimum, 1)
        whole = (some for some in (self._running(), self._bound()) if len(some) >= n_kept)
        at_work = next(whole, None)
        if self.calm.now is None or at_work is None:
            return target
        size = max(target.target, min(at_work[n_kept - 1] + 1, role.maximum))
        if size < target.current:
            return replace(target, target=size)
        return _kept(
            target, SizeReason.PODS_MISSING, "with pods missing it would fall below its minimum"
        )

    def _running(self) -> list[int]:
        return self._indexes(self.state.running())

    def _bound(self) -> list[int]:
        return self._indexes(self.state.bound())

    def _indexes(self, some: Iterable[int]) -> list[int]:
        """Those below the target, the lowest first."""
        return sorted(index for index in some if index < self.state.view.target)

    def _held(self, last: Resize | None, *, is_raise: bool) -> tuple[SizeReason, str] | None:
        if last is not None and not self._is_over(last):
            return SizeReason.IN_PROGRESS, "its last resize is not finished"
        resizes = [one for one in self.job.resizes if one.role == self.id.role]
        if self._was_resized_of_late(is_raise=not is_raise):
            return SizeReason.COOLING_DOWN, "it was resized the other way a moment ago"
        if not is_raise:
            return None
        group = next(filter(self._is_held_for, resizes), None)
        if group is not None:
            return SizeReason.HELD_FOR_GROUP, f"its room was given to {group.for_group}"
        if self._must_wait(resizes):
            return SizeReason.RAISE_FAILED, "its last raise failed; it waits for a change"
        return None

    def _was_resized_of_late(self, *, is_raise: bool) -> bool:
        return any(
            one.role == self.id.role and one.is_raise == is_raise and self.calm.is_recent(one.at)
            for one in self.job.resizes
        )

    def _is_over(self, last: Resize) -> bool:
        return self.calm.settled.get(self.id) == last.at or is_settled(self.state, last)

    def _taken_back(self, last: Resize) -> RoleTarget | None:
        """The size to return to if the last raise has had its time and its pods no room."""
        if self.calm.now is None or not last.is_raise or last.by != AUTOSCALER:
            return None
        if self._is_over(last) or not self._is_waiting_for_room(last):
            return None
        # Not the last raise alone: where the clock was set back an earlier one may be nearer.
        if self._was_resized_of_late(is_raise=True):
            return None
        role = self.state.view
        highest = max(self._bound(), default=-1)
        size = max(highest + 1, last.before, role.minimum)
        if size >= role.target:
            return None
        return RoleTarget(role.target, size, SizeReason.NOT_BOUND, TAKEN_BACK)

    def _is_waiting_for_room(self, last: Resize) -> bool:
        """Whether it is the raise itself that lacks room, and not a replacement or a restart."""
        if not (self.job.is_running or self.job.is_waiting):
            return False
        return not any(
            pod.created_at > last.at + self.calm.cooldown_s
            and pod.claim is not None
            and pod.claim.index is not None
            and last.before <= pod.claim.index < last.after
            and pod.phase is PodPhase.PENDING
            for pod in self.state.pods
        )

    def _is_held_for(self, resize: Resize) -> bool:
        """Whether the room this resize gave away is still wanted, or was a moment ago."""
        if not resize.for_group:
            return False
        namespace, _, name = resize.for_group.rpartition("/")
        group = Key(namespace or self.job.id.namespace, name)
        waited_at = self.calm.waited.get(group, resize.at)
        return group in self.calm.waiting or self.calm.is_recent(max(waited_at, resize.at))

    def _must_wait(self, resizes: list[Resize]) -> bool:
        """Whether the role's last raises failed: each failure doubles the time to wait."""
        n_failures = 0
        for at in range(len(resizes) - 1, 0, -2):
            if not (is_taken_back(resizes[at]) and resizes[at - 1].is_raise):
                break
            n_failures += 1
        if not n_failures or self.calm.now is None:
            return False
        wait_s = Backoff(self.calm.cooldown_s, cap_s=inf).full_s(n_failures)
        return self.id in self.calm.stuck or abs(self.calm.now - resizes[-1].at) < wait_s


class DampingMemory:
    """Remembers when groups last waited, which raises came true, and which are stuck."""

    def __init__(self, cooldown_s: float) -> None:
        self._cooldown_s = cooldown_s
        self._waited: dict[Key, float] = {}
        self._settled: dict[RoleId, float] = {}
        self._failed: dict[RoleId, tuple[float, int]] = {}

    def calm(self, snapshot: AutoscalerSnapshot, now: float, changes: int) -> DampingInput:
        """Take a look at how things are, and say what damping should know.

        `changes` counts what may have made room since the last look.
        """
        recent = {
            group: at for group, at in self._waited.items() if abs(now - at) < self._cooldown_s
        }
        self._waited = recent | dict.fromkeys(sorted(snapshot.waiting_groups), now)
        self._look_at_resizes(snapshot.jobs, changes)
        stuck = (id_ for id_, (_, seen) in self._failed.items() if seen == changes)
        return DampingInput(
            now=now,
            cooldown_s=self._cooldown_s,
            waiting=snapshot.waiting_groups,
            waited=self._waited,
            settled=self._settled,
            stuck=frozenset(stuck),
        )

    def _look_at_resizes(self, jobs: tuple[JobState, ...], changes: int) -> None:
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
                if self._settled.get(id_) == last.at or is_settled(state, last):
                    settled[id_] = last.at
                if is_taken_back(last):
                    known = self._failed.get(id_)
                    failed[id_] = known if known and known[0] == last.at else (last.at, changes)
        self._settled, self._failed = settled, failed
