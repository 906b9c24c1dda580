"""Hostile AITrainingJobs: valid, nearly valid and absurd ones, beside good ones that must not care.

The server of these worlds has no schema for jobs, so everything slips through to the operator, as
from an older definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TextIO

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJobPhase
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.cluster.embedded.registry import ServedKind
from swell.runtime.errors import ClusterError
from swell.sim.campaign.trial import TrialResult, try_faults
from swell.sim.invariants import LivenessCheck
from swell.sim.observation import NAMESPACE
from swell.sim.scenario import Scenario
from swell.sim.world import SimulatedWorld
from tests.plainrules import PlainRules
from tests.sim.operator.arriving import arrive
from tests.sim.operator.jobs import Pods, a_job, a_role
from tests.sim.operator.subject import operator_subject

SPECS_A_WORLD = 50
GOOD = ("good-a", "good-b")

WITHOUT_SCHEMA = ServedKind(
    group=AI_TRAINING_JOBS.group,
    version=AI_TRAINING_JOBS.version,
    kind=AI_TRAINING_JOBS.kind,
    plural=AI_TRAINING_JOBS.plural,
    rules=PlainRules(),
    subresources=frozenset({"status"}),
    custom=True,
)

ABSURD: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    3.5,
    2**31 - 1,
    10**12,
    10**30,
    "",
    "Any",
    "All",
    "Nonsense",
    "x" * 5000,
    "ünïcödé \u0000 \U0001f525",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    [None],
)
FIELDS = (
    "frameworkType", "faultTolerant", "priority", "schedulerName", "queue", "timeLimit",
    "cleanPodPolicy", "failPolicy", "completePolicy", "restartingExitCode", "replicaSpecs",
    "unknown",
)  # fmt: skip
ROLE_FIELDS = (
    "replicas", "minReplicas", "maxReplicas", "edlPolicy", "restartPolicy", "restartScope",
    "restartLimit", "failPolicy", "completePolicy", "template", "unknown",
)  # fmt: skip
ROLE_NAMES = ("Trainer", "a-b", "trainingjob", "", "UPPER", "-", "x" * 70, "a.b", "ps\n", "0")
POD_FIELDS = (
    "containers", "initContainers", "volumes", "affinity", "nodeSelector", "tolerations",
    "hostNetwork", "restartPolicy", "terminationGracePeriodSeconds", "nodeName", "metadata",
)  # fmt: skip


def hostile_job(name: str, random: Random) -> Body:
    """One job with up to four things wrong with it, or none."""
    job = a_job(name, {"replicaSpecs": {"trainer": a_role(Pods(runs_s=5), replicas=1)}})
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        random.choice(_HARMS)(job, random)
    return job


def _harm_spec(job: Body, random: Random) -> None:
    _set(job["spec"], random.choice(FIELDS), random)


def _harm_role(job: Body, random: Random) -> None:
    for role in _objects(_within(job, "spec", "replicaSpecs")):
        _set(role, random.choice(ROLE_FIELDS), random)


def _harm_pod(job: Body, random: Random) -> None:
    for role in _objects(_within(job, "spec", "replicaSpecs")):
        spec = _within(role, "template", "spec")
        if isinstance(spec, dict):
            _set(spec, random.choice(POD_FIELDS), random)


def _harm_container(job: Body, random: Random) -> None:
    for role in _objects(_within(job, "spec", "replicaSpecs")):
        containers = _within(role, "template", "spec", "containers")
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict):
                name = random.choice(("name", "image", "ports", "env", "resources", "command"))
                _set(container, name, random)


def _harm_names(job: Body, random: Random) -> None:
    roles = _within(job, "spec", "replicaSpecs")
    if isinstance(roles, dict) and roles:
        role = next(iter(roles.values()))
        for _ in range(random.choice((1, 1, 20))):
            roles[random.choice(ROLE_NAMES) + random.choice(("", "7"))] = role


def _harm_sizes(job: Body, random: Random) -> None:
    sizes = (-5, 0, 1, 2, 3, 10**6, 2**31 - 1)
    for role in _objects(_within(job, "spec", "replicaSpecs")):
        for field in ("replicas", "minReplicas", "maxReplicas"):
            if random.random() < 0.7:
                role[field] = random.choice(sizes)
        role["edlPolicy"] = random.choice(("Auto", "Manual", "Never"))


def _harm_metadata(job: Body, random: Random) -> None:
    notes = {random.choice(("Failed", "failed", "preempted", "x/y")): random.choice(("", "why"))}
    job["metadata"]["annotations"] = notes
    job["metadata"]["labels"] = {"TrainingJobReplicaIndex": "99", "a": "b"}


_HARMS: tuple[Callable[[Body, Random], None], ...] = (
    _harm_spec,
    _harm_role,
    _harm_pod,
    _harm_container,
    _harm_names,
    _harm_sizes,
    _harm_metadata,
)


def _set(parent: Body, name: str, random: Random) -> None:
    if random.random() < 0.15:
        parent.pop(name, None)
    else:
        parent[name] = random.choice(ABSURD)


def _within(body: object, *path: str) -> object:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def _objects(value: object) -> list[Body]:
    held = value.values() if isinstance(value, dict) else ()
    return [item for item in held if isinstance(item, dict)]


@dataclass
class GoodOnesEnd:
    """O11: whatever stands beside them."""

    world: SimulatedWorld
    name: str = "O11 good jobs end"

    def missing(self) -> list[str]:
        phases = {name: _phase(self.world, name) for name in GOOD}
        return [f"{name} is {phase}" for name, phase in phases.items() if phase != "Succeed"]


@dataclass
class BadOnesAreReported:
    """A job is over, or waits for a reason that its status gives."""

    world: SimulatedWorld
    names: list[str]
    name: str = "O11 bad jobs are told why"

    def missing(self) -> list[str]:
        final = {phase.value for phase in FINAL_PHASES}
        return [
            f"{name} is {_phase(self.world, name) or 'untouched'}"
            for name in self.names
            if _phase(self.world, name) not in final and not _reason(self.world, name)
        ]


def _status(world: SimulatedWorld, name: str) -> Body:
    stored = world.storage.get(str(AI_TRAINING_JOBS), Key(NAMESPACE, name))
    found = stored.body.get("status") if stored else None
    return found if isinstance(found, dict) else {}


def _phase(world: SimulatedWorld, name: str) -> str:
    return str(_status(world, name).get("phase", AITrainingJobPhase.EMPTY.value))


def _reason(world: SimulatedWorld, name: str) -> str:
    return str(_status(world, name).get("reason", ""))


def try_hostile(seed: int, n_specs: int = SPECS_A_WORLD) -> TrialResult:
    """One world with so many hostile jobs, made from the seed."""
    names: list[str] = []

    async def script(world: SimulatedWorld) -> None:
        user = await arrive(world)
        random = Random(seed)
        await user.submit(GOOD[0], {"trainer": a_role(replicas=2)})
        for n in range(n_specs):
            name = f"bad-{n}"
            try:
                await user.cluster.create(AI_TRAINING_JOBS.untyped(), hostile_job(name, random))
            except ClusterError:
                continue  # refused by the server itself
            names.append(name)
        await user.submit(GOOD[1], {"trainer": a_role(replicas=2)})

    def liveness(world: SimulatedWorld) -> list[LivenessCheck]:
        return [GoodOnesEnd(world), BadOnesAreReported(world, names)]

    scenario = Scenario("hostile specs", script, faulty_s=60, settle_s=900, quiet_s=0)
    subject = replace(
        operator_subject(),
        name="operator with hostile specs",
        scenarios=(scenario,),
        kinds=(WITHOUT_SCHEMA,),
        safety=lambda _: [],
        liveness=liveness,
        end_state=lambda _: None,
        calls_per_min_max=100_000,
    )
    return try_faults(subject, scenario, seed)


def main(n_specs: int, out: TextIO) -> int:
    n_worlds = -(-n_specs // SPECS_A_WORLD)
    n_failed = 0
    for seed in range(n_worlds):
        result = try_hostile(seed)
        n_failed += bool(result.violations)
        for violation in result.violations:
            out.write(f"FAILED: hostile specs, seed {seed}: {violation}\n")
    out.write(f"hostile specs: {n_worlds * SPECS_A_WORLD} in {n_worlds} worlds, ")
    out.write(f"{n_failed} worlds failed\n")
    return 1 if n_failed else 0
