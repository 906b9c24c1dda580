"""Every field of the spec is changed to every kind of value and back again, as Acto does it.

A change is refused, or it is taken and undone some time later; either way the job must end well,
unless the change itself was to end it. Each field is tried on a job under way and at its birth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TextIO

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob
from swell.api.crds import crd
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.api.schemas.definitions import DEFINITIONS
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ClusterError
from swell.sim.campaign.trial import TrialResult, try_faults
from swell.sim.observation import NAMESPACE
from swell.sim.scenario import Scenario
from swell.sim.world import SimulatedWorld
from tests.sim.operator.arriving import arrive
from tests.sim.operator.jobs import Pods, a_job, a_role
from tests.sim.operator.liveness import liveness
from tests.sim.operator.observation import job_at
from tests.sim.operator.subject import operator_subject
from tests.sim.user import SimulatedUser

Path = tuple[str, ...]
CASES_A_WORLD = 12
ROLE = "trainer"
_HELD_S = 15.0
_TEMPLATE_DEPTH = 6  # deep enough for an image and a port


@dataclass(frozen=True, slots=True)
class Case:
    """One field and one value for it."""

    path: Path
    value: object
    at_birth: bool

    def __str__(self) -> str:
        when = "at birth" if self.at_birth else "under way"
        return f"{'.'.join(self.path)} = {self.value!r} {when}"


def cases() -> list[Case]:
    """Every field of the definition's schema, with values that are right, wrong and absurd."""
    version = next(
        crd(d)["spec"]["versions"][0]
        for d in DEFINITIONS
        if crd(d)["spec"]["names"]["kind"] == AI_TRAINING_JOBS.kind
    )
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return [
        Case(path, value, at_birth)
        for path, schema in _fields(spec, ())
        for value in _values(schema)
        for at_birth in (False, True)
    ]


def _fields(schema: Body, path: Path) -> Iterator[tuple[Path, Body]]:
    if path:
        yield path, schema
    if len(path) < _TEMPLATE_DEPTH:
        for name, inner in schema.get("properties", {}).items():
            yield from _fields(inner, (*path, name))
        if isinstance(inner := schema.get("additionalProperties"), dict):
            yield from _fields(inner, (*path, ROLE))


def _values(schema: Body) -> list[object]:
    values: list[object] = [None, *schema.get("enum", ())]
    match schema.get("type"):
        case "integer":
            values += [-1, 0, 1, 3, 2**31 - 1, "3"]
        case "boolean":
            values += [True, False, "true"]
        case "string":
            values += ["", "other", "Not A Name!", "x" * 6000, 7]
        case "array":
            values += [[], [{}], "list"]
        case "object":
            values += [{}, {"unknown": 1}, []]
        case _:
            values += [137, "137,128", "0", "many", 9999]
    return values


def base() -> Body:
    """The spec that everything returns to."""
    role = a_role(
        Pods(runs_s=60),
        replicas=2,
        minReplicas=1,
        maxReplicas=4,
        edlPolicy="Manual",
        restartPolicy="OnFailure",
    )
    return {"replicaSpecs": {ROLE: role}}


def changed(path: Path, value: object) -> Body:
    """A merge patch that sets one field."""
    for name in reversed(path):
        value = {name: value}
    if not isinstance(value, dict):
        raise TypeError(f"no field is named by {path}")
    return value


def held(spec: object, path: Path) -> object:
    for name in path:
        spec = spec.get(name) if isinstance(spec, dict) else None
    return spec


class _Sweeper:
    """Plays one case on one job."""

    def __init__(
        self, user: SimulatedUser[AITrainingJob], name: str, case: Case, judged: list[str]
    ) -> None:
        self._user = user
        self._name = name
        self._key = Key(NAMESPACE, name)
        self._case = case
        self._judged = judged

    async def play(self) -> None:
        if self._case.at_birth:
            await self._born_wrong()
        else:
            await self._changed_under_way()
        await self._user.until_ended(self._name, within_s=1500)

    async def _born_wrong(self) -> None:
        spec = _merged(base(), changed(self._case.path, self._case.value))
        try:
            await self._user.cluster.create(AI_TRAINING_JOBS.untyped(), a_job(self._name, spec))
            await self._user.world.clock.sleep(_HELD_S)
            await self._user.cluster.delete(AI_TRAINING_JOBS.untyped(), self._key)
            await self._user.until_gone(self._name)
        except ClusterError as error:
            self._user.world.trace.note(f"{self._case} refused: {error}")
        await self._user.submit(self._name, base()["replicaSpecs"])
        self._judged.append(self._name)

    async def _changed_under_way(self) -> None:
        await self._user.submit(self._name, base()["replicaSpecs"])
        await self._user.until_running(self._name, 2)
        await self._try(changed(self._case.path, self._case.value))
        await self._user.world.clock.sleep(_HELD_S)
        job = job_at(self._user.world, self._name)
        if job is not None and job.status.phase not in FINAL_PHASES and job.status.ending is None:
            self._judged.append(self._name)  # to be judged: it has to end well
        await self._try(changed(self._case.path, held(base(), self._case.path)))

    async def _try(self, spec: Body) -> None:
        try:
            await self._user.cluster.patch(
                AI_TRAINING_JOBS.untyped(), self._key, merge_patch({"spec": spec})
            )
        except ClusterError as error:
            self._user.world.trace.note(f"{self._case} refused: {error}")


@dataclass
class EndsWell:
    """L7: after the change is undone, or was refused, the job succeeds."""

    world: SimulatedWorld
    names: list[str]
    cases: list[Case]
    name: str = "L7 recovers"

    def missing(self) -> Iterator[str]:
        for name in self.names:
            job = job_at(self.world, name)
            phase = job.status.phase.value if job else "gone"
            if phase != "Succeed":
                yield f"{self.cases[int(name.removeprefix('job-'))]}: {phase}"


def sweep(chosen: list[Case], seed: int = 0) -> TrialResult:
    """One world in which these cases are played, each on a job of its own."""
    judged: list[str] = []

    async def script(world: SimulatedWorld) -> None:
        user = await arrive(world)
        for n, case in enumerate(chosen):
            world.spawn(_Sweeper(user, f"job-{n}", case, judged).play())

    scenario = Scenario("spec sweep", script, faulty_s=120, settle_s=2000)
    subject = replace(
        operator_subject(),
        name="operator, spec sweep",
        scenarios=(scenario,),
        liveness=lambda world: [*liveness(world), EndsWell(world, judged, chosen)],
        calls_per_min_max=10_000,
    )
    return try_faults(subject, scenario, seed)


def chunks(chosen: list[Case]) -> Iterator[list[Case]]:
    for start in range(0, len(chosen), CASES_A_WORLD):
        yield chosen[start : start + CASES_A_WORLD]


def _merged(old: Body, change: Body) -> Body:
    result = dict(old)
    for name, value in change.items():
        inner = result.get(name)
        if isinstance(value, dict) and isinstance(inner, dict):
            result[name] = _merged(inner, value)
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def main(n_specs: int, out: TextIO) -> int:
    every = cases()[:n_specs]
    n_failed = 0
    for chosen in chunks(every):
        result = sweep(chosen)
        n_failed += bool(result.violations)
        for violation in result.violations:
            out.write(f"FAILED: spec sweep: {violation}\n")
    fields = {case.path for case in every}
    out.write(f"spec sweep: {len(every)} changes of {len(fields)} fields with rollback, ")
    out.write(f"{n_failed} worlds failed\n")
    return 1 if n_failed else 0
