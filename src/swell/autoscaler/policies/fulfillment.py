"""The fulfillment policy: grow the least fulfilled role first, shrink the most fulfilled first.

A role's fulfillment is how far its size lies between its minimum and its maximum. The policy knows
neither the time nor earlier decisions. `find_pending_job`, `search_assignable_node`, `set_targets`
and the functions of `dry_run` are named after those of PaddlePaddle's EDL autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from swell.autoscaler.cluster_resource import ClusterResource
from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.needs import amounts_of
from swell.autoscaler.policies.dry_run import CandidateRole, scale_all_jobs_dry_run
from swell.autoscaler.policies.gang_walk import ShrinkableRole, shrinkable
from swell.autoscaler.policies.interface import (
    Parameters,
    RoleId,
    RoleTarget,
    RoleTargets,
    SizeReason,
)
from swell.autoscaler.policies.peculiar import PeculiarRoles
from swell.autoscaler.policies.peculiar import has_any as has_peculiar
from swell.autoscaler.policies.queue_room import QueueRoom, Requests
from swell.autoscaler.policies.room import NOWHERE, Room
from swell.autoscaler.policies.waiting import WaitingPlan, WaitingTrial
from swell.autoscaler.trial import Trial
from swell.autoscaler.views import AutoscalerPod, AutoscalerRole, JobId

# The first attempt asks no plugin, later ones let queues have what others did not use.
_ATTEMPTS_MAX = 4
# Each attempt begins with the shrinks of the last, after which gangs may find other places.
_WAITING_ATTEMPTS_MAX = 3
# Trying one takes about a millisecond, and others are due when these have started.
WAITING_TRIED_MAX = 100


class LeavingPods(NamedTuple):
    """Pods that go when a plan is carried out: of roles that shrink, and of jobs that stop.

    Sizes say that a role shrinks, so that its amounts are taken from the sums by that alone.
    """

    shrunk: tuple[AutoscalerPod, ...] = ()
    stopped: tuple[AutoscalerPod, ...] = ()


STAYING = LeavingPods()


def fulfillment(
    jobs: Sequence[JobState], cluster: ClusterResource, parameters: Parameters
) -> RoleTargets:
    """Returns the targets of all roles that the autoscaler may size."""
    return fulfill(jobs, cluster, parameters, {})


def fulfill(
    jobs: Sequence[JobState],
    cluster: ClusterResource,
    parameters: Parameters,
    wanted: Mapping[RoleId, int],
    leaving: LeavingPods = STAYING,
) -> RoleTargets:
    """Returns the targets of all roles; those with a wanted size come as near to it as they may.

    Whatever is wanted, a raise needs room on nodes and in queues, and waiting jobs start first.
    Room counts as if the pods that are `leaving` had left.
    """
    if not any(is_considered(state) for job in jobs for state in job.roles):
        return {}  # thousands of waiting jobs need not be tried where nothing can shrink
    plan = _Plan(jobs, cluster, parameters, wanted, leaving)
    if not plan.needs_trial:
        return plan.decide(None)
    with Trial(cluster.mirror) as trial:
        return plan.decide(trial)


class _Plan:
    """One decision. A trial is needed where more than amounts of nodes decides about a replica."""

    def __init__(
        self,
        jobs: Sequence[JobState],
        cluster: ClusterResource,
        parameters: Parameters,
        wanted: Mapping[RoleId, int],
        leaving: LeavingPods,
    ) -> None:
        self._jobs = list(jobs)
        self._wanted = wanted
        self._leaving = leaving
        self._cluster = cluster
        self._max_load = parameters.max_load
        self._waiting = WaitingPlan()

    @property
    def needs_trial(self) -> bool:
        mirror = self._cluster.mirror
        return (
            mirror.limits_queues
            or mirror.has_refusing_pods
            or find_pending_job(self._jobs) is not None
            or has_peculiar(self._jobs)
            or mirror.has_topologies
            or not all(mirror.has_queue(mirror.queue_of(job.view.group)) for job in self._jobs)
        )

    def decide(self, trial: Trial | None) -> RoleTargets:
        if trial is not None and find_pending_job(self._jobs) is not None:
            self._waiting = self._plan_waiting(trial)
        room, candidates, deltas = self._dry_run(trial)
        return set_targets(self._jobs, candidates, deltas, room, self._waiting)

    def _plan_waiting(self, trial: Trial) -> WaitingPlan:
        """Find out which pending jobs can start, and by which shrinks.

        The shares that the rounds arrive at come first: they single out no role. Only if not all
        jobs start with those are shrinks looked for node by node. A plan stands when all jobs start
        in their turn with its final sizes; a job that cannot start presses on no other.
        """
        waiting = WaitingTrial(trial, self._jobs)
        blocked = waiting.ignore_behind(WAITING_TRIED_MAX)
        self._jobs = [_without_pressure(job, blocked) for job in self._jobs]
        self._waiting = WaitingPlan(blocked=blocked)
        n_attempts = 0
        while True:
            _, candidates, deltas = self._dry_run(trial)
            trial.undo()
            trial.reset_sums()
            roles = self._shrinkable(candidates)
            sizes = {role.id: role.current + min(deltas[role.id], 0) for role in candidates}
            found = waiting.with_sizes(roles, sizes)
            if not found.blocked:
                found.sizes, found.made_for = self._waiting.sizes, self._waiting.made_for
                found.blocked = blocked
                return found
            n_attempts += 1
            if n_attempts <= _WAITING_ATTEMPTS_MAX:
                found = waiting.plan(roles, sizes if self._waiting.sizes else {})
            if found.blocked:
                n_attempts = 0
                blocked |= found.blocked
                waiting.leave_out(found.blocked)
                self._jobs = [_without_pressure(job, blocked) for job in self._jobs]
                found = WaitingPlan()
            self._waiting = WaitingPlan(
                sizes=found.sizes,
                made_for={**self._waiting.made_for, **found.made_for},
                blocked=blocked,
            )

    def _dry_run(self, trial: Trial | None) -> tuple[Room, list[CandidateRole], dict[RoleId, int]]:
        pending = find_pending_job(self._jobs)
        candidates = find_jobs_that_might_be_rescheduled(
            self._jobs, have_pending=pending is not None
        )
        sizes = self._waiting.sizes
        limited, shrunk = _limited(candidates, self._wanted)
        for role in candidates:
            if role.id in sizes:
                less = sizes[role.id] - role.current
                shrunk[role.id] = min(less, shrunk.get(role.id, less))
        requests: Requests | None = None
        for _ in range(_ATTEMPTS_MAX):
            room = self._room(trial, requests)
            deltas = scale_all_jobs_dry_run(limited, room, shrunk, in_leaps=bool(self._wanted))
            requests = room.queues.next_requests() if room.queues is not None else None
            if requests is None:
                break
        return room, candidates, deltas

    def _room(self, trial: Trial | None, requests: Requests | None) -> Room:
        """Returns the room of the cluster, without what waiting jobs are promised."""
        cluster = self._cluster
        if trial is None:
            return self._without_leaving(Room(cluster, self._max_load))
        trial.undo()
        queues = QueueRoom(trial, self._jobs, requests)
        peculiar = None
        mirror = cluster.mirror
        if has_peculiar(self._jobs) or mirror.has_refusing_pods or mirror.has_topologies:
            peculiar = PeculiarRoles(trial, self._jobs, cluster.nodes)
        room = self._without_leaving(Room(cluster, self._max_load, queues, peculiar))
        if peculiar is not None:
            for id_, state in peculiar.roles():
                n_bound = sum(index < state.view.target for index in state.bound())
                room.seat(id_, state.view.needs, state.view.target - n_bound)
        for job in self._jobs:
            if job.view.id in self._waiting.blocked:
                for count in job.asking:
                    needs = count.needs
                    room.take(needs.cpu_milli, needs.memory_bytes, needs.gpus, -count.n)
        positions = {node.name: at for at, node in enumerate(cluster.nodes)}
        for name, task in self._waiting.places:
            if name in positions:
                room.promise(positions[name], amounts_of(task.pod.spec))
        return room

    def _without_leaving(self, room: Room) -> Room:
        shrunk, stopped = self._leaving
        if not (shrunk or stopped):
            return room
        positions = {node.name: at for at, node in enumerate(room.cluster.nodes)}
        for pod in (*shrunk, *stopped):
            if pod.node in positions:
                room.give_back(pod.needs, positions[pod.node])
        for pod in stopped:
            room.take(pod.needs.cpu_milli, pod.needs.memory_bytes, pod.needs.gpus, -1)
        return room

    def _shrinkable(self, candidates: Iterable[CandidateRole]) -> list[ShrinkableRole]:
        ids = {role.id for role in candidates}
        # Of equally fulfilled roles the last one shrinks first: that with the least unsaved work.
        return [
            shrinkable(state, RoleId(job.view.id, state.view.name))
            for job in sorted(self._jobs, key=lambda job: job.view.safe_since)
            if not job.is_pending
            for state in job.roles
            if RoleId(job.view.id, state.view.name) in ids
        ]


def _limited(
    candidates: Iterable[CandidateRole], wanted: Mapping[RoleId, int]
) -> tuple[list[CandidateRole], dict[RoleId, int]]:
    """Returns the candidates that grow no further than wanted, and the changes decided thereby."""
    limited: list[CandidateRole] = []
    decided: dict[RoleId, int] = {}
    for role in candidates:
        size = wanted.get(role.id)
        if size is None or not role.minimum <= role.current <= role.maximum:
            limited.append(role)  # its bounds were changed, which comes first
        elif size > role.current:
            limited.append(replace(role, maximum=min(size, role.maximum)))
        else:
            limited.append(role)
            decided[role.id] = max(size, role.minimum) - role.current
    return limited, decided


def _without_pressure(job: JobState, blocked: Mapping[JobId, str]) -> JobState:
    """Returns a job that cannot start as one that presses on no other, as a hopeless one does."""
    if job.view.id not in blocked:
        return job
    return replace(job, is_pending=False, is_hopeless=True)


def search_assignable_node(room: Room, role: CandidateRole) -> str:
    """Returns the first node by name with room for one more replica, or an empty name."""
    at = room.find_for(role.id, role.needs)
    return "" if at == NOWHERE else room.cluster.nodes[at].name


def find_pending_job(jobs: Iterable[JobState]) -> JobState | None:
    """Returns the first job that waits for room, if there is one."""
    return next((job for job in jobs if job.is_pending), None)


def find_jobs_that_might_be_rescheduled(
    jobs: Iterable[JobState], *, have_pending: bool
) -> list[CandidateRole]:
    """Returns the candidates: all roles when a job is pending, otherwise those of running jobs."""
    return [
        CandidateRole.of(job, state)
        for job in jobs
        if not job.is_hopeless and (have_pending or job.view.is_running)
        for state in job.roles
        if is_considered(state)
    ]


def is_considered(state: RoleState) -> bool:
    """Whether the autoscaler may size a live job's role at all: not while it is finishing."""
    return state.view.is_auto and not state.has_succeeded


