"""What the operator must bring about once nothing goes wrong any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase, CleanPodPolicy
from swell.api.kinds import CONFIG_MAPS, POD_GROUPS, PODS, SERVICES
from swell.operator.aitrainingjob.endings import ASKED_FOR
from swell.operator.framework.managers import is_foreign
from swell.sim.invariants import LivenessCheck
from swell.sim.observation import ENDED, owned, owner_of, pods_in
from swell.sim.world import SimulatedWorld
from tests.sim.operator.observation import is_over, jobs_in, seen_jobs
from tests.sim.rules import DeletedGo, JobsEnd, ObservedJob

OWNED = tuple(map(str, (PODS, SERVICES, CONFIG_MAPS, POD_GROUPS)))


def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
    def seen() -> list[ObservedJob]:
        return seen_jobs(world)

    return [
        JobsEnd(seen, "L1 jobs end"),
        DeletedGo(world, seen, OWNED, "L3 deleted jobs go"),
        Tidied(world),
        ExpiredGo(world),
        SuspendedRest(world),
    ]


def end_state(world: SimulatedWorld) -> object:
    """Jobs and pods as users care for them; times, UIDs and versions aside.

    Restarts nobody is charged for depend on timing, and so does all that comes of lost nodes:
    which pods were on them.
    """
    if world.scenario.name == "nodes":
        return sorted(str(job.metadata.key) for job in jobs_in(world))
    # What breaks is where pods happen to be, so how often they are hit depends on timing as well.
    charged = _charged if world.scenario.name != "shunned" else lambda _: {}
    jobs = {str(j.metadata.key): (j.status.phase.value, charged(j)) for j in jobs_in(world)}
    pods = {str(p.metadata.key): p.status.phase.value for p in pods_in(world)}
    return jobs, pods


def _charged(job: AITrainingJob) -> dict[str, int]:
    status = job.status
    return {
        role: count - status.uncharged.get(role, 0)
        for role, count in status.restart_counts.items()
        if count > status.uncharged.get(role, 0)
    }


@dataclass
class Tidied:
    """L2, O7: what ended is cleaned up as its policy says; status is about the current spec."""

    world: SimulatedWorld
    name: str = "L2 tidied up"

    def missing(self) -> Iterator[str]:
        pods = pods_in(self.world)
        for job in jobs_in(self.world):
            uid = job.metadata.uid
            if is_foreign(job.spec.managed_by):
                continue
            if job.status.observed_generation != job.metadata.generation:
                yield f"{job.metadata.key} is behind its spec"
            for resource in (CONFIG_MAPS, POD_GROUPS):
                if is_over(job) and owned(self.world, str(resource), uid):
                    yield f"{job.metadata.key} still has its {resource}"
            own = [pod for pod in pods if owner_of(pod) == uid]
            if not is_over(job):
                continue  # suspended, which is another rule's
            if own and keeps_none(job):
                yield f"{job.metadata.key} still has {len(own)} pods"
            if any(pod.status.phase not in ENDED for pod in own) and not keeps_all(job):
                yield f"{job.metadata.key} still has running pods"
            n_services = len(owned(self.world, str(SERVICES), uid))
            if n_services > len(own):
                yield f"{job.metadata.key} still has {n_services} services"


@dataclass
class ExpiredGo:
    """S3: a job that is to be deleted some time after its end is deleted then.

    Until then nothing is at rest, since the time that passes is a reason to write.
    """

    world: SimulatedWorld
    name: str = "S3 expired jobs go"

    def missing(self) -> Iterator[str]:
        for job in jobs_in(self.world):
            ttl_s = job.spec.ttl_seconds_after_finished
            if is_over(job) and ttl_s is not None and not is_foreign(job.spec.managed_by):
                yield f"{job.metadata.key} is there, which ended to be deleted {ttl_s} s later"


@dataclass
class SuspendedRest:
    """S1: a suspended job has no pods and asks for no room."""

    world: SimulatedWorld
    name: str = "S1 suspended jobs rest"

    def missing(self) -> Iterator[str]:
        for job in jobs_in(self.world):
            if not job.wants_suspension or is_over(job) or is_foreign(job.spec.managed_by):
                continue
            if job.status.suspension is None:
                yield f"{job.metadata.key} is not suspended"
            for resource in (PODS, POD_GROUPS):
                if owned(self.world, str(resource), job.metadata.uid):
                    yield f"{job.metadata.key} is suspended and has {resource}"


def keeps_none(job: AITrainingJob) -> bool:
    return not _may_keep(job) or job.spec.clean_pod_policy is CleanPodPolicy.ALL


def keeps_all(job: AITrainingJob) -> bool:
    return _may_keep(job) and job.spec.clean_pod_policy is CleanPodPolicy.NONE


def _may_keep(job: AITrainingJob) -> bool:
    by_itself = job.status.phase in {AITrainingJobPhase.SUCCEED, AITrainingJobPhase.FAILED}
    annotated = job.status.ending and job.status.ending.reason in ASKED_FOR
    return by_itself and not annotated
