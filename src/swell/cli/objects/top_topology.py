"""The table of `swell top --topology`: the tree of domains, with the load of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.topology import HyperNode
from swell.scheduler.config import DEFAULT, Config
from swell.scheduler.domains import tree_of
from swell.scheduler.model.domain_tree import DomainTree, build_tree
from swell.scheduler.model.resources import PODS, amount_text
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.plan import SchedulerObjects

Row = list[str]
# Disk and huge pages fill other tables; gangs compete for these and for devices.
_SHOWN = ("cpu", "memory")
_DEVICE_MARK = "/"


def domain_rows(
    hyper_nodes: Iterable[HyperNode],
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    config: Config = DEFAULT,
) -> list[Row]:
    """Returns a row for each domain, indented below the one it is in; the whole cluster first.

    HyperNodes that are left out of the tree come last, with the reason. Without any HyperNode the
    domains are those of the node labels in the configuration.
    """
    objects = SchedulerObjects(nodes=list(nodes), pods=list(pods), hyper_nodes=list(hyper_nodes))
    snapshot = objects.snapshot()
    tree = tree_of(snapshot, config) or build_tree((), snapshot.nodes)
    names = snapshot.dimensions.names
    shown = [n for n in names if n in _SHOWN or _DEVICE_MARK in n]
    rows = [["DOMAIN", "TIER", "NODES", "PODS", *(name.upper() for name in shown)]]
    loads = _loads(snapshot, tree, [names.index(name) for name in shown])
    n_pods = _n_pods(snapshot, tree)
    for domain, depth in _in_order(tree, tree.root, 0):
        name = "(cluster)" if domain == tree.root else tree.names[domain]
        counts = (int(tree.tiers[domain]), len(tree.members[domain]), n_pods[domain])
        rows.append(["  " * depth + name, *map(str, counts), *loads[domain]])
    for name, left_out in sorted(tree.left_out.items()):
        rows.append([name, str(left_out.tier), str(len(left_out.places)), left_out.message])
    return rows


def _in_order(tree: DomainTree, domain: int, depth: int) -> Iterator[tuple[int, int]]:
    yield domain, depth
    for child in tree.children(domain):
        yield from _in_order(tree, child, depth + 1)


def _loads(snapshot: SchedulerSnapshot, tree: DomainTree, places: list[int]) -> list[Row]:
    """Returns for each domain what is used of each resource, of how much."""
    nodes, names = snapshot.nodes, snapshot.dimensions.names
    total = tree.sums(nodes.allocatable[places])
    used = tree.sums((nodes.allocatable - nodes.idle)[places])
    return [
        [
            f"{amount_text(names[place], float(used[row, domain]))}"
            f"/{amount_text(names[place], float(total[row, domain]))}"
            for row, place in enumerate(places)
        ]
        for domain in range(len(tree.names))
    ]


def _n_pods(snapshot: SchedulerSnapshot, tree: DomainTree) -> list[int]:
    nodes = snapshot.nodes
    used = tree.sums((nodes.allocatable - nodes.idle)[[PODS]])[0]
    return [int(n) for n in used]
