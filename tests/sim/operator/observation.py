"""Reads AITrainingJobs of the simulated world, and which replica of one a pod is."""

from __future__ import annotations

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.pod import Pod
from swell.cluster.embedded.storage import Commit
from swell.operator.aitrainingjob import labels
from swell.operator.framework.managers import is_foreign
from swell.sim.observation import all_of, one_of, states
from swell.sim.world import SimulatedWorld
from tests.sim.rules import ObservedJob

RESUMES = "sim/resumes"  # on a job that is suspended for a while


def job_at(world: SimulatedWorld, name: str) -> AITrainingJob | None:
    return one_of(world, AI_TRAINING_JOBS, name)


def jobs_in(world: SimulatedWorld) -> list[AITrainingJob]:
    return all_of(world, AI_TRAINING_JOBS)


def seen_jobs(world: SimulatedWorld) -> list[ObservedJob]:
    return [
        ObservedJob(job.metadata, job.status.phase.value, is_over(job) or is_at_rest(job))
        for job in jobs_in(world)
        if not is_foreign(job.spec.managed_by)
    ]


def is_over(job: AITrainingJob) -> bool:
    return job.status.phase in FINAL_PHASES


def is_at_rest(job: AITrainingJob) -> bool:
    """Whether a job is suspended, and so has no end to reach."""
    is_held = job.wants_suspension and job.status.suspension is not None
    return is_held and RESUMES not in job.metadata.annotations


def job_states(commit: Commit) -> tuple[AITrainingJob | None, AITrainingJob | None]:
    return states(commit, AI_TRAINING_JOBS)


def replica_of(pod: Pod) -> tuple[str, int]:
    """Role and index; a pod that is none of ours has neither."""
    marks = pod.metadata.labels
    return marks.get(labels.REPLICA_NAME, ""), int(marks.get(labels.REPLICA_INDEX, "-1"))


def count_of(pod: Pod) -> int:
    return int(pod.metadata.labels.get(labels.RESTART_COUNT, "0"))
