"""What runs below the operator: the cluster's own workload controllers, and nodes with pods.

Both are faultless: it is the operator that is tried. A pod is bound, starts, runs for its time
(or for RUNS_S, a variable of the job), and ends as the job's variable FAILS says: by index, how
many attempts of a trainer fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from swell.api.kinds import PODS, TRAINING_JOBS
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase
from swell.cluster.embedded.controllers.assembly import BuiltinControllerSettings, add_controllers
from swell.cluster.embedded.storage import Commit
from swell.operator.trainingjob.labels import ROLE_LABELS, Role
from swell.operator.trainingjob.snapshot import completion_index
from swell.runtime.cluster import Deletion
from swell.runtime.manager import Manager
from swell.sim.actors import pod_lifecycle
from swell.sim.actors.nemesis import Disturbance, common_disturbances
from swell.sim.faults.plan import Fault, FaultKind
from swell.sim.observation import ENDED, pods_in
from tests.sim.wiping import WIPED, StatusWiper

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld

NODE, KUBELET, SCHEDULER = "node-0", "kubelet", "scheduler"
FAILS, RUNS_S = "FAILS", "RUNS_S"
EVICTED = "F23 pod evicted"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"

RATES: Mapping[str, float] = {
    FaultKind.COMPACTED: 0.05,
    FaultKind.KILLED: 0.02,
    FaultKind.ALL_PAUSED: 0.01,
    EVICTED: 0.05,
    WIPED: 0.03,
}
# Where no trainer is replaced: the back-off before that is measured on the wall clock.
JUMPY_RATES: Mapping[str, float] = {**RATES, FaultKind.CLOCK_JUMP: 0.02}
ROUGH_RATES: Mapping[str, float] = {**RATES, FaultKind.POD_DELETED: 0.05}


# Fields that go missing, and values that the schema lets through.
DAMAGES: tuple[Body, ...] = (
    {"phase": None},
    {"trainer_target": None, "scale_records": None},
    {"startTime": None, "replica_statuses": None},
    {"released": None, "conditions": None},
    {"released": True, "phase": "Running"},
)


def disturbances(world: SimulatedWorld) -> Mapping[str, Disturbance]:
    nodes = Nodes(world)
    world.storage.on_commit.append(nodes.on_commit)
    world.spawn(run_controllers(world))
    wiper = StatusWiper(world, TRAINING_JOBS, DAMAGES)
    return {**common_disturbances(world), EVICTED: nodes.evict, WIPED: wiper.wipe}


async def run_controllers(world: SimulatedWorld) -> None:
    manager = Manager(clock=world.clock)
    add_controllers(
        manager,
        world.server._api,
        world.chance.generator("workloads"),
        BuiltinControllerSettings(garbage_collector=False),
        world.connect,
    )
    await manager.run()


class Nodes:
    """All nodes at once. They hear of pods by the commit log, so they never lag."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._kubelet = world.connect(KUBELET)
        self._scheduler = world.connect(SCHEDULER)
        self._n_addresses = 0

    def on_commit(self, commit: Commit) -> None:
        if commit.collection != str(PODS) or commit.after is None:
            return
        pod = commit.after.typed(Pod)
        if commit.before is None:
            self._world.spawn(self._live(pod, commit.after.body))
        if pod_lifecycle.stopped_by(commit):
            self._world.spawn(self._stop(pod))

    async def evict(self, fault: Fault) -> bool:
        """Take a pod down as a scheduler does for a more important one."""
        pods = [
            pod
            for pod in pods_in(self._world)
            if pod.status.phase is PodPhase.RUNNING and not pod.metadata.deletion_timestamp
        ]
        if not pods:
            return False
        pod = pods[int(fault.amount * len(pods))]
        disrupted = [{"type": "DisruptionTarget", "status": "True", "reason": "Preempted"}]
        if await pod_lifecycle.report(self._kubelet, pod, {"conditions": disrupted}):
            deletion = Deletion(uid=pod.metadata.uid)
            await self._scheduler.delete(PODS, pod.metadata.key, deletion)
        return True

    async def _live(self, pod: Pod, body: Body) -> None:
        clock, key = self._world.clock, (pod.metadata.namespace, pod.metadata.generate_name)
        index = completion_index(pod)
        await clock.sleep(self._between(0.05, 3, "bind", *key, index))
        if not await pod_lifecycle.bind(self._scheduler, pod, NODE):
            return
        await clock.sleep(self._between(0.1, 3, "start", *key, index))
        # A pod has its address before its containers run.
        self._n_addresses += 1
        address = f"10.0.{self._n_addresses // 250}.{self._n_addresses % 250 + 1}"
        if not await pod_lifecycle.report(self._kubelet, pod, {"podIP": address}):
            return
        ready = [{"type": "Ready", "status": "True"}]
        running: Body = {"running": {}}
        if not await self._report(pod, "Running", running, conditions=ready):
            return
        if ROLE_LABELS[Role.TRAINER] not in pod.metadata.labels:
            return  # masters and pservers run until they are stopped
        reported = _variable(body, RUNS_S)
        await clock.sleep(float(reported) if reported else self._between(2, 40, "run", *key, index))
        code = 1 if _fails(pod, body, index or 0) else 0
        ended = {"terminated": {"exitCode": code, "reason": "Ended"}}
        await self._report(pod, "Failed" if code else "Succeeded", ended)

    async def _stop(self, pod: Pod) -> None:
        """Its processes end, which makes it a failed pod, and then it goes."""
        await self._world.clock.sleep(self._between(0, 8, "stop", pod.metadata.name))
        stored = self._world.storage.get(str(PODS), pod.metadata.key)
        if stored is None or stored.uid != pod.metadata.uid:
            return
        if stored.typed(Pod).status.phase not in ENDED:
            ended = {"terminated": {"exitCode": 143, "reason": "Stopped"}}
            status = {"phase": "Failed", **_shown(pod, ended)}
            await pod_lifecycle.report(self._kubelet, pod, status, is_stopping=True)
        await pod_lifecycle.remove(self._kubelet, pod)

    async def _report(self, pod: Pod, phase: str, state: Body, **more: object) -> bool:
        status = {"phase": phase, **_shown(pod, state), **more}
        return await pod_lifecycle.report(self._kubelet, pod, status)

    def _between(self, low: float, high: float, *what: object) -> float:
        return self._world.chance.between(low, high, *what)


def _shown(pod: Pod, state: Body) -> Body:
    is_ready = "running" in state
    return {
        "containerStatuses": [
            {
                "name": c.name,
                "image": c.image,
                "imageID": "",
                "ready": is_ready,
                "restartCount": 0,
                "state": state,
            }
            for c in pod.spec.containers
        ]
    }


def _fails(pod: Pod, body: Body, index: int) -> bool:
    counts = _variable(body, FAILS).split(",")
    attempt = int(pod.metadata.annotations.get(FAILURE_COUNT, "0"))
    return index < len(counts) and attempt < int(counts[index] or 0)


def _variable(body: Body, name: str) -> str:
    variables = body["spec"]["containers"][0].get("env") or ()
    return next((str(v.get("value", "")) for v in variables if v["name"] == name), "")
