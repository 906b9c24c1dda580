"""Tasks: pods as the scheduler sees them; and shapes: classes of pods that are equal to a node.

A task holds what is read off its pod once. Its node and status change only through
`SchedulerSnapshot.move` and its kin, which keep every sum in step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from msgspec import Struct

from swell.api import codec
from swell.api.meta import ObjectMeta
from swell.api.pod import Container, Pod, PodPhase, PodSpec
from swell.api.requests import asks_for_parts_of_gpus, pod_requests, scheduling_amounts
from swell.scheduler.model.pod_notes import NO_STRATEGY, PREEMPTABLE_KEY, ROLE_KEY, PodNotes
from swell.scheduler.model.resources import (
    PODS,
    TOLERANCE,
    Dimensions,
    Vector,
    fit_places,
    quota_places,
    widened,
)

if TYPE_CHECKING:
    from swell.scheduler.model.elastic import ElasticRole
    from swell.scheduler.model.jobs import JobInfo
    from swell.scheduler.model.podset_annotations import PodSetRequest
    from swell.scheduler.model.sub_groups import SubGroup

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
# The one scheduling gate that does not hold a pod back here; it is the scheduler's own.
OWN_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
NOWHERE: Final = -1
_ORDER: Final = attrgetter("order")
_TRUE: Final = frozenset({"true", "1", "t"})
_PENDING: Final = PodPhase.PENDING
_UNKNOWN: Final = b"?"  # what the key of a shape begins with if not all of its request is known


class TaskStatus(IntEnum):
    """The status of a task. ALLOCATED, PIPELINED and BINDING exist in the scheduler only.

                 place              commit          server confirms
        PENDING -------> ALLOCATED --------> BINDING ---------------> BOUND ---> RUNNING
          ^   |              |                                          |           |
          |   |              | hold                                     |           +--> SUCCEEDED
          |   |              v                                          |           +--> FAILED
          |   +--------> PIPELINED                                      |           +--> UNKNOWN
          |                  |                                          v           v
          +---- discard -----+                                          RELEASING ---> (gone)

    A task is RELEASING when its eviction is decided, its pod is being deleted, or its index is not
    below the target of its elastic role.
    A commit leaves PIPELINED tasks as they are; a later session tries to allocate them.
    """

    PENDING = 0
    ALLOCATED = 1  # a session has chosen a node and not committed yet
    PIPELINED = 2  # a node is reserved whose room is still being freed
    BINDING = 3  # committed, the binding is under way
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    @property
    def label(self) -> str:
        return self.name.capitalize()


S = TaskStatus
N_STATUSES: Final = len(TaskStatus)
# Groups of statuses, as in Volcano.
ALLOCATED: Final = (S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING)
READY: Final = (*ALLOCATED, S.SUCCEEDED)
EVICTABLE: Final = frozenset({S.BOUND, S.RUNNING})

# By status: whether the task takes room now, whether it does once all that is leaving has left,
# whether its job and queue hold its request, and whether they ask for it.
TAKES_NOW: Final = tuple(s in {*ALLOCATED, S.RELEASING, S.UNKNOWN} for s in S)
TAKES_LATER: Final = tuple(s in {*ALLOCATED, S.PIPELINED, S.UNKNOWN} for s in S)
HELD: Final = tuple(s in {*ALLOCATED, S.PIPELINED} for s in S)
ASKED: Final = tuple(s is S.PENDING for s in S)


@dataclass(frozen=True, slots=True)
class HostPort:
    """A socket that a pod takes on its node."""

    protocol: str
    port: int
    ip: str  # empty: every address

    def clashes(self, other_ip: str) -> bool:
        """Whether the same port at another address conflicts with this one."""
        return not self.ip or not other_ip or self.ip == other_ip


class Shape:
    """All that decides where a pod fits and how well, except its labels.

    There is one object per distinct value. Tasks of one shape are interchangeable to every node, so
    they are placed as one class. A shape whose request is not known is never best-effort: a gang
    would count such a task as ready.
    """

    __slots__ = (
        "__weakref__",
        "best_effort",
        "claims_devices",
        "claims_volumes",
        "depends_on_other_pods",
        "fit_limits",
        "fit_places",
        "has_claims",
        "images",
        "is_known",
        "key",
        "n_tasks",
        "ports",
        "quota_amounts",
        "quota_places",
        "request",
        "serial",
        "shares_devices",
        "spec",
        "strategy",
    )

    def __init__(
        self,
        serial: int,
        key: bytes,
        spec: PodSpec,
        request: Vector,
        strategy: tuple[str, str] = NO_STRATEGY,
    ) -> None:
        self.serial = serial
        self.strategy = strategy  # the annotations about its scores: type and weights
        self.key = key
        self.n_tasks = 0
        self.is_known = not key.startswith(_UNKNOWN)
        self.spec = spec
        self.ports = _host_ports(spec)
        self.depends_on_other_pods = _depends_on_other_pods(spec)
        self.claims_volumes = _claims_volumes(spec)
        self.claims_devices = bool(spec.resource_claims)
        # Pods with claims differ although they are of one shape: by the objects they name.
        self.has_claims = self.claims_volumes or self.claims_devices
        self.images = _images(spec)
        self.shares_devices = asks_for_parts_of_gpus(spec)
        self.set_request(request)

    def set_request(self, request: Vector) -> None:
        self.request = request
        self.fit_places = fit_places(request)
        # Per place: the amount of room above which one task fits.
        amounts: list[float] = request.tolist()
        self.fit_limits = tuple((place, amounts[place] - TOLERANCE) for place in self.fit_places)
        self.quota_places = quota_places(request)
        # The same with the amounts, as plain numbers: for one comparison they cost less.
        self.quota_amounts: tuple[tuple[int, float], ...] = tuple(
            (p, amounts[p]) for p in self.quota_places.tolist()
        )
        # Best-effort pods start without the others of their gang: they fit anywhere. Those with
        # claims do not, whatever they request.
        self.best_effort = self.is_known and not len(self.quota_places) and not self.has_claims


class ShapeCache:
    """Returns the same shape for equal pod specs, for as long as anything has it."""

    def __init__(self, dimensions: Dimensions) -> None:
        self._dimensions = dimensions
        self._shapes: dict[bytes, Shape] = {}  # those that tasks have
        # Others, for as long as they are referred to: of pods that are only thought of.
        self._others: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        # What was found last: pods of one gang come in a row, and to compare their specs costs less
        # than to make a key of each.
        self._last: tuple[PodSpec, tuple[bool, tuple[str, str]], Shape] | None = None
        # Serials are never used twice: sessions tell shapes apart by them.
        self._n_made = 0

    def __len__(self) -> int:
        return len(self._shapes)

    def find(
        self,
        spec: PodSpec,
        *,
        is_known: bool = True,
        strategy: tuple[str, str] = NO_STRATEGY,
    ) -> Shape:
        """Returns the shape of a spec, whether a task has it or not."""
        last, terms = self._last, (is_known, strategy)
        if last is not None and last[1] == terms and last[0] == spec:
            return last[2]
        key = _shape_key(spec) if is_known else _UNKNOWN + _shape_key(spec)
        if strategy != NO_STRATEGY:
            key += codec.encode(strategy)
        shape = self._shapes.get(key) or self._others.get(key)
        if shape is None:
            request = _request_of(spec, self._dimensions)
            shape = self._others[key] = Shape(self._n_made, key, spec, request, strategy)
            self._n_made += 1
        self._last = (spec, terms, shape)
        return shape

    def take(
        self,
        spec: PodSpec,
        *,
        is_known: bool = True,
        strategy: tuple[str, str] = NO_STRATEGY,
    ) -> Shape:
        """Returns the shape of a task's spec; the task gives it back with `give_back`."""
        shape = self.find(spec, is_known=is_known, strategy=strategy)
        if not shape.n_tasks:
            self._others.pop(shape.key, None)
            self._shapes[shape.key] = shape
        shape.n_tasks += 1
        return shape

    def give_back(self, shape: Shape) -> None:
        shape.n_tasks -= 1
        if not shape.n_tasks:
            del self._shapes[shape.key]
            self._others[shape.key] = shape

    def widen(self, width: int) -> None:
        for shape in (*self._shapes.values(), *self._others.values()):
            shape.set_request(widened(shape.request, width))