def set_targets(
    jobs: Iterable[JobState],
    candidates: Iterable[CandidateRole],
    deltas: Mapping[RoleId, int],
    room: Room,
    waiting: WaitingPlan,
) -> dict[RoleId, RoleTarget]:
    """Returns a target with its reason for every role considered.

    A role that is no candidate keeps its current target, even outside its bounds. `room` is what
    the dry run left free.
    """
    chosen = {role.id: role for role in candidates}
    jobs = list(jobs)
    pending = {job.view.id: job for job in jobs if job.is_pending}
    first = next((pending[id_] for id_ in waiting.order if id_ in pending), None)
    targets: dict[RoleId, RoleTarget] = {}
    for job in jobs:
        for state in job.roles:
            if not is_considered(state):
                continue
            id_ = RoleId(job.view.id, state.view.name)
            role = chosen.get(id_)
            if role is None:
                targets[id_] = _kept(job, state.view, waiting.blocked.get(job.view.id, ""))
            else:
                made_for = waiting.made_for.get(id_)
                gets_room = pending.get(made_for, first) if made_for is not None else first
                targets[id_] = _planned(role, role.current + deltas[id_], room, gets_room)
    return targets


def _kept(job: JobState, role: AutoscalerRole, why: str) -> RoleTarget:
    """Returns the unchanged target of a role that is no candidate."""
    if job.is_hopeless:
        reason = SizeReason.HOPELESS
        message = "the job cannot start " + (f"now: {why}" if why else "on this cluster")
    else:
        reason, message = SizeReason.NO_CANDIDATE, "the job is not running"
    return RoleTarget(role.target, role.target, reason, message)


