"""Scores by images and by soft topology spread against kube-scheduler's own, as its log has them.

All sets of nodes are in one real cluster at once: each has a label that its pod selects, and a
namespace, so that no pod counts for another's. The log names every score of every node that passed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterator, Sequence
from random import Random

import pytest

from swell.api import codec
from swell.api.core import Node
from swell.api.kinds import NAMESPACES, NODES, PODS
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, merge_patch
from swell.scheduler.config import DEFAULT
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.plan import SchedulerObjects
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.plugins.nodeorder import image_locality
from swell.scheduler.session import Session
from tests.e2e.scheduler.native_world import until
from tests.score_clusters import IMAGES as ALL_IMAGES
from tests.score_clusters import MIB, ScoreCluster
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.native_gangs import (
    API_SERVER_FLAGS,
    MANAGER_FLAGS,
    running_kube_scheduler,
)
from tests.testbed.processes import ChildProcess

N_SETS = 200
AT_ONCE = 16
SET_LABEL = "e2e/set"
LINE = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="(?P<plugin>\w+)" '
    r'node="(?P<node>[^"]+)" score=(?P<score>-?\d+)'
)
Scores = dict[str, int]  # by node
IMAGES, SPREAD = "ImageLocality", "PodTopologySpread"
SEEN_S = 3.0


@pytest.fixture(scope="module")
def scoring_plane(testbed_binaries: None) -> Iterator[tuple[ControlPlane, ChildProcess]]:
    """A control plane with a kube-scheduler that logs the scores."""
    verbose = ("--vmodule=schedule_one=10",)
    with (
        running_control_plane(
            api_server_flags=API_SERVER_FLAGS, controller_manager_flags=MANAGER_FLAGS
        ) as plane,
        running_kube_scheduler(plane, verbose) as scheduler,
    ):
        yield plane, scheduler


class RealSet:
    """One random cluster under names of its own."""

    def __init__(self, number: int) -> None:
        self.namespace = f"set-{number}"
        self.cluster = ScoreCluster(Random(number))
        self.cluster.node_selector = {**self.cluster.node_selector, SET_LABEL: self.namespace}
        for node in self.cluster.nodes:
            meta = node["metadata"]
            meta["name"] = f"{self.namespace}-{meta['name']}"
            meta["labels"] |= {"kubernetes.io/hostname": meta["name"], SET_LABEL: self.namespace}
            for image in node["status"]["images"]:
                # kube-scheduler knows one size of an image, that of the node it saw first.
                image["sizeBytes"] = (300 + 250 * ALL_IMAGES.index(image["names"][0])) * MIB
        for pod in self.cluster.pods:
            pod["spec"]["nodeName"] = f"{self.namespace}-{pod['spec']['nodeName']}"

    async def create(self, cluster: Cluster) -> None:
        for name in (self.namespace, f"{self.namespace}-other"):
            body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await cluster.create(NAMESPACES, body)
        for node in self.cluster.nodes:
            await self._create_node(cluster, node)
        for pod in self.cluster.pods:
            await self._create_pod(cluster, pod)

    async def _create_node(self, cluster: Cluster, node: Body) -> None:
        key = Key("", node["metadata"]["name"])
        await cluster.create(NODES, {"apiVersion": "v1", "kind": "Node", **node})
        # The server gives each new node a taint until somebody says that it is ready.
        taints = node["spec"].get("taints", [])
        await cluster.patch(NODES, key, merge_patch({"spec": {"taints": taints or None}}))
        status = {"status": node["status"]}
        await cluster.patch(NODES.status, key, merge_patch(status))

    async def _create_pod(self, cluster: Cluster, pod: Body) -> None:
        meta = dict(pod["metadata"])
        leaves = meta.pop("deletionTimestamp", None)
        meta["namespace"] = self.namespace + ("-other" if meta["namespace"] == "other" else "")
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod["spec"]}
        await cluster.create(PODS, body)
        if leaves:  # nobody ends it, so it goes on leaving
            await cluster.delete(PODS, Key(meta["namespace"], meta["name"]))

    async def create_new(self, cluster: Cluster) -> None:
        new = self.cluster.new_pod()
        new["metadata"]["namespace"] = self.namespace
        del new["status"]
        await cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", **new})

    def our_scores(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> dict[str, Scores]:
        """Returns our scores, by plugin, of the nodes that can take the pod."""
        body = self.cluster.new_pod()
        body["metadata"] |= {"namespace": self.namespace, "annotations": {GROUP_ANNOTATION: "g"}}
        body["spec"]["schedulerName"] = "swell"
        group: Body = {"metadata": {"name": "g", "namespace": self.namespace}}
        group["spec"] = {"minMember": 1, "queue": "q"}
        objects = SchedulerObjects(
            nodes=list(nodes),
            pods=[*(pod for pod in pods if pod.spec.node_name), codec.convert(body, Pod)],
            groups=[codec.convert(group, PodGroup)],
            queues=[codec.convert({"metadata": {"name": "q"}}, Queue)],
        )
        session = Session(objects.snapshot(), DEFAULT, PLUGINS)
        task = session.snapshot.task(f"{self.namespace}/new")
        assert task is not None
        option = next(o for tier in DEFAULT.tiers for o in tier if o.name == "nodeorder")
        relative = PLUGINS["nodeorder"](session, option).relative_score
        assert relative is not None
        passing = session.placer.passing(task)
        images, spread = image_locality(task.shape, session.snapshot.nodes), relative(task, passing)
        names = session.snapshot.nodes.names
        there = [at for at, yes in enumerate(passing) if yes]
        found = {IMAGES: {names[at]: 0 if images is None else int(images[at]) for at in there}}
        if spread is not None:
            found[SPREAD] = {names[at]: int(spread[at]) for at in there}
        return found


def their_scores(log: str) -> dict[str, dict[str, Scores]]:
    """Returns the scores in kube-scheduler's log, by pod and plugin."""
    found: dict[str, dict[str, Scores]] = {}
    for line in LINE.finditer(log):
        of_pod = found.setdefault(line["pod"], {})
        of_pod.setdefault(line["plugin"], {})[line["node"]] = int(line["score"])
    return found


