"""Attacks by objects that the control loops of a cluster read: wide, many, or in cycles."""

from __future__ import annotations

import time
from typing import Any

from tests.attack.harness import Attack, Target
from tests.attack.objects import pod
from tests.attack.payloads import MERGE_PATCH

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
SERVICES = "/api/v1/namespaces/default/services"
SETTLE_S = 3.0


def make(target: Target, path: str, api: str, kind: str, name: str, **more: Any) -> None:
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}
    target.ask("POST", path, body)


def clear(target: Target, path: str, names: list[str]) -> None:
    for name in names:
        target.ask("DELETE", f"{path}/{name}?propagationPolicy=Background&gracePeriodSeconds=0")
    time.sleep(1)


def settle(target: Target) -> None:
    for _ in range(3):
        time.sleep(SETTLE_S / 3)
        target.take_memory()


def pods(target: Target, count: int, spec: dict[str, Any], **more: Any) -> list[str]:
    names = [f"c{n}" for n in range(count)]
    for name in names:
        chosen = {"schedulerName": "swell", "restartPolicy": "Never", **spec}
        body = pod(name, chosen, command=["sleep", "5"], **more)
        body["metadata"]["labels"] = {"app": "c", "n": name}
        target.ask("POST", PODS, body)
    return names


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _node_terms(terms: list[Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def _affinities(target: Target) -> None:
    """Pods with thousands of terms about nodes, and about each other."""
    values = [f"v{n}" for n in range(20_000)]
    long = {"key": "k", "operator": "NotIn", "values": values}
    exists = [
        {"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}] * 20} for n in range(900)
    ]
    others = {"matchExpressions": [{"key": "n", "operator": "NotIn", "values": values[:300]}]}
    near = {"labelSelector": others, "topologyKey": "kubernetes.io/hostname"}
    liked = [{"weight": 1, "podAffinityTerm": near}] * 40
    app = {"labelSelector": {"matchLabels": {"app": "c"}}, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{"maxSkew": 1, "topologyKey": f"k{n}", **app} for n in range(200)]
    exist = [{"key": f"k{n}", "operator": "Exists"} for n in range(9_000)]
    cases: list[tuple[int, dict[str, Any]]] = [
        (3, _node_terms([{"matchExpressions": [long]}])),
        (10, _node_terms(exists)),
        (100, {"affinity": {"podAntiAffinity": {REQUIRED: [near] * 40}}}),
        (100, {"affinity": {"podAffinity": {PREFERRED: liked}}}),
        (60, {"topologySpreadConstraints": spread}),
        (20, {"tolerations": exist}),
        (20, {"nodeSelector": {f"k{n}": "v" for n in range(9_000)}}),
    ]
    for count, spec in cases:
        names = pods(target, count, spec)
        settle(target)
        clear(target, PODS, names)


def _queues(target: Target) -> None:
    """Queues in a chain of hundreds, in cycles, and with amounts that are none."""
    names = [f"q{n}" for n in range(150)]
    api = "scheduling.volcano.sh/v1beta1"
    for n, name in enumerate(names):
        parent = names[n - 1] if n else "root"
        amounts = {"cpu": "1" + "0" * 300, "example.com/x": "9" * 30} if n % 3 else {"cpu": "1"}
        spec = {"weight": 1, "parent": parent, "capability": amounts, "deserved": amounts}
        spec["guarantee"] = {"resource": amounts}
        make(target, QUEUES, api, "Queue", name, spec=spec)
    for n in (0, 7, 149):
        change = {"spec": {"parent": names[(n + 70) % 150]}}
        target.ask("PATCH", f"{QUEUES}/{names[n]}", change, {**MERGE_PATCH})
    for n in range(60):
        spec = {"minMember": 2**31 - 1, "queue": names[-1 - n], "minResources": {"cpu": "9" * 300}}
        make(target, GROUPS, api, "PodGroup", f"g{n}", spec=spec)
    settle(target)
    clear(target, GROUPS, [f"g{n}" for n in range(60)])
    clear(target, QUEUES, names[::-1])


def _hyper_nodes(target: Target) -> None:
    """Domains with patterns that take long elsewhere, in cycles, and thousands of members."""
    api = "topology.volcano.sh/v1alpha1"
    patterns = ("(a+)+$", "(.*)*" * 20 + "x", "(a|a)*b", ".*", "(", "a{1000}" * 9, "[" * 900)
    names = []
    for n, pattern in enumerate(patterns):
        member = {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}
        names.append(f"p{n}")
        spec = {"tier": 1, "members": [member] * 20}
        make(target, HYPER_NODES, api, "HyperNode", f"p{n}", spec=spec)
    wide = [{"type": "Node", "selector": {"exactMatch": {"name": f"n{n}"}}} for n in range(8_000)]
    make(target, HYPER_NODES, api, "HyperNode", "wide", spec={"tier": 1, "members": wide})
    names.append("wide")
    for n in range(300):
        inner = {"type": "HyperNode", "selector": {"exactMatch": {"name": f"r{(n + 1) % 300}"}}}
        names.append(f"r{n}")
        ring = {"tier": n + 1, "members": [inner]}
        make(target, HYPER_NODES, api, "HyperNode", f"r{n}", spec=ring)
    made = pods(target, 20, {})
    settle(target)
    clear(target, PODS, made)
    clear(target, HYPER_NODES, names)


def _odd_nodes(target: Target) -> None:
    """Hundreds of nodes that nobody runs, with thousands of labels, taints, images, conditions."""
    names = [f"odd{n}" for n in range(300)]
    for n, name in enumerate(names):
        wide = n < 20
        labels = {f"l{m}": "v" for m in range(3_000 if wide else 3)}
        taints = [{"key": f"t{m}", "effect": "NoSchedule"} for m in range(3_000 if wide else 1)]
        images = [{"names": [f"i{m}"], "sizeBytes": m} for m in range(3_000 if wide else 1)]
        rooms = {"cpu": "1" + "0" * (300 if wide else 2), "memory": "1Ti", "pods": "110"}
        rooms |= {f"example.com/r{m}": "1" for m in range(2_000 if wide else 1)}
        meta = {"name": name, "labels": labels}
        status = {"allocatable": rooms, "capacity": rooms, "images": images}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": taints}}
        body["status"] = status
        target.ask("POST", NODES, body)
    made = pods(target, 60, {})
    settle(target)
    clear(target, PODS, made)
    clear(target, NODES, names)


def _workloads(target: Target) -> None:
    """Sets and services whose selectors have tens of thousands of values."""
    values = [f"v{n}" for n in range(30_000)]
    others = [{"key": "n", "operator": "NotIn", "values": values}]
    selector = {"matchExpressions": others, "matchLabels": {"app": "c"}}
    ports = [{"port": port, "name": f"p{port}"} for port in range(1, 60)]
    template = {"metadata": {"labels": {"app": "c", "n": "x"}}, "spec": pod("x")["spec"]}
    for n in range(8):
        spec = {"replicas": 0, "selector": selector, "template": template}
        make(target, SETS, "apps/v1", "ReplicaSet", f"s{n}", spec=spec)
    for n in range(40):
        spec = {"selector": {"app": "c"}, "clusterIP": "None", "ports": ports}
        make(target, SERVICES, "v1", "Service", f"s{n}", spec=spec)
    names = pods(target, 30, {"nodeName": "nowhere"})
    settle(target)
    clear(target, PODS, names)
    clear(target, SETS, [f"s{n}" for n in range(8)])
    clear(target, SERVICES, [f"s{n}" for n in range(40)])


def _chained_jobs(target: Target) -> None:
    """Jobs that come after each other: in a ring of hundreds, and after all of them."""
    api = "elasticdeeplearning.ai/v1"
    main = {"name": "aitj-main", "image": "i", "command": ["false"]}
    role = {"replicas": 1, "template": {"spec": {"containers": [main]}}}
    names = [f"j{n}" for n in range(200)]
    for n, name in enumerate(names):
        after = names if n == 199 else [names[(n + 1) % 199]]
        spec = {"replicaSpecs": {"trainer": role}, "after": after}
        make(target, JOBS, api, "AITrainingJob", name, spec=spec)
    most = {**role, "restartLimit": 2**31 - 1, "minReplicas": 0, "maxReplicas": 2**31 - 1}
    meta = {"name": "noted", "annotations": {f"e.example/{n}": "[" * 2_000 for n in range(100)}}
    body = {"apiVersion": api, "kind": "AITrainingJob", "metadata": meta}
    target.ask("POST", JOBS, {**body, "spec": {"replicaSpecs": {"trainer": most}}})
    settle(target)
    clear(target, JOBS, [*names, "noted"])


ATTACKS: dict[str, Attack] = {
    "affinities of thousands": _affinities,
    "queues in chains and cycles": _queues,
    "domains in chains and cycles": _hyper_nodes,
    "nodes that nobody runs": _odd_nodes,
    "selectors of sets": _workloads,
    "jobs after each other": _chained_jobs,
}
