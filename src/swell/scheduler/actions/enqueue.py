"""The action enqueue admits groups whose minimum fits the quotas.

A refused group holds up no other: smaller groups behind it may be admitted.
"""

from __future__ import annotations

from swell.scheduler.job_order import JobOrder
from swell.scheduler.session import Session, on_hold


def enqueue(session: Session) -> None:
    votes = session.votes
    waiting = [job for job in session.jobs if not job.is_admitted]
    for _, job in JobOrder(votes, waiting):
        barred = on_hold(job) or session.snapshot.backed_off.get(job.key)
        # What a native group asks for is known once its minimum of pods exists.
        if barred is None and job.native is not None:
            barred = votes.invalid(job)
        if barred is not None:
            session.refuse(job, barred)
            continue
        # A group that states no minimum resources is admitted unseen, as in Volcano.
        if job.min_resources is not None:
            refusal = votes.refuses_admission(job)
            if refusal is not None:
                session.refuse(job, refusal)
                continue
            # Only now: a job that any plugin refuses must not reserve quota in the others.
            votes.admitted(job)
        session.admit(job)
