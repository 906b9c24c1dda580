"""What befalls nodes, pods and jobs of the simulated cluster beside the common disturbances."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob, EdlPolicy, ReplicaSpec
from swell.api.codec import encode
from swell.api.injection import (
    EVICTION_ANNOTATION,
    RELEASE_ANNOTATION,
    SAVED_ANNOTATION,
    EvictionRecord,
)
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase
from swell.api.times import format_time
from swell.operator.framework.managers import is_foreign
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import ClusterError
from swell.sim.actors import nemesis as common
from swell.sim.actors.fleet import GPU_CONDITION
from swell.sim.actors.nemesis import Disturbance
from swell.sim.faults.plan import Fault
from swell.sim.observation import pods_in
from swell.sim.scenario import USER
from swell.sim.world import SimulatedWorld
from tests.sim.operator.fleets import NODES, fleet_of
from tests.sim.operator.observation import RESUMES, jobs_in
from tests.sim.undecodable import UNDECODABLE, Marker
from tests.sim.wiping import WIPED, StatusWiper

AUTOSCALER, SCHEDULER = "autoscaler", "scheduler"


class OperatorFault(StrEnum):
    NODE_LOST = "F21 node lost and back"
    NODE_DIES = "F21 node object gone"
    ALLOCATABLE = "F22 allocatable shrinks"
    EVICTED = "F23 pod evicted"
    IMAGES = "F24 images cannot be pulled"
    GPU_FAULT = "F25 GPU fault"
    GC_EARLY = "F26 garbage collected early"
    RESIZED = "F27 job resized"
    EDITED = "F27 job edited"
    SUSPENDED = "F27 job suspended"
    SAVED = "a program has saved"
    PREEMPTED = "F23 pod is to make room"
    QUOTA = "F28 quota exceeded"
    WIPED = WIPED


RATES_MAX: Mapping[str, float] = {
    **common.RATES_MAX,
    OperatorFault.NODE_LOST: 0.04,
    OperatorFault.NODE_DIES: 0.02,
    OperatorFault.ALLOCATABLE: 0.03,
    OperatorFault.EVICTED: 0.05,
    OperatorFault.IMAGES: 0.02,
    OperatorFault.GPU_FAULT: 0.03,
    OperatorFault.GC_EARLY: 0.10,
    OperatorFault.RESIZED: 0.06,
    OperatorFault.EDITED: 0.03,
    OperatorFault.SUSPENDED: 0.04,
    OperatorFault.SAVED: 0.20,
    OperatorFault.PREEMPTED: 0.04,
    OperatorFault.QUOTA: 0.03,
    OperatorFault.WIPED: 0.03,
    UNDECODABLE: 0.06,
}


# Fields that go missing, and values that the schema lets through.
DAMAGES: tuple[Body, ...] = (
    {"phase": None},
    {"restartCounts": None, "restart": None, "uncharged": None, "restarts": None},
    {"targetReplicas": None, "scaleRecords": None},
    {"ending": None, "conditions": None},
    {"epoch": 0, "replicaStatuses": None},
    {"epoch": None, "startTime": None, "startRunningTime": None, "phaseHistory": None},
    {"restartCounts": {"trainer": 9_000_000_000}, "backoff": {"trainer": 9_000_000_000}},
    {"restart": {"scope": "All", "role": "trainer", "counts": {"trainer": 9_000_000_000}}},
)


def operator_disturbances(world: SimulatedWorld) -> Mapping[str, Disturbance]:
    acts = _Acts(world)
    return {
        **common.common_disturbances(world),
        OperatorFault.NODE_LOST: acts.lose_node,
        OperatorFault.NODE_DIES: acts.kill_node,
        OperatorFault.ALLOCATABLE: acts.shrink_node,
        OperatorFault.EVICTED: acts.evict,
        OperatorFault.IMAGES: acts.break_images,
        OperatorFault.GPU_FAULT: acts.break_gpu,
        OperatorFault.GC_EARLY: acts.collect,
        OperatorFault.RESIZED: acts.resize,
        OperatorFault.EDITED: acts.edit,
        OperatorFault.SUSPENDED: acts.suspend,
        OperatorFault.SAVED: acts.save,
        OperatorFault.PREEMPTED: acts.preempt,
        OperatorFault.QUOTA: acts.exceed_quota,
        OperatorFault.WIPED: StatusWiper(world, AI_TRAINING_JOBS, DAMAGES).wipe,
        UNDECODABLE: Marker(world).disturb,
    }


async def preempt(world: SimulatedWorld, job: str, within_s: float, n_pods: int = 1) -> None:
    """The scheduler takes the first running pods of a job for another one, each a bit later."""
    running = [
        pod
        for pod in pods_in(world)
        if pod.status.phase is PodPhase.RUNNING
        and not pod.metadata.deletion_timestamp
        and pod.metadata.name.startswith(f"{job}-")
    ]
    for n, pod in enumerate(running[:n_pods]):
        await _Acts(world).preempt_pod(pod, within_s * (n + 1))


class _Acts:
    """Each does its harm and says whether there was anything to harm."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._user = world.connect(USER)
        self._autoscaler = world.connect(AUTOSCALER)
        self._scheduler = world.connect(SCHEDULER)

    async def lose_node(self, fault: Fault) -> bool:
        name = NODES[int(fault.amount * len(NODES))]
        return fleet_of(self._world).lose(name, fault.scaled(10, 150), dies=False)

    async def kill_node(self, fault: Fault) -> bool:
        name = NODES[int(fault.amount * len(NODES))]
        return fleet_of(self._world).lose(name, fault.scaled(5, 90), dies=True)

    async def shrink_node(self, fault: Fault) -> bool:
        name = NODES[int(fault.amount * len(NODES))]
        await fleet_of(self._world).set_allocatable(name, int(fault.scaled(0, 64)))
        return True

    async def evict(self, fault: Fault) -> bool:
        pods = [pod for pod in pods_in(self._world) if not pod.metadata.deletion_timestamp]
        if not pods:
            return False
        return await fleet_of(self._world).evict(pods[int(fault.amount * len(pods))])

    async def break_images(self, fault: Fault) -> bool:
        fleet = fleet_of(self._world)
        fleet.images_broken_until_s = self._world.clock.monotonic() + fault.scaled(5, 80)
        return True

    async def break_gpu(self, fault: Fault) -> bool:
        fleet = fleet_of(self._world)
        name = NODES[int(fault.amount * len(NODES))]
        if not fleet.machines[name].is_up:
            return False
        await fleet.set_condition(name, GPU_CONDITION, True)
        self._world.spawn(self._mend_gpu(name, fault.scaled(5, 100)))
        return True

    async def _mend_gpu(self, name: str, after_s: float) -> None:
        await self._world.clock.sleep(after_s)
        if fleet_of(self._world).machines[name].is_up:
            await fleet_of(self._world).set_condition(name, GPU_CONDITION, False)

    async def collect(self, _: Fault) -> bool:
        self._world.server.collector.drain()
        return True

    async def exceed_quota(self, fault: Fault) -> bool:
        until_s = self._world.clock.monotonic() + fault.scaled(5, 60)
        self._world.network.refused_until_s[f"create {PODS}"] = until_s
        return True

    async def edit(self, fault: Fault) -> bool:
        """Change what may be changed in a job under way."""
        job = self._pick(fault)
        if job is None:
            return False
        role = next(iter(job.spec.replica_specs))
        change: Body = {"timeLimit": 100 + int(fault.scaled(0, 300))}
        if fault.amount > 0.5:
            change = {"replicaSpecs": {role: {"restartLimit": 3 + int(fault.scaled(0, 9))}}}
        return await self._patched(job, change)

    async def save(self, fault: Fault) -> bool:
        """A program that was asked to leave has saved, as its node hands on."""
        asked = [
            pod
            for pod in pods_in(self._world)
            if RELEASE_ANNOTATION in pod.metadata.annotations
            and SAVED_ANNOTATION not in pod.metadata.annotations
        ]
        return bool(asked) and await self._noted(
            asked[int(fault.amount * 997) % len(asked)], {SAVED_ANNOTATION: "saved"}
        )

    async def preempt(self, fault: Fault) -> bool:
        """The scheduler leaves a victim to the operator, and deletes it itself if that is late."""
        running = [pod for pod in pods_in(self._world) if pod.status.phase is PodPhase.RUNNING]
        if not running:
            return False
        pod = running[int(fault.amount * 997) % len(running)]
        return await self.preempt_pod(pod, fault.scaled(1, 20))

    async def preempt_pod(self, pod: Pod, within_s: float) -> bool:
        deadline = format_time(self._world.clock.now() + within_s)
        record = encode(EvictionRecord(pod.metadata.uid, "default/big", deadline)).decode()
        if not await self._noted(pod, {EVICTION_ANNOTATION: record}):
            return False
        self._world.spawn(self._delete(pod, within_s + 10))
        return True

    async def _delete(self, pod: Pod, after_s: float) -> None:
        await self._world.clock.sleep(after_s)
        with suppress(ClusterError):
            await self._scheduler.delete(PODS, pod.metadata.key, Deletion(uid=pod.metadata.uid))

    async def _noted(self, pod: Pod, notes: Body) -> bool:
        metadata: Body = {"uid": pod.metadata.uid, "annotations": notes}
        try:
            await self._scheduler.patch(PODS, pod.metadata.key, merge_patch({"metadata": metadata}))
        except ClusterError:
            return False
        return True

    async def suspend(self, fault: Fault) -> bool:
        """Suspend a job, and resume it after a while."""
        job = self._pick(fault)
        if job is None or job.spec.suspend:
            return False
        if not await self._patched(job, {"suspend": True}, {RESUMES: "soon"}):
            return False
        self._world.spawn(self._resume(job, fault.scaled(0, 60)))
        return True

    async def _resume(self, job: AITrainingJob, after_s: float) -> None:
        uid = job.metadata.uid
        while any(one.metadata.uid == uid for one in jobs_in(self._world)):
            await self._world.clock.sleep(after_s)
            if await self._patched(job, {"suspend": False}, {RESUMES: None}):
                return
            after_s = 5.0

    async def resize(self, fault: Fault) -> bool:
        """As people resize a Manual role, and the autoscaler an Auto one."""
        job = self._pick(fault)
        for role, spec in job.spec.replica_specs.items() if job else ():
            if job is not None and spec.is_elastic:
                size = int(fault.scaled(spec.minimum, spec.maximum + 1))
                if spec.edl_policy is EdlPolicy.MANUAL:
                    return await self._patched(job, {"replicaSpecs": {role: {"replicas": size}}})
                return await self._set_target(job, role, spec, size)
        return False

    async def _set_target(
        self, job: AITrainingJob, role: str, spec: ReplicaSpec, size: int
    ) -> bool:
        held = job.status.target_replicas.get(role)
        if held is None or held == size or not spec.minimum <= size <= spec.maximum:
            return False
        records = [
            {"time": r.time, "role": r.role, "from": r.from_, "to": r.to, "by": r.by.value}
            for r in job.status.scale_records
        ]
        records.append(
            {
                "time": format_time(self._world.clock.now()),
                "role": role,
                "from": held,
                "to": size,
                "by": "autoscaler",
            }
        )
        status: Body = {"targetReplicas": {role: size}, "scaleRecords": records[-20:]}
        version = {"resourceVersion": job.metadata.resource_version}
        patch = merge_patch({"metadata": version, "status": status})
        try:
            await self._autoscaler.patch(AI_TRAINING_JOBS.status, job.metadata.key, patch)
        except ClusterError:
            return False
        return True

    def _pick(self, fault: Fault) -> AITrainingJob | None:
        jobs = [
            job
            for job in jobs_in(self._world)
            if job.status.phase not in FINAL_PHASES
            and not job.metadata.deletion_timestamp
            and not is_foreign(job.spec.managed_by)
        ]
        return jobs[int(fault.amount * 997) % len(jobs)] if jobs else None

    async def _patched(self, job: AITrainingJob, spec: Body, notes: Body | None = None) -> bool:
        metadata: Body = {"uid": job.metadata.uid, "annotations": notes or {}}
        try:
            patch = merge_patch({"metadata": metadata, "spec": spec})
            await self._user.patch(AI_TRAINING_JOBS, job.metadata.key, patch)
        except ClusterError:
            return False
        return True