class Task(Struct, eq=False):
    """One pod, with its status and node in the snapshot. Equal is only the same task."""

    key: str  # namespace/name
    pod: Pod
    shape: Shape
    role: str
    podset_request: PodSetRequest | None
    priority: int
    preemptable: bool
    never_preempts: bool
    is_gated: bool
    nominated: str
    created: str
    job: JobInfo | None = None
    group_key: str = ""  # of the group that it belongs to, whether that exists or not
    # Whether another scheduler places it: of a native group such pods are members, too.
    is_foreign: bool = False
    sub_group: SubGroup | None = None  # of a job with policies for sub-groups
    status: TaskStatus = S.PENDING
    node: int = NOWHERE
    # Its eviction is decided, though the server does not show it yet.
    marked_for_deletion: bool = False
    # Why all that it asks for is not known: it is not placed, and its node takes no new pods.
    unreadable: str = ""
    # The role of a training job that this pod belongs to, and its index there.
    elastic: ElasticRole | None = None
    index: int = 0

    @property
    def order(self) -> tuple[int, str, str]:
        """The order among tasks of equal priority: by index, so that rank 0 comes first.

        Made when it is asked for: a tuple kept for each pod of a cluster would cost more.
        """
        meta = self.pod.metadata
        return (_index_of(meta), self.created, meta.uid or self.key)

    @property
    def request(self) -> Vector:
        return self.shape.request

    @property
    def is_held_back(self) -> bool:
        """Whether it must not be placed, however much room there is."""
        return self.is_gated or bool(self.unreadable)

    def __repr__(self) -> str:
        return f"<{self.key} {self.status.label}>"