async def in_turns(makings: Sequence[Awaitable[None]]) -> None:
    """Awaits all, a few at a time: a busy server answers late."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(making: Awaitable[None]) -> None:
        async with room:
            await making

    async with asyncio.TaskGroup() as group:
        for making in makings:
            group.create_task(one(making))


@pytest.mark.long
def test_scores_are_those_of_kube_scheduler(
    scoring_plane: tuple[ControlPlane, ChildProcess],
) -> None:
    """200 random sets of nodes: each score by images and by soft spread is the same number."""
    plane, scheduler = scoring_plane
    sets = [RealSet(number) for number in range(N_SETS)]

    async def main() -> tuple[Sequence[Node], Sequence[Pod]]:
        async with connect(
            read_kubeconfig([plane.kubeconfig]), SystemClock(), Random(1)
        ) as cluster:
            await in_turns([one.create(cluster) for one in sets])
            nodes = (await cluster.list(NODES)).items
            pods = (await cluster.list(PODS)).items
            # As kube-scheduler sees them when the new pods come.
            await asyncio.sleep(SEEN_S)
            await in_turns([one.create_new(cluster) for one in sets])

            async def are_decided() -> bool:
                listed = (await cluster.list(PODS)).items
                new = [pod for pod in listed if pod.metadata.name == "new"]
                return all(
                    pod.spec.node_name
                    or any(c.type == "PodScheduled" for c in pod.status.conditions)
                    for pod in new
                )

            await until(are_decided)
            return nodes, pods

    nodes, pods = asyncio.run(main())
    log = scheduler.log_file.read_text(encoding="utf-8", errors="replace")
    theirs = their_scores(log)
    compared = {IMAGES: 0, SPREAD: 0}
    for one in sets:
        ours = one.our_scores(nodes, pods)
        for plugin, scores in theirs.get(f"{one.namespace}/new", {}).items():
            if plugin in compared:
                assert ours.get(plugin) == scores, (one.namespace, plugin)
                compared[plugin] += len(set(scores.values())) > 1

    assert compared[IMAGES] > N_SETS / 4
    assert compared[SPREAD] > N_SETS / 8
