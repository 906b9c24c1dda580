"""Elastic jobs beside a service that shrinks and grows: how full nodes are, how long pods wait.

Six jobs without an end share a cluster with 400 pods of a service of higher priority. It goes down
to 100 pods and comes back, at the times at which it was told to in a recorded run of PaddlePaddle's
EDL (case 2, round 1 without its autoscaler, where nothing kept it from it). Sizes are to each other
as they were there: all 400 pods ask for half of the cluster, a trainer for more than two of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from swell.api.kinds import AI_TRAINING_JOBS, PODS, PRIORITY_CLASSES
from swell.api.meta import Body, Key, Uid
from swell.api.pod import Pod
from swell.autoscaler.settings import AutoscalerSettings
from swell.cluster.embedded.storage import Commit
from swell.runtime.cluster import Cluster
from swell.sim.actors.fleet import Fleet
from swell.sim.actors.pod_lifecycle import PodBehavior
from swell.sim.campaign.trial import try_faults
from swell.sim.invariants import SafetyCheck
from swell.sim.observation import NAMESPACE, pod_states
from swell.sim.scenario import USER, Scenario
from swell.sim.world import SimulatedWorld
from tests.sim.autoscaler.scenarios import elastic_job
from tests.sim.autoscaler.subject import autoscaler_subject

N_NODES, N_CPUS = 10, 4
N_JOBS, MINIMUM, MAXIMUM = 6, 2, 60
# Of a pod of the service, and of a trainer: millicpus.
WEB_CPU, TRAINER_CPU = 48, 106
WEB_LABEL = "web"
# When the service is told how many pods to have.
STEPS = (
    *((0.0, 400), (115.0, 300), (208.0, 200), (299.0, 100)),
    *((387.0, 200), (482.0, 300), (576.0, 400)),
)
# Its pods are created at the pace of the controllers of Kubernetes, which is 20 calls a second.
PACE_S = 0.05
END_S = 700.0
# The trough, in which the authors took the mean as well.
TROUGH_S = (300.0, 370.0)
# Trainers of Swell's library leave within half a second; the service's pods end at once.
BEHAVIOR = PodBehavior(start_s=1.0, run_s=1e9, exit_code=0, stop_s=0.5)


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """The use of the cluster in the trough, and the longest and mean wait of a service's pod."""

    trough: float
    wait_longest_s: float
    wait_mean_s: float

    def __str__(self) -> str:
        return (
            f"{self.trough:.1%} used in the trough, pods of the service wait "
            f"{self.wait_mean_s:.2f} s, at most {self.wait_longest_s:.2f} s"
        )


async def beside_service(world: SimulatedWorld) -> None:
    """A service and six jobs; then only the service changes."""
    names = [f"node-{n}" for n in range(N_NODES)]
    world.fleet = Fleet(world, lambda *_: BEHAVIOR, names, n_cpus=N_CPUS, n_pods=1000, binds=False)
    await world.fleet.start()
    user = world.connect(USER)
    high = {"metadata": {"name": "web"}, "value": 1000, "description": ""}
    await user.create(
        PRIORITY_CLASSES, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **high}
    )
    begin_s = world.clock.monotonic()
    n_pods = 0
    for at_s, wanted in STEPS:
        await world.clock.sleep(max(0.0, begin_s + at_s - world.clock.monotonic()))
        for index in range(n_pods, wanted):
            await user.create(PODS, _web_pod(index))
            await world.clock.sleep(PACE_S)
        for index in range(wanted, n_pods):
            await user.delete(PODS, Key(NAMESPACE, f"web-{index:03}"))
            await world.clock.sleep(PACE_S)
        n_pods = wanted
        if not at_s:
            await _submit(user)
    await world.clock.sleep(begin_s + END_S - world.clock.monotonic())


async def _submit(user: Cluster) -> None:
    for at in range(N_JOBS):
        job = elastic_job(f"job-{at}", MINIMUM, MAXIMUM, work_s=1e9, cpu=f"{TRAINER_CPU}m")
        await user.create(AI_TRAINING_JOBS, job)


def _web_pod(index: int) -> Body:
    resources = {"requests": {"cpu": f"{WEB_CPU}m", "memory": "1Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"web-{index:03}", "namespace": NAMESPACE, "labels": {WEB_LABEL: "x"}},
        "spec": {
            "schedulerName": "swell",
            "priorityClassName": "web",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }


@dataclass
class ServiceObserver:
    """Watches how much of the cluster runs, and how long pods of the service wait for a node."""

    world: SimulatedWorld
    name: str = "service observer"
    _began_s: float | None = None
    _since: float = 0.0
    _held: dict[str, int] = field(default_factory=dict)
    _used_s: float = 0.0
    _born: dict[Uid, float] = field(default_factory=dict)
    waits: dict[Uid, float] = field(default_factory=dict)

    def on_commit(self, commit: Commit) -> Iterator[str]:
        now = self.world.clock.monotonic()
        before, pod = pod_states(commit)
        if self._began_s is None and pod is not None:
            self._began_s = now
        if self._began_s is not None:
            first, last = (self._began_s + at for at in TROUGH_S)
            seconds = max(0.0, min(now, last) - max(self._since, first))
            self._used_s += sum(self._held.values()) * seconds
        self._since = now
        if before is not None or pod is not None:
            self._note(str(commit.key), pod, now)
        yield from ()

    def _note(self, key: str, pod: Pod | None, now: float) -> None:
        self._held.pop(key, None)
        if pod is None:
            return
        is_web = WEB_LABEL in pod.metadata.labels
        if pod.status.phase.value == "Running":
            self._held[key] = WEB_CPU if is_web else TRAINER_CPU
        if is_web:
            born = self._born.setdefault(pod.metadata.uid, now)
            if pod.spec.node_name:
                self.waits.setdefault(pod.metadata.uid, now - born)

    def figures(self) -> ServiceFigures:
        seconds = TROUGH_S[1] - TROUGH_S[0]
        unbound = len(self._born) - len(self.waits)
        waits = [*self.waits.values(), *[END_S] * unbound]
        return ServiceFigures(
            self._used_s / (1000 * N_CPUS * N_NODES * seconds), max(waits), sum(waits) / len(waits)
        )


def measure_beside_service(seed: int, policy: str) -> ServiceFigures:
    """One run with a policy of the autoscaler."""
    seen: list[ServiceObserver] = []

    def watched(world: SimulatedWorld) -> list[SafetyCheck]:
        seen.append(ServiceObserver(world))
        return [seen[0]]

    settings = replace(AutoscalerSettings(), policy=policy)
    scenario = Scenario("service", beside_service, faulty_s=END_S, settle_s=1.0, quiet_s=1.0)
    subject = replace(
        autoscaler_subject(settings=settings, scenarios=(scenario,)),
        safety=watched,
        liveness=lambda _: [],
        calls_per_min_max=100_000,
    )
    result = try_faults(subject, scenario, seed)
    if result.violations:
        raise AssertionError(str(result.violations[0]))
    return seen[0].figures()
