"""Where schedulers are measured: a real kube-apiserver and hollow nodes that answer.

Starts and stops processes, puts pods there and takes them away, and watches which pod gets a node
when. Decides nothing about what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar
from urllib.parse import urlsplit

from swell.api.kinds import NAMESPACES
from swell.api.meta import ApiStruct, Body, Key, ObjectMeta
from swell.api.resource import Resource
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Deletion, Selection
from swell.runtime.informer import Informer
from tests.testbed.binaries import binary
from tests.testbed.control_plane import ControlPlane
from tests.testbed.processes import ChildProcess, free_loopback_ports

T = TypeVar("T")
N_CALLS = 32
GATES = "GenericWorkload=true,GangScheduling=true"
SERVER_FLAGS = (f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
STOP_S = 5.0
READY_S_MAX = 60.0
ANSWER_S = 5.0
POLL_S = 0.05
WRITES = ("POST", "PUT", "PATCH", "DELETE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class BoundSpec(ApiStruct, frozen=True):
    node_name: str = ""


class BoundStatus(ApiStruct, frozen=True):
    phase: str = ""


class BoundPod(ApiStruct, frozen=True):
    """As much of a pod as a count needs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BoundSpec = BoundSpec()
    status: BoundStatus = BoundStatus()


BOUND_PODS = Resource("", "v1", "Pod", "pods", BoundPod)


@dataclass
class BindObserver:
    """When pods of one namespace got a node, and which of them run."""

    bound_at: dict[str, float] = field(default_factory=dict)
    running: dict[str, None] = field(default_factory=dict)

    async def until(self, n_pods: int, within_s: float) -> None:
        """Wait until so many have a node and run there."""
        async with asyncio.timeout(within_s):
            while len(self.running) < n_pods:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)

    @property
    def span_s(self) -> float:
        """From the first pod that got a node to the last one."""
        return max(self.bound_at.values()) - min(self.bound_at.values())


@contextlib.asynccontextmanager
async def observing_binds(cluster: KubeCluster, namespace: str) -> AsyncIterator[BindObserver]:
    """Watch the pods of a namespace that have a node."""
    observer = BindObserver()
    informer = Informer(
        cluster,
        BOUND_PODS,
        clock=SystemClock(),
        random=Random(1),
        selection=Selection(namespace, fields="spec.nodeName!="),
    )

    def note(key: Key) -> None:
        pod = informer.get(key)
        if pod is not None:
            observer.bound_at.setdefault(key.name, time.monotonic())
            if pod.status.phase == "Running":
                observer.running[key.name] = None

    informer.add_handler(note)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    try:
        yield observer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def connected(plane: ControlPlane) -> AsyncIterator[KubeCluster]:
    async with connect(read_kubeconfig([plane.kubeconfig]), SystemClock(), Random(1)) as cluster:
        yield cluster


@contextlib.contextmanager
def running(plane: ControlPlane, name: str, command: Sequence[str]) -> Iterator[ChildProcess]:
    """A process beside the control plane, for as long as the context lasts."""
    process = ChildProcess(name, command, plane.data_dir / f"{name}.log")
    try:
        yield process
    finally:
        process.stop(grace_s=STOP_S)


def swell(plane: ControlPlane, *arguments: str) -> list[str]:
    """A command of ours, run by the Python that runs this."""
    begin = "import sys; from swell.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", begin, *arguments, f"--kubeconfig={plane.kubeconfig}"]


def hollow_nodes(plane: ControlPlane, n_nodes: int) -> list[str]:
    return swell(plane, "node", "--hollow", f"--nodes={n_nodes}")


def swell_scheduler(plane: ControlPlane, port: int) -> list[str]:
    flags = ("--no-leader-elect", f"--metrics-addr=127.0.0.1:{port}", "--log-level=warning")
    return swell(plane, "scheduler", *flags)


def kube_scheduler(plane: ControlPlane, port: int, *, gangs: bool) -> list[str]:
    """As shipped, but for its limit of requests a second."""
    return [
        str(binary("kube-scheduler")),
        f"--kubeconfig={plane.kubeconfig}",
        "--leader-elect=false",
        "--kube-api-qps=100000",
        "--kube-api-burst=100000",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={plane.data_dir / 'server.crt'}",
        f"--tls-private-key-file={plane.data_dir / 'server.key'}",
        "--authorization-always-allow-paths=/healthz,/readyz,/metrics",
        *([f"--feature-gates={GATES}"] if gangs else []),
    ]


