"""Whether a gang fits: places the pending tasks of one job until its minimum has nodes.

Works inside a statement, so the caller commits all of it or none. A gang fits when the job is ready
afterwards (`Votes.is_ready`); it fits later when it is pipelined (`Votes.is_pipelined`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.sub_groups import SubGroup
from swell.scheduler.model.tasks import Task, TaskStatus, are_alike
from swell.scheduler.session import Session, Statement

# A job gets one surplus task per pass, so with thousands of equal tasks left there is no need to
# collect all of them each time.
RUN_MAX = 256


def place_gang(
    session: Session,
    statement: Statement,
    job: JobInfo,
    order: deque[Task],
    part: SubGroup | None = None,
) -> bool:
    """Places tasks in order until the job is ready; whether any task was placed.

    A job that is ready already gets one task more. Stops early when the job can no longer become
    ready. `order` is kept between calls; tasks that are no longer pending are dropped from it.
    With `part` the tasks are those of one sub-group, and it is the one to become ready.
    """
    queue, votes = job.queue, session.votes
    failed_roles: set[str] = set()
    placed = False
    for run in _runs(order):
        first = run[0]
        # Pods with claims differ by what they claim: where one fails, the next may not.
        is_alike = not first.shape.has_claims
        if queue is None or (is_alike and first.role and first.role in failed_roles):
            continue
        n_wanted = min(len(run), max(votes.part_shortfall(job, part, first.role), 1))
        n_allowed = votes.allowance(queue, first.shape, n_wanted)
        if n_allowed < n_wanted:
            refusal = votes.quota_refusal(queue, first.shape, n_wanted)
            if refusal is not None:
                session.refuse(job, refusal)
                session.stuck[job.key] = first
        n_placed = _place_run(session, statement, job, run[:n_allowed])
        placed = placed or n_placed > 0
        if n_placed < n_allowed:
            # The numbers are added at the end of the session, when other jobs have taken room, too.
            # Claims are given back by then, so a pod with claims gets its numbers here.
            why = "" if is_alike else session.placer.why_not(run[n_placed])
            session.refuse(job, Refusal(WaitReason.NOT_ENOUGH_RESOURCES, why))
            session.stuck[job.key] = run[n_placed]
            if is_alike or job.min_member == len(job.tasks):
                failed_roles.add(first.role)
            if part is None and not _can_become_ready(job, failed_roles):
                break
        if placed and votes.part_shortfall(job, part) == 0:
            break
    return placed


def _runs(order: deque[Task]) -> Iterator[list[Task]]:
    """Yields the pending tasks in runs of one shape and role, at most RUN_MAX at once."""
    while order and order[0].status is not TaskStatus.PENDING:
        order.popleft()
    run: list[Task] = []
    for task in order:
        if task.status is not TaskStatus.PENDING:
            continue
        if run and (len(run) == RUN_MAX or task.shape.has_claims or not are_alike(run[0], task)):
            yield run
            run = []
        run.append(task)
    if run:
        yield run


def _place_run(session: Session, statement: Statement, job: JobInfo, run: Sequence[Task]) -> int:
    """Places equal tasks one after the other; returns how many found a node.

    Where all tasks of the job have to be placed and some find no node, the last ones that do are
    not placed: they would be taken back at once, at more cost than the search for nodes.
    """
    n = 0
    while n < len(run):
        choices = session.placer.nodes_for(run[n:])
        if choices is None:
            break
        end = n + len(choices.nodes)
        if choices.are_all and end < len(run) and job.min_member == len(job.tasks):
            return end
        statement.place_alike(run[n:end], choices)
        n = end
        if choices.are_all:
            break
    return n


def _can_become_ready(job: JobInfo, failed_roles: set[str]) -> bool:
    """Whether the job can still become ready without more tasks of the roles that found no node."""
    if job.min_member == len(job.tasks):
        return False
    minimums = job.group.spec.min_task_member
    # A total below the sum of the roles' minimums means that only the total counts.
    if job.min_member < sum(minimums.values()):
        n_possible = sum(
            job.role(role).ready + job.role(role)[TaskStatus.PENDING] * (role not in failed_roles)
            for role in {task.role for task in job.tasks.values()}
        )
        return n_possible >= job.min_member
    return all(job.role(role).ready >= minimums.get(role, 0) for role in failed_roles)
