"""What the operator must bring about once nothing goes wrong any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.api.aitrainingjob import FINAL, AITrainingJob, CleanPodPolicy, Phase
from swell.api.kinds import CONFIG_MAPS, LEASES, POD_GROUPS, PODS, SERVICES
from swell.api.lease import Lease
from swell.api.meta import Key
from swell.operator.lifecycle.reasons import Reason
from swell.sim.invariants import LivenessCheck
from swell.sim.world import World
from tests.sim.operator.sight import ENDED, jobs_in, owned, owner_of, pods_in

OWNED = (PODS, SERVICES, CONFIG_MAPS, POD_GROUPS)


def liveness(world: World) -> list[LivenessCheck]:
    return [JobsEnd(world), DeletedGo(world), Tidied(world)]


def end_state(world: World) -> object:
    """Jobs and pods as users care for them; times, UIDs and versions aside.

    Restarts nobody is charged for depend on timing, and so does all that comes of lost nodes:
    which pods were on them.
    """
    if world.scenario.name == "nodes":
        return sorted(str(job.metadata.key) for job in jobs_in(world))
    jobs = {str(j.metadata.key): (j.status.phase.value, _charged(j)) for j in jobs_in(world)}
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
class JobsEnd:
    """L1: every job that nobody deletes ends."""

    world: World
    name: str = "L1 jobs end"

    def missing(self) -> Iterator[str]:
        for job in jobs_in(self.world):
            if not job.metadata.deletion_timestamp and job.status.phase not in FINAL:
                yield f"{job.metadata.key} is {job.status.phase.value or 'untouched'}"


@dataclass
class DeletedGo:
    """L3: deleted jobs disappear with all they own."""

    world: World
    name: str = "L3 deleted jobs go"

    def missing(self) -> Iterator[str]:
        jobs = jobs_in(self.world)
        for job in jobs:
            if job.metadata.deletion_timestamp:
                yield f"{job.metadata.key} is still there"
        known = {job.metadata.uid for job in jobs}
        for resource in OWNED:
            for key, stored in self.world.storage.list(str(resource)).items:
                owners = stored.body["metadata"].get("ownerReferences") or ()
                if owners and owners[0]["uid"] not in known:
                    yield f"{resource} {key} outlives its job"


@dataclass
class Tidied:
    """L2, O7: what ended is cleaned up as its policy says; status is about the current spec."""

    world: World
    name: str = "L2 tidied up"

    def missing(self) -> Iterator[str]:
        pods = pods_in(self.world)
        for job in jobs_in(self.world):
            uid = job.metadata.uid
            if job.status.observed_generation != job.metadata.generation:
                yield f"{job.metadata.key} is behind its spec"
            for resource in (CONFIG_MAPS, POD_GROUPS):
                if owned(self.world, str(resource), uid):
                    yield f"{job.metadata.key} still has its {resource}"
            own = [pod for pod in pods if owner_of(pod) == uid]
            if own and keeps_none(job):
                yield f"{job.metadata.key} still has {len(own)} pods"
            if any(pod.status.phase not in ENDED for pod in own) and not keeps_all(job):
                yield f"{job.metadata.key} still has running pods"
            n_services = len(owned(self.world, str(SERVICES), uid))
            if n_services > len(own):
                yield f"{job.metadata.key} still has {n_services} services"


def keeps_none(job: AITrainingJob) -> bool:
    return not _may_keep(job) or job.spec.clean_pod_policy is CleanPodPolicy.ALL


def keeps_all(job: AITrainingJob) -> bool:
    return _may_keep(job) and job.spec.clean_pod_policy is CleanPodPolicy.NONE


def _may_keep(job: AITrainingJob) -> bool:
    by_itself = job.status.phase in {Phase.SUCCEED, Phase.FAILED}
    annotated = job.status.ending and job.status.ending.reason == Reason.ANNOTATED.value
    return by_itself and not annotated


@dataclass
class LeaderExists:
    """L6: somebody holds the lease, and it is one of those that run."""

    world: World
    lease: Key
    name: str = "L6 a leader exists"

    def missing(self) -> Iterator[str]:
        stored = self.world.storage.get(str(LEASES), self.lease)
        holder = stored.typed(Lease).spec.holder_identity if stored else ""
        if not holder:
            yield "nobody leads"
