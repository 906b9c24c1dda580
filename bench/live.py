"""Bound pods a second on a real kube-apiserver: ours, kube-scheduler, and the bare bind ceiling.

One server, the same hollow nodes answering, one contender after the other, each a process of its
own with the same number of pods. A scheduler is started, and halted while its pods are created,
so that all of them wait when it goes on: neither start-up nor creates are in the figures. Pods a
second count from the first pod that gets a node to the last; processor time and writes count
from where the scheduler goes on until every pod runs, deciding and following the pods included.

Nodes report a pod `NOTICE_S` after it was bound, for every contender alike: as long as real nodes
took to start one (1.1 to 5.3 s, gangs of 8 on the two nodes of `make cluster`). So a user who needs
longer than that to bind all its pods shares the server with the nodes' answers, as in any cluster.

All of them take turns, several rounds long, because machines are noisy; kube-scheduler, which takes
long, in the first rounds only. Figures are medians, and so are ratios within the same round; the
ceiling of one of ours is the mean of what bare binds reach right before it and right after it.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench import live_cluster
from bench.budgets import Budget, at_least, at_most
from bench.live_cluster import N_CALLS
from bench.live_idle import measure_idle
from swell.api.kinds import POD_GROUPS, PODS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cluster.kube.client import KubeCluster
from swell.node.hollow import PREFIX
from swell.operator.framework.program import install_crds
from swell.runtime.clock import SystemClock
from tests.testbed import binaries
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.processes import ChildProcess

GANG = 8
BARE = "bare"
BOUND_S_MAX = 300.0
NOTICE_S = 3
NOTICE = {f"{PREFIX}notice-delay": f"{NOTICE_S}s"}
SETTLE_S = 1.0
KUBE_GROUPS: Resource[Body] = Resource(
    "scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", dict
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many nodes there are, how many pods each contender binds, and how often."""

    n_nodes: int
    n_pods: int
    n_rounds: int
    n_rounds_of_others: int


USUAL = Size(n_nodes=1000, n_pods=3000, n_rounds=5, n_rounds_of_others=2)


@dataclass(frozen=True, slots=True)
class Contender:
    """A scheduler: how it is started, and which pods it serves."""

    name: str
    is_ours: bool
    gangs: bool

    def command(self, plane: ControlPlane, port: int) -> list[str]:
        if self.is_ours:
            return live_cluster.swell_scheduler(plane, port)
        return live_cluster.kube_scheduler(plane, port, gangs=self.gangs)

    def url(self, port: int) -> str:
        return f"{'http' if self.is_ours else 'https'}://127.0.0.1:{port}"


CONTENDERS = (
    Contender("swell-single", is_ours=True, gangs=False),
    Contender("swell-gangs", is_ours=True, gangs=True),
    Contender("kube-single", is_ours=False, gangs=False),
    Contender("kube-gangs", is_ours=False, gangs=True),
)


def asked(of_bare: float, cpu_ms: float) -> dict[str, Budget]:
    """Return what is asked of ours: a share of what bare binds reach, and processor time."""
    ours = [one.name for one in CONTENDERS if one.is_ours]
    shares = {f"ratio: {name.replace('-', ' ')} / bare": at_least(of_bare) for name in ours}
    return shares | {f"{name}: CPU a bound pod, ms": at_most(cpu_ms) for name in ours}


