"""What users and the autoscaler do with TrainingJobs while things go wrong."""

from __future__ import annotations

from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.api.pod import PodPhase
from swell.api.trainingjob import FINAL, Phase
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import NotFoundError
from swell.sim.scenario import USER, Scenario, Subject
from swell.sim.world import World
from tests.sim.trainingjob.nodes import FAILS, JUMPY_RATES, RATES, ROUGH_RATES, disturbances
from tests.sim.trainingjob.rules import end_state, job_at, liveness, pods_in, safety
from tests.sim.trainingjob.subject import Flaw, operator_main

NAMESPACE = "default"
AUTOSCALER = "autoscaler"
MULTI: Body = {"frame_work": {"type": "multi"}}


def training_job(
    name: str, size: tuple[int, int] = (2, 2), fails: str = "", **spec: object
) -> Body:
    trainer: Body = {"min-instance": size[0], "max-instance": size[1]}
    if fails:
        trainer["envs"] = {FAILS: fails}
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"image": "sim", "trainer": trainer, **spec},
    }


def trainingjob_subject(flaws: Flaw = Flaw.NONE) -> Subject:
    """With autoclean: everything a job had is given back."""
    return _subject("trainingjob", flaws, autoclean=True, scenarios=SCENARIOS)


def kept_subject(flaws: Flaw = Flaw.NONE) -> Subject:
    """Without: what comes out depends on no timing."""
    return _subject("trainingjob kept", flaws, autoclean=False, scenarios=KEPT_SCENARIOS)


def _subject(
    name: str, flaws: Flaw, *, autoclean: bool, scenarios: tuple[Scenario, ...]
) -> Subject:
    return Subject(
        name=name,
        components={"operator": operator_main(flaws, autoclean=autoclean)},
        scenarios=scenarios,
        safety=safety,
        liveness=liveness,
        end_state=end_state,
        disturbances=disturbances,
    )


class Users:
    """Somebody with kubectl, and the autoscaler."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._user = world.connect(USER)
        self._autoscaler = world.connect(AUTOSCALER)

    async def create(self, name: str, **spec: object) -> None:
        await self._user.create(TRAINING_JOBS, training_job(name, **spec))  # type: ignore[arg-type]

    async def delete(self, name: str) -> None:
        await self._user.delete(TRAINING_JOBS, Key(NAMESPACE, name))

    async def force_delete(self, name: str) -> None:
        """Take the finalizer off, then delete: the rest is left to the garbage collector."""
        nothing = merge_patch({"metadata": {"finalizers": None}})
        await self._user.patch(TRAINING_JOBS, Key(NAMESPACE, name), nothing)
        await self.delete(name)

    async def set_target(self, name: str, target: int) -> None:
        patch = merge_patch({"status": {"trainer_target": target}})
        try:
            await self._autoscaler.patch(TRAINING_JOBS.status, Key(NAMESPACE, name), patch)
        except NotFoundError:
            return

    async def until_phase(self, name: str, *phases: Phase) -> None:
        await self.world.until(lambda: self._phase(name) in phases, within_s=100)

    async def until_ended(self, name: str) -> None:
        await self.world.until(lambda: self._phase(name) in FINAL, within_s=300)

    async def until_gone(self, name: str) -> None:
        await self.world.until(lambda: job_at(self.world, name) is None, within_s=1000)

    async def until_running(self, name: str, n_pods: int) -> None:
        await self.world.until(lambda: self._n_running(name) >= n_pods, within_s=60)

    async def wait(self, *what: object, up_to_s: float = 10) -> None:
        await self.world.clock.sleep(self.world.chance.between(0, up_to_s, "user", *what))

    def _phase(self, name: str) -> Phase | None:
        job = job_at(self.world, name)
        return job.status.phase if job else None

    def _n_running(self, name: str) -> int:
        return sum(
            pod.metadata.name.startswith(f"{name}-") and pod.status.phase is PodPhase.RUNNING
            for pod in pods_in(self.world)
        )


async def finish(world: World) -> None:
    """Jobs of several shapes run to their end."""
    users = Users(world)
    size = world.chance.integer(1, 3, "size")
    await users.create("ant", size=(size, size))
    await users.wait("ant")
    await users.create("bee", local_job=True)
    await users.create("cat", is_nccl=True, fault_tolerant=True)


async def fail(world: World) -> None:
    """Trainers fail: tolerated, for good, without a survivor, and where nothing is tolerated."""
    users = Users(world)
    await users.create("ant", fault_tolerant=True, fails="1,9")
    await users.create("bee", fault_tolerant=True, fails="9,9", is_nccl=True)
    await users.wait("bee")
    await users.create("cat", is_nccl=True, fails="0,1")


async def index(world: World) -> None:
    """Pservers come and go while they are numbered."""
    users = Users(world)
    await users.create("ant", fault_tolerant=True, pserver={"min-instance": 4}, **MULTI)
    await users.create("bee", size=(1, 1), pserver={"min-instance": 2}, **MULTI)


async def scale(world: World) -> None:
    """The autoscaler changes its mind at any time."""
    users = Users(world)
    await users.create("ant", size=(1, 4), fault_tolerant=True)
    await users.create("bee", size=(2, 5), fault_tolerant=True, is_nccl=True)
    for turn in range(5):
        await users.wait("turn", turn, up_to_s=15)
        target = world.chance.integer(1, 4, "target", turn)
        await users.set_target("ant", target)
        await users.set_target("bee", 2 + world.chance.integer(0, 3, "other", turn))


async def time_out(world: World) -> None:
    """One job is out of time while it runs, another is done before."""
    users = Users(world)
    await users.create("ant", size=(3, 3), annotations={"walltime": 1})
    await users.create("bee", size=(1, 1), annotations={"walltime": 900}, is_nccl=True)


async def delete(world: World) -> None:
    """Jobs are deleted as they start, run, scale, and after they have ended."""
    users = Users(world)
    await users.create("ant", fault_tolerant=True)
    await users.create("bee", size=(1, 3), fault_tolerant=True)
    await users.create("cat", local_job=True)
    await users.wait("ant", up_to_s=4)
    await users.delete("ant")
    await users.until_running("bee", 2)
    await users.set_target("bee", 3)
    await users.wait("bee", up_to_s=6)
    await users.delete("bee")
    await users.wait("cat", up_to_s=60)
    await users.delete("cat")


async def recreate(world: World) -> None:
    """A job is replaced by another one of the same name: first patiently, then by force."""
    users = Users(world)
    await users.create("ant", fault_tolerant=True, fails="1")
    await users.until_running("ant", 2)
    await users.delete("ant")
    await users.until_gone("ant")
    await users.create("ant", size=(1, 1))
    await users.until_ended("ant")
    await users.force_delete("ant")
    await users.create("ant", size=(2, 2), is_nccl=True)


SCENARIOS = (
    Scenario("finish", finish, disturbances=ROUGH_RATES),
    Scenario("fail", fail, disturbances=ROUGH_RATES),
    Scenario("index", index, disturbances=ROUGH_RATES),
    Scenario("scale", scale, disturbances=ROUGH_RATES),
    Scenario("time out", time_out, disturbances=JUMPY_RATES),
    Scenario("delete", delete, disturbances=ROUGH_RATES),
    Scenario("recreate", recreate, disturbances=ROUGH_RATES),
)
# A pod that somebody deletes counts as failed; evicted ones do not, so the end is always the same.
KEPT_SCENARIOS = (
    Scenario("finish", finish, disturbances=RATES, steady=True),
    Scenario("fail", fail, disturbances=RATES, steady=True),
)
