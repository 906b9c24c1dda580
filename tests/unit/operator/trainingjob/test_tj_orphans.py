"""What counts as left behind by a TrainingJob, and how it is found."""

from __future__ import annotations

import asyncio
import random

import pytest

from swell.api.kinds import JOBS, PODS, REPLICA_SETS, TRAINING_JOBS
from swell.api.meta import Body, Key, ObjectMeta, OwnerReference, Uid
from swell.api.resource import Resource
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.operator.trainingjob.labels import JOB_UID
from swell.operator.trainingjob.orphans import GarbageCollector
from swell.operator.trainingjob.settings import Settings
from swell.operator.trainingjob.updater.orphans import Labelled, clean_orphans
from swell.runtime.cache import StaleListError
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import EVERYTHING, ObjectList, Selection
from swell.runtime.errors import NotFoundError

TJ = ("paddlepaddle.org/v1", "TrainingJob")
RS = ("apps/v1", "ReplicaSet")


def labelled(
    resource: Resource[object],
    owner: tuple[str, str] = TJ,
    *,
    uid: str = "gone",
    job: str = "gone",
    **meta: object,
) -> Labelled:
    reference = OwnerReference(
        api_version=owner[0], kind=owner[1], uid=Uid(uid), name="x", controller=True
    )
    made = ObjectMeta(
        name="one",
        namespace="team",
        uid=Uid("u"),
        labels={JOB_UID: job},
        **{"owner_references": (reference,), **meta},  # type: ignore[arg-type]
    )
    return Labelled(resource, made)


@pytest.mark.parametrize(
    ("one", "goes"),
    [
        (labelled(REPLICA_SETS), True),
        (labelled(JOBS), True),
        (labelled(JOBS, uid="here", job="here"), False),
        (labelled(JOBS, deletion_timestamp="now"), False),
        (labelled(JOBS, owner_references=()), False),
        (labelled(JOBS, ("elasticdeeplearning.ai/v1", "AITrainingJob")), False),
        (labelled(PODS, RS), True),
        (labelled(PODS, RS, uid="set"), False),
        (labelled(PODS, RS, job="here"), False),
        (labelled(PODS, ("example.com/v1", "ReplicaSet")), False),
        (labelled(PODS, RS, job=""), False),
    ],
)
def test_orphan_is_what_has_lost_its_owner(one: Labelled, goes: bool) -> None:
    """Ours, by UID, with neither job nor workload left; whatever is not certainly so stays."""
    found = clean_orphans([one], {Uid("set")}, {Uid("here")})

    assert [action.key for action in found] == ([Key("team", "one")] if goes else [])
    assert all(action.uid == "u" for action in found)


def test_orphans_of_jobs_take_their_pods_along() -> None:
    """A Job's pods would stay behind by default."""
    (action,) = clean_orphans([labelled(JOBS)], set(), set())

    assert action.propagation == "Background"


class Lagging:
    """A cluster whose answers about one kind are old."""

    def __init__(self, cluster: InProcessCluster, plural: str) -> None:
        self._cluster = cluster
        self._plural = plural

    def __getattr__(self, name: str) -> object:
        return getattr(self._cluster, name)

    async def list(
        self, resource: Resource[object], selection: Selection = EVERYTHING, **options: object
    ) -> ObjectList[object]:
        if resource.plural == self._plural:
            return ObjectList((), "1")
        return await self._cluster.list(resource, selection, **options)  # type: ignore[arg-type]


def a_set(uid: str) -> Body:
    reference = {"apiVersion": TJ[0], "kind": TJ[1], "name": "fit", "uid": uid, "controller": True}
    labels = {JOB_UID: uid}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "fit-pserver",
            "namespace": "default",
            "labels": labels,
            "ownerReferences": [reference],
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


@pytest.mark.parametrize("exists", [False, True])
def test_sweep_deletes_orphans_only(exists: bool) -> None:
    """Read in the order of creation reversed, so that nothing fresh is taken for an orphan."""

    async def run() -> None:
        cluster, collector = _collector()
        uid = "no-such-uid"
        if exists:
            body = {"metadata": {"name": "fit", "namespace": "default"}, "spec": {"image": "i"}}
            kind = {"apiVersion": TJ[0], "kind": TJ[1]}
            made = await cluster.create(TRAINING_JOBS.untyped(), {**kind, **body})
            uid = made["metadata"]["uid"]
        await cluster.create(REPLICA_SETS, a_set(uid))
        await collector.sweep()
        if exists:
            await cluster.get(REPLICA_SETS, Key("default", "fit-pserver"))
        else:
            with pytest.raises(NotFoundError):
                await cluster.get(REPLICA_SETS, Key("default", "fit-pserver"))

    asyncio.run(run())


def test_sweep_believes_no_old_list_of_jobs() -> None:
    """A server that lags behind does not know fresh jobs; what they own is no garbage."""

    async def run() -> None:
        cluster, _ = _collector()
        await cluster.create(REPLICA_SETS, a_set("fresh"))
        lagging = Lagging(cluster, "trainingjobs")
        collector = GarbageCollector(
            lagging,  # type: ignore[arg-type]
            settings=Settings(),
            clock=SystemClock(),
        )
        with pytest.raises(StaleListError):
            await collector.sweep()
        await cluster.get(REPLICA_SETS, Key("default", "fit-pserver"))

    asyncio.run(run())


def _collector() -> tuple[InProcessCluster, GarbageCollector]:
    clock = SystemClock()
    api = new_api_server(Storage(clock.now), clock, random.Random(1))
    cluster = InProcessCluster(api, "test")
    return cluster, GarbageCollector(cluster, settings=Settings(), clock=clock)
