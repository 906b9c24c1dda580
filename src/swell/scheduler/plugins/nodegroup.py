"""The plugin nodegroup ties queues to groups of nodes, which a label on nodes names.

A queue says in `spec.affinity` which groups it uses and which it keeps away from. With
enableHierarchy a queue that says nothing takes what its nearest ancestor says. An annotation of the
queue limits what it may have of each group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from swell.api import codec
from swell.api.pod import QuantityText
from swell.api.quantity import QuantityError
from swell.api.scheduling import NodeGroupTerms, QueueAffinity
from swell.scheduler.config import PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.nodes import NodeTable
from swell.scheduler.model.queues import QueueInfo
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.model.resources import TOLERANCE, Mask, Matrix, Vector, amount_of, amount_text
from swell.scheduler.model.tasks import HELD, NOWHERE, Task
from swell.scheduler.session import Session

GROUP_LABEL: Final = "volcano.sh/nodegroup-name"
LIMITS_ANNOTATION: Final = "volcano.sh/nodegroup-resource-limits"
STRICT: Final = "strict"
ORDERED: Final = "enablePreferredOrder"
KNOWN: Final = KnownPlugin(
    switches=("enablePredicate", "enableNodeOrder", "enableHierarchy"),
    arguments={STRICT: ArgumentKind.FLAG, ORDERED: ArgumentKind.FLAG},
)
_REQUIRED_SCORE: Final = 100.0
_PREFERRED_SCORE: Final = 50.0
_AVOIDED_SCORE: Final = -1.0
_NO_GROUP: Final = -1
_NO_TERMS: Final = NodeGroupTerms()
Limits = Mapping[str, Mapping[int, float]]  # by group: amounts by place


def open_nodegroup(session: Session, option: PluginOption) -> Hooks:
    rules = _NodeGroups(session, option)
    return Hooks(
        queue_filter=rules.allowed,
        queue_score=rules.score,
        task_filter=rules.task_filter,
        diagnose=rules.diagnose,
    )


@dataclass(frozen=True, slots=True)
class _OfQueue:
    """The nodes that a queue may use by its affinity, their scores, and its limits by group."""

    allowed: Mask
    score: Vector | None
    limits: Limits
    problem: str  # why its limits cannot be read, if so


@dataclass(frozen=True, slots=True)
class _Affinity:
    """The lists of a queue's affinity."""

    required: tuple[str, ...]
    preferred: tuple[str, ...]
    forbidden: tuple[str, ...]
    avoided: tuple[str, ...]

    @classmethod
    def of(cls, given: QueueAffinity | None) -> _Affinity:
        near = (given and given.node_group_affinity) or _NO_TERMS
        far = (given and given.node_group_anti_affinity) or _NO_TERMS
        return cls(near.required, near.preferred, far.required, far.preferred)

    @property
    def is_empty(self) -> bool:
        return not (self.required or self.preferred or self.forbidden or self.avoided)

    def allows(self, group: str) -> bool:
        """Whether a group may be used. The later list wins, as in Volcano."""
        if group in self.avoided:
            return True
        if group in self.forbidden:
            return False
        return group in self.required or group in self.preferred

    def score(self, group: str, *, is_ordered: bool) -> float:
        if group in self.avoided:
            return _AVOIDED_SCORE
        score = _REQUIRED_SCORE if group in self.required else 0.0
        if group in self.preferred:
            n = len(self.preferred)
            part = (n - self.preferred.index(group)) / n if is_ordered else 1.0
            score += _PREFERRED_SCORE * part
        return score


class _QueueUse:
    """The amounts that a queue holds of each group, in step with the tasks that a session moves."""

    def __init__(
        self, nodes: NodeTable, queue: QueueInfo, codes: NDArray[np.intp], of_groups: Matrix
    ) -> None:
        self._nodes = nodes
        self._queue = queue
        self._codes = codes
        self._of_nodes: dict[int, Vector] = {}
        self.of_groups = of_groups  # resources x groups
        self._position = len(nodes.changes)
        tasks = (task for job in queue.jobs.values() for task in job.tasks.values())
        for place in dict.fromkeys(task.node for task in tasks if task.node != NOWHERE):
            self._recount(place)

    def update(self) -> None:
        """Counts the nodes anew that have changed since."""
        changed = self._nodes.changed_since(self._position)
        self._position = len(self._nodes.changes)
        for place in dict.fromkeys(changed.tolist()):
            self._recount(place)

    def _recount(self, place: int) -> None:
        group = self._codes[place]
        if group == _NO_GROUP:
            return
        held = np.zeros(len(self.of_groups))
        for task in self._nodes.tasks[place].values():
            if task.job is not None and task.job.queue is self._queue and HELD[task.status]:
                held += task.request
        old = self._of_nodes.get(place)
        self.of_groups[:, group] += held if old is None else held - old
        self._of_nodes[place] = held


