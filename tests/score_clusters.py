"""Random nodes and one pod whose scores are compared with those of kube-scheduler."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup, Queue
from swell.scheduler.plan import SchedulerObjects

Body = dict[str, Any]
MIB: Final = 1024 * 1024
HOSTNAME: Final = "kubernetes.io/hostname"
IMAGES: Final = ("one:v1", "two:latest", "host:5000/three:latest", "four@sha256:4", "five:v5")
_REFERENCES: Final = (*IMAGES, "two", "host:5000/three", "nobody-has:it")
_KEYS: Final = ("zone", "rack", HOSTNAME)
_TAINT: Final = {"key": "keep", "value": "off", "effect": "NoSchedule"}


class ScoreCluster:
    """Nodes with images, labels and taints; pods on them; and the pod `new`, which is to score."""

    def __init__(self, chance: Random) -> None:
        sizes = {image: chance.randint(1, 1500) * MIB for image in IMAGES}
        self.nodes = [self._node(chance, f"n{at}", sizes) for at in range(chance.randint(1, 8))]
        self.pods: list[Body] = []
        for at in range(chance.randint(0, 14)):
            on = chance.choice(self.nodes)["metadata"]["name"]
            self.pods.append(self._placed(chance, f"old-{at}", on))
        self.containers: list[Body] = [
            {"name": f"c{at}", "image": chance.choice(_REFERENCES)}
            for at in range(chance.randint(1, 3))
        ]
        self.n_init = chance.randint(0, len(self.containers) - 1)
        self.image_volumes: list[Body] = [
            {"name": "v", "image": {"reference": chance.choice(_REFERENCES)}}
        ] * (chance.random() < 0.3)
        self.constraints = [self._constraint(chance, key) for key in _KEYS if chance.random() < 0.5]
        self.node_selector = {"disk": "ssd"} if chance.random() < 0.3 else {}
        self.tolerates = chance.random() < 0.3
        self.labels = {"app": "x", "version": chance.choice("12")}

    def _node(self, chance: Random, name: str, sizes: dict[str, int]) -> Body:
        labels = {HOSTNAME: name, "disk": chance.choice(["ssd", "tape"])}
        labels |= {key: chance.choice("ab") for key in ("zone", "rack") if chance.random() < 0.85}
        images = [
            {"names": [image, f"{image.split('@')[0].split(':')[0]}@sha256:x"], "sizeBytes": size}
            for image, size in sizes.items()
            if chance.random() < 0.5
        ]
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "50"}
        status: Body = {"allocatable": amounts, "capacity": amounts, "images": images}
        status["conditions"] = [{"type": "Ready", "status": "True"}]
        spec = {"taints": [_TAINT]} if chance.random() < 0.2 else {}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def _placed(self, chance: Random, name: str, on: str) -> Body:
        meta: Body = {
            "name": name,
            "namespace": chance.choice(["ns", "ns", "ns", "other"]),
            "labels": {"app": chance.choice("xy"), "version": chance.choice("12")},
        }
        if chance.random() < 0.1:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        spec = {"nodeName": on, "containers": [{"name": "main", "image": "other:v1"}]}
        return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}

    def _constraint(self, chance: Random, key: str) -> Body:
        soft = chance.random() < 0.85
        selector: Body = {"matchLabels": {"app": "x"}}
        one: Body = {
            "maxSkew": chance.randint(1, 3) if soft else 20,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
            "labelSelector": chance.choice([selector, selector, selector, {}]),
        }
        if chance.random() < 0.3:
            one["nodeAffinityPolicy"] = "Ignore"
        if chance.random() < 0.3:
            one["nodeTaintsPolicy"] = "Honor"
        if one["labelSelector"] and chance.random() < 0.3:
            one["matchLabelKeys"] = ["version"]
        return one

    # --- what a plain reference asks

    def counts(self, constraint: Body, node: str) -> bool:
        """Whether the pods of a node count for a constraint, by its policies."""
        body = next(one for one in self.nodes if one["metadata"]["name"] == node)
        if constraint.get("nodeAffinityPolicy") != "Ignore":
            labels = body["metadata"]["labels"]
            if any(labels.get(key) != value for key, value in self.node_selector.items()):
                return False
        honors = constraint.get("nodeTaintsPolicy") == "Honor"
        return not (honors and body["spec"].get("taints") and not self.tolerates)

    def n_matching(self, constraint: Body, node: str) -> int:
        """How many pods on a node a constraint counts."""
        wanted = dict(constraint["labelSelector"].get("matchLabels", {}))
        if not wanted:
            return 0
        wanted |= {key: self.labels[key] for key in constraint.get("matchLabelKeys", ())}
        return sum(
            pod["spec"]["nodeName"] == node
            and pod["metadata"]["namespace"] == "ns"
            and "deletionTimestamp" not in pod["metadata"]
            and wanted.items() <= pod["metadata"]["labels"].items()
            for pod in self.pods
        )

    # --- as objects

    def new_pod(self) -> Body:
        """The pod that is to be placed."""
        requests = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        tolerations = [{"key": "keep", "operator": "Exists"}] if self.tolerates else []
        return {
            "metadata": {"name": "new", "namespace": "ns", "labels": self.labels},
            "spec": {
                "initContainers": [{**one, **requests} for one in self.containers[: self.n_init]],
                "containers": [{**one, **requests} for one in self.containers[self.n_init :]],
                "volumes": self.image_volumes,
                "topologySpreadConstraints": self.constraints,
                "nodeSelector": self.node_selector,
                "tolerations": tolerations,
            },
            "status": {"phase": "Pending"},
        }

    def objects(self) -> SchedulerObjects:
        """The cluster as our scheduler sees it, with the pod in a group of its own."""
        new = self.new_pod()
        new["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "new"}
        new["spec"]["schedulerName"] = "swell"
        group: Body = {"metadata": {"name": "new", "namespace": "ns"}, "spec": {"minMember": 1}}
        group["spec"]["queue"] = "q"
        return SchedulerObjects(
            nodes=[codec.convert(body, Node) for body in self.nodes],
            pods=[codec.convert(body, Pod) for body in (*self.pods, new)],
            groups=[codec.convert(group, PodGroup)],
            queues=[codec.convert({"metadata": {"name": "q"}}, Queue)],
        )