def read_task(key: str, pod: Pod, shape: Shape, notes: PodNotes) -> Task:
    """Returns the task of a pod that is not in the snapshot yet."""
    spec, labels = pod.spec, pod.metadata.labels
    # The priority of the annotation, else of the pod, else 1, as in Volcano.
    priority = spec.priority if notes.priority is None else notes.priority
    gates = spec.scheduling_gates
    return Task(
        key=key,
        pod=pod,
        shape=shape,
        role=_role_of(labels, notes),
        podset_request=notes.podset_request,
        priority=1 if priority is None else priority,
        preemptable=_is_preemptable(labels, notes),
        never_preempts=spec.preemption_policy == "Never",
        is_gated=bool(gates) and any(gate.name != OWN_GATE for gate in gates),
        nominated=pod.status.nominated_node_name,
        created=pod.metadata.creation_timestamp or "",
    )


def in_own_order(tasks: Iterable[Task]) -> list[Task]:
    """Sorts tasks by their `order`."""
    found = list(tasks)
    return found if _are_in_order(found) else sorted(found, key=_ORDER)


def _are_in_order(tasks: Sequence[Task]) -> bool:
    """Whether tasks are in order already, which is only found out where it is cheap.

    Pods of a gang come in the order of their names. Where these differ in their last digit only,
    that is the order of the indexes, too. It costs a third of making the keys of a gang of eight.
    """
    if not tasks:
        return True
    first = tasks[0].pod.metadata.name
    stem = first[:-1]
    if "-" not in stem[:-1] or stem[-1:] != "-":
        return False
    last = ""
    for task in tasks:
        meta = task.pod.metadata
        name = meta.name
        digit = name[-1:]
        if name[:-1] != stem or not "0" <= digit <= "9" or digit <= last:
            return False
        if COMPLETION_INDEX in meta.labels:
            return False
        last = digit
    return True


def _role_of(labels: Mapping[str, str], notes: PodNotes) -> str:
    return notes.role or labels.get(ROLE_KEY, "")


def _is_preemptable(labels: Mapping[str, str], notes: PodNotes) -> bool:
    """Whether a pod may be evicted: unless it says no, as in Volcano."""
    text = notes.preemptable or labels.get(PREEMPTABLE_KEY)
    return not text or text.lower() in _TRUE


