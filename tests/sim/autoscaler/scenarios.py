"""What users of elastic jobs do."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from swell.api.aitrainingjob import AITrainingJob, AITrainingJobPhase
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.runtime.cluster import merge_patch
from swell.sim.observation import NAMESPACE
from swell.sim.world import SimulatedWorld
from tests.sim.autoscaler.flaws import DEPARTMENT
from tests.sim.autoscaler.nodes import WORK, start_nodes
from tests.sim.autoscaler.rules import UNMET
from tests.sim.operator.jobs import a_job
from tests.sim.operator.observation import is_over
from tests.sim.scheduler.gangs import have_queue
from tests.sim.user import SimulatedUser

# Beyond the time of faults: what the autoscaler does from then on is checked against what there is.
LATE_S = 380.0
Script = Callable[[SimulatedWorld], Coroutine[Any, Any, None]]


def elastic_job(
    name: str,
    minimum: int,
    maximum: int,
    *,
    work_s: float = 600.0,
    replicas: int | None = None,
    cpu: str = "1",
    edl: str = "Auto",
    queue: str = "default",
) -> Body:
    container = {
        "name": "aitj-main",
        "image": "local",
        "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
    }
    role: Body = {
        "replicas": minimum if replicas is None else replicas,
        "minReplicas": minimum,
        "maxReplicas": maximum,
        "edlPolicy": edl,
        "template": {
            "metadata": {"annotations": {WORK: str(work_s)}},
            "spec": {"containers": [container]},
        },
    }
    return a_job(name, {"queue": queue, "replicaSpecs": {"trainer": role}})


async def arrive(
    world: SimulatedWorld, n_nodes: int = 4, n_cpus: int = 4, n_pods: int = 110
) -> SimulatedUser[AITrainingJob]:
    """A user with elastic jobs, and a cluster of some nodes."""
    await start_nodes(world, n_nodes, n_cpus, n_pods=n_pods)
    return SimulatedUser(world, AI_TRAINING_JOBS, elastic_job, is_over)


def bounds(**bounds: int) -> Body:
    return {"replicaSpecs": {"trainer": bounds}}


def grown(at_least: int) -> Callable[[AITrainingJob], bool]:
    return lambda job: job.status.target_replicas.get("trainer", 0) >= at_least


async def share(world: SimulatedWorld) -> None:
    """Three elastic jobs share a cluster; a rigid one arrives, runs and ends; they grow back."""
    user = await arrive(world)
    for name in ("ant", "bee", "cat"):
        await user.submit(name, 1, 8, work_s=900)
        await user.wait(name, up_to_s=10)
    await user.until("cat", grown(4), within_s=200)
    await user.submit("rigid", 6, 6, edl="Never", work_s=300)
    await user.until_ended("rigid")


async def finish(world: SimulatedWorld) -> None:
    """Elastic jobs of little work come and go one after the other."""
    user = await arrive(world, n_nodes=2)
    for at in range(5):
        size = world.chance.integer(1, 3, "minimum", at)
        await user.submit(f"job-{at}", size, size + 5, work_s=120)
        await user.wait(at, up_to_s=40)


async def squeeze(world: SimulatedWorld) -> None:
    """A job that can never start comes and goes; the others take no notice of it. A last one then
    has the cluster for itself."""
    user = await arrive(world, n_nodes=2)
    await user.submit("ant", 2, 8, work_s=700)
    await user.until("ant", grown(4), within_s=200)
    await user.submit("hopeless", 9, 9, edl="Never")
    await user.wait("hopeless", up_to_s=30)
    await user.submit("bee", 1, 4, work_s=200)
    await user.until_ended("bee")
    await user.delete("hopeless")
    await world.clock.sleep(LATE_S)
    await user.submit("cat", 1, 9, work_s=300)


async def edits(world: SimulatedWorld) -> None:
    """People change the bounds of jobs that run, and delete one."""
    user = await arrive(world)
    await user.submit("ant", 1, 9, work_s=900)
    await user.submit("bee", 2, 9, work_s=900)
    await user.submit("cat", 1, 3, work_s=300)
    await user.until("ant", grown(6), within_s=200)
    await user.edit("ant", bounds(maxReplicas=4))
    await user.wait("bee", up_to_s=30)
    await user.edit("bee", bounds(minReplicas=1, maxReplicas=12))
    await user.wait("cat", up_to_s=30)
    await user.delete("cat")


async def quotas(world: SimulatedWorld) -> None:
    """Teams share a department's queue that is smaller than the cluster; a gang waits in it."""
    user = await arrive(world)
    await have_queue(world, DEPARTMENT, capability={"cpu": "7"})
    await have_queue(world, "red", parent=DEPARTMENT, capability={"cpu": "6"})
    await have_queue(world, "blue", parent=DEPARTMENT)
    await user.submit("ant", 1, 8, work_s=4000, queue="red")
    await user.until("ant", grown(3), within_s=200)
    await user.submit("cat", 2, 2, edl="Never", work_s=200, queue="blue")
    await user.until_ended("cat")
    await world.clock.sleep(LATE_S)
    await user.submit("bee", 1, 8, work_s=900, queue="blue")