ASKED = {
    **asked(of_bare=0.85, cpu_ms=0.6),
    "ratio: swell / kube-scheduler, single": at_least(2),
    "ratio: swell / kube-scheduler, gangs": at_least(5),
    "idle: cycles in 20 s": at_most(0),
    "idle: CPU, %": at_most(1),
    "idle: memory, MiB": at_most(1024),
    "idle: start to first bound pod, s": at_most(15),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What one of them did with its pods."""

    pods_per_s: float
    pods_per_s_from_go: float
    cpu_ms_per_pod: float
    servers_cpu_ms_per_pod: float  # of API server and etcd
    nodes_cpu_ms_per_pod: float
    writes_per_pod: float  # what nodes report included


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of everybody."""

    bare: list[Result]
    results: dict[str, Result] = field(default_factory=dict)
    ceilings: dict[str, float] = field(default_factory=dict)  # bare pods a second around ours

    def named(self, name: str) -> list[Result]:
        if name == BARE:
            return self.bare
        return [self.results[name]] if name in self.results else []


@dataclass(frozen=True, slots=True)
class Spent:
    """What the servers and the nodes have done so far."""

    servers_cpu_s: float
    nodes_cpu_s: float
    n_writes: float

    def __sub__(self, before: Spent) -> Spent:
        return Spent(
            self.servers_cpu_s - before.servers_cpu_s,
            self.nodes_cpu_s - before.nodes_cpu_s,
            self.n_writes - before.n_writes,
        )


@dataclass(frozen=True, slots=True)
class Site:
    """Where all of them are measured."""

    plane: ControlPlane
    cluster: KubeCluster
    nodes: ChildProcess
    size: Size

    def spent(self) -> Spent:
        return Spent(
            live_cluster.cpu_s(*self.plane.processes),
            live_cluster.cpu_s(self.nodes),
            live_cluster.n_writes(self.plane),
        )


def run(names: Sequence[str] = ()) -> dict[str, object]:
    """All figures; or why there are none."""
    figures = compare(USUAL, names)
    return figures if names or len(figures) == 1 else figures | measure_idle()


def compare(size: Size, names: Sequence[str] = ()) -> dict[str, object]:
    """Return the figures of all contenders, or of those named; or why there are none."""
    try:
        binaries.require((*binaries.CONTROL_PLANE, "kube-scheduler"))
    except binaries.BinariesMissingError as error:
        return {"kube-apiserver": str(error)}
    busy: dict[str, object] = {"machine: busy before, %": round(live_cluster.busy_percent())}
    chosen = [one for one in CONTENDERS if not names or one.name in names]
    with running_control_plane(controllers=(), api_server_flags=live_cluster.SERVER_FLAGS) as plane:
        rounds = asyncio.run(_measure(plane, chosen, size))
    return busy | _figures(rounds)


async def _measure(plane: ControlPlane, chosen: Sequence[Contender], size: Size) -> list[Round]:
    rounds: list[Round] = []
    async with live_cluster.connected(plane) as cluster:
        await install_crds(cluster, SystemClock())
        with live_cluster.running(
            plane, "hollow", live_cluster.hollow_nodes(plane, size.n_nodes)
        ) as nodes:
            await live_cluster.until_printed(nodes, f"{size.n_nodes} nodes ready")
            site = Site(plane, cluster, nodes, size)
            for n in range(size.n_rounds):
                others = n < size.n_rounds_of_others
                rounds.append(await _round(site, [c for c in chosen if c.is_ours or others], n))
    return rounds


async def _round(site: Site, contenders: Sequence[Contender], n: int) -> Round:
    made = Round([await _bare(site, f"bare-{n}")])
    for one in contenders:
        namespace = f"{one.name}-{n}"
        made.results[one.name] = await _contend(site, one, namespace)
        if one.is_ours:
            made.bare.append(await _bare(site, f"{namespace}-bare"))
            made.ceilings[one.name] = statistics.mean(r.pods_per_s for r in made.bare[-2:])
        site.nodes.check_running()
    return made


async def _bare(site: Site, namespace: str) -> Result:
    plane, cluster, n_pods = site.plane, site.cluster, site.size.n_pods
    await _create_pods(site, namespace, "nobody")
    terms = ("bench.live_bare", str(plane.kubeconfig), namespace, str(N_CALLS))
    command = [sys.executable, "-m", *terms]
    async with live_cluster.observing_binds(cluster, namespace) as observer:
        before = site.spent()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        await observer.until(n_pods, BOUND_S_MAX)
        spent = site.spent() - before
    await live_cluster.remove_pods(cluster, namespace)
    rate, own_cpu_s = n_pods / observer.span_s, float(said)
    return _result(n_pods, rate, rate, own_cpu_s, spent)


async def _contend(site: Site, one: Contender, namespace: str) -> Result:
    plane, cluster, port = site.plane, site.cluster, live_cluster.free_port()
    n_pods = site.size.n_pods
    with live_cluster.running(plane, one.name, one.command(plane, port)) as process:
        await live_cluster.until_ready(process, one.url(port), plane)
        await asyncio.sleep(SETTLE_S)
        async with live_cluster.observing_binds(cluster, namespace) as observer:
            with live_cluster.halted(process):
                await _create_for(site, one, namespace)
                await asyncio.sleep(SETTLE_S)
                before, own_before_s = site.spent(), live_cluster.cpu_s(process)
            begun = time.monotonic()
            await observer.until(n_pods, BOUND_S_MAX)
            await asyncio.sleep(SETTLE_S)
            own_cpu_s = live_cluster.cpu_s(process) - own_before_s
            spent = site.spent() - before
        await live_cluster.remove_pods(cluster, namespace)
    from_go_s = max(observer.bound_at.values()) - begun
    return _result(n_pods, n_pods / observer.span_s, n_pods / from_go_s, own_cpu_s, spent)


def _result(
    n_pods: int, rate: float, rate_from_go: float, own_cpu_s: float, spent: Spent
) -> Result:
    return Result(
        rate,
        rate_from_go,
        1000 * own_cpu_s / n_pods,
        1000 * spent.servers_cpu_s / n_pods,
        1000 * spent.nodes_cpu_s / n_pods,
        spent.n_writes / n_pods,
    )


async def _create_for(site: Site, one: Contender, namespace: str) -> None:
    scheduler = "swell" if one.is_ours else "default-scheduler"
    groups = [f"g-{n}" for n in range(site.size.n_pods // GANG)] if one.gangs else []
    await _create_pods(site, namespace, scheduler, groups)


async def _create_pods(
    site: Site, namespace: str, scheduler: str, groups: Sequence[str] = ()
) -> None:
    """Pods in a namespace of their own, alone or, in turn, members of groups."""
    cluster = site.cluster
    await live_cluster.add_namespace(cluster, namespace)
    is_ours = scheduler == "swell"
    make_group = _our_group if is_ours else _kube_group
    kind = POD_GROUPS.untyped() if is_ours else KUBE_GROUPS
    await live_cluster.create_all(cluster, kind, (make_group(namespace, name) for name in groups))
    bodies = (
        _pod(namespace, f"p-{n}", scheduler, groups[n // GANG] if groups else "")
        for n in range(site.size.n_pods)
    )
    await live_cluster.create_all(cluster, PODS.untyped(), bodies)


def _pod(namespace: str, name: str, scheduler: str, group: str) -> Body:
    request = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "local", "resources": {"requests": request}}
    metadata: Body = {"name": name, "namespace": namespace, "annotations": dict(NOTICE)}
    spec: Body = {"schedulerName": scheduler, "containers": [container]}
    if group and scheduler == "swell":
        metadata["annotations"]["scheduling.k8s.io/group-name"] = group
    elif group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _our_group(namespace: str, name: str) -> Body:
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": GANG, "queue": "default"},
    }


def _kube_group(namespace: str, name: str) -> Body:
    return {
        "apiVersion": KUBE_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": GANG}}},
    }


def _figures(rounds: Sequence[Round]) -> dict[str, object]:
    figures: dict[str, object] = {}

    def median(name: str, figure: str) -> float:
        found = (getattr(result, figure) for one in rounds for result in one.named(name))
        return float(statistics.median(found))

    for name in (BARE, *rounds[0].results):
        figures[f"{name}: bound pods a second"] = round(median(name, "pods_per_s"), 1)
        if name != BARE:
            from_go = median(name, "pods_per_s_from_go")
            figures[f"{name}: the same, deciding included"] = round(from_go, 1)
        figures[f"{name}: CPU a bound pod, ms"] = round(median(name, "cpu_ms_per_pod"), 3)
        servers, nodes = "servers_cpu_ms_per_pod", "nodes_cpu_ms_per_pod"
        figures[f"{name}: CPU of the servers, ms"] = round(median(name, servers), 2)
        figures[f"{name}: CPU of the nodes, ms"] = round(median(name, nodes), 2)
        if name != BARE:  # which has shown what the nodes write
            own = median(name, "writes_per_pod") - median(BARE, "writes_per_pod") + 1
            figures[f"{name}: writes a bound pod"] = round(own, 2)
    for label, above, below in (
        ("swell single / bare", "swell-single", BARE),
        ("swell gangs / bare", "swell-gangs", BARE),
        ("swell / kube-scheduler, single", "swell-single", "kube-single"),
        ("swell / kube-scheduler, gangs", "swell-gangs", "kube-gangs"),
    ):
        ratios = list(_ratios(rounds, above, below))
        if ratios:
            figures[f"ratio: {label}"] = round(statistics.median(ratios), 2)
            figures[f"ratio of each round: {label}"] = " ".join(f"{one:.2f}" for one in ratios)
    return figures


def _ratios(rounds: Sequence[Round], above: str, below: str) -> Iterator[float]:
    for one in rounds:
        per_s = {name: result.pods_per_s for name, result in one.results.items()}
        if above in per_s and below == BARE:
            yield per_s[above] / one.ceilings[above]
        elif above in per_s and below in per_s:
            yield per_s[above] / per_s[below]


if __name__ == "__main__":
    for label, value in run(sys.argv[1:]).items():
        print(f"{label:<50} {value}")
