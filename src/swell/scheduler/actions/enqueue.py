"""The action enqueue admits groups whose minimum fits the quotas.

A refused group holds up no other: smaller groups behind it may be admitted.
"""

from __future__ import annotations

from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.session import Session


def enqueue(session: Session) -> None:
    votes = session.votes
    waiting: list[JobInfo] = []
    for job in session.jobs:
        if job.is_admitted:
            continue
        if _asks_nothing(session, job):
            session.admit(job)
        else:
            waiting.append(job)
    for _, job in JobOrder(votes, waiting):
        barred = session.barred(job) or session.snapshot.backed_off.get(job.key)
        # What a native group asks for is known once its minimum of pods exists.
        if barred is None and job.native is not None:
            barred = votes.invalid(job)
        if barred is not None:
            session.refuse(job, barred)
            continue
        # A native group with no minimum resources is admitted unseen, too.
        if job.min_resources is not None:
            refusal = votes.refuses_admission(job)
            if refusal is not None:
                session.refuse(job, refusal)
                continue
            # Only now: a job that any plugin refuses must not reserve quota in the others.
            votes.admitted(job)
        session.admit(job)


def _asks_nothing(session: Session, job: JobInfo) -> bool:
    """Whether a group is admitted unseen, as in Volcano, because it states no minimum resources.

    It takes nothing from the quotas of others, so it need not wait for its turn.
    """
    return (
        job.min_resources is None
        and job.native is None
        and job.key not in session.snapshot.backed_off
        and session.barred(job) is None
    )
