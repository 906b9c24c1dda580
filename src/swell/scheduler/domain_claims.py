"""Room by eviction within one part of the network: which domain is cleared for a gang.

Domains are tried tier by tier from the closest, in a tier those with most room first and no more
than `maxDomains`. The first tier in which some domain can be cleared decides, and in it the one
that costs least: fewest whole gangs, then victims of the lowest rank, then the least unsaved work,
then the least important victims, then fewest pods, then the name. Who may be a victim, and that
gangs leave whole, is decided in `victims` as for other jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from swell.scheduler.domain_fit import missing_of
from swell.scheduler.eviction_units import EvictionCost
from swell.scheduler.model.domain_tree import Indexes
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.model.unsaved import UnsavedWork
from swell.scheduler.session import Session, Statement
from swell.scheduler.victims import VictimSearch

# An argument of preempt and reclaim, and the same of the plugin network-topology-aware.
MAX_DOMAINS: Final = "maxDomains"
# An argument of both: whether gangs without surplus may have to leave as a whole.
ALLOW_WHOLE: Final = "allowWholeBundle"
PLUGIN_MAX_DOMAINS: Final = "hypernode.gradient.evict.max-hypernodes"
_MAX_DEFAULT = 8  # Volcano's
Attempt = Callable[[int], bool]


def claim_domain(
    session: Session,
    statement: Statement,
    job: JobInfo,
    tasks: Sequence[Task],
    search: VictimSearch,
) -> bool:
    """Evicts for the missing minimum of a job within the best domain; whether it has room then.

    Otherwise the statement is as before.
    """
    return bool(tasks) and _DomainClaim(session, statement, job, tasks, search).run()


def scope_within_gang(session: Session, task: Task) -> Mask | None:
    """Returns the nodes that a task may use beside those of its gang that run; None for all."""
    job = task.job
    if job is None or not job.is_constrained:
        return None
    domains = session.domains_for(job)
    of_job = domains.nodes_within(domains.limit_of(job), domains.held_by(job.tasks.values()))
    part = task.sub_group
    if part is None:
        return of_job
    limit = domains.limit_of_part(job, part)
    of_part = domains.nodes_within(limit, domains.held_by(part.tasks.values()))
    return of_job if of_part is None else of_part if of_job is None else of_job & of_part


@dataclass(frozen=True, slots=True)
class _ClaimCost:
    """The cost of clearing a domain. Rank and importance are those of the most important victim."""

    n_whole: int  # gangs that leave as a whole
    rank: tuple[Any, ...]
    work: UnsavedWork
    importance: tuple[Any, ...]
    n_pods: int


class _DomainClaim:
    """One claim of one job; its trials are undone in the statement."""

    def __init__(
        self,
        session: Session,
        statement: Statement,
        job: JobInfo,
        tasks: Sequence[Task],
        search: VictimSearch,
    ) -> None:
        self._session = session
        self._votes = session.votes
        self._statement = statement
        self._job = job
        self._tasks = tasks
        self._search = search
        self._domains = session.domains_for(job)
        self._tree = self._domains.tree
        self._max = _max_domains(session, search.action)

    def run(self) -> bool:
        job, domains = self._job, self._domains
        limit = domains.limit_of(job)
        held = None if limit is None else domains.held_by(job.tasks.values())
        gradients = domains.gradients(limit, self._tree.root, held, job.starts_at)
        if job.sub_groups is None:
            return self._clear_best(
                gradients, None, lambda one: self._claim(None, self._tasks, one)
            )
        return self._clear_best(gradients, None, self._claim_parts)

    def _clear_best(
        self, gradients: Sequence[Indexes], part: SubGroup | None, attempt: Attempt
    ) -> bool:
        """Makes the best attempt of the first tier that has any; whether there was one."""
        statement = self._statement
        possible = self._possible(part)
        for tier in gradients:
            costs: dict[int, _ClaimCost] = {}
            # Attempts that fail cost as much as others. Few do: those that are not possible are
            # not among them.
            for domain in self._most_room_first(tier[possible[tier]])[: self._max]:
                mark = statement.mark()
                if attempt(domain):
                    costs[domain] = self._cost()
                statement.rollback(mark)
            if costs:
                # The same attempt on the same state has the same result.
                return attempt(_cheapest(costs))
        return False

    def _possible(self, part: SubGroup | None) -> Mask:
        """Returns the domains with room for the missing minimum if every victim left them."""
        tasks = [task for task in self._tasks if part is None or task.sub_group is part]
        if not tasks:
            return np.zeros(len(self._tree.names), dtype=np.bool_)
        first = tasks[0]
        alike = sum(task.shape is first.shape for task in tasks)
        n = missing_of(self._session, self._job, part) if alike == len(tasks) else 1
        slots = self._search.slots_at_most(first)
        enough: Mask = self._tree.sums(slots[None, :])[0] >= min(n, alike)
        return enough

    def _most_room_first(self, tier: Indexes) -> list[int]:
        room = self._domains.capacity_for(self._tasks, now=False)
        found: list[int] = tier[np.lexsort((tier, -room[tier]))].tolist()
        return found

    def _cost(self) -> _ClaimCost:
        units = self._statement.evicted()
        return _ClaimCost(
            n_whole=sum(unit.cost is EvictionCost.WHOLE for unit in units),
            rank=min((self._votes.rank_of(unit.job) for unit in units), default=()),
            work=self._search.prices.work(units),
            importance=min((self._votes.importance_of(unit.job) for unit in units), default=()),
            n_pods=sum(len(unit.tasks) for unit in units),
        )

    def _claim_parts(self, inside: int) -> bool:
        """Clears a domain for each sub-group that the job needs, all within one of the job's."""
        job, votes = self._job, self._votes
        by_group: dict[tuple[int, tuple[str, ...]], list[Task]] = {}
        for task in self._tasks:
            if task.sub_group is not None:
                by_group.setdefault(task.sub_group.key, []).append(task)
        groups = [(tasks[0].sub_group, tasks) for tasks in by_group.values()]
        named = [(group, tasks) for group, tasks in groups if group is not None]
        for group, tasks in sorted(named, key=lambda pair: votes.sub_group_key(pair[0])):
            if not votes.is_starving(job):
                break
            limit = self._domains.limit_of_part(job, group)
            held = None if limit is None else self._domains.held_by(group.tasks.values())
            gradients = self._domains.gradients(limit, inside, held, group.starts_at)
            self._clear_best(
                gradients,
                group,
                lambda one, group=group, tasks=tasks: self._claim(group, tasks, one),  # type: ignore[misc]
            )
        return self._statement.has_evictions and votes.is_pipelined(job)

    def _claim(self, part: SubGroup | None, tasks: Sequence[Task], domain: int) -> bool:
        """Makes room in one domain for a job, or for one sub-group of it."""
        job, votes = self._job, self._votes
        has_room = False
        with self._session.placer.within(self._domains.nodes_of(domain)):
            for task in tasks:
                if task.status is not TaskStatus.PENDING:
                    continue
                if not votes.is_starving(job):
                    break
                if part is not None and has_room and votes.is_part_pipelined(job, part):
                    break
                has_room = self._search.make_room(self._statement, task) or has_room
        is_whole = votes.is_pipelined(job) if part is None else votes.is_part_pipelined(job, part)
        return has_room and is_whole


def _cheapest(costs: dict[int, _ClaimCost]) -> int:
    n_whole = min(cost.n_whole for cost in costs.values())
    left = {one: cost for one, cost in costs.items() if cost.n_whole == n_whole}
    # The later key is the less important job, of ranks as of importance.
    rank = max(cost.rank for cost in left.values())
    left = {one: cost for one, cost in left.items() if cost.rank == rank}
    work = min(cost.work for cost in left.values())
    left = {one: cost for one, cost in left.items() if cost.work == work}
    least = max(cost.importance for cost in left.values())
    left = {one: cost for one, cost in left.items() if cost.importance == least}
    n_pods = min(cost.n_pods for cost in left.values())
    return min(one for one, cost in left.items() if cost.n_pods == n_pods)


def _max_domains(session: Session, action: str) -> int:
    """Returns how many domains of a tier are compared: by the action, or by the plugin."""
    options = [
        option.arguments.number(PLUGIN_MAX_DOMAINS, 0)
        for tier in session.config.tiers
        for option in tier
        if option.name == "network-topology-aware"
    ]
    given = session.config.arguments_of(action).number(MAX_DOMAINS, 0)
    found = int(given) if given > 0 else int(max(options, default=0))
    return found if found > 0 else _MAX_DEFAULT
