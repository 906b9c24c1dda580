"""The snapshot: the cluster as a cycle sees it, with every sum over nodes, jobs and queues.

It is one mutable object, not a copy per cycle (ADR 12). The live cache puts objects in and takes
them out one by one, at the cost of what changed; a session moves tasks in it, with undo, and looks
at pending work only. `move` and its kin are the only ways in which a task changes node or status,
and they keep nodes, jobs, queues and the affinity index in step. No clock, no I/O.

`put_*` and `remove_*` follow the objects of the API server. An object may come before another that
it refers to: a pod before its group or node, a group before its queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Node
from swell.api.meta import Key
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod, PodSpec
from swell.api.policy import PodDisruptionBudget, PriorityClass
from swell.api.quantity import QuantityError
from swell.api.scheduling import PodGroup, PodGroupPhase, Queue
from swell.api.trainingjob import TrainingJob
from swell.scheduler.config import SCHEDULER_NAMES
from swell.scheduler.model.affinity import AffinityIndex
from swell.scheduler.model.claim_tables import ClaimTables
from swell.scheduler.model.elastic import (
    PRESENT,
    RoleMembers,
    roles_of,
    trainers_key,
    trainers_of,
)
from swell.scheduler.model.empty_nodes import EmptyNodes
from swell.scheduler.model.gpus import KNOWN_GPUS, GpuKnowledge
from swell.scheduler.model.hyper_nodes import HyperNodes
from swell.scheduler.model.job_table import JobTable
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.label_domains import LabelDomains
from swell.scheduler.model.label_topology import LabelTopology
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.queue_rules import DEFAULT_QUEUE
from swell.scheduler.model.queues import read_queue
from swell.scheduler.model.reasons import Refusal
from swell.scheduler.model.resources import Dimensions
from swell.scheduler.model.tasks import (
    NOWHERE,
    TAKES_LATER,
    TAKES_NOW,
    Shape,
    ShapeCache,
    Task,
    TaskStatus,
    are_alike,
    read_task,
    status_of,
)
from swell.scheduler.model.twins import may_have_twins, read_twin


class SchedulerSnapshot:
    """All that a cycle decides on. Nodes put in first, sorted, break ties by name."""

    def __init__(
        self,
        scheduler_names: Iterable[str] = SCHEDULER_NAMES,
        default_queue: str = DEFAULT_QUEUE,
        gpus: GpuKnowledge = KNOWN_GPUS,
    ) -> None:
        self.scheduler_names = frozenset(scheduler_names)
        self._default_queue = default_queue  # of native groups that name none
        # Written by the live scheduler, which has a clock: groups that are not admitted for now,
        # and pairs (preemptor, victim) that a cooldown forbids, with the time when it ends.
        self.backed_off: dict[str, Refusal] = {}
        self.cooldowns: dict[tuple[str, str], float] = {}
        # Likewise: nodes to try last for a claim, and groups whose volumes are being prepared.
        self.avoided: dict[str, dict[str, float]] = {}
        self._gpus = gpus
        self.preparing: dict[str, Refusal] = {}
        self._claims = ClaimTables(NodeTable(Dimensions()), self.avoided)
        self.clear()

    def clear(self) -> None:
        """Forgets all objects, so that they can be put in anew."""
        self.dimensions = Dimensions()
        self.nodes = NodeTable(self.dimensions, self._gpus)
        self.empty_nodes = EmptyNodes(self.nodes, self.dimensions)
        self.affinity_index = AffinityIndex(self.nodes)
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self._claims = ClaimTables(self.nodes, self.avoided, self._claims)
        self.volumes, self.devices = self._claims.volumes, self._claims.devices
        self.hyper_nodes = HyperNodes()
        self.label_domains = LabelDomains()
        self.label_topology = LabelTopology()
        self._tasks: dict[str, Task] = {}
        self.unreadable_tasks: dict[str, Task] = {}  # those that ask for an unknown amount
        self._shapes = ShapeCache(self.dimensions)
        self._width = self.dimensions.width
        self.roles = RoleMembers()
        self._job_table = JobTable(
            self.dimensions,
            self.scheduler_names,
            self._default_queue,
            self.label_domains,
            self.empty_nodes,
        )
        self.jobs, self.queues = self._job_table.jobs, self._job_table.queues

    # --- objects in and out

    def put_node(self, node: Node, unreadable: str = "") -> None:
        """Adds or replaces a node. `unreadable` says why it takes no new pods, if it cannot."""
        self.nodes.put(node, unreadable)
        self._match_width()

    def remove_node(self, name: str) -> None:
        self.nodes.remove(name)
        self.nodes.compact()

    def put_namespace(self, name: str, labels: dict[str, str]) -> None:
        self.affinity_index.namespaces[name] = labels

    def remove_namespace(self, name: str) -> None:
        self.affinity_index.namespaces.pop(name, None)

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        self.budgets[str(budget.metadata.key)] = budget

    def remove_budget(self, key: str) -> None:
        self.budgets.pop(key, None)

    def put_priority_class(self, priority_class: PriorityClass) -> None:
        self._job_table.priorities.put(priority_class)
        self._job_table.reprioritise()

    def remove_priority_class(self, name: str) -> None:
        self._job_table.priorities.remove(name)
        self._job_table.reprioritise()

    def put_queue(self, queue: Queue, unreadable: str = "") -> None:
        """Adds or replaces a queue, and moves the jobs that name it there.

        While it is unreadable its limits are not known, and no job in or below it gets anything.
        """
        entry = read_queue(queue, self.dimensions, unreadable)
        self._match_width()
        entry.widen(self._width)
        self._job_table.put_queue(entry)

    def remove_queue(self, name: str) -> None:
        self._job_table.remove_queue(name)

    def put_group(self, group: PodGroup, unreadable: str = "") -> None:
        """Adds or replaces a job; it gets the tasks of the old one and those that waited for it.

        While it is unreadable its minimum is not known, and none of its pods is placed or evicted.
        """
        job = self._job_table.read(group, unreadable)
        self._match_width()
        if len(job.allocated) < self._width:
            job.widen(self._width)
        self._job_table.put(job)

    def put_native_group(self, key: Key, group: NativeGroup | None, unreadable: str = "") -> None:
        """Adds or replaces the job of a native group; None stands for one that does not exist."""
        self._job_table.put_native(key, group, unreadable)

    def remove_native_group(self, key: Key) -> None:
        """Makes the pods of a native group wait for one of the same name."""
        self._job_table.remove_native(key)

    def remove_group(self, key: str) -> None:
        """Removes a job. Its tasks stay and take room; they rejoin a group of the same name."""
        self._job_table.remove(key)

    def put_pod(self, pod: Pod, group: str = "", unreadable: str = "") -> Task:
        """Adds or replaces a pod. One of ours that names a group belongs to that job.

        Any other pod only takes room. `group` stands for the annotation of a pod that has none.
        A pod that asks for an unknown amount (`unreadable` says why) has its node take no others,
        and its queue, if that is limited, get nothing more.
        """
        task = self._put_task(pod, unreadable, group)
        self._job_table.join(task)
        return task

    def put_pods(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Does the same for many pods, each with why it is unreadable, at less cost.

        Equal pods of one gang in a row are counted in one go.
        """
        alike: list[Task] = []
        for pod, unreadable in pods:
            if alike and not unreadable and self._put_twin(pod, alike):
                continue
            self._job_table.count_twins(alike)
            task = self.put_pod(pod, unreadable=unreadable)
            alike = [task] if may_have_twins(task) else []
        self._job_table.count_twins(alike)

    def _put_twin(self, pod: Pod, alike: list[Task]) -> bool:
        """Adds a pod to its job, and to these, if it is new and equal to theirs in all but name."""
        meta, first = pod.metadata, alike[0]
        key = f"{meta.namespace}/{meta.name}"
        task = None if key in self._tasks else read_twin(first, key, pod)
        if task is None or first.job is None:
            return False
        self._tasks[key] = first.job.tasks[key] = task
        task.shape.n_tasks += 1
        alike.append(task)
        return True

    def _put_task(self, pod: Pod, unreadable: str, group: str = "") -> Task:
        """Adds or replaces the task of a pod, on its node; its group is only noted yet."""
        meta = pod.metadata
        key = f"{meta.namespace}/{meta.name}"
        # A changed pod is removed and added: its shape, job and role may all be others.
        if key in self._tasks:
            self._drop_task(key)
        notes = self._job_table.notes.read(meta.annotations)
        try:
            shape = self._shapes.take(pod.spec, is_known=not unreadable, strategy=notes.strategy)
        except QuantityError as error:
            unreadable = unreadable or f"pod {key}: {error}"
            shape = self._shapes.take(PodSpec(), is_known=False)
        self._match_width()
        task = self._tasks[key] = read_task(key, pod, shape, notes)
        task.unreadable = unreadable
        if unreadable:
            self.unreadable_tasks[key] = task
        status = status_of(pod)
        task.status = self.roles.join(task, status) if meta.labels else status
        if pod.spec.node_name:
            task.node = self.place_of(pod, task.status)
            self._count_on_node(task, 1)
        self._job_table.membership.note(task, notes.group, group)
        if shape.has_claims:
            self._claims.add(task)
        return task

    def remove_pod(self, key: str) -> None:
        self._drop_task(key)
        self.nodes.compact()

    def place_of(self, pod: Pod, status: TaskStatus) -> int:
        """Returns the place of a pod's node; NOWHERE without one, and once the pod has finished.

        So a place that no node and no task has is not referred to, and can be given to another.
        """
        if not pod.spec.node_name or not (TAKES_NOW[status] or TAKES_LATER[status]):
            return NOWHERE
        return self.nodes.place(pod.spec.node_name, is_temporary=True)

    def _drop_task(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is None:
            return
        self.unreadable_tasks.pop(key, None)
        self._count_on_node(task, -1)
        if task.shape.has_claims:
            self._claims.remove(task)
        self._shapes.give_back(task.shape)
        self._job_table.leave(task)
        self.roles.leave(task)

    def put_training_job(self, job: AITrainingJob) -> None:
        """Sets the roles' targets. A pod at or above its role's target counts as RELEASING."""
        self.roles.set_roles(str(job.metadata.key), roles_of(job))
        self._rejoin_roles(str(job.metadata.key))

    def put_trainers(self, job: TrainingJob) -> None:
        """Does the same for the trainers of a TrainingJob."""
        key = trainers_key(str(job.metadata.key))
        self.roles.set_roles(key, trainers_of(job))
        self._rejoin_roles(key)

    def remove_training_job(self, key: str) -> None:
        self.roles.remove_roles(key)
        self._rejoin_roles(key)

    # --- used by sessions

    def shape_of(self, spec: PodSpec) -> Shape:
        """Returns the shape of a pod that need not be in the snapshot."""
        shape = self._shapes.find(spec)
        self._match_width()
        return shape

    def task(self, key: str) -> Task | None:
        return self._tasks.get(key)

    def tasks(self) -> Iterable[Task]:
        """Returns every task."""
        return self._tasks.values()

    @property
    def n_shapes(self) -> int:
        return len(self._shapes)

    def move(self, task: Task, status: TaskStatus, node: int) -> None:
        """Gives a task a status, and a node or NOWHERE."""
        old, before = task.status, task.node
        # On the same node only the sums of resources change, not its tasks and ports.
        if node == task.node and node != NOWHERE and TAKES_NOW[old] and TAKES_NOW[status]:
            self.affinity_index.moved(task, node, old, -1)
            self.nodes.restate(task, old, status)
            task.status = status
            self.affinity_index.moved(task, node, status, 1)
        else:
            self._count_on_node(task, -1)
            task.status, task.node = status, node
            self._count_on_node(task, 1)
        if task.shape.has_claims:
            self._claims.follow(task, before)
        self._job_table.shift(task, old, status, 1)

    def move_alike(self, tasks: Sequence[Task], status: TaskStatus, nodes: Sequence[int]) -> None:
        """Does the same for pending tasks of one shape, role and job, in one operation."""
        is_indexed = self.affinity_index.counts(tasks[0].shape)
        for task, node in zip(tasks, nodes, strict=True):
            task.status, task.node = status, node
            if is_indexed:
                self.affinity_index.moved(task, node, status, 1)
        self.nodes.add_alike(tasks, nodes, status)
        if tasks[0].shape.has_claims:
            for task in tasks:
                self._claims.follow(task)
        self._job_table.shift(tasks[0], TaskStatus.PENDING, status, len(tasks))

    def move_back_alike(self, tasks: Sequence[Task]) -> None:
        """Undoes `move_alike` for tasks that are still where it put them."""
        status, is_indexed = tasks[0].status, self.affinity_index.counts(tasks[0].shape)
        self.nodes.take_off_alike(tasks, status)
        for task in reversed(tasks):
            node = task.node
            if is_indexed:
                self.affinity_index.moved(task, node, status, -1)
            task.status, task.node = TaskStatus.PENDING, NOWHERE
            if task.shape.has_claims:
                self._claims.follow(task, node)
        self._job_table.shift(tasks[0], status, TaskStatus.PENDING, len(tasks))

    def confirm_alike(self, tasks: Sequence[Task]) -> None:
        """Makes allocated tasks of one shape, role and job BINDING.

        The nodes count both statuses alike.
        """
        for task in tasks:
            task.status = TaskStatus.BINDING
        self._job_table.shift(tasks[0], TaskStatus.ALLOCATED, TaskStatus.BINDING, len(tasks))

    def confirm(self, tasks: Sequence[Task]) -> None:
        """Does the same for allocated tasks of one job."""
        # Runs of equal tasks are counted at once; tasks of a gang come in such runs.
        n_alike = 0
        for at, task in enumerate(tasks):
            task.status = TaskStatus.BINDING
            n_alike += 1
            if at + 1 == len(tasks) or not are_alike(task, tasks[at + 1]):
                self._job_table.shift(task, TaskStatus.ALLOCATED, TaskStatus.BINDING, n_alike)
                n_alike = 0

    def set_phase(self, job: JobInfo, phase: PodGroupPhase) -> None:
        job.phase = phase
        self._job_table.touch(job)

    def active_jobs(self) -> list[JobInfo]:
        """Returns the jobs of existing queues that have pending work, sorted by name."""
        return self._job_table.active()

    def take_queues_left(self) -> frozenset[str]:
        """Returns the queues that native groups have left since the last call."""
        left = frozenset(self._job_table.queues_left)
        self._job_table.queues_left.clear()
        return left

    def settle(self) -> None:
        """Brings the sums for admission up to date, at the beginning of a session."""
        self.nodes.forget_changes()
        self.affinity_index.forget_unused()
        self._claims.forget_remembered()
        self._job_table.settle()

    # --- keeping the sums

    def _count_on_node(self, task: Task, sign: int) -> None:
        status, node = task.status, task.node
        if node == NOWHERE or not (TAKES_NOW[status] or TAKES_LATER[status]):
            return
        if sign > 0:
            self.nodes.add(task, node, status)
        else:
            self.nodes.take_off(task, node, status)
        if task.unreadable:
            if sign > 0:
                self.nodes.close(node, task.key, task.unreadable)
            else:
                self.nodes.reopen(node, task.key)
        self.affinity_index.moved(task, node, status, sign)

    def _rejoin_roles(self, key: str) -> None:
        for task in list(self.roles.of(key)):
            # The old target may have made it RELEASING: then the status before that counts.
            is_present = task.status in {*PRESENT, TaskStatus.RELEASING}
            status = _present_status(task) if is_present else task.status
            self.move(task, self.roles.join(task, status), task.node)

    def _match_width(self) -> None:
        """Widens all vectors if a new resource name needs more places."""
        if self.dimensions.width == self._width:
            return
        self._width = width = self.dimensions.width
        if self.nodes.idle.shape[0] < width:
            self.nodes.widen(width)
        self._shapes.widen(width)
        self._job_table.widen(width)


def _present_status(task: Task) -> TaskStatus:
    """Returns the status as the server reports it, corrected by our own unconfirmed writes."""
    status = status_of(task.pod)
    if task.marked_for_deletion and status in PRESENT:
        return TaskStatus.RELEASING
    # A pending pod with a node here was bound by us, and the server does not show it yet.
    return TaskStatus.BOUND if status is TaskStatus.PENDING and task.node != NOWHERE else status
