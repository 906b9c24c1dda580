"""The quota that queues still have while a plan is made, by the plugins of the scheduler itself.

A queue is charged with all that counts against it: what its pods hold, what its pending pods ask
for, replicas that are still to be created, and each raise of the plan. The capability and the state
of the queue and of every ancestor count, also where the configured plugin has no tree.

What else a plugin allows may depend on what all queues ask for, and a raise is asked for only once
it is written. So a plan is first made without the plugins; `confirm` then asks them about its
result. If they would refuse some of it, the plan is made again with `Requests`: the plugins are
asked at each step, as if every queue asked for all that its roles may become. What a queue gets by
that it gets in any case, and what it does not use is left to others in the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swell.api.quantity import parse
from swell.api.requests import CPU, scheduling_amount
from swell.autoscaler.job_state import JobState
from swell.autoscaler.needs import Needs
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.trial import Trial
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.reasons import QueueLimit
from swell.scheduler.model.resources import Vector, amount_text, excess, less_equal_on
from swell.scheduler.model.tasks import Shape
from swell.scheduler.model.unmeasured import unmeasured_queues
from swell.scheduler.session import barred

_ONE = parse(1)
# What each queue asks for, by name.
Requests = Mapping[str, Vector]


@dataclass(frozen=True, slots=True)
class _Place:
    """A role in its queue; no queue if the one that its group names does not exist."""

    queue: QueueInfo | None
    name: str
    shape: Shape
    barred: str = ""  # why the scheduler gives its job nothing, whatever the queue has left


class QueueRoom:
    """The charges of one attempt of a plan. `allows` asks, `charge` counts."""

    def __init__(
        self, trial: Trial, jobs: Sequence[JobState], requests: Requests | None = None
    ) -> None:
        self._trial = trial
        self._queues = trial.snapshot.queues
        self._vectors: dict[Needs, Vector] = {}
        self._unmeasured = unmeasured_queues(trial.snapshot.unreadable_tasks.values(), self._queues)
        self._places = dict(self._find_places(jobs))
        self._blocked: dict[tuple[str, int], RoleId] = {}
        trial.reset_sums()
        self._wish = self._wishes(jobs)
        self._requests = dict(requests or {})
        # What the plugins see as asked for beside all that is charged: pods of hopeless jobs.
        self._uncounted: dict[str, Vector] = {}
        self._raised: dict[tuple[str, int], _Place] = {}
        self._count(jobs)
        self._votes = trial.session().votes if requests is not None else None

    def allows(self, role: RoleId) -> bool:
        """Whether the role's queue and its ancestors take one replica more."""
        place = self._places[role]
        key = (place.name, place.shape.serial)
        # Not remembered for the queue: it may be the group of this job alone.
        if key in self._blocked or place.barred:
            return False
        is_allowed = self._allows(place)
        if not is_allowed:
            # Charges only grow from here on, apart from shrinks, after which nothing grows.
            self._blocked[key] = role
        return is_allowed

    def charge(self, role: RoleId, n: int) -> None:
        place = self._places[role]
        if place.queue is not None:
            place.queue.charge(n * place.shape.request)
        if n > 0:
            self._raised[place.name, place.shape.serial] = place
        if n < 0:
            self._blocked.clear()

    def rounds_left(self, roles: Sequence[RoleId], n: int) -> int:
        """Returns how many times, at most n, the queues take one replica of each role."""
        fits, fails = 0, n + 1
        amounts: dict[str, Vector] = {}
        for role in roles:
            place = self._places[role]
            if place.queue is None or place.barred:
                return 0
            more = amounts.get(place.name)
            amounts[place.name] = place.shape.request + (0 if more is None else more)
        kinds = {(p.name, p.shape.serial): p for p in (self._places[role] for role in roles)}
        while fails - fits > 1:
            tried = min((fits + fails) // 2, n) if fits else n if fails > n else fails // 2
            if self._all_fit(kinds.values(), amounts, tried):
                fits = tried
            else:
                fails = tried
        return fits

    def refusal(self, role: RoleId) -> str:
        """Returns why the queue takes no further replica, with the numbers; empty if it does."""
        place = self._places[role]
        queue = place.queue
        if place.barred:
            return place.barred
        if queue is None:
            return f"there is no queue {place.name}"
        shut = next((level for level in queue.lineage if not level.is_open), None)
        if shut is not None:
            return f"queue {shut.name} is not open"
        for level in queue.lineage:
            limit = self._exceeded(level, place.shape)
            if limit is not None:
                return f"queue {level.name} is at its capability: {limit}"
        votes = self._votes
        refused = votes.quota_refusal(queue, place.shape, 1) if votes is not None else None
        return refused.message if refused is not None else ""

    def next_requests(self) -> Requests | None:
        """Returns the requests of the next attempt; None if this plan stands.

        After an attempt without plugins that is all which the queues may want. Afterwards only a
        queue without a blocked role gives up what it did not use.
        """
        if self._votes is None:
            return None if self._is_confirmed() else self._wish
        blocked = {name for name, _ in self._blocked}
        if not blocked:
            return None
        used = {
            name: self._queues[name].allocated + self._uncounted[name] for name in self._requests
        }
        spare = [
            name
            for name, asked in self._requests.items()
            if name not in blocked and (asked > used[name]).any()
        ]
        if not spare:
            return None
        return {
            name: np.minimum(asked, used[name]) if name in spare else asked
            for name, asked in self._requests.items()
        }

    # --- inside

    def _is_confirmed(self) -> bool:
        """Whether the plugins allow all raises, if the queues ask for them and for nothing else."""
        if not self._raised:
            return True
        for name, queue in self._queues.items():
            queue.pending = self._uncounted[name]
        votes = self._trial.session().votes
        for place in self._raised.values():
            if place.queue is not None:
                place.queue.charge(-place.shape.request)
                is_allowed = votes.allowance(place.queue, place.shape, 1) == 1
                place.queue.charge(place.shape.request)
                if not is_allowed:
                    return False
        return True

    def _allows(self, place: _Place) -> bool:
        queue, shape = place.queue, place.shape
        if queue is None or not all(level.is_open for level in queue.lineage):
            return False
        if self._votes is not None and self._votes.allowance(queue, shape, 1) < 1:
            return False
        return all(
            less_equal_on(level.subtree + shape.request, level.capability, shape.quota_places)
            for level in queue.lineage
        )

    def _all_fit(self, places: Iterable[_Place], amounts: Mapping[str, Vector], n: int) -> bool:
        """Whether all of n rounds fit: the last replica of each kind must, beside all others."""
        for name, more in amounts.items():
            self._queues[name].charge(n * more)
        is_fitting = True
        for place in places:
            if place.queue is not None and is_fitting:
                place.queue.charge(-place.shape.request)
                is_fitting = self._allows(place)
                place.queue.charge(place.shape.request)
        for name, more in amounts.items():
            self._queues[name].charge(-n * more)
        return is_fitting

    def _exceeded(self, level: QueueInfo, shape: Shape) -> QueueLimit | None:
        for place in shape.quota_places:
            held, asked = float(level.subtree[place]), float(shape.request[place])
            allowed = float(level.capability[place])
            if held + asked > allowed:
                name = self._trial.snapshot.dimensions.names[place]
                return QueueLimit(
                    queue=level.name,
                    resource=name,
                    held=amount_text(name, held),
                    asked=amount_text(name, asked),
                    allowed=amount_text(name, allowed),
                )
        return None

    def _find_places(self, jobs: Sequence[JobState]) -> Iterable[tuple[RoleId, _Place]]:
        mirror, snapshot = self._trial.mirror, self._trial.snapshot
        for job in jobs:
            name = mirror.queue_of(job.view.group)
            queue = self._queues.get(name)
            info = snapshot.jobs.get(str(job.view.group))
            refused = barred(info, self._unmeasured) if info is not None else None
            why = refused.message if refused is not None else ""
            for state in job.roles:
                shape = snapshot.shape_of(state.view.template.spec)
                yield RoleId(job.view.id, state.view.name), _Place(queue, name, shape, why)

    def _wishes(self, jobs: Sequence[JobState]) -> dict[str, Vector]:
        """Returns what each queue asks for if every role becomes as large as it may."""
        wishes = {name: queue.allocated + queue.pending for name, queue in self._queues.items()}
        for job in jobs:
            for state in job.roles:
                place = self._places[RoleId(job.view.id, state.view.name)]
                more = max(state.view.maximum - state.view.target, 0) if state.view.is_auto else 0
                if more and place.queue is not None:
                    wishes[place.name] = wishes[place.name] + more * place.shape.request
            extra, queue = self._to_be_created(job), self._queue(job)
            if queue is not None:
                wishes[queue.name] = wishes[queue.name] + extra
        return wishes

    def _count(self, jobs: Sequence[JobState]) -> None:
        """Charges the queues with all that is asked for, and sets what the plugins see as asked."""
        counted = {name: queue.pending.copy() for name, queue in self._queues.items()}
        for job in jobs:
            queue = self._queue(job)
            info = self._trial.snapshot.jobs.get(str(job.view.group))
            if queue is None:
                continue
            if job.is_hopeless and info is not None:
                counted[queue.name] -= info.pending
        for name, queue in self._queues.items():
            self._uncounted[name] = queue.pending - counted[name]
        for job in jobs:
            queue = self._queue(job)
            if queue is not None:
                counted[queue.name] += self._to_be_created(job)
        for name, queue in self._queues.items():
            queue.charge(counted[name])
            queue.pending = excess(self._requests.get(name, queue.allocated), queue.allocated)

    def _to_be_created(self, job: JobState) -> Vector:
        """Returns what replicas ask for that count and have no pod yet."""
        asked = self._trial.snapshot.dimensions.zero()
        if not job.asking or job.is_hopeless:
            return asked
        for count in job.asking:
            asked = asked + count.n * self._vector(count.needs)
        info = self._trial.snapshot.jobs.get(str(job.view.group))
        return asked if info is None else excess(asked, info.pending)

    def _vector(self, needs: Needs) -> Vector:
        found = self._vectors.get(needs)
        if found is None:
            dimensions = self._trial.snapshot.dimensions
            found = self._vectors[needs] = dimensions.zero()
            for name, amount in needs.requests.items():
                # Every name is known: the pods and templates that have it were read before.
                place = dimensions.known(name)
                if place is not None:
                    found[place] = amount * _units_per_whole(name)
        return found

    def _queue(self, job: JobState) -> QueueInfo | None:
        return self._queues.get(self._trial.mirror.queue_of(job.view.group))


def _units_per_whole(name: str) -> int:
    """Returns how many units of a vector a unit of `Needs` is: of cpu both count thousandths."""
    return 1 if name == CPU else scheduling_amount(name, _ONE)
