"""allocate: gives pending gangs nodes, whole or not at all, queue by queue in fair turns.

A job gets its missing minimum in one pass and one task more in each later pass, so surplus is
filled in turns too. What fits only after pods have left is held, not bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from swell.scheduler.model.jobs import Job, QueueEntry
from swell.scheduler.model.reasons import Reason, Refusal
from swell.scheduler.model.tasks import Task, TaskStatus
from swell.scheduler.rounds import Rounds
from swell.scheduler.session import Session
from swell.scheduler.statement import Statement

RUN_MAX = 256  # a job with thousands of equal tasks left takes one a pass: no need to see them all


def allocate(session: Session) -> None:
    votes = session.votes
    jobs = _candidates(session)
    orders: dict[str, deque[Task]] = {}
    # Whoever was promised a node comes first, and needs nobody's leave again.
    promised = [job for job in jobs if job.key in session.promises]
    for job in sorted(promised, key=votes.job_key):
        _serve(session, job, orders)
    rounds = Rounds(votes, (job for job in jobs if job.counts.asking))
    for queue, job in rounds:
        if votes.is_overused(queue):
            for left in (job, *rounds.drop(queue)):
                _note_overused(session, queue, left)
        elif _serve(session, job, orders):
            rounds.add(job)


def _serve(session: Session, job: Job, orders: dict[str, deque[Task]]) -> bool:
    """One pass for one job; whether it has got something and could use more."""
    votes = session.votes
    statement = session.statement()
    _release_promises(session, statement, job)
    if job.key not in orders:
        orders[job.key] = deque(votes.tasks_in_order(filter(_is_placeable, job.tasks.values())))
    placed = _place(session, statement, job, orders[job.key])
    if placed and votes.is_ready(job):
        statement.commit()
        return job.counts.asking > 0
    if placed and votes.is_pipelined(job):
        session.hold(job, statement)
        session.refuse(job, Refusal(Reason.WAITING_FOR_VICTIMS, "waits for pods to leave"))
    else:
        statement.discard()
    return False


def _candidates(session: Session) -> list[Job]:
    found: list[Job] = []
    for job in session.jobs:
        if not job.is_admitted and session.admits_on_allocate:
            session.admit(job)
        if session.takes_part(job) and (job.counts.asking or job.key in session.promises):
            found.append(job)
    return found


def _is_placeable(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and not (task.shape.best_effort or task.is_gated)


def _release_promises(session: Session, statement: Statement, job: Job) -> None:
    """Takes back what an earlier session promised, to look whether it can start now."""
    for task in session.promises.pop(job.key, ()):
        if task.status is TaskStatus.PIPELINED and not task.shape.best_effort:
            task.nominated = session.snapshot.nodes.names[task.node]
            statement.release_promise(task)


def _place(session: Session, statement: Statement, job: Job, order: deque[Task]) -> bool:
    """Places tasks until the job is ready, nothing is left or going on is pointless."""
    queue, votes = job.queue, session.votes
    failed_roles: set[str] = set()
    placed = False
    for run in _runs(order):
        first = run[0]
        if queue is None or (first.role and first.role in failed_roles):
            continue
        n_wanted = min(len(run), max(votes.shortfall(job, first.role), 1))
        n_allowed = votes.allowance(queue, first.shape, n_wanted)
        if n_allowed < n_wanted:
            _note_quota(session, job, first, n_wanted)
        n_placed = _place_run(session, statement, run[:n_allowed])
        placed = placed or n_placed > 0
        if n_placed < n_allowed:
            _note_no_room(session, job, run[n_placed])
            failed_roles.add(first.role)
            if not _is_worth_going_on(job, failed_roles):
                break
        if placed and votes.is_ready(job):
            break
    return placed


def _runs(order: deque[Task]) -> Iterator[list[Task]]:
    """What is still pending, neighbours of one class together, not too many at once."""
    while order and order[0].status is not TaskStatus.PENDING:
        order.popleft()
    pending = (task for task in order if task.status is TaskStatus.PENDING)
    for _, alike in groupby(pending, key=lambda task: (task.shape.serial, task.role)):
        while run := list(islice(alike, RUN_MAX)):
            yield run


def _place_run(session: Session, statement: Statement, run: Sequence[Task]) -> int:
    """Places equal tasks one after the other; how many found a node."""
    n = 0
    while n < len(run):
        places = session.placer.places(run[n:])
        if not places:
            break
        statement.place_alike(run[n : n + len(places)], places)
        n += len(places)
    return n


def _is_worth_going_on(job: Job, failed_roles: set[str]) -> bool:
    """Whether the job can still become ready without the roles that found no node."""
    if job.min_member == len(job.tasks):
        return False
    minimums = job.group.spec.min_task_member
    if job.min_member < sum(minimums.values()):
        hopeful = sum(
            job.role(role).ready + job.role(role)[TaskStatus.PENDING] * (role not in failed_roles)
            for role in {task.role for task in job.tasks.values()}
        )
        return hopeful >= job.min_member
    return all(job.role(role).ready >= minimums.get(role, 0) for role in failed_roles)


def _note_overused(session: Session, queue: QueueEntry, job: Job) -> None:
    text = f"queue {queue.name} has all it deserves"
    first = next(filter(_is_placeable, job.tasks.values()), None)
    if first is None:
        session.refuse(job, Refusal(Reason.QUEUE_OVERUSED, text))
        return
    n = max(session.votes.shortfall(job, first.role), 1)
    quota = session.votes.quota_refusal(queue, first.shape, min(n, len(job.tasks)))
    session.stuck[job.key] = first
    if quota is not None and quota.reason is not Reason.QUEUE_QUOTA:
        session.refuse(job, quota)  # closed, or no part of a tree: that is the reason
        return
    limits = quota.limits if quota else ()
    text = ": ".join(filter(None, (text, "; ".join(map(str, limits)))))
    session.refuse(job, Refusal(Reason.QUEUE_OVERUSED, text, limits))


def _note_quota(session: Session, job: Job, task: Task, n: int) -> None:
    queue = job.queue
    refusal = None if queue is None else session.votes.quota_refusal(queue, task.shape, n)
    if refusal is not None:
        session.refuse(job, refusal)
        session.stuck[job.key] = task


def _note_no_room(session: Session, job: Job, task: Task) -> None:
    """The numbers are counted at the end, when it is known who else took the room."""
    session.refuse(job, Refusal(Reason.NOT_ENOUGH_RESOURCES, ""))
    session.stuck[job.key] = task