def are_alike(task: Task, other: Task) -> bool:
    """Whether two tasks of one job are counted alike in everything."""
    return (
        task.shape is other.shape and task.role == other.role and task.sub_group is other.sub_group
    )


def status_of(pod: Pod) -> TaskStatus:
    """Returns the status of a task by what the API server says of its pod."""
    phase = pod.status.phase
    if phase is _PENDING and pod.metadata.deletion_timestamp is None:  # the usual case, of floods
        return S.BOUND if pod.spec.node_name else S.PENDING
    # A finished pod holds no room, even while it is being deleted: check this first.
    if phase is PodPhase.SUCCEEDED:
        return S.SUCCEEDED
    if phase is PodPhase.FAILED:
        return S.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return S.RELEASING
    if phase is PodPhase.RUNNING:
        return S.RUNNING
    return S.UNKNOWN


def _index_of(meta: ObjectMeta) -> int:
    """Returns an Indexed Job's index label, or the number at the end of a name like job-role-7."""
    index = meta.labels.get(COMPLETION_INDEX)
    if index and index.isdecimal():
        return int(index)
    rest, dash, end = meta.name.rpartition("-")
    # As in job-role-7: another dash before the last.
    return int(end) if dash and "-" in rest and end.isdecimal() else 0


def _shape_key(spec: PodSpec) -> bytes:
    """Encodes all of the spec that filters and scores read.

    Most pods are of one container with resources, and have the tolerations that every pod gets.
    Their key is made of these alone, at a third of the cost. It begins with an object where all
    others begin with a list, so it is never equal to one of those.
    """
    if len(spec.containers) == 1 and not _asks_for_more(spec):
        only = spec.containers[0]
        return codec.encode((only.resources, only.image, spec.tolerations))
    return codec.encode(
        (
            [(c.resources, c.ports, c.image) for c in spec.containers],
            [(c.resources, c.ports, c.image, c.restart_policy) for c in spec.init_containers],
            spec.overhead,
            spec.resources,
            spec.host_network,
            _claims_volumes(spec),
            [volume.image.reference for volume in spec.volumes if volume.image is not None],
            sorted(spec.node_selector.items()),
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            bool(spec.resource_claims),
        )
    )


def _asks_for_more(spec: PodSpec) -> bool:
    """Whether a pod of one container has more that matters to nodes than these two."""
    return bool(
        spec.containers[0].ports
        or spec.init_containers
        or spec.overhead
        or spec.resources is not None
        or spec.host_network
        or spec.node_selector
        or spec.affinity is not None
        or spec.topology_spread_constraints
        or spec.resource_claims
        or _claims_volumes(spec)
        or any(volume.image is not None for volume in spec.volumes)
    )


def _claims_volumes(spec: PodSpec) -> bool:
    return bool(spec.volumes) and any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in spec.volumes
    )


def _images(spec: PodSpec) -> tuple[str, ...]:
    """Returns the images of containers and volumes as nodes name them; one may occur twice."""
    references = [container.image for container in (*spec.init_containers, *spec.containers)]
    references += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(_with_tag(reference) for reference in references if reference)


def _with_tag(image: str) -> str:
    # A colon before the last slash belongs to the port of a registry.
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _request_of(spec: PodSpec, dimensions: Dimensions) -> Vector:
    """Returns what the pod asks for, and one of the node's pod slots."""
    amounts = scheduling_amounts(pod_requests(spec))
    places = [(dimensions.place(name), amounts[name]) for name in sorted(amounts)]
    request = dimensions.zero()
    for place, amount in places:
        request[place] = amount
    request[PODS] = 1
    return request


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Returns the sockets taken on the node; with host network every container port is one."""
    return tuple(
        HostPort(port.protocol or "TCP", number, "" if port.host_ip == "0.0.0.0" else port.host_ip)  # noqa: S104
        for container in _running_containers(spec)
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )


def _running_containers(spec: PodSpec) -> Iterable[Container]:
    yield from spec.containers
    yield from (c for c in spec.init_containers if c.restart_policy == "Always")


def _depends_on_other_pods(spec: PodSpec) -> bool:
    affinity = spec.affinity
    return bool(spec.topology_spread_constraints) or (
        affinity is not None
        and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    )