class _NodeGroups:
    """The rules of one session."""

    def __init__(self, session: Session, option: PluginOption) -> None:
        self._nodes = session.snapshot.nodes
        self._dimensions = session.snapshot.dimensions
        self._is_strict = option.arguments.flag(STRICT, default=True)
        self._is_ordered = option.arguments.flag(ORDERED, default=False)
        self._inherits = option.is_on("enableHierarchy")
        self._of_queue: dict[str, _OfQueue] = {}
        self._version = -1
        self._names: list[str] = []
        self._codes: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._uses: dict[str, _QueueUse] = {}

    # --- affinity, the same for all tasks of a queue

    def allowed(self, queue: QueueInfo) -> Mask | None:
        return self._entry(queue).allowed

    def score(self, queue: QueueInfo) -> Vector | None:
        return self._entry(queue).score

    def _entry(self, queue: QueueInfo) -> _OfQueue:
        self._refresh()
        entry = self._of_queue.get(queue.name)
        if entry is None:
            entry = self._of_queue[queue.name] = self._new_entry(queue)
        return entry

    def _refresh(self) -> None:
        if self._version == self._nodes.version:
            return
        self._version = self._nodes.version
        self._of_queue.clear()
        self._uses.clear()
        labels = [
            None if node is None else node.metadata.labels.get(GROUP_LABEL)
            for node in self._nodes.objects
        ]
        self._names = sorted({label for label in labels if label is not None})
        numbers = {name: at for at, name in enumerate(self._names)}
        self._codes = np.array(
            [_NO_GROUP if label is None else numbers[label] for label in labels], dtype=np.intp
        )

    def _new_entry(self, queue: QueueInfo) -> _OfQueue:
        limits, problem = self._limits_of(queue)
        found = _Affinity.of(self._affinity_of(queue))
        # One entry for each group, and the last for nodes without a group.
        passing = [found.allows(name) for name in self._names]
        passing.append(not self._is_strict and found.is_empty)
        points = [found.score(name, is_ordered=self._is_ordered) for name in self._names]
        points.append(0.0)
        allowed = np.array(passing, dtype=np.bool_)[self._codes]
        if problem:
            allowed = np.zeros(len(self._codes), dtype=np.bool_)
        score = np.array(points)[self._codes] if any(points) else None
        return _OfQueue(allowed, score, limits, problem)

    def _affinity_of(self, queue: QueueInfo) -> QueueAffinity | None:
        candidates = queue.lineage if self._inherits else (queue,)
        given = (one.object.spec.affinity for one in candidates)
        return next((one for one in given if not _Affinity.of(one).is_empty), None)

    # --- limits, which change with every task

    def task_filter(self, task: Task, now: bool) -> Mask | None:
        del now  # a task that leaves has given its part back: no eviction helps
        queue = task.job.queue if task.job else None
        if queue is None or not self._entry(queue).limits:
            return None
        return self._within_limits(task, queue)[0]

    def _within_limits(self, task: Task, queue: QueueInfo) -> tuple[Mask, str]:
        """Returns the nodes whose group has some of the limit left; and what is full, if any."""
        use = self._use_of(queue)
        left = np.ones(len(self._names) + 1, dtype=np.bool_)
        full: list[str] = []
        for at, name in enumerate(self._names):
            for place, limit in self._entry(queue).limits.get(name, {}).items():
                asked = task.request[place] if place < len(task.request) else 0.0
                held = use.of_groups[place, at] if place < len(use.of_groups) else 0.0
                if held + asked >= limit + TOLERANCE:
                    left[at] = False
                    full.append(self._full_text(name, place, held, limit))
        return left[self._codes], ", ".join(full)

    def _full_text(self, group: str, place: int, held: float, limit: float) -> str:
        resource = self._dimensions.names[place]
        amounts = f"{amount_text(resource, held)} of {amount_text(resource, limit)}"
        return f"{group} ({resource} {amounts})"

    def _limits_of(self, queue: QueueInfo) -> tuple[Limits, str]:
        text = queue.object.metadata.annotations.get(LIMITS_ANNOTATION, "")
        if not text:
            return {}, ""
        try:
            given = codec.decode(text.encode(), dict[str, dict[str, QuantityText]])
            amounts = {
                group: {name: float(amount_of(name, text)) for name, text in texts.items()}
                for group, texts in given.items()
            }
        except (msgspec.DecodeError, QuantityError) as error:
            return {}, f"annotation {LIMITS_ANNOTATION} cannot be read: {error}"
        # Of a resource that the cluster does not know no pod holds or asks for any.
        known = self._dimensions.known
        return {
            group: {
                place: amount
                for name, amount in of_group.items()
                if (place := known(name)) is not None
            }
            for group, of_group in amounts.items()
        }, ""

    def _use_of(self, queue: QueueInfo) -> _QueueUse:
        use = self._uses.get(queue.name)
        if use is None:
            width = self._dimensions.width
            use = _QueueUse(self._nodes, queue, self._codes, np.zeros((width, len(self._names))))
            self._uses[queue.name] = use
        use.update()
        return use

    # --- explaining

    def diagnose(self, task: Task) -> Iterator[tuple[WaitReason, Mask, str]]:
        queue = task.job.queue if task.job else None
        if queue is None:
            return
        entry = self._entry(queue)
        yield WaitReason.NODE_GROUP_MISMATCH, entry.allowed, entry.problem
        if entry.limits:
            mask, full = self._within_limits(task, queue)
            yield WaitReason.NODE_GROUP_LIMIT, mask, full
