"""Random clusters with everything that any plugin looks at, a part of them with HyperNodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from msgspec.structs import replace as changed

from swell.api import codec
from swell.api.core import Node, Taint
from swell.api.meta import Body
from swell.api.pod import Affinity, NodeAffinity, Pod
from swell.api.policy import PodDisruptionBudget
from swell.api.scheduling import NetworkTopology, PodGroup, Queue, SubGroupPolicy
from swell.api.storage import PersistentVolumeClaim
from swell.api.topology import DOMAIN_MEMBER, NODE_MEMBER, HyperNode
from swell.scheduler.plan import SchedulerObjects
from tests.property.scheduler_clusters import Traits, random_cluster

_NETWORKED_ONE_IN = 5
_ANNOTATED_ONE_IN = 18


@cache
def cluster_of(seed: int) -> SchedulerObjects:
    chance = Random(seed)
    objects = random_cluster(chance, Traits(tree=chance.random() < 0.3))
    objects.nodes = [_disliked(chance, node) for node in objects.nodes]
    objects.pods = [_picky(chance, pod) for pod in objects.pods]
    objects.queues = [_in_a_tree(chance, queue) for queue in objects.queues]
    objects.groups = [_urgent(chance, group) for group in objects.groups]
    for label in "uv":
        body: Body = {
            "metadata": {"name": label, "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"app": label}}},
            "status": {"disruptionsAllowed": chance.randint(0, 2)},
        }
        objects.budgets.append(codec.convert(body, PodDisruptionBudget))
    claim: Body = {"metadata": {"name": "data", "namespace": "ns"}}
    objects.claims.append(codec.convert(claim, PersistentVolumeClaim))
    if seed % _ANNOTATED_ONE_IN == _ANNOTATED_ONE_IN - 1:
        objects.pods = [_near_in_a_zone(pod) for pod in objects.pods]
    if is_networked(seed):
        objects.hyper_nodes = list(_domains(chance, objects.nodes))
        objects.groups = [_close(chance, group) for group in objects.groups]
    return objects


def _near_in_a_zone(pod: Pod) -> Pod:
    """Asks for one zone in Kueue's words, which need labels as levels."""
    annotations = {**pod.metadata.annotations, "kueue.x-k8s.io/podset-required-topology": "zone"}
    return changed(pod, metadata=changed(pod.metadata, annotations=annotations))


def is_networked(seed: int) -> bool:
    return seed % _NETWORKED_ONE_IN == 0


def _disliked(chance: Random, node: Node) -> Node:
    if chance.random() < 0.6:
        return node
    taints = (*node.spec.taints, Taint(key="rather-not", effect="PreferNoSchedule"))
    return changed(node, spec=changed(node.spec, taints=taints))


def _picky(chance: Random, pod: Pod) -> Pod:
    """Adds preferences, a volume claim, or a priority that protects the pod."""
    spec = pod.spec
    if spec.node_name:
        critical = "system-node-critical" if chance.random() < 0.15 else ""
        return changed(pod, spec=changed(spec, priority_class_name=critical))
    if chance.random() < 0.3:
        term: Body = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        rule = {"weight": 10, "preference": term}
        body = {"preferredDuringSchedulingIgnoredDuringExecution": [rule]}
        affinity = spec.affinity or Affinity()
        spec = changed(
            spec, affinity=changed(affinity, node_affinity=codec.convert(body, NodeAffinity))
        )
    elif chance.random() < 0.3 and spec.affinity is None:
        near: Body = {
            "weight": 10,
            "podAffinityTerm": {
                "topologyKey": "zone",
                "labelSelector": {"matchLabels": {"app": "u"}},
            },
        }
        nearness = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]}}
        spec = changed(spec, affinity=codec.convert(nearness, Affinity))
    if chance.random() < 0.1:
        claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
        spec = changed(spec, volumes=codec.convert(claim, type(spec)).volumes)
    return changed(pod, spec=spec)


def _in_a_tree(chance: Random, queue: Queue) -> Queue:
    path = f"root/{chance.choice('xy')}/{queue.metadata.name}"
    notes = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": "1/1/2"}
    return changed(queue, metadata=changed(queue.metadata, annotations=notes))


def _urgent(chance: Random, group: PodGroup) -> PodGroup:
    if chance.random() < 0.7:
        return group
    notes = {"volcano.sh/sla-waiting-time": chance.choice(["10m", "5h"])}
    return changed(group, metadata=changed(group.metadata, annotations=notes))


def _domains(chance: Random, nodes: list[Node]) -> Iterator[HyperNode]:
    """Yields leaves of one or two nodes, and spines above them; some nodes are in neither."""
    names = [node.metadata.name for node in nodes if chance.random() < 0.9]
    leaves: list[str] = []
    while names:
        size = chance.randint(1, 2)
        members, names = names[:size], names[size:]
        leaves.append(f"leaf-{len(leaves)}")
        yield _domain(leaves[-1], 1, NODE_MEMBER, members)
    for at in range(0, len(leaves), 2):
        yield _domain(f"spine-{at}", 2, DOMAIN_MEMBER, leaves[at : at + 2])


def _domain(name: str, tier: int, kind: str, members: list[str]) -> HyperNode:
    rows = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    body: Body = {"metadata": {"name": name}, "spec": {"tier": tier, "members": rows}}
    return codec.convert(body, HyperNode)


def _close(chance: Random, group: PodGroup) -> PodGroup:
    """Keeps most groups close together, and some of them in sub-groups that are closer still."""
    topology = _topology(chance) if chance.random() < 0.7 else None
    policies: tuple[SubGroupPolicy, ...] = ()
    if chance.random() < 0.5:
        policy = SubGroupPolicy(
            name="part",
            match_label_keys=("app",),
            sub_group_size=chance.randint(1, 3),
            min_sub_groups=chance.choice([None, 1, 2]),
            network_topology=_topology(chance) if chance.random() < 0.7 else None,
        )
        policies = (policy,)
    spec = changed(group.spec, network_topology=topology, sub_group_policy=policies)
    return changed(group, spec=spec)


def _topology(chance: Random) -> NetworkTopology:
    if chance.random() < 0.3:
        return NetworkTopology(mode="soft")
    return NetworkTopology(mode="hard", highest_tier_allowed=chance.choice([1, 1, 2]))