async def vain(world: SimulatedWorld) -> None:
    """A gang waits that the cluster could hold, though not beside the minimum of another job."""
    user = await arrive(world, n_nodes=2)
    await user.submit("ant", 3, 8, work_s=2500)
    await user.until("ant", grown(5), within_s=200)
    await user.submit("hopeless", 6, 6, edl="Never")
    await world.clock.sleep(90)
    await user.delete("hopeless")


async def narrow(world: SimulatedWorld) -> None:
    """The nodes take few pods, whatever their cpus."""
    user = await arrive(world, n_nodes=3, n_cpus=8, n_pods=3)
    await user.submit("ant", 1, 6, work_s=4000)
    await user.until("ant", grown(3), within_s=200)
    await user.submit("cat", 2, 2, edl="Never", work_s=200)
    await user.until_ended("cat")
    await world.clock.sleep(LATE_S)
    await user.submit("bee", 1, 12, work_s=900)


CLASSIC_JOBS = 20
CLASSIC_APART_S = 90.0
CLASSIC_NODES = 9
CLASSIC_CPUS = 4


async def classic(world: SimulatedWorld, *, minimum: int, replicas: int) -> None:
    """Twenty jobs of up to ten trainers arrive 90 s apart, more than the cluster can hold."""
    user = await arrive(world, CLASSIC_NODES, CLASSIC_CPUS)
    for at in range(CLASSIC_JOBS):
        work_s = world.chance.between(3000, 7000, "work", at)
        await user.submit(
            f"job-{at:02}",
            minimum,
            10,
            replicas=replicas,
            work_s=work_s,
            edl="Auto" if minimum < replicas or minimum < 10 else "Never",
        )
        await world.clock.sleep(CLASSIC_APART_S)


async def crowd(world: SimulatedWorld) -> None:
    """Elastic jobs that never end, more than there is room for at their maximum."""
    user = await arrive(world, n_nodes=5)
    for at in range(6):
        await user.submit(f"job-{at}", 1 + at % 2, 6 + at, work_s=1e9)
        await user.wait(at, up_to_s=20)


FLAT = {"1": "100", "2": "101", "4": "102", "8": "101"}
ABSURD = {"1": "nan", "2": "-50", "4": "inf"}


async def report(user: SimulatedUser[AITrainingJob], name: str, rates: dict[str, str]) -> None:
    """Let the operator have had a report of a job's program."""
    told = {"reportedAt": "2026-01-01T00:00:00Z", "rates": rates, "totalSamples": 10**9}
    body = merge_patch({"status": {"training": told}})
    await user.cluster.patch(AI_TRAINING_JOBS.status, Key(NAMESPACE, name), body)


async def expect(user: SimulatedUser[AITrainingJob], name: str, *, size: int) -> None:
    """Wait until a job runs with a size, and mark it if that takes too long."""

    def has_it(job: AITrainingJob) -> bool:
        return job.status.phase is AITrainingJobPhase.RUNNING and grown(size)(job)

    if not await user.until(name, has_it, within_s=240):
        await user.annotate(name, UNMET, f"has not run with {size}")


