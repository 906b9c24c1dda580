"""The dry run of the fulfillment policy: planned sizes, changed by one replica at a time.

The rule is simple and slow: in each round every role may take one step up, in order of
fulfillment, and then one step down, in reverse order, until a round changes nothing. This module
computes the same result with many equal rounds at once, so that the cost does not grow as
rounds x roles x nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from swell.autoscaler.job_state import JobState, RoleState
from swell.autoscaler.needs import Needs
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.policies.ranking import Ranking
from swell.autoscaler.policies.room import NOWHERE, Room


@dataclass(frozen=True, slots=True)
class CandidateRole:
    """A role whose size may be chosen, with the amounts of one replica."""

    id: RoleId
    minimum: int
    maximum: int
    current: int
    cpu: int
    memory: int
    gpu: int
    needs: Needs
    safe_since: float = 0.0  # as its job's

    @classmethod
    def of(cls, job: JobState, state: RoleState) -> CandidateRole:
        view, needs = state.view, state.view.needs
        return cls(
            id=RoleId(job.view.id, view.name),
            minimum=view.minimum,
            maximum=view.maximum,
            current=view.target,
            cpu=needs.cpu_milli,
            memory=needs.memory_bytes,
            gpu=needs.gpus,
            needs=needs,
            safe_since=job.view.safe_since,
        )

    @property
    def amounts(self) -> tuple[int, int, int]:
        return self.cpu, self.memory, self.gpu


Filter = Callable[[CandidateRole], bool]


def elastic(role: CandidateRole) -> bool:
    """Whether the role has more than one possible size."""
    return role.minimum < role.maximum


def need_gpu(role: CandidateRole) -> bool:
    return role.gpu > 0


def sorted_jobs(
    roles: Iterable[CandidateRole], *filters: Filter, deltas: Mapping[RoleId, int] | None = None
) -> list[CandidateRole]:
    """Returns the roles that pass all filters, the one to grow first in front.

    `deltas` are the changes planned so far. The roles that pass must be elastic.
    """
    passing = [role for role in roles if all(passes(role) for passes in filters)]
    passing.sort(key=_tie_break)
    planned = deltas or {}
    sizes = [role.current + planned.get(role.id, 0) for role in passing]
    return [passing[at] for at in Ranking(passing).order(range(len(passing)), sizes)]


def scale_dry_run(room: Room, role: CandidateRole, delta: int, *, scale_down: bool = False) -> int:
    """Returns the next step of a role whose planned change is `delta`, and updates the room."""
    planned = role.current + delta
    change = _step_down(room, role, planned) if scale_down else _step_up(room, role, planned)
    if change:
        room.take(*role.amounts, change)
        room.charge(role.id, change)
    return change


def scale_all_jobs_dry_run(
    roles: Iterable[CandidateRole],
    room: Room,
    shrunk: Mapping[RoleId, int] | None = None,
    *,
    in_leaps: bool = False,
) -> dict[RoleId, int]:
    """Returns the change of every elastic role once no further step is possible.

    `shrunk` are changes that are decided already: those roles begin smaller and do not grow. With
    `in_leaps` a role grows to its maximum before the next one does: where all of them are meant
    to get there, that is sooner decided, and keeps a role's replicas together.
    The first round puts all roles within their bounds. From then on an over-committed cluster
    allows no step up at all, and one that is not never becomes so again: so what follows is rounds
    that only shrink, and after them rounds that only grow.
    """
    decided = shrunk or {}
    order = sorted_jobs(roles, elastic, deltas=decided)
    plan = _DryRun(order, room, decided)
    plan.run_round(order)
    while room.is_over and plan.shrink():
        pass
    if not room.is_over:
        plan.grow_in_leaps() if in_leaps else plan.grow()
    return {role.id: size - role.current for role, size in zip(plan.roles, plan.sizes, strict=True)}


def _tie_break(role: CandidateRole) -> tuple[int, int, int, float, str, str, str]:
    """Sort equally fulfilled roles: the cheaper to grow first, then by unsaved work, then by name.

    The last one shrinks first: of equal replicas, that of the job that saved most recently.
    """
    job = role.id.job
    since = role.safe_since
    return role.gpu, role.cpu, role.memory, since, str(job.key), role.id.role, job.kind


def _step_up(room: Room, role: CandidateRole, planned: int) -> int:
    # A size outside the bounds is corrected at once, whether there is room or not: the user has
    # changed the bounds, and the operator creates the pods in any case.
    if planned > role.maximum:
        return role.maximum - planned
    if planned < role.minimum:
        return role.minimum - planned
    if planned == role.maximum or (
        room.cpu + role.cpu > room.cpu_max
        or room.memory + role.memory > room.memory_max
        or room.gpu + role.gpu > room.gpu_max
    ):
        return 0
    if not room.queue_allows(role.id):
        return 0
    node = room.find_for(role.id, role.needs)
    if node == NOWHERE:
        return 0
    room.place_for(role.id, role.needs, node)
    return 1


def _step_down(room: Room, role: CandidateRole, planned: int) -> int:
    # Idle amounts of nodes are not raised here: which pod will go is not known yet.
    if planned > role.maximum:
        return -1
    return -1 if planned > role.minimum and _is_pressing(room, role) else 0


def _is_pressing(room: Room, role: CandidateRole) -> bool:
    """Whether the role asks for a resource that is over-committed."""
    return bool(
        (room.cpu > room.cpu_max and role.cpu)
        or (room.memory > room.memory_max and role.memory)
        or (room.gpu > room.gpu_max and need_gpu(role))
    )


class _DryRun:
    """The planned sizes, by position in the tie-break order of the roles."""

    def __init__(
        self, roles: Iterable[CandidateRole], room: Room, shrunk: Mapping[RoleId, int]
    ) -> None:
        self.roles = sorted(roles, key=_tie_break)
        self.sizes = [role.current for role in self.roles]
        self._room = room
        self._shrunk = shrunk
        for at, role in enumerate(self.roles):
            if role.id in shrunk:
                # Such a role takes no step up, which would correct a size above its maximum.
                change = min(role.current + shrunk[role.id], role.maximum) - role.current
                self.sizes[at] += change
                room.take(*role.amounts, change)
                room.charge(role.id, change)
        self._ranking = Ranking(self.roles)

    def run_round(self, order: Sequence[CandidateRole]) -> None:
        """Offer every role a step up, in this order, and then a step down, in reverse order."""
        positions = {role.id: at for at, role in enumerate(self.roles)}
        for role in order:
            if role.id not in self._shrunk:
                self._step(positions[role.id])
        for role in reversed(order):
            self._step(positions[role.id], scale_down=True)

    def _order(self, positions: Sequence[int]) -> list[int]:
        return self._ranking.order(positions, self.sizes)

    def _step(self, at: int, *, scale_down: bool = False) -> int:
        role = self.roles[at]
        change = scale_dry_run(
            self._room, role, self.sizes[at] - role.current, scale_down=scale_down
        )
        self.sizes[at] += change
        return change

    def shrink(self) -> bool:
        """Run one round of steps down, or as many equal ones at once as are sure to follow.

        Returns whether any role could shrink.
        """
        room = self._room
        above = [
            at
            for at, role in enumerate(self.roles)
            if self.sizes[at] > role.minimum and _is_pressing(room, role)
        ]
        if not above:
            return False
        cpu, memory, gpu = self._sums(above)
        # As long as what is over-committed stays so, each of these roles moves in every round.
        lasting = [
            (used - most - 1) // less
            for used, most, less in (
                (room.cpu, room.cpu_max, cpu),
                (room.memory, room.memory_max, memory),
                (room.gpu, room.gpu_max, gpu),
            )
            if used > most and less
        ]
        # Nor may a role fall below its minimum.
        rounds = min([*lasting, *(self.sizes[at] - self.roles[at].minimum for at in above)])
        if rounds > 0:
            for at in above:
                self.sizes[at] -= rounds
                room.charge(self.roles[at].id, -rounds)
            room.take(cpu, memory, gpu, -rounds)
        else:
            # The last round before a threshold: here the order decides which roles still move.
            for at in reversed(self._order(above)):
                self._step(at, scale_down=True)
        return True

    def grow(self) -> None:
        """Run rounds of steps up. Room only shrinks meanwhile: a role that is stuck stays stuck."""
        rising = [at for at, role in enumerate(self.roles) if role.id not in self._shrunk]
        # Looking for equal rounds costs about as much as a round: after each failure it is tried
        # half as often.
        n_patience = 1
        n_rounds = 0
        while rising:
            n_rounds += 1
            if n_rounds >= n_patience:
                n_rounds = 0
                n_patience = 1 if self._grow_alike(rising) else 2 * n_patience
            rising = [at for at in self._order(rising) if self._step(at)]

    def grow_in_leaps(self) -> None:
        """Let one role after the other grow to its maximum, as many replicas at a time as fit."""
        rising = [at for at, role in enumerate(self.roles) if role.id not in self._shrunk]
        for at in self._order(rising):
            while self._leap(at):
                pass

    def _leap(self, at: int) -> bool:
        """Put as many replicas of a role on one node as fit; returns whether there were any."""
        role, room = self.roles[at], self._room
        if room.is_peculiar(role.id):
            return bool(self._step(at))
        n = role.maximum - self.sizes[at]
        node = room.find(role.needs) if n > 0 else NOWHERE
        if node == NOWHERE:
            return False
        for used, most, more in (
            (room.cpu, room.cpu_max, role.cpu),
            (room.memory, room.memory_max, role.memory),
            (room.gpu, room.gpu_max, role.gpu),
        ):
            if more:
                n = min(n, (most - used) // more)
        n = room.queue_rounds([role.id], min(n, room.rounds_left([(role.needs, node)])))
        if n < 1:
            return False
        self.sizes[at] += n
        room.place(role.needs, node, n)
        room.charge(role.id, n)
        room.take(*role.amounts, n)
        return True

    def _grow_alike(self, rising: Sequence[int]) -> bool:
        """Run as many equal rounds at once as are sure to follow; returns whether there were any.

        Rounds are equal as long as no role reaches its maximum, no threshold is met, and the nodes
        that the roles fill now have room for all of them.
        """
        room = self._room
        roles = [self.roles[at] for at in rising]
        if any(room.is_peculiar(role.id) for role in roles):
            return False
        nodes = [room.find(role.needs) for role in roles]
        # A role without a node drops out in this round, so the next one is not equal.
        if NOWHERE in nodes:
            return False
        cpu, memory, gpu = self._sums(rising)
        rounds = min(
            [
                *(self.roles[at].maximum - self.sizes[at] for at in rising),
                *(
                    (most - used) // more
                    for used, most, more in (
                        (room.cpu, room.cpu_max, cpu),
                        (room.memory, room.memory_max, memory),
                        (room.gpu, room.gpu_max, gpu),
                    )
                    if more
                ),
                room.rounds_left(
                    (role.needs, node) for role, node in zip(roles, nodes, strict=True)
                ),
            ]
        )
        rounds = room.queue_rounds([role.id for role in roles], rounds)
        if rounds < 1:
            return False
        for at, role, node in zip(rising, roles, nodes, strict=True):
            self.sizes[at] += rounds
            room.place(role.needs, node, rounds)
            room.charge(role.id, rounds)
        room.take(cpu, memory, gpu, rounds)
        return True

    def _sums(self, positions: Sequence[int]) -> tuple[int, int, int]:
        """Returns cpu, memory and GPUs of one replica of each role at these positions."""
        cpu = memory = gpu = 0
        for at in positions:
            role = self.roles[at]
            cpu += role.cpu
            memory += role.memory
            gpu += role.gpu
        return cpu, memory, gpu
