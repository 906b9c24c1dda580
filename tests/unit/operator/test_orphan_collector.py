"""The sweep for what jobs of either kind left behind: never anything that is merely fresh."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from swell.api.kinds import AI_TRAINING_JOBS, POD_GROUPS
from swell.api.meta import Body, Key, Status
from swell.api.resource import Resource
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.operator.aitrainingjob import kind as ai_training_jobs
from swell.operator.aitrainingjob import labels
from swell.operator.framework.orphans import OrphanCollector, OrphanRules
from swell.operator.framework.settings import OperatorSettings
from swell.operator.trainingjob import kind as training_jobs
from swell.operator.trainingjob.labels import JOB_UID
from swell.runtime.cache import StaleListError
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import EVERYTHING, Cluster, ObjectList, Selection
from swell.runtime.errors import NotFoundError, error_for
from tests.unit.operator.scene import a_role

KEY = Key("default", "left")


@dataclass(frozen=True)
class Case:
    """A kind of job, and something that one of them may own."""

    rules: OrphanRules
    spec: Body

    @property
    def jobs(self) -> Resource[object]:
        return self.rules.jobs


CASES = {
    "AITrainingJob": Case(
        ai_training_jobs.ORPHANS, {"replicaSpecs": {"trainer": a_role(replicas=1)}}
    ),
    "TrainingJob": Case(training_jobs.ORPHANS, {"image": "i", "trainer": {"entrypoint": "run"}}),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


class Odd:
    """A cluster that answers about one kind in its own way."""

    def __init__(
        self, cluster: Cluster, plural: str, answer: ObjectList[object] | Exception
    ) -> None:
        self._cluster = cluster
        self._plural = plural
        self._answer = answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._cluster, name)

    async def list(
        self, resource: Resource[object], selection: Selection = EVERYTHING, **options: object
    ) -> ObjectList[object]:
        if resource.plural != self._plural:
            return await self._cluster.list(resource, selection, **options)  # type: ignore[arg-type]
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def collector(cluster: object, rules: OrphanRules) -> OrphanCollector:
    return OrphanCollector(
        cluster,  # type: ignore[arg-type]
        rules,
        OperatorSettings(),
        clock=SystemClock(),
        pods=lambda: (),
        node_states=lambda _: {},
    )


def new_cluster() -> InProcessCluster:
    clock = SystemClock()
    api = new_api_server(Storage(clock.now), clock, random.Random(1))
    return InProcessCluster(api, "test")


async def create_job(cluster: InProcessCluster, case: Case) -> str:
    body = {
        "apiVersion": case.jobs.api_version,
        "kind": case.jobs.kind,
        "metadata": {"name": "fit", "namespace": KEY.namespace},
        "spec": case.spec,
    }
    uid: str = (await cluster.create(case.jobs.untyped(), body))["metadata"]["uid"]
    return uid


async def create_owned(cluster: InProcessCluster, case: Case, uid: str) -> Resource[object]:
    """A group, which jobs of both kinds have."""
    resource = next(one for one in case.rules.kinds if str(one) == str(POD_GROUPS))
    marks = {labels.GROUP_NAME: labels.GROUP_VALUE, labels.TRAINING_JOB_NAME: "fit"}
    marks = marks if case.jobs is AI_TRAINING_JOBS else {JOB_UID: uid}
    owner = {
        "apiVersion": case.jobs.api_version,
        "kind": case.jobs.kind,
        "name": "fit",
        "uid": uid,
        "controller": True,
    }
    metadata = {
        "name": KEY.name,
        "namespace": KEY.namespace,
        "labels": marks,
        "ownerReferences": [owner],
    }
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    await cluster.create(resource.untyped(), {**body, "spec": {"minMember": 1}})
    return resource


@pytest.mark.parametrize("exists", [False, True])
def test_sweep_deletes_what_has_no_job(case: Case, exists: bool) -> None:
    """What belongs to a job that is gone goes; what has its job stays."""

    async def run() -> None:
        cluster = new_cluster()
        uid = await create_job(cluster, case) if exists else "no-such-uid"
        resource = await create_owned(cluster, case, uid)
        await collector(cluster, case.rules).collect()
        if exists:
            await cluster.get(resource, KEY)
        else:
            with pytest.raises(NotFoundError):
                await cluster.get(resource, KEY)

    asyncio.run(run())


UNSERVED = error_for(Status(status="Failure", code=404, reason="NotFound"))
STALE: ObjectList[object] = ObjectList((), "1")


@pytest.mark.parametrize(("answer", "error"), [(STALE, StaleListError), (UNSERVED, NotFoundError)])
def test_sweep_takes_no_doubtful_answer_for_no_jobs(
    case: Case, answer: ObjectList[object] | Exception, error: type[Exception]
) -> None:
    """A server that lags behind, or does not serve the kind yet, does not say there are none."""

    async def run() -> None:
        cluster = new_cluster()
        uid = await create_job(cluster, case)
        resource = await create_owned(cluster, case, uid)
        odd = Odd(cluster, case.jobs.plural, answer)
        with pytest.raises(error):
            await collector(odd, case.rules).collect()
        await cluster.get(resource, KEY)

    asyncio.run(run())


def test_sweep_does_without_kinds_that_are_not_served(case: Case) -> None:
    """A cluster may lack PodGroups; the rest is swept all the same."""

    async def run() -> None:
        odd = Odd(new_cluster(), "podgroups", UNSERVED)
        await collector(odd, case.rules).collect()

    asyncio.run(run())
