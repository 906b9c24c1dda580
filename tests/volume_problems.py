"""Random problems about volumes: a class of its own with volumes and claims, and a pod.

Classes have volumes made by hand only, or may have some provisioned too: where topologies and the
storage that is left allow it. Some claims are bound before the pod comes. Sizes differ, since
kube-scheduler takes any of equal volumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.storage_objects import LOCAL, MADE, a_claim, a_class, a_volume

Body = dict[str, Any]
DISK = "e2e/disk"  # a label of nodes
ZONE = "topology.kubernetes.io/zone"
NODES = ("a", "b")
NODE_LABELS: Mapping[str, Mapping[str, str]] = {
    name: {DISK: name, ZONE: f"zone-{name}"} for name in NODES
}
MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")
LEGACY_CLASS = "volume.beta.kubernetes.io/storage-class"


class VolumeProblem:
    """The objects of one problem, always the same for its number; its pod may go to one node."""

    def __init__(self, number: int, namespace: str) -> None:
        chance = Random(number)
        self.name = f"c{number}"
        self.node = chance.choice(NODES)
        self._namespace = namespace
        self._kind = chance.choice((LOCAL, LOCAL, MADE, "csi"))
        n_claims = chance.choice((1, 1, 2))
        self.storage_class = self._class(chance)
        sizes = chance.sample(range(1, 12), chance.randint(1, 5))
        self.volumes = [self._volume(chance, at, size) for at, size in enumerate(sizes)]
        self.claims = [self._claim(chance, at) for at in range(n_claims)]
        self.drivers = self._drivers(chance)
        self.capacities = self._capacities(chance, n_claims)
        # How many volumes of the driver each node takes, where it says so, and what it has.
        self.limits = self._limits(chance)
        self.attachments = self._attachments(chance)
        self.bound = self._bound(chance)  # claim -> volume, before the pod comes

    @property
    def driver(self) -> str:
        return f"{self.name}.example.com"

    def _class(self, chance: Random) -> Body:
        made = {**a_class(LOCAL), "metadata": {"name": self.name}}
        if self._kind == MADE:
            made["provisioner"] = self.driver
            if chance.random() < 0.5:
                allowed = chance.sample(NODES, chance.randint(1, 2))
                terms = [{"key": DISK, "values": allowed}]
                if chance.random() < 0.3:
                    terms.append({"key": ZONE, "values": [f"zone-{chance.choice(NODES)}"]})
                made["allowedTopologies"] = [{"matchLabelExpressions": terms}]
        return made

    def _volume(self, chance: Random, at: int, size: int) -> Body:
        spec: Body = {"local": {"path": f"/disks/{self.name}/{at}"}}
        if self._kind == "csi":
            spec = {"csi": {"driver": self.driver, "volumeHandle": f"{self.name}-{at}"}}
        nodes = chance.choice((["a"], ["b"], ["a", "b"]))
        term: Body = {"matchExpressions": [{"key": DISK, "operator": "In", "values": nodes}]}
        if chance.random() < 0.1:
            # Of a node only the labels are looked at, so this has no effect.
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
            if chance.random() < 0.3:
                del term["matchExpressions"]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        spec["volumeMode"] = chance.choice(("Filesystem", "Filesystem", "Block"))
        modes = tuple(chance.sample(MODES, chance.randint(1, 3)))
        labels = {"tier": chance.choice(("gold", "tin"))}
        if chance.random() < 0.3:
            labels[ZONE] = chance.choice(("zone-a", "zone-b", "zone-a__zone-b"))
        made = a_volume(
            f"{self.name}-{at}", "", self.name, f"{size}Gi", modes, labels=labels, **spec
        )
        del made["status"]
        return made

    def _claim(self, chance: Random, at: int) -> Body:
        modes = tuple(chance.sample(MODES, chance.choice((1, 1, 2))))
        spec: Body = {}
        if chance.random() < 0.3:
            spec["selector"] = chance.choice(
                (
                    {"matchLabels": {"tier": "gold"}},
                    {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["tin"]}]},
                    {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]},
                )
            )
        size = f"{chance.randint(1, 8)}Gi"
        made = a_claim(
            f"{self.name}-{at}", self.name, size, modes, namespace=self._namespace, **spec
        )
        if chance.random() < 0.1:
            made["metadata"]["annotations"] = {LEGACY_CLASS: self.name}
            del made["spec"]["storageClassName"]
        del made["metadata"]["uid"], made["status"]
        return made

    def _drivers(self, chance: Random) -> list[Body]:
        if self._kind != MADE or chance.random() < 0.4:
            return []
        spec = {"storageCapacity": chance.random() < 0.8, "attachRequired": False}
        return [_object("CSIDriver", self.driver, spec=spec)]

    def _capacities(self, chance: Random, n_claims: int) -> list[Body]:
        """Returns the storage that nodes have left: nodes without such an object have none."""
        found = []
        for node in NODES:
            if self._kind != MADE or chance.random() < 0.3:
                continue
            amounts: Body = {"capacity": "100Gi"}
            if chance.random() < 0.5:
                amounts["maximumVolumeSize"] = f"{chance.randint(1, 8)}Gi"
            elif n_claims == 1:  # we do not promise to two claims what is there for one
                amounts["capacity"] = f"{chance.randint(1, 8)}Gi"
            selector = {"matchLabels": {DISK: node}}
            one = _object(
                "CSIStorageCapacity",
                f"{self.name}-{node}",
                storageClassName=self.name,
                nodeTopology=selector,
                **amounts,
            )
            one["metadata"]["namespace"] = self._namespace
            found.append(one)
        return found

    def _limits(self, chance: Random) -> dict[str, int]:
        if self._kind == LOCAL:
            return {}
        return {node: chance.randint(0, 3) for node in NODES if chance.random() < 0.6}

    def _attachments(self, chance: Random) -> list[tuple[str, str]]:
        """Returns volumes that are attached to a node already, though no pod there uses them."""
        if self._kind != "csi":
            return []
        names = [one["metadata"]["name"] for one in self.volumes]
        return [(name, chance.choice(NODES)) for name in names if chance.random() < 0.3]

    def _bound(self, chance: Random) -> dict[str, str]:
        """Reserves volumes for claims by name. The volume controller binds them at once.

        Not where modes of access are missing: then it is for schedulers to bind the volume.
        """
        found: dict[str, str] = {}
        reserved: set[str] = set()
        for claim in self.claims:
            spec = claim["spec"]
            fitting = [
                one
                for one in self.volumes
                if _size(one["spec"]["capacity"]) >= _size(spec["resources"]["requests"])
                and one["spec"]["volumeMode"] == "Filesystem"
                and one["metadata"]["name"] not in reserved
            ]
            if not fitting or chance.random() > 0.2:
                continue
            volume, name = chance.choice(fitting), claim["metadata"]["name"]
            volume["spec"]["claimRef"] = {"namespace": self._namespace, "name": name}
            reserved.add(volume["metadata"]["name"])
            if set(spec["accessModes"]) <= set(volume["spec"]["accessModes"]):
                found[name] = volume["metadata"]["name"]
        return found


def _size(amounts: Body) -> int:
    return int(amounts["storage"].removesuffix("Gi"))


def _object(kind: str, name: str, **fields: Any) -> Body:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        **fields,
    }
