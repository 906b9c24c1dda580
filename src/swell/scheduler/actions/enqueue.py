"""enqueue: admits groups whose minimum the quotas can bear. A refusal holds up nobody else."""

from __future__ import annotations

from swell.scheduler.rounds import Rounds
from swell.scheduler.session import Session


def enqueue(session: Session) -> None:
    votes = session.votes
    waiting = [job for job in session.jobs if not job.is_admitted]
    for _, job in Rounds(votes, waiting):
        barred = session.snapshot.barred.get(job.key)
        if barred is not None:
            session.refuse(job, barred)
            continue
        if job.min_resources is not None:
            refusal = votes.refuses_admission(job)
            if refusal is not None:
                session.refuse(job, refusal)
                continue
            # Reserved only now: a job that any plugin refuses must not use up quota.
            votes.admitted(job)
        session.admit(job)
