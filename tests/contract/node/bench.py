"""What a behaviour of nodes is given to act on, and the words it is written in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from swell.api.kinds import CONFIG_MAPS, PODS, SECRETS
from swell.api.meta import Body, Key
from swell.cluster.kube.client import KubeCluster
from swell.runtime.cluster import Deletion, Selection, merge_patch
from swell.runtime.errors import NotFoundError
from tests.raw_reads import read_raw
from tests.testbed.cluster import BUSYBOX

WITHIN_S = 100.0  # a loaded machine, and a kubelet that looks at its volumes once a minute
POLL_S = 0.1
POD = PODS.untyped()
Holds = Callable[[Body], bool]
UNREPORTED: Body = {
    "state": {},
    "lastState": {},
    "restartCount": 0,
    "started": False,
    "ready": False,
}


@dataclass(frozen=True)
class Bench:
    """A node of some cluster, and a namespace that nobody else uses."""

    cluster: KubeCluster
    node: str
    ns: str
    shared: Path  # a folder of this machine

    def meta(self, name: str, **more: object) -> Body:
        return {"name": name, "namespace": self.ns, **more}

    async def pod(self, script: str = "", /, **spec: object) -> None:
        """A pod `p` whose container `main` runs a script; `main` adds to that container."""
        container = cast("Body", spec.pop("main", {}))
        about = cast("Body", spec.pop("metadata", {}))
        main = shell("main", script, **container)
        body: Body = {
            "nodeName": self.node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "containers": [main, *cast("list[Body]", spec.pop("beside", []))],
            **spec,
        }
        kind = {"apiVersion": "v1", "kind": "Pod"}
        await self.cluster.create(POD, {**kind, "metadata": self.meta("p", **about), "spec": body})

    async def get(self) -> Body:
        return await self.cluster.get(POD, Key(self.ns, "p"))

    async def until(self, holds: Holds) -> Body:
        """The pod once it is as it should be; what it was last if it never is."""
        pod = await self.get()
        try:
            async with asyncio.timeout(WITHIN_S):
                while not holds(pod):
                    await asyncio.sleep(POLL_S)
                    pod = await self.get()
        except TimeoutError:
            raise AssertionError(f"in the end the pod is {pod['status']}") from None
        return pod

    async def ended(self) -> Body:
        return await self.until(lambda pod: pod["status"]["phase"] in {"Succeeded", "Failed"})

    async def runs(self) -> Body:
        return await self.until(lambda pod: pod["status"]["phase"] == "Running")

    async def output(self, script: str, /, **spec: object) -> list[str]:
        """The lines that a script printed, once it succeeded."""
        await self.pod(script, **spec)
        pod = await self.ended()
        printed = await self.log(container="main")
        assert pod["status"]["phase"] == "Succeeded", (pod["status"], printed)
        return printed.splitlines()

    async def log(self, **query: object) -> str:
        path = f"{PODS.path(self.ns, 'p')}/log?{urlencode(query)}"
        return (await read_raw(self.cluster, path)).decode()

    async def log_has(self, text: str) -> None:
        """Wait until the container has said something."""
        await self.until(lambda pod: bool(main_of(pod).get("containerID")))
        async with asyncio.timeout(WITHIN_S):
            while text not in await self.log():  # noqa: ASYNC110 (the container brings it about)
                await asyncio.sleep(POLL_S)

    async def map(self, name: str, **data: str) -> None:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await self.cluster.create(CONFIG_MAPS, {**kind, "metadata": self.meta(name), "data": data})

    async def secret(self, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": self.meta(name)}
        await self.cluster.create(SECRETS, {**body, "stringData": data})

    async def change(self, body: Body) -> None:
        await self.cluster.patch(POD, Key(self.ns, "p"), merge_patch(body))

    async def deleted(self, grace_s: int | None = None) -> Body:
        """Delete the pod, wait until it is gone, and return how it was seen last."""
        last = await self.get()
        version = last["metadata"]["resourceVersion"]
        selection = Selection(self.ns, fields="metadata.name=p")
        watching = self.cluster.watch(POD, selection, resource_version=version, timeout_s=WITHIN_S)
        async with asyncio.timeout(WITHIN_S), watching as events:
            await self.cluster.delete(POD, Key(self.ns, "p"), Deletion(grace_s=grace_s))
            async for event in events:
                if isinstance(event.object, dict):
                    last = event.object
                if event.type.value == "DELETED":
                    return last
        raise AssertionError("the watch ended before the pod did")

    async def is_gone(self) -> bool:
        try:
            await self.get()
        except NotFoundError:
            return True
        return False


def shell(name: str, script: str, **more: object) -> Body:
    """A container that runs a script; its image only matters to the kubelet."""
    about = {"name": name, "image": BUSYBOX, "imagePullPolicy": "Never"}
    return {**about, "command": ["sh", "-c", script], **more}


def main_of(pod: Body) -> Body:
    """The status of the container `main`."""
    return container_of(pod, "main")


def container_of(pod: Body, name: str, kind: str = "containerStatuses") -> Body:
    found = [one for one in pod["status"].get(kind, []) if one["name"] == name]
    return cast("Body", found[0]) if found else UNREPORTED


def end_of(status: Body) -> Body:
    """How a container ended; empty while it has not."""
    return cast("Body", status["state"].get("terminated", {}))


def waits_for(status: Body) -> str:
    return cast("str", status["state"].get("waiting", {}).get("reason", ""))


def conditions(pod: Body) -> dict[str, tuple[str, str]]:
    """Status and reason by type."""
    found = pod["status"].get("conditions", [])
    return {one["type"]: (one["status"], one.get("reason", "")) for one in found}


Act = Callable[[Bench], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Behaviour:
    """One rule, shown by an example."""

    subject: str
    act: Act

    def __str__(self) -> str:
        return f"{self.subject}-{self.act.__name__}"


BEHAVIOURS: list[Behaviour] = []


def behaviour(act: Act) -> Act:
    """Register an example under the name of its file."""
    BEHAVIOURS.append(Behaviour(act.__module__.rpartition(".")[2], act))
    return act
