"""Pods whose status could never be read: nothing is concluded from how they seem to be."""

from __future__ import annotations

import asyncio
import random

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Body, Uid
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.operator.aitrainingjob.kind import _unread
from swell.operator.framework.fencing import NodeState
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Malformed
from swell.runtime.informer import Informer
from tests.unit.operator.scene import Scene, a_job, a_role, deleted, phases, recorded

T0, T1 = "fit-trainer-0", "fit-trainer-1"


def a_scene(**spec: object) -> Scene:
    return Scene(a_job({"trainer": a_role(replicas=2, failPolicy="Any")}, **spec)).running()


def test_ending_keeps_what_may_have_finished_until_that_can_be_seen() -> None:
    """A policy that keeps finished pods does not guess; then it deletes what runs all the same."""
    scene = a_scene(cleanPodPolicy="Running").fails(T0)
    scene.unread = frozenset({T1})
    assert recorded(scene.look())["phase"] == "Terminating"
    assert deleted(scene.look()) == []

    scene.settle()
    assert scene.status.phase.value == "Failed"
    assert set(scene.pods) == {T0, T1}

    scene.unread = frozenset()
    assert deleted(scene.look()) == [T1]


def test_other_endings_delete_it_too() -> None:
    """Where every pod goes, its phase is of no account."""
    scene = a_scene(cleanPodPolicy="All").fails(T0)
    scene.unread = frozenset({T1})

    assert sorted(deleted(scene.look())) == [T0, T1]


def test_lost_node_does_not_restart_what_may_have_succeeded() -> None:
    """Once it can be read, the lost node counts."""
    scene = Scene(a_job({"trainer": a_role(replicas=2, restartPolicy="OnNodeFail")})).running()
    scene.nodes[scene.pods[T1].spec.node_name] = NodeState(None)
    scene.unread = frozenset({T1})
    before = phases(scene)
    assert phases(scene.settle()) == before

    scene.unread = frozenset()
    assert recorded(scene.look())["restart"]["role"] == "trainer"


@pytest.mark.parametrize(
    ("path", "is_unread"), [("status.phase", True), ("status.conditions", True), ("spec", False)]
)
def test_only_statuses_that_were_never_read_count(path: str, is_unread: bool) -> None:
    """A spec in part, or a status that this process has read before, hides no phase."""

    async def story() -> None:
        clock = SystemClock()
        api = new_api_server(Storage(clock.now), clock, random.Random(1))
        informer = Informer(
            InProcessCluster(api, "test"), PODS, clock=clock, random=random.Random(1)
        )
        pod = a_scene().pods[T0]
        meta = pod.metadata
        body: Body = {
            "metadata": {"name": T0, "namespace": meta.namespace},
            "spec": {},
            "status": {},
        }
        above, _, name = path.partition(".")
        body[above] = {**body[above], name or "containers": [7]}
        informer.observe(Malformed(meta.key, Uid("u"), "9", "broken", body))
        assert _unread([pod], informer) == (frozenset({T0}) if is_unread else frozenset())

    asyncio.run(story())
