"""The smallest set of shrinks with which one waiting gang starts, if there is any.

Roles give up replicas in turns, the most fulfilled first, until the gang fits. Then every replica
is given back without which it fits as well, beginning with the role that gave up most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from swell.autoscaler.policies.gang_walk import GangWalk, ShrinkableRole, Sizes, is_placeable
from swell.autoscaler.policies.interface import RoleId
from swell.autoscaler.policies.ranking import Ranking
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.nodes import slots
from swell.scheduler.model.reasons import LIMIT_REASONS
from swell.scheduler.model.resources import Matrix
from swell.scheduler.model.tasks import NOWHERE, Shape, TaskStatus

# Of more roles that shrink, those are kept whose replicas stand where the gang goes.
_SPARED_ROLES_MAX = 128


class ShrinkSearch:
    """Looks for the smallest set of shrinks with which one gang starts."""

    def __init__(
        self,
        walk: GangWalk,
        roles: Sequence[ShrinkableRole],
        sizes: Mapping[RoleId, int],
        info: JobInfo,
    ) -> None:
        self._walk = walk
        self._info = info
        self._sizes = sizes
        self._roles = {role.id: role for role in roles if sizes[role.id] > role.minimum}

    def smallest(self) -> Sizes | None:
        """Returns the roles that must shrink, to which size; None if the gang cannot start."""
        if not self._may_fit():
            return None
        steps = list(self._steps())
        fits, fails, n = len(steps) + 1, 0, 1
        # Doubled until it fits, then halved: far fewer trials than steps.
        while fails < len(steps):
            n = min(n, len(steps))
            if self._starts(_counted(steps[:n])):
                fits = n
                break
            fails, n = n, 2 * n
        if fits > len(steps):
            return None
        while fits - fails > 1:
            middle = (fits + fails) // 2
            if self._starts(_counted(steps[:middle])):
                fits = middle
            else:
                fails = middle
        shrunk = self._spare(_counted(steps[:fits]))
        return self._sizes_after(shrunk)

    def why_blocked(self) -> str:
        """Returns why the gang cannot start, with the numbers."""
        session, queue = self._walk.session, self._info.queue
        if queue is not None and not queue.is_open:
            return f"queue {queue.name} is not open"
        if queue is not None and session.votes.is_overused(queue):
            return f"queue {queue.name} has all it deserves"
        refusal = session.refusals.get(self._info.key)
        is_quota = refusal is not None and refusal.reason in LIMIT_REASONS
        # A limit that is all the cluster has says less than the nodes do.
        if refusal is not None and is_quota and not all(one.is_whole for one in refusal.limits):
            return refusal.message
        return self._shortage()

    def _shortage(self) -> str:
        """Returns how many pods of the gang find room if every role is at its minimum."""
        room = self._most_room()
        texts = []
        for shape, n in self._wanted().items():
            allowed = self._walk.session.placer.allowed(shape)
            n_fitting = int(min(slots(shape, room)[allowed].sum(), n))
            texts.append(f"{n_fitting} of its {n} pods")
        n_lacking = max(self._info.min_member - self._info.counts.ready, 1)
        found = " and ".join(texts) or f"fewer than {n_lacking} of its pods"
        return f"even with every elastic role at its minimum there is room for {found}"

    def _steps(self) -> Iterator[RoleId]:
        """Yields roles that give up one replica each, in turns, the most fulfilled role first."""
        roles = list(self._roles.values())
        ranking = Ranking(roles)
        sizes = [self._sizes[role.id] for role in roles]
        left = [at for at, role in enumerate(roles) if sizes[at] > role.minimum]
        while left:
            for at in reversed(ranking.order(left, sizes)):
                sizes[at] -= 1
                yield roles[at].id
            left = [at for at in left if sizes[at] > roles[at].minimum]

    def _starts(self, shrunk: Mapping[RoleId, int]) -> bool:
        """Whether the gang starts if these roles give up so many replicas."""
        walk = self._walk
        mark = walk.mark()
        walk.shrink(self._sizes_after(shrunk))
        walk.place_others()
        result = walk.place(self._info)
        walk.rollback(mark)
        return result

    def _sizes_after(self, shrunk: Mapping[RoleId, int]) -> Sizes:
        return {id_: (self._roles[id_], self._sizes[id_] - n) for id_, n in shrunk.items()}

    def _spare(self, shrunk: dict[RoleId, int]) -> dict[RoleId, int]:
        """Give back every replica without which the gang starts as well."""
        useful = self._useful(shrunk)
        if useful != shrunk and self._starts(useful):
            shrunk = useful
        # The role that gives up most is asked first whether it can be spared.
        order = sorted(shrunk, key=lambda id_: -shrunk[id_])
        for id_ in order[:_SPARED_ROLES_MAX]:
            fails, fits = -1, shrunk[id_]
            while fits - fails > 1:
                middle = (fits + fails) // 2
                if self._starts({**shrunk, id_: middle}):
                    fits = middle
                else:
                    fails = middle
            shrunk = {**shrunk, id_: fits}
        return {id_: n for id_, n in shrunk.items() if n}

    def _useful(self, shrunk: Mapping[RoleId, int]) -> dict[RoleId, int]:
        """Returns only the replicas down to the last one that stands where the gang would go."""
        walk = self._walk
        mark = walk.mark()
        walk.shrink(self._sizes_after(shrunk))
        walk.place_others()
        walk.place(self._info)
        taken = {task.node for task in self._info.tasks.values() if task.node != NOWHERE}
        walk.rollback(mark)
        useful: dict[RoleId, int] = {}
        for id_, n in shrunk.items():
            role, size = self._roles[id_], self._sizes[id_]
            for index in range(size - n, size):
                task = walk.trial.snapshot.task(role.pods.get(index, ""))
                if task is not None and task.node in taken:
                    useful[id_] = size - index
                    break
        return useful

    def _may_fit(self) -> bool:
        """Whether the nodes have room for each kind of pod if every role is at its minimum.

        A quick answer by amounts alone, so that a hopeless gang costs no trials.
        """
        room = self._most_room()
        placer = self._walk.session.placer
        return all(
            slots(shape, room)[placer.allowed(shape)].sum() >= n
            for shape, n in self._wanted().items()
        )

    def _wanted(self) -> dict[Shape, int]:
        """Returns how many pods of each shape must find room; nothing where that is not fixed."""
        wanted: dict[Shape, int] = {}
        info = self._info
        minimums = info.role_minimums
        n_roles: dict[str, int] = {}
        for task in info.tasks.values():
            n_roles[task.role] = n_roles.get(task.role, info.role(task.role).ready)
            if not is_placeable(task):
                continue
            if minimums and n_roles[task.role] >= minimums.get(task.role, 0):
                continue
            n_roles[task.role] += 1
            wanted[task.shape] = wanted.get(task.shape, 0) + 1
        if not minimums and len(wanted) == 1:
            ((shape, n),) = wanted.items()
            wanted[shape] = min(n, max(info.min_member - info.counts.ready, 0))
        return wanted if minimums or len(wanted) == 1 else {}

    def _most_room(self) -> Matrix:
        """Returns the room of each node once every role is at its minimum."""
        nodes = self._walk.trial.snapshot.nodes
        room = nodes.future.copy()
        for id_, role in self._roles.items():
            for index in range(role.minimum, self._sizes[id_]):
                task = self._walk.trial.snapshot.task(role.pods.get(index, ""))
                if task is not None and task.status in {TaskStatus.BOUND, TaskStatus.RUNNING}:
                    room[:, task.node] += task.request
        return room


def _counted(steps: Sequence[RoleId]) -> dict[RoleId, int]:
    counts: dict[RoleId, int] = {}
    for id_ in steps:
        counts[id_] = counts.get(id_, 0) + 1
    return counts
