"""The nodes as matrices, resources by nodes, so that a question to all nodes is one operation.

`idle` is what is free now. `future` is what will be free once all RELEASING tasks have left,
without what PIPELINED tasks will take. A node keeps its place (column) while it is known, and until
`compact` moves it. The place of a node that is gone is given to the next new one. Ties between
nodes are broken by the lower place: the order of names, for nodes known from the start.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from swell.api.core import PRIVATE_PORTS, Node
from swell.api.pod import QuantityText
from swell.api.quantity import QuantityError
from swell.scheduler.model.gpus import KNOWN_GPUS, GpuKnowledge
from swell.scheduler.model.host_ports import HostPorts
from swell.scheduler.model.images import NodeImages
from swell.scheduler.model.node_states import NodeColumns, NodeStates, facts_of
from swell.scheduler.model.provided import ProvidedAmounts
from swell.scheduler.model.resources import TOLERANCE, Dimensions, Mask, Matrix, Places, Vector
from swell.scheduler.model.tasks import (
    NOWHERE,
    TAKES_LATER,
    TAKES_NOW,
    HostPort,
    Shape,
    Task,
    TaskStatus,
)

T = TypeVar("T", np.float64, np.bool_, np.intp)
_COLUMNS_MIN = 64  # the first size of the matrices, which double when they are full
# States are forgotten between sessions when there are so many more of them than nodes.
_STATES_PER_NODE_MAX = 2


class Added(NamedTuple):
    """Tasks of one shape that got nodes in one go: one at each of some changes in the log."""

    begin: int  # the first of these changes, and the one after the last
    end: int
    shape: Shape
    now: bool


class NodeTable:
    """Every node, with its allocatable, idle and future resources and its tasks."""

    def __init__(self, dimensions: Dimensions, gpus: GpuKnowledge = KNOWN_GPUS) -> None:
        self._dimensions = dimensions
        self.names: list[str] = []
        self.objects: list[Node | None] = []  # None: known only from a pod that names it
        self.tasks: list[dict[str, Task]] = []
        self._places: dict[str, int] = {}
        self._allocatable = np.zeros((dimensions.width, _COLUMNS_MIN))
        self._idle = self._allocatable.copy()
        self._future = self._allocatable.copy()
        self._divisor = np.full_like(self._allocatable, np.inf)
        # The state of each node; the nodes whose state is to be found from the matrices; and those
        # whose `idle` and `future` are to be brought up to date with their state: see `_catch_up`.
        self._states = NodeStates(dimensions.width)
        self._state_of = np.zeros(_COLUMNS_MIN, dtype=np.intp)
        self._unidentified: dict[int, None] = {}
        self._behind: list[int] = []
        self._ready = np.zeros(_COLUMNS_MIN, dtype=np.bool_)
        self._private_ports = np.zeros(_COLUMNS_MIN, dtype=np.bool_)
        self._cordoned = np.zeros(_COLUMNS_MIN, dtype=np.bool_)
        self._gpus = gpus
        self.gpu_drivers = gpus.drivers  # those whose devices are GPUs
        self.images = NodeImages()
        self.gpu_faults: dict[str, str] = {}  # what nodes report of broken GPUs
        self._provided = ProvidedAmounts()
        self._ports = HostPorts()
        # Places that only tasks need: their node is gone, or was only named by a pod so far. Those
        # that have lost their last task; a session may undo that, so they are freed only later.
        # And free places, as a heap: the lowest is given away first.
        self._temporary: dict[int, None] = {}
        self._vacated: dict[int, None] = {}
        self._free: list[int] = []
        # By place: the reasons why the node takes no new pods, by the object that is the cause.
        self._closed: dict[int, dict[str, str]] = {}
        self._open = np.ones(_COLUMNS_MIN, dtype=np.bool_)
        # A log of the places that changed, in order. A reader that remembers its length finds what
        # has changed since.
        self.changes = array("q")  # 64-bit numbers, which numpy can read without a copy
        # The latest tasks of one kind that came, and that left again.
        self.added: Added | None = None
        self.left: Added | None = None
        # How many tasks take room either only now or only later. While there is none, as in most
        # sessions, `idle` and `future` are equal: amounts are whole numbers, whose sums are exact.
        self._n_leaving_or_coming = 0
        # Found when they are asked for, for a layout and a version.
        self._present = np.zeros(0, dtype=np.bool_)
        self._present_layout = -1
        self._tainted: list[tuple[int, Node]] = []
        self._tainted_version = -1
        self._read_amounts: tuple[Mapping[str, QuantityText], Vector] = ({}, dimensions.zero())
        self.version = 0  # of all that does not change with tasks: nodes, labels, taints
        self.layout = 0  # the version of which nodes there are, with which labels and places

    def __len__(self) -> int:
        return len(self.names)

    @property
    def allocatable(self) -> Matrix:
        return self._allocatable[:, : len(self.names)]

    @property
    def divisor(self) -> Matrix:
        """Allocatable as a divisor: infinite where a node has none, so that its share is 0."""
        return self._divisor[:, : len(self.names)]

    @property
    def idle(self) -> Matrix:
        self._catch_up()
        return self._idle[:, : len(self.names)]

    @property
    def future(self) -> Matrix:
        self._catch_up()
        return self._future[:, : len(self.names)]

    @property
    def idle_is_future(self) -> bool:
        """Whether nothing is leaving and nothing waits for room, on any node."""
        return not self._n_leaving_or_coming

    def columns(self, places: Places | None = None) -> NodeColumns:
        """Returns the matrices of some nodes, or of all."""
        if places is None:
            future = self.idle if self.idle_is_future else self.future
            return NodeColumns(self.allocatable, self.idle, future, self.divisor)
        # `take` from the whole matrices: an index into the views of above costs ten times as much,
        # and this is done for every gang (docs/scheduler-performance.md).
        self._catch_up()
        idle = self._idle.take(places, axis=1)
        return NodeColumns(
            self._allocatable.take(places, axis=1),
            idle,
            idle if self.idle_is_future else self._future.take(places, axis=1),
            self._divisor.take(places, axis=1),
        )

    @property
    def states(self) -> NodeStates:
        """The states of which `state_of` has the numbers."""
        if self._unidentified:
            places = np.array(list(self._unidentified), dtype=np.intp)
            self._state_of[places] = self._states.numbers(
                self._allocatable.take(places, axis=1),
                self._idle.take(places, axis=1),
                self._future.take(places, axis=1),
            )
            self._unidentified.clear()
        return self._states

    def state_of(self, places: Places | None = None) -> Places:
        """Returns the states of some nodes, or of all, as numbers of `states`."""
        if self._unidentified:
            _ = self.states
        return self._state_of[: len(self.names)] if places is None else self._state_of[places]

    @property
    def ready(self) -> Mask:
        return self._ready[: len(self.names)]

    @property
    def cordoned(self) -> Mask:
        return self._cordoned[: len(self.names)]

    @property
    def open(self) -> Mask:
        """The nodes of which all that they hold is known: see `close`."""
        return self._open[: len(self.names)]

    @property
    def present(self) -> Mask:
        """The nodes that exist: others are known only from pods that name them."""
        if self._present_layout != self.layout:
            self._present_layout = self.layout
            self._present = np.array([node is not None for node in self.objects], dtype=np.bool_)
        return self._present

    @property
    def tainted(self) -> Sequence[tuple[int, Node]]:
        """The nodes that have taints, with their places: usually few."""
        if self._tainted_version != self.version:
            self._tainted_version = self.version
            nodes = enumerate(self.objects)
            self._tainted = [
                (at, node) for at, node in nodes if node is not None and node.spec.taints
            ]
        return self._tainted

    @property
    def n_free(self) -> int:
        """How many places have no node."""
        return len(self._free)

    def place(self, name: str, *, is_temporary: bool = False) -> int:
        """Returns the place of a node. One that is only named so far is created as not ready.

        A temporary one lasts as long as tasks are there, unless the node comes. It is not for use
        within a session: a place that was given away could not be returned to.
        """
        place = self._places.get(name)
        if place is not None:
            return place
        self._free_vacated()
        if self._free:
            place = heappop(self._free)
            self.names[place] = name
        else:
            place = len(self.names)
            self.names.append(name)
            self.objects.append(None)
            self.tasks.append({})
            if place >= self._ready.shape[0]:
                self._resize(2 * place)  # doubled, so that adding n nodes copies O(n)
            self._unidentified[place] = None
        self._places[name] = place
        if is_temporary:
            self._temporary[place] = None
        self.version += 1
        self.layout += 1
        return place

    def find(self, name: str) -> int:
        """Returns the place of a node, NOWHERE for an unknown one."""
        return self._places.get(name, NOWHERE)

    def put(self, node: Node, unreadable: str = "") -> None:
        """Adds or replaces a node. One that cannot be read in full takes no new pods."""
        name = node.metadata.name
        place = self.place(name)
        old = self.objects[place]
        self.objects[place] = node
        self.images.put(name, node.status.images)
        self._temporary.pop(place, None)
        self._close_if(place, "node", unreadable)
        fault = self._gpus.rules.fault_of(node)
        same_fault = self.gpu_faults.get(name, "") == fault
        if old is not None and same_fault and facts_of(old) == facts_of(node):
            return  # a heartbeat: versions and scores stay valid
        if fault:
            self.gpu_faults[name] = fault
        else:
            self.gpu_faults.pop(name, None)
        if old is None or old.metadata.labels != node.metadata.labels:
            self.layout += 1
        wrong = ""
        try:
            self._set_allocatable(place, self._amounts(self._provided.with_devices(node)))
        except QuantityError as error:
            # The amounts that were read last stay, those of a new node are 0.
            wrong = f"node {name}: allocatable: {error}"
        self._close_if(place, "allocatable", wrong)
        self._ready[place] = any(
            c.type == "Ready" and c.status == "True" for c in node.status.conditions
        )
        self._private_ports[place] = node.metadata.annotations.get(PRIVATE_PORTS) == "true"
        self._cordoned[place] = node.spec.unschedulable
        self.version += 1

    def remove(self, name: str) -> None:
        """Removes the object; the place stays for the tasks that still name it."""
        place = self.find(name)
        if place == NOWHERE:
            return
        self.objects[place] = None
        self.images.put(name, ())
        self.gpu_faults.pop(name, None)
        self._set_allocatable(place, self._dimensions.zero())
        self._ready[place] = False
        self._temporary[place] = self._vacated[place] = None
        self.reopen(place, "node")
        self.reopen(place, "allocatable")
        self.version += 1
        self.layout += 1

    def provide(self, amounts: Mapping[str, Mapping[str, int]]) -> None:
        """Sets what nodes have of extended resources by their devices, by node and resource."""
        for name in self._provided.replace(amounts):
            place = self.find(name)
            node = self.objects[place] if place != NOWHERE else None
            if node is not None and "allocatable" not in self.why_closed(place):
                self._set_allocatable(place, self._amounts(self._provided.with_devices(node)))
                self.version += 1

    def close(self, place: int, cause: str, why: str) -> None:
        """Has a node take no new pods, because something that it holds cannot be read."""
        if self._closed.get(place, {}).get(cause) == why:
            return
        self._closed.setdefault(place, {})[cause] = why
        self._open[place] = False
        self.version += 1

    def reopen(self, place: int, cause: str) -> None:
        """Takes one cause back; the node takes pods again when there is no other."""
        causes = self._closed.get(place, {})
        if causes.pop(cause, None) is None:
            return
        if not causes:
            del self._closed[place]
            self._open[place] = True
        self.version += 1

    def why_closed(self, place: int) -> Mapping[str, str]:
        """Returns the reasons why a node takes no new pods, by cause."""
        return self._closed.get(place, {})

    @property
    def closed(self) -> Mapping[str, Mapping[str, str]]:
        """The nodes that take no new pods because of what cannot be read, with the reasons."""
        return {self.names[place]: causes for place, causes in sorted(self._closed.items())}

    def compact(self) -> None:
        """Frees places without node and tasks, and closes the gaps when most places are free.

        Tasks and ports move along; all other places that were read before are invalid then. So it
        must not be called within a session. The cost is that of the removals since the last time.
        """
        self._free_vacated()
        n_live = len(self.names) - len(self._free)
        if len(self._free) > max(n_live, _COLUMNS_MIN):
            self._close_gaps()

    def add(self, task: Task, place: int, status: TaskStatus) -> None:
        """Counts a task on a node, now and later as its status says."""
        self._shift(task, place, status, -1.0)
        self.tasks[place][task.key] = task
        self._ports.take(task, place)

    def add_alike(self, tasks: Sequence[Task], places: Sequence[int], status: TaskStatus) -> None:
        """Does the same for tasks of one shape that take room later, or now and later.

        Only the states change at once. The matrices follow when they are read: a session places
        thousands of gangs without reading them.
        """
        shape, now = tasks[0].shape, TAKES_NOW[status]
        if now != TAKES_LATER[status]:
            self._n_leaving_or_coming += len(tasks)
        states, state_of, tasks_at = self.states, self._state_of, self.tasks
        state_at, known_after = state_of.item, states.following(shape, now=now).get
        for task, place in zip(tasks, places, strict=True):
            state = state_at(place)
            after = known_after(state)
            state_of[place] = states.after(state, shape, now=now) if after is None else after
            tasks_at[place][task.key] = task
        self._behind += places
        self.added = Added(len(self.changes), len(self.changes) + len(places), shape, now)
        self.changes.extend(places)
        if tasks[0].shape.ports:
            for task, place in zip(tasks, places, strict=True):
                self._ports.take(task, place)

    def take_off_alike(self, tasks: Sequence[Task], status: TaskStatus) -> None:
        """Undoes `add_alike` for tasks that are still where it put them."""
        shape, now = tasks[0].shape, TAKES_NOW[status]
        self.left = Added(len(self.changes), len(self.changes) + len(tasks), shape, now)
        if now != TAKES_LATER[status]:
            self._n_leaving_or_coming -= len(tasks)
        states, state_of = self.states, self._state_of
        for task in tasks:
            place = task.node
            state_of[place] = states.before(state_of.item(place), shape, now=now)
            self._leave(task, place)
            self._behind.append(place)
            self.changes.append(place)

    def take_off(self, task: Task, place: int, status: TaskStatus) -> None:
        self._shift(task, place, status, 1.0)
        self._leave(task, place)

    def _leave(self, task: Task, place: int) -> None:
        del self.tasks[place][task.key]
        if not self.tasks[place] and place in self._temporary:
            self._vacated[place] = None
        if task.shape.ports:
            self._ports.give_back(task, place)

    def restate(self, task: Task, old: TaskStatus, new: TaskStatus) -> None:
        """Changes the status of a task that stays on its node."""
        place = task.node
        self._catch_up()
        self._unidentified[place] = None
        # Booleans as numbers: 1 frees the request, -1 takes it, 0 changes nothing.
        later = TAKES_LATER[old] - TAKES_LATER[new]
        now = TAKES_NOW[old] - TAKES_NOW[new]
        self._n_leaving_or_coming += TAKES_NOW[new] != TAKES_LATER[new]
        self._n_leaving_or_coming -= TAKES_NOW[old] != TAKES_LATER[old]
        if later:
            self._future[:, place] += later * task.shape.request
        if now:
            self._idle[:, place] += now * task.shape.request
        self.changes.append(place)

    def port_is_free(self, port: HostPort, *, at_once: bool) -> Mask:
        """Returns the nodes where the port is free: now, or once all that is leaving has left.

        On nodes with private ports (a network per pod) it always is.
        """
        private = self._private_ports[: len(self.names)]
        return self._ports.free(port, private, at_once=at_once)

    def where(self, holds: Callable[[Node], bool]) -> Mask:
        """Returns the nodes for which a predicate holds that does not depend on tasks."""
        return np.fromiter(
            (node is not None and holds(node) for node in self.objects), np.bool_, len(self)
        )

    def total(self) -> Vector:
        """Returns the sum of what the ready nodes have."""
        total: Vector = self.allocatable[:, self.ready].sum(axis=1)
        if self.gpu_faults:
            # GPUs where no pod with a GPU may go are no room for anybody.
            broken = self.gpu_places(total)
            faulty = self.ready & self.has_gpu_fault
            total[broken] -= self.allocatable[broken][:, faulty].sum(axis=1)
        return total

    @property
    def has_gpu_fault(self) -> Mask:
        """The nodes that report a broken GPU."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[[self._places[name] for name in self.gpu_faults]] = True
        return mask

    def gpu_places(self, request: Vector) -> Mask:
        """Returns which amounts of a vector are of GPUs, and not zero."""
        mask = np.zeros(len(request), dtype=np.bool_)
        for name in self._gpus.resources:
            place = self._dimensions.known(name)
            if place is not None and place < len(request):
                mask[place] = request[place] > 0
        return mask

    def used(self) -> Vector:
        ready = self.ready
        used: Vector = (self.allocatable[:, ready] - self.idle[:, ready]).sum(axis=1)
        return used

    def forget_changes(self) -> None:
        """Empties the log of changes. Positions that readers remember become invalid.

        So do the numbers of states: those that no node has any more are forgotten now and then.
        """
        self.changes = array("q")
        self.added = self.left = None
        if self._states.n > _STATES_PER_NODE_MAX * max(len(self), _COLUMNS_MIN):
            self._forget_states()

    def changed_since(self, position: int) -> Places:
        """Returns the places that changed; one that changed twice may occur twice."""
        return np.frombuffer(self.changes[position:], dtype=np.int64)

    def widen(self, width: int) -> None:
        self._catch_up()
        rows = width - self._idle.shape[0]
        self._allocatable, self._idle, self._future = (
            np.pad(matrix, ((0, rows), (0, 0)))
            for matrix in (self._allocatable, self._idle, self._future)
        )
        self._divisor = np.pad(self._divisor, ((0, rows), (0, 0)), constant_values=np.inf)
        self._forget_states()

    def _catch_up(self) -> None:
        """Brings the matrices up to date with the states of nodes that got tasks since."""
        if self._behind:
            places = np.array(self._behind, dtype=np.intp)
            columns = self._states.columns(self._state_of[places])
            self._idle[:, places], self._future[:, places] = columns.idle, columns.future
            self._behind.clear()

    def _forget_states(self) -> None:
        self._catch_up()
        self._states = NodeStates(self._idle.shape[0])
        self._unidentified = dict.fromkeys(range(len(self.names)))

    def _close_if(self, place: int, cause: str, why: str) -> None:
        if why:
            self.close(place, cause, why)
        else:
            self.reopen(place, cause)

    def _shift(self, task: Task, place: int, status: TaskStatus, sign: float) -> None:
        request = task.shape.request if sign > 0 else -task.shape.request
        if TAKES_NOW[status] != TAKES_LATER[status]:
            self._n_leaving_or_coming -= int(sign)  # a task that is added has the sign -1
        self._catch_up()
        self._unidentified[place] = None
        if TAKES_NOW[status]:
            self._idle[:, place] += request
        if TAKES_LATER[status]:
            self._future[:, place] += request
        self.changes.append(place)

    def _amounts(self, allocatable: Mapping[str, QuantityText]) -> Vector:
        """Returns a vector, that of the last node if this one has the same: pools are of equals."""
        read, vector = self._read_amounts
        if allocatable != read or len(vector) != self._dimensions.width:
            vector = self._dimensions.vector(allocatable)
            self._read_amounts = (allocatable, vector)
        return vector

    def _set_allocatable(self, place: int, allocatable: Vector) -> None:
        if len(allocatable) > self._allocatable.shape[0]:
            self.widen(len(allocatable))
        self._catch_up()
        self._unidentified[place] = None
        change = allocatable - self._allocatable[:, place]
        self._allocatable[:, place] = allocatable
        self._divisor[:, place] = np.where(allocatable == 0, np.inf, allocatable)
        self._idle[:, place] += change
        self._future[:, place] += change
        self.changes.append(place)

    def _free_vacated(self) -> None:
        for place in self._vacated:
            if place not in self._temporary or self.tasks[place]:
                continue
            del self._temporary[place]
            del self._places[self.names[place]]
            self.names[place] = ""
            self._private_ports[place] = self._cordoned[place] = False
            self._closed.pop(place, None)
            self._open[place] = True
            heappush(self._free, place)
        self._vacated.clear()

    def _close_gaps(self) -> None:
        """Moves the nodes to the first places, in the order of their names."""
        order = [self._places[name] for name in sorted(self._places)]
        moved = {old: new for new, old in enumerate(order)}
        self.names = [self.names[old] for old in order]
        self.objects = [self.objects[old] for old in order]
        self.tasks = [self.tasks[old] for old in order]
        self._places = {name: place for place, name in enumerate(self.names)}
        self._temporary = {moved[old]: None for old in self._temporary}
        self._closed = {moved[old]: causes for old, causes in self._closed.items()}
        for place, tasks in enumerate(self.tasks):
            for task in tasks.values():
                task.node = place
        self._ports.renumber(moved)
        self._free = []
        self._resize(max(_COLUMNS_MIN, 2 * len(order)), order)
        # All that readers remember of the log is about other places now.
        self.forget_changes()
        self._unidentified = dict.fromkeys(range(len(self.names)))
        self.version += 1
        self.layout += 1

    def _resize(self, room: int, order: Sequence[int] | None = None) -> None:
        """Gives the arrays this many columns: all that there are, or those of `order`."""
        self._catch_up()
        kept = list(range(len(self.names) - 1)) if order is None else list(order)

        def with_room(old: NDArray[T], empty: float) -> NDArray[T]:
            new = np.full((*old.shape[:-1], room), empty, dtype=old.dtype)
            new[..., : len(kept)] = old[..., kept]
            return new

        self._allocatable = with_room(self._allocatable, 0)
        self._idle = with_room(self._idle, 0)
        self._future = with_room(self._future, 0)
        self._divisor = with_room(self._divisor, np.inf)
        self._state_of = with_room(self._state_of, 0)
        self._ready = with_room(self._ready, 0)
        self._private_ports = with_room(self._private_ports, 0)
        self._cordoned = with_room(self._cordoned, 0)
        self._open = with_room(self._open, 1)


def fits(shape: Shape, room: Matrix) -> Mask:
    """Which columns of `room` (resources x nodes) take one task of the shape.

    The request must be below the room plus the tolerance, in each resource that a node is
    compared on.
    """
    (first, limit), *others = shape.fit_limits
    fitting: Mask = room[first] > limit
    for place, limit in others:
        fitting &= room[place] > limit
    return fitting


def slots(shape: Shape, room: Matrix) -> Vector:
    """How many tasks of the shape each column of `room` takes."""
    asked = [place for place in shape.fit_places if shape.request[place] > 0]
    per_resource = (room[asked] + TOLERANCE) / shape.request[asked][:, None]
    n_tasks: Vector = np.floor(np.maximum(per_resource.min(axis=0), 0.0))
    return n_tasks
