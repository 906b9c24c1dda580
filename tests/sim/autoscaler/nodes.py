"""Nodes with room to fill, and trainers that share work.

A job has so many trainer-seconds of work: the more of its trainers run, the sooner it is done, and
then all of them succeed. Pods without work run until they are deleted. All state is read from
the store, so it never lags.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swell.api.meta import Uid
from swell.api.pod import Pod, PodPhase
from swell.sim.actors import pod_lifecycle
from swell.sim.actors.fleet import KUBELET, Fleet
from swell.sim.actors.pod_lifecycle import PodBehavior
from swell.sim.observation import owner_of, pods_in
from swell.sim.world import SimulatedWorld

WORK = "sim/work-s"  # trainer-seconds until a job is done
TRAINER = "paddle-job"  # the label of a trainer of a TrainingJob, which has no such annotation
LOOK_S = 1.0
NO_WORK: Mapping[str, float] = {}
# A pod ends when its job's work is done, not by itself.
BEHAVIOR = PodBehavior(start_s=2.0, run_s=1e9, exit_code=0, stop_s=3.0)


async def start_nodes(
    world: SimulatedWorld,
    n_nodes: int,
    n_cpus: int,
    works_s: Mapping[str, float] = NO_WORK,
    n_pods: int = 110,
) -> None:
    """Nodes of that size, and work being done on them: of TrainingJobs, so much by name."""
    names = [f"node-{n}" for n in range(n_nodes)]
    world.fleet = Fleet(
        world, lambda *_: BEHAVIOR, names, n_cpus=n_cpus, n_pods=n_pods, binds=False
    )
    await world.fleet.start()
    world.spawn(_work_on(world, works_s))


async def _work_on(world: SimulatedWorld, works_s: Mapping[str, float]) -> None:
    kubelet = world.connect(KUBELET)
    done_s: dict[Uid, float] = {}
    while True:
        await world.clock.sleep(LOOK_S)
        for owner, pods in _at_work(world):
            done_s[owner] = done_s.get(owner, 0.0) + len(pods) * LOOK_S
            if done_s[owner] >= _work_s(pods[0], works_s):
                ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
                for pod in pods:
                    await pod_lifecycle.report(
                        kubelet, pod, pod_lifecycle.phase(pod, "Succeeded", ended)
                    )


def _work_s(pod: Pod, works_s: Mapping[str, float]) -> float:
    of_trainers = works_s.get(pod.metadata.labels.get(TRAINER, ""), float("inf"))
    return float(pod.metadata.annotations.get(WORK, of_trainers))


def _at_work(world: SimulatedWorld) -> Iterator[tuple[Uid, list[Pod]]]:
    """The pods of each job that run and are to go on."""
    owned: dict[Uid, list[Pod]] = {}
    for pod in pods_in(world):
        is_running = pod.status.phase is PodPhase.RUNNING and not pod.metadata.deletion_timestamp
        if is_running and owner_of(pod):
            owned.setdefault(owner_of(pod), []).append(pod)
    yield from owned.items()
