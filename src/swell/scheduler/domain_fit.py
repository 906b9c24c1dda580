"""The search for a part of the network that takes a gang, tier by tier from the closest.

A domain of a higher tier is tried only when none of a lower tier takes the gang. In a tier the best
domain by score wins, then the first by name. A job with sub-groups tries each domain on paper: its
sub-groups are placed in it one after the other, each in a domain of its own below. What the first
sub-group takes stands; there is no search back.

A domain's score does not depend on what is tried in it, so a single part of a job takes the first
domain that works, from the highest score on, and the others need no trial. Domains that cannot
take the minimum, counted by shape, are not tried at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from swell.scheduler.domain_reasons import refuse_domains
from swell.scheduler.domains import Domains
from swell.scheduler.gang_fit import RUN_MAX, place_gang
from swell.scheduler.hooks import DomainScores
from swell.scheduler.model.domain_tree import Indexes
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.resources import Mask
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.session import Session, Statement


@dataclass(frozen=True, slots=True)
class JobPart:
    """The pending tasks of a sub-group, in order; or of a whole job without sub-groups."""

    sub_group: SubGroup | None
    tasks: list[Task]
    limit: int | None

    def pending(self) -> list[Task]:
        return [task for task in self.tasks if task.status is TaskStatus.PENDING]


def place_in_domains(
    session: Session, statement: Statement, job: JobInfo, order: deque[Task]
) -> bool:
    """Places tasks of a job in domains that it may use; whether any task was placed.

    Does what `place_gang` does for other jobs.
    """
    while order and order[0].status is not TaskStatus.PENDING:
        order.popleft()
    search = _DomainSearch(session, statement, job)
    parts = _parts(search.domains, session, job, order)
    if not parts:
        return False
    if search.place(parts):
        session.refusals.pop(job.key, None)
        return True
    refuse_domains(session, job, [(part.sub_group, part.pending()) for part in parts])
    return False


def _parts(domains: Domains, session: Session, job: JobInfo, order: deque[Task]) -> list[JobPart]:
    pending = (task for task in order if task.status is TaskStatus.PENDING)
    if job.sub_groups is None:
        # A job that is ready gets one more task, so it is enough to know the next ones.
        is_ready = session.votes.is_ready(job)
        tasks = list(islice(pending, RUN_MAX)) if is_ready else list(pending)
        return [JobPart(None, tasks, domains.limit_of(job))] if tasks else []
    by_group: dict[tuple[int, tuple[str, ...]], list[Task]] = {}
    groups: dict[tuple[int, tuple[str, ...]], SubGroup] = {}
    for task in pending:
        if task.sub_group is not None:
            groups[task.sub_group.key] = task.sub_group
            by_group.setdefault(task.sub_group.key, []).append(task)
    return [
        JobPart(groups[key], tasks, domains.limit_of_part(job, groups[key]))
        for key, tasks in by_group.items()
    ]


class _DomainSearch:
    """The search for one job; what it places is in the statement."""

    def __init__(self, session: Session, statement: Statement, job: JobInfo) -> None:
        self._session = session
        self._votes = session.votes
        self._statement = statement
        self._job = job
        self.domains = session.domains_for(job)
        self._tree = self.domains.tree

    def place(self, parts: list[JobPart]) -> bool:
        if self._job.sub_groups is None:
            (part,) = parts
            enough = self.domains.holds_minimum(self._job)
            return self._place_part(part, self._tree.root, enough) is not None
        return self._place_job(parts)

    # --- a job with sub-groups

    def _place_job(self, parts: list[JobPart]) -> bool:
        job, domains = self._job, self.domains
        limit = domains.limit_of(job)
        held = None if limit is None else domains.held_by(job.tasks.values())
        enough = domains.holds_minimum(job)
        nominated = self._nominated([task for part in parts for task in part.pending()])
        for tier in domains.gradients(limit, self._tree.root, held, job.starts_at):
            best: tuple[tuple[bool, float], list[tuple[Task, TaskStatus, int]]] | None = None
            for domain in tier.tolist():
                if limit is not None and held is None and not enough[domain]:
                    continue
                mark = self._statement.mark()
                score = self._try_job(parts, domain)
                placed = self._statement.take_back(mark)
                # Others have left for it where its nodes are nominated: that comes before scores.
                if score is None:
                    continue
                worth = (bool(nominated[domain]), score)
                if best is None or worth > best[0]:
                    best = (worth, placed)
            if best is not None:
                self._statement.redo(best[1])
                return True
        return False

    def _try_job(self, parts: list[JobPart], inside: int) -> float | None:
        """Places sub-groups in a domain until the job is ready; None if that is no solution."""
        votes, job = self._votes, self._job
        total, placed = 0.0, False
        waiting, surplus = self._in_order(parts), list[JobPart]()
        while waiting or surplus:
            if not waiting:
                waiting, surplus = surplus, []
            part = waiting.pop(0)
            score = self._place_part(part, inside, None)
            if score is None:
                continue  # it is skipped, the others go on
            total, placed = total + score, True
            if votes.is_ready(job):
                return total
            if part.pending() and votes.part_shortfall(job, part.sub_group) == 0:
                waiting = self._in_order([*waiting, part])
            elif part.pending():
                # It waits for pods to leave, and others should not wait for room for its surplus.
                surplus.append(part)
        return total if placed and votes.is_pipelined(job) else None

    def _in_order(self, parts: list[JobPart]) -> list[JobPart]:
        """Sorts sub-groups: first those that their policy needs for its minimum."""
        job, votes = self._job, self._votes
        needed: dict[int, int] = {}
        if job.sub_groups is not None:
            for place, policy in enumerate(job.sub_groups.policies):
                ready = sum(not one.shortfall for one in job.sub_groups.of_policy(place))
                needed[place] = max((policy.min_sub_groups or 0) - ready, 0)
        required: list[JobPart] = []
        others: list[JobPart] = []
        named = [(part, part.sub_group) for part in parts if part.sub_group is not None]
        for part, group in sorted(named, key=lambda pair: votes.sub_group_key(pair[1])):
            if group.shortfall and needed.get(group.policy, 0):
                needed[group.policy] -= 1
                required.append(part)
            else:
                others.append(part)
        return required + others

    # --- one part

    def _place_part(self, part: JobPart, inside: int, enough: Mask | None) -> float | None:
        """Places a part in the best domain that takes it; returns the domain's score or None.

        `enough` are the domains that could hold its minimum in sum, where nothing is held yet.
        """
        domains, job, tree = self.domains, self._job, self._tree
        pending = part.pending()
        tasks = job.tasks if part.sub_group is None else part.sub_group.tasks
        held = None if part.limit is None else domains.held_by(tasks.values())
        level = "" if part.sub_group is None else part.sub_group.starts_at
        gradients = domains.gradients(part.limit, inside, held, level)
        if not gradients or not pending:
            return None
        possible = self._possible(part, pending, gradients)
        hidden = np.zeros_like(possible)
        if enough is not None and held is None and part.limit is not None:
            possible, hidden = possible & enough, possible & ~enough
        scores = self._votes.domain_scores(job, part.sub_group)
        if scores is None:
            scores = DomainScores(*np.zeros((2, len(tree.names))))
        nominated = self._nominated(pending)
        for tier in gradients:
            open_ones = tier[possible[tier]]
            score, bonus = scores.score[open_ones], scores.bonus[open_ones]
            order = np.lexsort((open_ones, -bonus, -score, ~nominated[open_ones]))
            for domain in open_ones[order].tolist():
                if (hidden & tree.is_below(domain)).any():
                    # The minimum of the group is for the whole job: its pods may be closer.
                    fits = self._place_part(part, domain, None) is not None
                else:
                    fits = self._fits(part, pending, domain)
                if fits:
                    return float(scores.score[domain] + scores.bonus[domain])
        return None

    def _possible(self, part: JobPart, pending: list[Task], gradients: list[Indexes]) -> Mask:
        """Returns the domains that take as many tasks as must be placed at once, by count."""
        if len(gradients) == 1 and gradients[0].tolist() == [self._tree.root]:
            # There is one choice, and the trial itself is the best test.
            return np.ones(len(self._tree.names), dtype=np.bool_)
        counted = self.domains.capacity_for(pending, now=False)
        return counted >= missing_of(self._session, self._job, part.sub_group)

    def _nominated(self, pending: list[Task]) -> Mask:
        """Returns for each domain whether all nodes nominated for the tasks are in it.

        An earlier session has evicted others there, so it comes before better ones.
        """
        nodes = self._session.snapshot.nodes
        places = {nodes.find(task.nominated) for task in pending if task.nominated}
        mask = np.zeros(len(self._tree.names), dtype=np.bool_)
        if places and min(places) >= 0:
            mask[list(self._tree.lineages[self._tree.holding(places, hosts=True)])] = True
        return mask

    def _fits(self, part: JobPart, pending: list[Task], domain: int) -> bool:
        """Places the part in a domain. Returns False, with all undone, if it does not fit."""
        session, votes, job = self._session, self._votes, self._job
        mark = self._statement.mark()
        with session.placer.within(self.domains.nodes_of(domain)):
            placed = place_gang(session, self._statement, job, deque(pending), part.sub_group)
        if placed and (
            votes.part_shortfall(job, part.sub_group) == 0
            or votes.is_part_pipelined(job, part.sub_group)
        ):
            return True
        self._statement.rollback(mark)
        return False


def missing_of(session: Session, job: JobInfo, part: SubGroup | None) -> int:
    """Returns the least number of tasks that must be placed at once: at least one."""
    if not session.votes.part_shortfall(job, part):
        return 1
    if part is not None:
        return 1 if part.is_pipelined else max(part.shortfall, 1)
    return max(job.min_member - job.counts.ready_or_best_effort, 1)


def scopes_of(session: Session, job: JobInfo) -> Iterator[Callable[[Task], Mask | None]]:
    """Yields ways to limit the nodes of a job's best-effort tasks, the closest domains first.

    Each way is asked for a task's nodes when the task's turn comes, with those before it placed.
    """
    domains = session.domains_for(job)
    limit = domains.limit_of(job)
    held = None if limit is None else domains.held_by(job.tasks.values())
    for tier in domains.gradients(limit, domains.tree.root, held, job.starts_at):
        for domain in tier.tolist():
            yield lambda task, inside=domain: _scope_of(domains, job, task, inside)  # type: ignore[misc]


def _scope_of(domains: Domains, job: JobInfo, task: Task, inside: int) -> Mask | None:
    part = task.sub_group
    scope = domains.nodes_of(inside)
    if part is None:
        return scope
    limit = domains.limit_of_part(job, part)
    own = domains.nodes_within(limit, domains.held_by(part.tasks.values()))
    return scope if own is None else own if scope is None else scope & own
