"""Gangs with claims, their nodes and disks, and what must hold of them. Nodes only pretend.

A world is played in a namespace of its own. What is not in a namespace has the name of the world
in its own, after a dot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from swell.api import codec
from swell.api.devices import ResourceClaim
from swell.api.kinds import (
    DEVICE_CLASSES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from swell.api.meta import Body, Key
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.api.storage import PersistentVolumeClaim
from swell.runtime.cluster import Cluster, merge_patch
from swell.runtime.errors import AlreadyExistsError
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.volumes.claims import is_bound
from tests.e2e.faults.recorder import Happening
from tests.resource_objects import a_device_class, a_slice, a_template
from tests.storage_objects import HOST, LOCAL, MADE, a_claim, a_class, a_volume, mounts

NODE_NAMES = ("claims-a", "claims-b")
RECORDED = (PODS, PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS)
_SLOW = "failing"  # a class whose volumes cannot be made on the first node
N_DEVICES = 4  # of a node


@dataclass(frozen=True, slots=True)
class ClaimStory:
    """A gang of `size` pods. `claims` says what each has: a class of volumes, or devices.

    Where disks can be made anywhere, a scheduler that begins anew may divide the gang otherwise.
    """

    name: str
    size: int
    claims: str

    @property
    def has_devices(self) -> bool:
        return self.claims == "devices"


STORIES = (
    ClaimStory("local", 8, LOCAL),  # four disks a node
    ClaimStory("made", 4, MADE),
    ClaimStory("fails", 2, _SLOW),  # on the node that is preferred
    ClaimStory("devices", 8, "devices"),  # four a node
)


async def have_cluster(cluster: Cluster) -> None:
    """Creates what all worlds share, as far as it is missing: nodes, devices and classes."""
    failing = {**a_class(MADE), "metadata": {"name": _SLOW}}
    failing["parameters"] = {"failOn": NODE_NAMES[0]}
    made: list[tuple[Resource[object], Body]] = [
        *((NODES.untyped(), _node(name)) for name in NODE_NAMES),
        *((RESOURCE_SLICES.untyped(), a_slice(name, N_DEVICES)) for name in NODE_NAMES),
        (DEVICE_CLASSES.untyped(), a_device_class()),
        *((STORAGE_CLASSES.untyped(), one) for one in (a_class(LOCAL), a_class(MADE), failing)),
    ]
    for resource, body in made:
        with suppress(AlreadyExistsError):
            await cluster.create(resource, body)
    for name in NODE_NAMES:
        # The server gives every new node one.
        await cluster.patch(NODES.untyped(), Key("", name), merge_patch({"spec": {"taints": None}}))


def _node(name: str) -> Body:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "64"}
    ready = {"type": "Ready", "status": "True"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    meta = {"name": name, "labels": {HOST: name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


async def have_gang(cluster: Cluster, story: ClaimStory, namespace: str) -> None:
    """Creates the gang, and disks for it where nobody else makes them."""
    if story.claims == LOCAL:
        for at in range(story.size):
            node = NODE_NAMES[at % len(NODE_NAMES)]
            disk = a_volume(f"disk-{at}.{namespace}", node, local={"path": f"/disks/{at}"})
            del disk["status"]
            await cluster.create(PERSISTENT_VOLUMES.untyped(), disk)
    if story.has_devices:
        template = a_template("one", 1, namespace)
        await cluster.create(RESOURCE_CLAIM_TEMPLATES.untyped(), template)
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": "gang", "namespace": namespace},
        "spec": {"minMember": story.size, "queue": "default"},
    }
    await cluster.create(POD_GROUPS.untyped(), group)
    for at in range(story.size):
        if not story.has_devices:
            claim = a_claim(f"data-{at}", story.claims, namespace=namespace)
            del claim["metadata"]["uid"], claim["status"]
            await cluster.create(PERSISTENT_VOLUME_CLAIMS.untyped(), claim)
        await cluster.create(PODS.untyped(), pod_of(story, namespace, at))


def pod_of(story: ClaimStory, namespace: str, at: int) -> Body:
    container: Body = {"name": "main", "image": "local"}
    container["resources"] = {"requests": {"cpu": "1"}}
    spec: Body = {"schedulerName": "swell", "containers": [container]}
    if story.has_devices:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    else:
        spec["volumes"] = mounts(f"data-{at}")
    meta = {"name": f"gang-{at}", "namespace": namespace}
    meta["annotations"] = {GROUP_ANNOTATION: "gang"}  # type: ignore[assignment]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


# --- what must hold


@dataclass(slots=True)
class _Course:
    """The pods and claims of a namespace as they are at one moment of a record, by name."""

    pods: dict[str, Pod] = field(default_factory=dict)
    volumes: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    devices: dict[str, ResourceClaim] = field(default_factory=dict)

    def take(self, one: Happening) -> None:
        if one.is_gone:
            for held in (self.pods, self.volumes, self.devices):
                held.pop(one.name, None)  # no two kinds share a name
        elif one.kind == PODS.kind:
            self.pods[one.name] = codec.convert(one.body, Pod)
        elif one.kind == PERSISTENT_VOLUME_CLAIMS.kind:
            self.volumes[one.name] = codec.convert(one.body, PersistentVolumeClaim)
        elif one.kind == RESOURCE_CLAIMS.kind:
            self.devices[one.name] = codec.convert(one.body, ResourceClaim)


def violations(story: ClaimStory, record: Sequence[Happening]) -> list[str]:
    """Returns what must not have happened: a pod with a node before the whole gang is ready."""
    course, found, bound = _Course(), [], set[str]()
    for one in record:
        course.take(one)
        twice = [d for d, n in Counter(_devices(course.devices)).items() if n > 1]
        found += [f"device {device} is in two claims at {one.version}" for device in twice]
        pod = course.pods.get(one.name)
        if pod is not None and pod.spec.node_name and one.name not in bound:
            bound.add(one.name)
            found += [f"{one.name} is bound, and {why}" for why in _unready(story, course, pod)]
    return found


def _unready(story: ClaimStory, course: _Course, pod: Pod) -> Iterator[str]:
    if len(course.pods) < story.size:
        yield f"only {len(course.pods)} of {story.size} pods are there"
    if story.has_devices:
        users = [u.uid for c in course.devices.values() for u in c.status.reserved_for]
        if pod.metadata.uid not in users:
            yield "may not use its devices"
        n_ready = sum(c.status.allocation is not None for c in course.devices.values())
    else:
        n_ready = sum(map(is_bound, course.volumes.values()))
    if n_ready < story.size:
        yield f"only {n_ready} of {story.size} claims are ready"


def _devices(claims: Mapping[str, ResourceClaim]) -> list[tuple[str, str]]:
    allocated = (c.status.allocation for c in claims.values())
    return [(r.pool, r.device) for one in allocated if one is not None for r in one.devices.results]


def end_state(story: ClaimStory, record: Sequence[Happening]) -> Body:
    """Returns what became of the gang, without what is different in every run."""
    course = _Course()
    for one in record:
        course.take(one)
    nodes = [pod.spec.node_name for pod in course.pods.values()]
    places = Counter("either" if story.claims == MADE else node for node in nodes)
    return {
        "pods": dict(sorted(places.items())),
        "volumes": len({c.spec.volume_name for c in course.volumes.values() if is_bound(c)}),
        "devices": len(set(_devices(course.devices))),
        "reserved": sum(len(c.status.reserved_for) for c in course.devices.values()),
    }
