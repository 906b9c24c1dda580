"""Pods send their reports, and a real API server says whose they are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swell.api.codec import encode
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import install_crds, operate
from swell.operator.framework.report_inbox import ReportInbox
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster
from swell.runtime.errors import NotFoundError
from swell.runtime.reviews import ReviewedPod, token_pod
from swell.train.bus.shell.sending import ReportSender
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kubectl import Kubectl

WITHIN_S = 60.0
REPORT = encode({"generation": 1, "epoch": 1, "size": 2, "step": 7})
# The account is named since this server has no admission that would do it.
POD: Body = {
    "serviceAccountName": "default",
    "containers": [{"name": "aitj-main", "image": "none"}],
}


@dataclass(frozen=True, slots=True)
class TokenRoom:
    """A namespace with an account, in which tokens are asked for as a kubelet does."""

    kubectl: Kubectl
    namespace: str

    def token(self, *more: str) -> str:
        return self.kubectl.ok("-n", self.namespace, "create", "token", "default", *more).strip()

    def pod_token(self, pod: Body, audience: str = "swell") -> str:
        meta = pod["metadata"]
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={meta['name']}")
        return self.token(f"--audience={audience}", *bound, f"--bound-object-uid={meta['uid']}")

    def pod(self, name: str) -> Body:
        text = self.kubectl.ok("-n", self.namespace, "get", "pod", name, "-o", "json")
        found: Body = json.loads(text)
        return found


@pytest.fixture
def room(kubectl: Kubectl) -> Iterator[TokenRoom]:
    namespace = f"sent-{uuid.uuid4().hex[:8]}"
    kubectl.ok("create", "namespace", namespace)
    kubectl.ok("-n", namespace, "create", "serviceaccount", "default")
    yield TokenRoom(kubectl, namespace)
    kubectl.ok("delete", "namespace", namespace, "--wait=false")


@contextlib.asynccontextmanager
async def client(control_plane: ControlPlane) -> AsyncIterator[Cluster]:
    access = read_kubeconfig([control_plane.kubeconfig])
    async with connect(access, SystemClock(), random.Random(1)) as cluster:
        yield cluster


def test_server_names_the_pod_of_a_token(control_plane: ControlPlane, room: TokenRoom) -> None:
    """Of one that is bound to a pod and meant for us; of no other."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": POD}
    room.kubectl.ok("-n", room.namespace, "create", "-f", "-", stdin=json.dumps(body))
    pod = room.pod("one")
    good, others = room.pod_token(pod), (room.token("--audience=swell"), room.pod_token(pod, "x"))

    async def main() -> None:
        async with client(control_plane) as cluster:
            named = await token_pod(cluster, good, "swell")
            assert named == ReviewedPod(room.namespace, "one", pod["metadata"]["uid"])
            assert [await token_pod(cluster, one, "swell") for one in others] == [None, None]
            assert await token_pod(cluster, "guessed", "swell") is None

    asyncio.run(main())


def test_sent_report_reaches_the_jobs_status(
    control_plane: ControlPlane, room: TokenRoom, tmp_path: Path
) -> None:
    """The operator's own pod, its token, its endpoint, and the status that it writes."""

    async def main() -> None:
        async with client(control_plane) as cluster:
            clock = SystemClock()
            await install_crds(cluster, clock)
            inbox = ReportInbox(cluster, clock)
            serving = asyncio.create_task(inbox.run())
            await inbox.serving.wait()
            url = f"http://127.0.0.1:{inbox.port}"
            settings = AITrainingJobSettings(
                namespace=room.namespace, gang=False, report_url=url, sees_cluster=False
            )
            kind = ai_training_job_kind(settings)
            work = operate(kind, cluster, clock=clock, random=random.Random(3), inbox=inbox)
            running = asyncio.create_task(work)
            try:
                await _story(cluster, room, tmp_path, url)
            finally:
                for task in (running, serving):
                    task.cancel()
                await asyncio.gather(running, serving, return_exceptions=True)

    asyncio.run(main())


async def _story(cluster: Cluster, room: TokenRoom, folder: Path, url: str) -> None:
    role = {"replicas": 1, "template": {"spec": POD}}
    job: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "fit", "namespace": room.namespace},
        "spec": {"reporting": True, "replicaSpecs": {"trainer": role}},
    }
    await cluster.create(AI_TRAINING_JOBS.untyped(), job)
    async with asyncio.timeout(WITHIN_S):
        await _existing(cluster, room.namespace)
        pod = await asyncio.to_thread(room.pod, "fit-trainer-0")
        variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        assert variables["SWELL_REPORT_URL"] == url
        change = json.dumps({"status": {"phase": "Running"}})
        words = ("patch", "pod", "fit-trainer-0", "--subresource=status", "--type=merge")
        place = ("-n", room.namespace)
        await asyncio.to_thread(room.kubectl.ok, *place, *words, "-p", change)
        token = folder / "token"
        token.write_text(await asyncio.to_thread(room.pod_token, pod))
        sender = ReportSender(url, token, pace_s=1.0)
        try:
            while not await _training(cluster, room.namespace):
                sender.offer(REPORT)
                await asyncio.sleep(0.2)
        finally:
            sender.close()
            await asyncio.to_thread(sender.join, WITHIN_S)
    assert (await _training(cluster, room.namespace))["step"] == 7


async def _existing(cluster: Cluster, namespace: str) -> None:
    while True:
        with contextlib.suppress(NotFoundError):
            await cluster.get(PODS, Key(namespace, "fit-trainer-0"))
            return
        await asyncio.sleep(0.1)


async def _training(cluster: Cluster, namespace: str) -> Body:
    job = await cluster.get(AI_TRAINING_JOBS.untyped(), Key(namespace, "fit"))
    found: Body = (job.get("status") or {}).get("training") or {}
    return found