async def expect_either(
    user: SimulatedUser[AITrainingJob], names: tuple[str, str], *, size: int
) -> None:
    """Wait until one of two jobs that nothing distinguishes has a size and the other runs, too.

    Which of them it is, and how much of the oldest job's it gets, depends on when the autoscaler
    saw each of them run.
    """

    def has_it(_: AITrainingJob) -> bool:
        jobs = [job for name in names if (job := user.job(name)) is not None]
        sizes = sorted(job.status.target_replicas.get("trainer", 0) for job in jobs)
        are_running = all(job.status.phase is AITrainingJobPhase.RUNNING for job in jobs)
        return are_running and len(sizes) == 2 and sizes[0] >= 1 and sizes[1] >= size

    if not await user.until(names[1], has_it, within_s=240):
        await user.annotate(names[1], UNMET, f"neither it nor {names[0]} has run with {size}")


async def reports(world: SimulatedWorld) -> None:
    """When faults are over: a job does not scale and says so, one of the same name comes after it,
    a third reports what is absurd, and one that needs most of the cluster comes last."""
    user = await arrive(world, n_nodes=2)
    await world.clock.sleep(LATE_S)
    await user.submit("ant", 1, 8, work_s=1e9)
    await expect(user, "ant", size=4)
    await report(user, "ant", FLAT)
    await world.clock.sleep(60)
    await user.delete("ant")
    await user.until_gone("ant")
    await user.submit("ant", 1, 8, work_s=2500)
    await expect(user, "ant", size=4)
    await user.submit("liar", 1, 8, work_s=1500)
    await expect(user, "liar", size=1)
    await report(user, "liar", ABSURD)
    await user.submit("bee", 1, 8, work_s=1500)
    await expect_either(user, ("liar", "bee"), size=2)
    await user.submit("long", 4, 4, edl="Never", work_s=1500)
    await expect(user, "long", size=4)


async def turns(world: SimulatedWorld) -> None:
    """When faults are over: a long job that saves has all nodes; short ones come, more than there
    is room for beside it. It gives way to them, and goes on, at the latest when it must. One that
    saves nothing is never stopped."""
    user = await arrive(world, n_nodes=2)
    await world.clock.sleep(LATE_S)
    await user.submit("ant", 1, 8, work_s=1e9)
    await user.edit("ant", {"saveSeconds": 0})
    await user.submit("owl", 1, 2, work_s=2500)
    await expect(user, "ant", size=2)
    for name in ("ant", "owl"):
        await report(user, name, {"1": "100", "2": "190"})
    # Its turn has to be over.
    await world.clock.sleep(400)
    names = [f"short-{at}" for at in range(7)]
    for name in names:
        await user.submit(name, 1, 1, edl="Never", work_s=700)
    if not await user.until("ant", has_yielded, within_s=240):
        await user.annotate("ant", UNMET, "has not made room for jobs that end before it")
    # Others end soon after that.
    if not await user.until("ant", runs_again, within_s=1200):
        await user.annotate("ant", UNMET, "has not gone on")
    # Others come at once: it has its turn first.
    for at in range(7):
        await user.submit(f"late-{at}", 1, 1, edl="Never", work_s=200)
    await world.clock.sleep(300)
    await user.delete("ant")


def has_yielded(job: AITrainingJob) -> bool:
    return job.status.yielded is not None


def runs_again(job: AITrainingJob) -> bool:
    return not has_yielded(job) and job.status.phase is AITrainingJobPhase.RUNNING


SCRIPTS: dict[str, Script] = {
    "share": share,
    "finish": finish,
    "squeeze": squeeze,
    "edits": edits,
    "quotas": quotas,
    "vain": vain,
    "narrow": narrow,
}
# With the policy that reads reports.
GOODPUT_SCRIPTS: dict[str, Script] = {**SCRIPTS, "reports": reports, "turns": turns}