def free_port() -> int:
    return free_loopback_ports(1)[0]


def asked(url: str, plane: ControlPlane) -> tuple[int, str]:
    """What a server answers to our administrator; 0 while it does not."""
    place = urlsplit(url)
    host = place.netloc
    who = {"Authorization": f"Bearer {plane.token}"}
    connection = http.client.HTTPConnection(host, timeout=ANSWER_S)
    if place.scheme == "https":
        trust = ssl.create_default_context(cafile=str(plane.ca_file))
        connection = http.client.HTTPSConnection(host, timeout=ANSWER_S, context=trust)
    try:
        with contextlib.closing(connection):
            connection.request("GET", place.path, headers=who)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


async def until_ready(process: ChildProcess, url: str, plane: ControlPlane) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while True:
        code, said = asked(f"{url}/readyz", plane)
        if code == http.HTTPStatus.OK:
            return
        process.check_running()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{process.name} is not ready: {said}\n{process.log_tail()}")
        await asyncio.sleep(POLL_S)


async def until_printed(process: ChildProcess, text: str) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while text not in process.log_tail():
        process.check_running()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{process.name} does not say {text!r}:\n{process.log_tail()}")
        await asyncio.sleep(POLL_S)


def metric(url: str, plane: ControlPlane, name: str) -> float:
    """The sum of a metric over all its labels."""
    return sum(value for _, value in _samples(url, plane, name))


def n_writes(plane: ControlPlane) -> float:
    """Writes the API server has been asked for; heartbeats do not count."""
    found = _samples(plane.server_url, plane, "apiserver_request_total")
    return sum(
        value
        for labels, value in found
        if any(f'verb="{verb}"' in labels for verb in WRITES) and 'resource="leases"' not in labels
    )


def _samples(url: str, plane: ControlPlane, name: str) -> Iterator[tuple[str, float]]:
    _, text = asked(f"{url}/metrics", plane)
    for line in text.splitlines():
        if line.startswith((f"{name}{{", f"{name} ")):
            labels, _, value = line.rpartition(" ")
            yield labels, float(value)


def cpu_s(*processes: ChildProcess) -> float:
    """Processor time that processes have used, threads included."""
    return sum(_cpu_s(process.pid) for process in processes)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def busy_percent(for_s: float = 2.0) -> float:
    """Returns the use of all processors: figures from a busy machine mean little."""

    def ticks() -> tuple[int, int]:
        spent = [int(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        return sum(spent[:8]), spent[3] + spent[4]

    before = ticks()
    time.sleep(for_s)
    after = ticks()
    return 100 * (1 - (after[1] - before[1]) / max(1, after[0] - before[0]))


def rss_bytes(process: ChildProcess) -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * PAGE_BYTES


@contextlib.contextmanager
def halted(process: ChildProcess) -> Iterator[None]:
    """Stop a process (SIGSTOP); what is sent to it meanwhile waits."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


async def at_once(
    items: Iterable[T], act: Callable[[T], Awaitable[object]], n_calls: int = N_CALLS
) -> None:
    """Do something with every item, so many at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(n_calls):
            group.create_task(worker())


async def add_namespace(cluster: KubeCluster, name: str) -> None:
    await cluster.create(NAMESPACES, {"metadata": {"name": name}})


async def create_all(
    cluster: KubeCluster, resource: Resource[Body], bodies: Iterable[Body]
) -> None:
    await at_once(bodies, lambda body: cluster.create(resource, body))


async def remove_pods(cluster: KubeCluster, namespace: str) -> None:
    """Take the pods of a namespace away, and wait for that."""
    listed = await cluster.list(BOUND_PODS, Selection(namespace))
    names = [pod.metadata.name for pod in listed.items]
    at_last = Deletion(grace_s=0)
    await at_once(names, lambda name: cluster.delete(BOUND_PODS, Key(namespace, name), at_last))