def _planned(role: CandidateRole, size: int, room: Room, pending: JobState | None) -> RoleTarget:
    """Returns the target of a candidate for which the dry run planned this size."""
    current = role.current
    if size > current:
        if current < role.minimum:
            reason, message = SizeReason.BELOW_MINIMUM, "it was below its minimum"
        else:
            reason, message = SizeReason.ROOM, "there is room for more"
            refused = _queue_refusal(role, size, room)
            if refused:
                message = f"{message}, but not for {size + 1}: {refused}"
        return RoleTarget(current, size, reason, message)
    if size == current:
        return RoleTarget(size, size, *_why_unchanged(role, room))
    if size == role.maximum:
        return RoleTarget(current, size, SizeReason.ABOVE_MAXIMUM, "it was above its maximum")
    if pending is None:
        message = "more is requested than the cluster has"
        return RoleTarget(current, size, SizeReason.OVER_COMMITTED, message)
    # The freed room is reserved for the pending job's group: see `damping`.
    group = str(pending.view.group)
    message = f"{pending.view.id} waits for room"
    return RoleTarget(current, size, SizeReason.PENDING_JOB, message, for_group=group)


def _why_unchanged(role: CandidateRole, room: Room) -> tuple[SizeReason, str]:
    """Returns the reason why a candidate did not grow."""
    if role.current >= role.maximum:
        return SizeReason.AT_MAXIMUM, "it is at its maximum"
    lacking = [
        name
        for name, used, more, most in (
            ("cpu", room.cpu, role.cpu, room.cpu_max),
            ("memory", room.memory, role.memory, room.memory_max),
            ("GPUs", room.gpu, role.gpu, room.gpu_max),
        )
        if used + more > most
    ]
    if lacking:
        message = f"the cluster has no {' and no '.join(lacking)} for another replica"
        return SizeReason.FULL, message
    refused = _queue_refusal(role, role.current, room)
    if refused:
        return SizeReason.QUEUE_REFUSES, refused
    if not search_assignable_node(room, role):
        held = room.domain_of(role.id)
        if held:
            message = f"its pods must stay in {held}, which has no room for another replica"
            return SizeReason.TOPOLOGY_HELD, message
        return SizeReason.NO_NODE, "no node has room for another replica"
    return SizeReason.BALANCED, "it has its share"


def _queue_refusal(role: CandidateRole, size: int, room: Room) -> str:
    """Returns why the role's queue takes no further replica; empty if it does, or need not."""
    if room.queues is None or size >= role.maximum or room.queues.allows(role.id):
        return ""
    return room.queues.refusal(role.id)
