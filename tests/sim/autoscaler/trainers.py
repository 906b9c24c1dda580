"""The autoscaler among TrainingJobs, whose trainers are pods of an Indexed Job.

A scheduler can but evict them, at whatever index; a smaller size takes the highest ones. Elastic
jobs grow, gangs that matter more take their room, and people drain nodes meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from swell.api.kinds import PODS, TRAINING_JOBS
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase
from swell.api.times import parse_time
from swell.api.trainingjob import FINAL_PHASES, TrainingJob
from swell.cluster.embedded.storage import Commit
from swell.operator.trainingjob.snapshot import completion_index
from swell.runtime.informer import Informer
from swell.sim.actors import pod_lifecycle
from swell.sim.actors.fleet import KUBELET
from swell.sim.actors.nemesis import Disturbance
from swell.sim.invariants import SafetyCheck
from swell.sim.observation import ENDED, pod_states, pods_in, states
from swell.sim.process import Ports
from swell.sim.scenario import Scenario, SimulationSubject
from swell.sim.world import SimulatedWorld
from tests.sim.autoscaler.flaws import Flaw
from tests.sim.autoscaler.nodes import TRAINER, start_nodes
from tests.sim.autoscaler.rules import AUTOSCALER, OPERATOR, Visibility
from tests.sim.autoscaler.subject import DISTURBANCES, SETTINGS, autoscaler_main, disturbances
from tests.sim.rules import JobsEnd, ObservedJob
from tests.sim.scheduler.gangs import have_classes
from tests.sim.scheduler.observation import SCHEDULER
from tests.sim.scheduler.subject import run_scheduler
from tests.sim.trainingjob.nodes import FAILURE_COUNT, run_controllers
from tests.sim.trainingjob.rules import end_state, jobs_in
from tests.sim.trainingjob.scenarios import training_job
from tests.sim.trainingjob.subject import SETTINGS as OPERATOR_SETTINGS
from tests.sim.trainingjob.subject import new_operator
from tests.sim.user import SimulatedUser

N_TURNS = 4
ELASTIC = ("ant", "bee")
STATUS = f"{TRAINING_JOBS}/status"
# Trainer-seconds.
WORKS_S = {"ant": 2500.0, "bee": 1500.0, **{f"gang-{turn}": 240.0 for turn in range(N_TURNS)}}
LAG_S = 3.0  # from a change of a pod until everybody has heard of it, behind many others
STOPPED: Body = {"terminated": {"exitCode": 143, "reason": "Stopped"}}


def _manifest(name: str, size: tuple[int, int], priority: str) -> Body:
    body = training_job(
        name,
        size,
        fault_tolerant=size[0] < size[1],
        is_nccl=True,
        annotations={"priority": priority},
    )
    body["spec"]["trainer"]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    return body


async def evict(world: SimulatedWorld) -> None:
    """Again and again some of them are drained, and a gang takes the room of others."""
    await start_nodes(world, n_nodes=3, n_cpus=4, works_s=WORKS_S)
    await have_classes(world)
    user = SimulatedUser(
        world, TRAINING_JOBS, _manifest, lambda job: job.status.phase in FINAL_PHASES
    )
    await user.submit("ant", (2, 8), "low")
    await user.submit("bee", (1, 6), "low")
    await user.until("ant", lambda job: (job.status.trainer_target or 0) > 4, within_s=200)
    for turn in range(N_TURNS):
        await user.wait("turn", turn, up_to_s=60)
        await drain(world, turn)
        gang = f"gang-{turn}"
        await user.submit(gang, (8, 8), "high")
        await user.until_ended(gang)


async def drain(world: SimulatedWorld, turn: int) -> None:
    """Some trainers of the elastic jobs, of any index."""
    for nth in range(world.chance.integer(1, 4, "drained", turn)):
        at_work = [pod for pod in pods_in(world) if is_at_work(pod, ELASTIC)]
        if at_work and world.fleet is not None:
            await world.fleet.evict(world.chance.pick(at_work, "drain", turn, nth))


def is_at_work(pod: Pod, jobs: Container[str]) -> bool:
    """Whether a trainer of one of these jobs has its room and keeps it."""
    is_going = pod.metadata.deletion_timestamp or pod.status.phase in ENDED
    is_theirs = pod.metadata.labels.get(TRAINER, "") in jobs
    return is_theirs and bool(pod.spec.node_name) and not is_going


def trainers_subject(flaw: Flaw | None = None) -> SimulationSubject:
    return SimulationSubject(
        name="autoscaler trainers",
        components={
            OPERATOR: _operate,
            SCHEDULER: run_scheduler,
            AUTOSCALER: autoscaler_main(SETTINGS, flaw),
        },
        scenarios=(
            Scenario("evict", evict, faulty_s=200.0, settle_s=4000.0, disturbances=DISTURBANCES),
        ),
        safety=safety,
        liveness=lambda world: [JobsEnd(lambda: _seen(world))],
        end_state=end_state,
        disturbances=_disturbances,
        calls_per_min_max=1500,
    )


def _seen(world: SimulatedWorld) -> list[ObservedJob]:
    return [
        ObservedJob(job.metadata, job.status.phase.value, job.status.phase in FINAL_PHASES)
        for job in jobs_in(world)
    ]


async def _operate(ports: Ports) -> None:
    operator = new_operator(ports, replace(OPERATOR_SETTINGS, default_scheduler="swell"))
    await asyncio.gather(*(service.run() for service in operator.services))


def _disturbances(world: SimulatedWorld) -> Mapping[str, Disturbance]:
    _report_more(world)
    world.spawn(run_controllers(world))
    return disturbances(world)


def _report_more(world: SimulatedWorld) -> None:
    """What workloads want to know of their pods: that one is ready, and how a stopped one ended."""
    kubelet = world.connect(KUBELET)

    async def report(pod: Pod, status: Body, *, is_stopping: bool) -> None:
        await pod_lifecycle.report(kubelet, pod, status, is_stopping=is_stopping)

    def on_commit(commit: Commit) -> None:
        _, pod = pod_states(commit)
        if pod is None or pod.status.phase in ENDED:
            return
        if pod_lifecycle.stopped_by(commit):
            ended = pod_lifecycle.phase(pod, "Failed", STOPPED)
            world.spawn(report(pod, ended, is_stopping=True))
        elif pod.status.phase is PodPhase.RUNNING and not pod.status.conditions:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            world.spawn(report(pod, ready, is_stopping=False))

    world.storage.on_commit.append(on_commit)


def safety(world: SimulatedWorld) -> list[SafetyCheck]:
    return [
        TargetsFit(world),
        NoTrainerFlapping(world),
        MinimumStays(world),
        NoRestartCharged(world),
    ]


def resizes(commit: Commit) -> Iterator[tuple[TrainingJob, int, int]]:
    """Targets that the autoscaler changed: the job before, old and new size."""
    before, after = states(commit, TRAINING_JOBS)
    if before is None or after is None or not commit.actor.startswith(AUTOSCALER):
        return
    held, target = before.status.trainer_target, after.status.trainer_target
    if held is not None and target is not None and held != target:
        yield before, held, target


@dataclass
class TargetsFit:
    """A1, A2: within the bounds of an elastic job that has not ended."""

    world: SimulatedWorld
    name: str = "trainer targets fit"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        for job, held, target in resizes(commit):
            spec = job.spec
            if not spec.trainer_minimum <= target <= spec.trainer_maximum or not spec.is_elastic:
                yield f"{commit.key} from {held} to {target}"
            if job.status.phase in FINAL_PHASES or job.metadata.deletion_timestamp:
                yield f"{commit.key} resized though the job is over"


@dataclass
class NoTrainerFlapping:
    """A4: no change of direction within the cool-down, except to let a pending job start."""

    world: SimulatedWorld
    name: str = "calm trainers"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        for _, held, target in resizes(commit):
            _, after = states(commit, TRAINING_JOBS)
            *earlier, last = after.status.scale_records if after else ()
            for one in earlier if "waits for room" not in last.reason else ():
                apart_s = abs(parse_time(last.time) - parse_time(one.time))
                is_turn = (one.to > one.from_) != (target > held)
                if is_turn and apart_s < SETTINGS.scale_cooldown_s:
                    yield f"{commit.key} to {target}, {apart_s:.0f} s after {one.from_} to {one.to}"


@dataclass
class MinimumStays:
    """A5: a shrink leaves the minimum at work, where it was.

    Checked while the caches are not behind. For a while after a change of a pod the autoscaler may
    not know of it: then it keeps what it knew to be at work when it wrote.
    """

    world: SimulatedWorld
    name: str = "minimum stays"
    _changed_at: float = -LAG_S
    _known: dict[str, list[int]] = field(default_factory=dict)  # by job, when last written

    def __post_init__(self) -> None:
        self._visibility = Visibility(self.world)
        self.world.network.on_call.append(self._on_call)

    def _on_call(self, actor: str, site: str) -> None:
        """Note which trainers the autoscaler knows to be at work, as it writes a target."""
        _, verb, kind, key = (*site.split(" "), "")[:4]
        if actor.startswith(AUTOSCALER) and verb == "patch" and kind == STATUS:
            name = key.rpartition("/")[2]
            caches = (p.exposed.get(str(PODS)) for p in self.world.processes if p.name == actor)
            self._known[name] = [
                index
                for cache in caches
                if isinstance(cache, Informer)
                for index in indexes_at_work(cache.all(), name)
            ]

    def on_commit(self, commit: Commit) -> Iterator[str]:
        now = self.world.clock.monotonic()
        before, after = pod_states(commit)
        was, is_now = (pod is not None and is_at_work(pod, ELASTIC) for pod in (before, after))
        if was != is_now:
            self._changed_at = now
        for job, held, target in resizes(commit):
            name, minimum = job.metadata.name, job.spec.trainer_minimum
            indexes = indexes_at_work(pods_in(self.world), name)
            known = self._known.get(name, []) if now - self._changed_at <= LAG_S else indexes
            if self._visibility.is_clear() and all(
                is_below(some, held, target, minimum) for some in (indexes, known)
            ):
                n_after = sum(index < target for index in indexes)
                yield f"{commit.key} from {held} to {target} leaves {n_after} of {indexes}"


def indexes_at_work(pods: Iterable[Pod], job: str) -> list[int]:
    return sorted(completion_index(pod) or 0 for pod in pods if is_at_work(pod, (job,)))


def is_below(indexes: Sequence[int], held: int, target: int, minimum: int) -> bool:
    """Whether a shrink takes a role that has its minimum at work below it."""
    n_before, n_after = (sum(index < size for index in indexes) for size in (held, target))
    return n_after < minimum <= n_before


@dataclass
class NoRestartCharged:
    """A6: trainers are stopped by resizes and evictions only, and none of that is a failure."""

    world: SimulatedWorld
    name: str = "nobody charged"

    def on_commit(self, commit: Commit) -> Iterator[str]:
        _, pod = states(commit, PODS)
        if pod is not None and int(pod.metadata.annotations.get(FAILURE_COUNT, "0")):
            yield f"{commit.key} is charged a failure"
