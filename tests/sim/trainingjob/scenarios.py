"""What users and the autoscaler do with TrainingJobs while things go wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from swell.api.aitrainingjob import STOPPED_ANNOTATION
from swell.api.kinds import TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.api.trainingjob import FINAL_PHASES, TrainingJob
from swell.cluster.embedded.builtin.podgroups import GATES
from swell.operator.framework.settings import NATIVE_GANGS
from swell.operator.framework.training import TRAINING
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import NotFoundError
from swell.sim.chance import Chance
from swell.sim.observation import NAMESPACE
from swell.sim.scenario import Scenario, SimulationSubject
from swell.sim.world import SimulatedWorld
from tests.sim.trainingjob.nodes import (
    FAILS,
    JUMPY_RATES,
    RATES,
    ROUGH_RATES,
    RUNS_S,
    disturbances,
)
from tests.sim.trainingjob.originals import leave_behind
from tests.sim.trainingjob.rules import end_state, liveness, safety
from tests.sim.trainingjob.subject import Flaw, operator_main
from tests.sim.user import SimulatedUser

AUTOSCALER = "autoscaler"
MULTI: Body = {"frame_work": {"type": "multi"}}


def training_job(
    name: str,
    size: tuple[int, int] = (2, 2),
    fails: str = "",
    runs_s: int = 0,
    metadata: Body | None = None,
    **spec: object,
) -> Body:
    trainer: Body = {"min-instance": size[0], "max-instance": size[1]}
    reported = {FAILS: fails, RUNS_S: str(runs_s or "")}
    if any(reported.values()):
        trainer["envs"] = {name: text for name, text in reported.items() if text}
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "metadata": {**(metadata or {}), "name": name, "namespace": NAMESPACE},
        "spec": {"image": "sim", "trainer": trainer, **spec},
    }


def trainingjob_subject(flaws: Flaw = Flaw.NONE) -> SimulationSubject:
    """With autoclean and adoption: everything a job had is given back, whoever made it."""
    return _subject("trainingjob", flaws, autoclean=True, scenarios=SCENARIOS)


def kept_subject(flaws: Flaw = Flaw.NONE) -> SimulationSubject:
    """Without: what comes out depends on no timing."""
    return _subject("trainingjob kept", flaws, autoclean=False, scenarios=KEPT_SCENARIOS)


def native_subject(flaws: Flaw = Flaw.NONE) -> SimulationSubject:
    """The first, with gangs that are groups of Kubernetes itself."""
    subject = trainingjob_subject(flaws)
    names = {"finish", "fail", "scale", "train", "suspend", "wishes", "drawn"}
    return replace(
        subject,
        name="trainingjob native",
        components={"operator": operator_main(flaws, gang_api=NATIVE_GANGS)},
        scenarios=tuple(one for one in subject.scenarios if one.name in names),
        gates=frozenset(GATES),
    )


def _subject(
    name: str, flaws: Flaw, *, autoclean: bool, scenarios: tuple[Scenario, ...]
) -> SimulationSubject:
    return SimulationSubject(
        name=name,
        components={
            # What is collected differs between the two subjects, and so does what is kept.
            "operator": operator_main(flaws, autoclean=autoclean, adopt_original=autoclean)
        },
        scenarios=scenarios,
        safety=safety,
        liveness=liveness,
        end_state=end_state,
        disturbances=disturbances,
        # Seven jobs, each of which is read anew by seven lists after an answer that got lost.
        calls_per_min_max=1000,
    )


def user_in(world: SimulatedWorld) -> SimulatedUser[TrainingJob]:
    return SimulatedUser(
        world, TRAINING_JOBS, training_job, lambda job: job.status.phase in FINAL_PHASES
    )


async def set_target(world: SimulatedWorld, name: str, target: int) -> None:
    """As the autoscaler does."""
    patch = merge_patch({"status": {"trainer_target": target}})
    try:
        autoscaler = world.connect(AUTOSCALER)
        await autoscaler.patch(TRAINING_JOBS.status, Key(NAMESPACE, name), patch)
    except NotFoundError:
        return


async def finish(world: SimulatedWorld) -> None:
    """Jobs of several shapes run to their end."""
    user = user_in(world)
    size = world.chance.integer(1, 3, "size")
    await user.submit("ant", size=(size, size))
    await user.wait("ant")
    await user.submit("bee", local_job=True)
    await user.submit("cat", is_nccl=True, fault_tolerant=True)


async def fail(world: SimulatedWorld) -> None:
    """Trainers fail: tolerated, for good, without a survivor, and where nothing is tolerated."""
    user = user_in(world)
    await user.submit("ant", fault_tolerant=True, fails="1,9")
    await user.submit("bee", fault_tolerant=True, fails="9,9", is_nccl=True)
    await user.wait("bee")
    await user.submit("cat", is_nccl=True, fails="0,1")


async def index(world: SimulatedWorld) -> None:
    """Pservers come and go while they are numbered."""
    user = user_in(world)
    await user.submit("ant", fault_tolerant=True, pserver={"min-instance": 4}, **MULTI)
    await user.submit("bee", size=(1, 1), pserver={"min-instance": 2}, **MULTI)


async def scale(world: SimulatedWorld) -> None:
    """The autoscaler changes its mind at any time."""
    user = user_in(world)
    await user.submit("ant", size=(1, 4), fault_tolerant=True)
    await user.submit("bee", size=(2, 5), fault_tolerant=True, is_nccl=True)
    for turn in range(5):
        await user.wait("turn", turn, up_to_s=15)
        target = world.chance.integer(1, 4, "target", turn)
        await set_target(world, "ant", target)
        await set_target(world, "bee", 2 + world.chance.integer(0, 3, "other", turn))


async def train(world: SimulatedWorld) -> None:
    """Trainers that know each other fail, come and go."""
    user = user_in(world)
    asks = {"annotations": {TRAINING: "true"}}
    await user.submit("ant", size=(1, 3), fault_tolerant=True, fails="1,1", metadata=asks)
    await user.submit("bee", size=(2, 4), fault_tolerant=True, is_nccl=True, metadata=asks)
    for turn in range(3):
        await user.wait("turn", turn, up_to_s=20)
        await set_target(world, "ant", world.chance.integer(1, 3, "target", turn))
        await set_target(world, "bee", world.chance.integer(2, 4, "other", turn))


async def time_out(world: SimulatedWorld) -> None:
    """One job is out of time while it runs, another is done before."""
    user = user_in(world)
    await user.submit("ant", size=(3, 3), annotations={"walltime": 1})
    await user.submit("bee", size=(1, 1), annotations={"walltime": 900}, is_nccl=True)


async def stop(world: SimulatedWorld) -> None:
    """Jobs that would run for long are stopped: before they begin, as they start, and later."""
    user = user_in(world)
    await user.submit("ant", fault_tolerant=True, runs_s=5000)
    await user.annotate("ant", STOPPED_ANNOTATION, "enough")
    await user.submit("bee", size=(1, 1), runs_s=5000)
    await user.submit("cat", is_nccl=True, runs_s=5000)
    await user.wait("bee", up_to_s=4)
    await user.annotate("bee", STOPPED_ANNOTATION, "")
    await user.until_running("cat", 2, within_s=60)
    await user.annotate("cat", STOPPED_ANNOTATION, "enough")


async def suspend(world: SimulatedWorld) -> None:
    """Users suspend jobs and change their mind: before, while and after trainers go."""
    user = user_in(world)
    await user.submit("ant", size=(1, 3), fault_tolerant=True, runs_s=90, saveSeconds=20)
    await user.submit("bee", is_nccl=True, suspend=True)
    await user.submit("cat", size=(2, 2), pserver={"min-instance": 2}, runs_s=60, **MULTI)
    await user.submit("dog", size=(1, 1), runs_s=5000)
    await user.until_running("ant", 2, within_s=60)
    for turn in range(3):
        for name in ("ant", "cat"):
            await user.edit(name, {"suspend": True})
            await user.wait(f"{name} {turn}", up_to_s=12)
            await user.edit(name, {"suspend": False})
        await user.wait("turn", turn, up_to_s=30)
        await set_target(world, "ant", world.chance.integer(1, 3, "target", turn))
    await user.edit("bee", {"suspend": False})
    await user.edit("dog", {"suspend": True})
    await user.wait("dog", up_to_s=40)
    await user.annotate("dog", STOPPED_ANNOTATION, "enough")


async def expire(world: SimulatedWorld) -> None:
    """Jobs are deleted some time after their end; one of another manager is left alone."""
    user = user_in(world)
    ttl = world.chance.integer(0, 60, "ttl")
    await user.submit("ant", is_nccl=True, ttlSecondsAfterFinished=ttl)
    await user.submit("bee", size=(1, 1), fails="1", ttlSecondsAfterFinished=0)
    await user.submit("cat", size=(1, 1), managedBy="example.com/other", suspend=True)
    await user.submit("dog", size=(1, 1), runs_s=30, ttlSecondsAfterFinished=5)
    await user.wait("dog", up_to_s=20)
    await user.edit("dog", {"suspend": True})
    await user.wait("dog again", up_to_s=20)
    await user.edit("dog", {"suspend": False})
    await user.edit("cat", {"suspend": False})


async def delete(world: SimulatedWorld) -> None:
    """Jobs are deleted as they start, run, scale, and after they have ended."""
    user = user_in(world)
    await user.submit("ant", fault_tolerant=True)
    await user.submit("bee", size=(1, 3), fault_tolerant=True)
    await user.submit("cat", local_job=True)
    await user.wait("ant", up_to_s=4)
    await user.delete("ant")
    await user.until_running("bee", 2, within_s=60)
    await set_target(world, "bee", 3)
    await user.wait("bee", up_to_s=6)
    await user.delete("bee")
    await user.wait("cat", up_to_s=60)
    await user.delete("cat")


async def recreate(world: SimulatedWorld) -> None:
    """A job is replaced by another one of the same name: first patiently, then by force."""
    user = user_in(world)
    await user.submit("ant", fault_tolerant=True, fails="1")
    await user.until_running("ant", 2, within_s=60)
    await user.delete("ant")
    await user.until_gone("ant")
    await user.submit("ant", size=(1, 1))
    await user.until_ended("ant")
    await user.force_delete("ant")
    await user.submit("ant", size=(2, 2), is_nccl=True)


async def adopt(world: SimulatedWorld) -> None:
    """The original controller left objects of jobs that are gone, and of one that is still there.

    Strangers use the same labels. Jobs of our own run in queues meanwhile.
    """
    user = user_in(world)
    await leave_behind(world, "old")
    await leave_behind(world, "ant")
    await leave_behind(world, "old", owned=True)
    await user.submit("ant", size=(1, 1), queue="blue")
    await user.submit("bee", is_nccl=True)
    await user.wait("older", up_to_s=200)
    await leave_behind(world, "older")
    await user.wait("end", up_to_s=200)


async def wishes(world: SimulatedWorld) -> None:
    """Jobs that come after others, have a deadline, or are scaled by their subresource."""
    user = user_in(world)
    await user.submit("cat", size=(1, 2), fault_tolerant=True, after=["ant", "bee"])
    ttl = world.chance.integer(0, 40, "ttl")
    await user.submit("ant", is_nccl=True, ttlSecondsAfterFinished=ttl)
    await user.submit("bee", size=(1, 1), deadline="2026-01-01T00:00:20Z")
    await user.submit("eel", size=(1, 1), fails="9")
    await user.submit("fox", size=(1, 1), after=["eel"], suspend=True)
    await user.submit("gnu", size=(1, 1), after=["eel"], afterPolicy="Wait")
    scaled = {"scale": {"replicas": 2}, "fault_tolerant": True, "runs_s": 120}
    await user.submit("hen", size=(1, 4), saveSeconds=5, **scaled)
    for turn in range(4):
        await user.wait("turn", turn, up_to_s=20)
        await user.edit("hen", {"scale": {"replicas": world.chance.integer(1, 4, "size", turn)}})
        await set_target(world, "hen", world.chance.integer(1, 4, "target", turn))
    await user.edit("fox", {"suspend": False})
    await user.wait("end", up_to_s=60)
    for name in ("cat", "gnu"):
        await user.annotate(name, STOPPED_ANNOTATION, "waited long enough")


async def drawn(world: SimulatedWorld) -> None:
    """Jobs with features drawn at random, whose users change their mind as often."""
    user, chance = user_in(world), world.chance
    for n, name in enumerate(_NAMES):
        await user.submit(name, **_any_job(chance, name, _NAMES[:n]))
        await user.wait(name, up_to_s=15)
    for turn in range(8):
        await user.wait("turn", turn, up_to_s=20)
        name = chance.pick(_NAMES, "who", turn)
        await user.edit(name, _any_change(chance, turn))
        if (job := user.job(name)) is not None:
            least, most = job.spec.trainer_minimum, job.spec.trainer_maximum
            await set_target(world, name, chance.integer(least, most, "target", turn))
    for name in _NAMES:
        await user.edit(name, {"suspend": False})
    await user.wait("end", up_to_s=60)
    for name in _NAMES:
        # One that comes after a job which has been deleted meanwhile would wait for ever.
        if (job := user.job(name)) is not None and job.spec.after:
            await user.annotate(name, STOPPED_ANNOTATION, "waited long enough")


_NAMES = ("ant", "bee", "cat", "dog")


def _any_job(chance: Chance, name: str, before: tuple[str, ...]) -> dict[str, Any]:
    def draw(what: str, *options: object) -> object:
        return chance.pick((None, *options), name, what)

    least = chance.integer(1, 2, name, "least")
    spec: dict[str, Any] = {
        "size": (least, least + chance.integer(0, 2, name, "more")),
        "fails": chance.pick(("", "1", "0,1"), name, "fails"),
        "runs_s": chance.integer(5, 120, name, "runs"),
        "fault_tolerant": True,
        "is_nccl": draw("nccl", True),
        "suspend": draw("suspend", True, False),
        "saveSeconds": draw("save", 0, 5, 40),
        "ttlSecondsAfterFinished": draw("ttl", 0, 20, 90),
        "deadline": draw("deadline", "2026-01-01T00:00:30Z"),
        "after": [chance.pick(before, name, "before")] if before and draw("after", True) else None,
        "scale": {"replicas": least} if draw("scale", True) else None,
        "managedBy": "example.com/other" if draw("manager", 1, 2, 3) == 1 else None,
        "annotations": {"walltime": 200} if draw("walltime", True) else None,
    }
    return {key: value for key, value in spec.items() if value is not None}


def _any_change(chance: Chance, turn: int) -> Body:
    """What a user changes; the server refuses what does not go with the rest."""
    changes: tuple[Body, ...] = (
        {"suspend": True},
        {"suspend": False},
        {"saveSeconds": chance.integer(0, 30, turn, "save")},
        {"ttlSecondsAfterFinished": chance.integer(0, 60, turn, "ttl")},
        {"scale": {"replicas": chance.integer(1, 4, turn, "scale")}},
        {"scale": None},
        {"deadline": "2026-01-01T00:05:00Z"},
    )
    return chance.pick(changes, "change", turn)


SCENARIOS = (
    Scenario("adopt", adopt, disturbances=RATES),
    Scenario("finish", finish, disturbances=ROUGH_RATES),
    Scenario("fail", fail, disturbances=ROUGH_RATES),
    Scenario("index", index, disturbances=ROUGH_RATES),
    Scenario("scale", scale, disturbances=ROUGH_RATES),
    Scenario("train", train, disturbances=ROUGH_RATES),
    Scenario("time out", time_out, disturbances=JUMPY_RATES),
    Scenario("stop", stop, disturbances=ROUGH_RATES),
    Scenario("suspend", suspend, disturbances=ROUGH_RATES),
    Scenario("expire", expire, disturbances=ROUGH_RATES),
    Scenario("wishes", wishes, disturbances=ROUGH_RATES),
    Scenario("drawn", drawn, disturbances=ROUGH_RATES),
    Scenario("delete", delete, disturbances=ROUGH_RATES),
    Scenario("recreate", recreate, disturbances=ROUGH_RATES),
)
# A pod that somebody deletes counts as failed; evicted ones do not, so the end is always the same.
KEPT_SCENARIOS = (
    Scenario("adopt", adopt, disturbances=RATES, steady=True),
    Scenario("finish", finish, disturbances=RATES, steady=True),
    Scenario("fail", fail, disturbances=RATES, steady=True),
    Scenario("stop", stop, disturbances=RATES, steady=True),
)
