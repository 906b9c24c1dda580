"""The state of queues, and which of them may exist beside the others.

`swell queue` needs these rules and should start quickly: nothing here imports numpy.

- `desired_status_of` decides whether a queue is open, closing or closed, from the queue, its parent
  and its groups. Users close and open a queue by writing `status.state`:

        Open ---- user or parent closes ----> Closing ---- no group left ----> Closed
          ^                                      |                               |
          +------- user opens, or the parent that closed it opens again ---------+

- `placing_problems` and `deletion_problem` find what is wrong with a queue beside the others. What
  is wrong with it by itself is found in `swell.api.validation`.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from swell.api.meta import Body
from swell.api.quantity import ZERO, QuantityText, parse, total
from swell.api.scheduling import PodGroup, PodGroupPhase, Queue, QueueState, QueueStatus
from swell.api.validation import FieldProblem
from swell.api.wording import count_of

ROOT: Final = "root"
DEFAULT_QUEUE: Final = "default"
# Queues that the scheduler creates when it starts, with their spec, as Volcano does.
BUILT_IN: Final[Mapping[str, Body]] = {
    ROOT: {"weight": 1, "reclaimable": False},
    DEFAULT_QUEUE: {"weight": 1, "parent": ROOT},
}
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
# States in which a queue admits and allocates nothing.
SHUT: Final = frozenset({QueueState.CLOSING, QueueState.CLOSED})

Amounts = Mapping[str, QuantityText]
# The number of groups in a queue, by its name.
GroupCount = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class DesiredQueueStatus:
    """The status that a queue should have; `is_marked` if only its parent keeps it closed."""

    state: QueueState
    is_marked: bool
    n_groups: Mapping[PodGroupPhase, int]


def desired_status_of(
    queue: Queue, parent: Queue | None, groups: Iterable[PodGroup]
) -> DesiredQueueStatus:
    """Decides the state of a queue. A queue closed by its parent is marked with an annotation."""
    n_groups = Counter(group.status.phase for group in groups)
    n_groups[PodGroupPhase.PENDING] += n_groups.pop(PodGroupPhase.EMPTY, 0)
    is_marked, is_shut = is_closed_by_parent(queue), queue.status.state in SHUT
    if parent is not None and parent.status.state in SHUT:
        # Marked unless a user had closed it before: it opens again with its parent.
        is_marked = is_marked or not is_shut
        is_shut = True
    elif is_marked:  # the parent is open again
        is_marked = is_shut = False
    state = _state(queue.status.state, is_shut=is_shut, is_empty=not n_groups.total())
    return DesiredQueueStatus(state, is_marked, n_groups)


def _state(written: QueueState, *, is_shut: bool, is_empty: bool) -> QueueState:
    if is_shut:
        return QueueState.CLOSED if is_empty else QueueState.CLOSING
    return written if written is QueueState.UNKNOWN else QueueState.OPEN


def is_closed_by_parent(queue: Queue) -> bool:
    return queue.metadata.annotations.get(CLOSED_BY_PARENT) == "true"


def parent_name(queue: Queue) -> str:
    """Returns the name of the queue above; empty for the root."""
    return queue.spec.parent or (ROOT if queue.metadata.name != ROOT else "")


def parent_of(queue: Queue, find: Callable[[str], Queue | None]) -> Queue | None:
    """Returns the queue above, or None in a cycle: queues of a closed cycle would never open."""
    above = find(parent_name(queue))
    seen = {queue.metadata.name}
    at = above
    while at is not None:
        if at.metadata.name in seen:
            return None
        seen.add(at.metadata.name)
        at = find(parent_name(at))
    return above


def status_change(
    now: QueueStatus, desired: DesiredQueueStatus, allocated: Mapping[str, str] | None
) -> Body:
    """Returns the merge patch of the status; empty when there is nothing to change."""
    count = desired.n_groups
    counts = {
        "pending": (now.pending, count.get(PodGroupPhase.PENDING, 0)),
        "inqueue": (now.inqueue, count.get(PodGroupPhase.INQUEUE, 0)),
        "running": (now.running, count.get(PodGroupPhase.RUNNING, 0)),
        "completed": (now.completed, count.get(PodGroupPhase.COMPLETED, 0)),
        "unknown": (now.unknown, count.get(PodGroupPhase.UNKNOWN, 0)),
    }
    change: Body = {name: new for name, (old, new) in counts.items() if old != new}
    if now.state is not desired.state:
        change["state"] = desired.state.value
    if allocated is not None and dict(now.allocated) != dict(allocated):
        # A merge patch keeps the keys that it does not name: those to remove are set to null.
        gone = {name: None for name in now.allocated if name not in allocated}
        change["allocated"] = {**allocated, **gone}
    return change


def placing_problems(
    queue: Queue, queues: Mapping[str, Queue], n_groups: GroupCount
) -> Iterator[FieldProblem]:
    """Yields why a queue cannot be placed below its parent."""
    name, where = parent_name(queue), ("spec", "parent")
    parent = queues.get(name)
    if parent is None:
        if name and name not in BUILT_IN:
            near = difflib.get_close_matches(name, queues, 1)
            hint = f"did you mean {near[0]}?" if near else f"create it first, or use {ROOT}"
            yield FieldProblem(where, f"there is no queue {name}", hint)
        return
    n = n_groups(name)
    if n and name != ROOT:
        hint = "groups belong into queues that have none below them"
        yield FieldProblem(where, f"queue {name} has {n} groups of its own", hint)
    siblings = [
        other
        for other in queues.values()
        if parent_name(other) == name and other.metadata.name != queue.metadata.name
    ]
    yield from _limit_problems(queue, parent)
    for field in ("guarantee", "deserved"):
        yield from _sum_problems(queue, parent, siblings, field)


def _limit_problems(queue: Queue, parent: Queue) -> Iterator[FieldProblem]:
    bounds = parent.spec.capability
    for field in ("capability", "deserved", "guarantee"):
        for resource, amount in _amounts(queue, field).items():
            if resource in bounds and parse(amount) > parse(bounds[resource]):
                have = f"has a capability of {parse(bounds[resource])}"
                message = f"{parse(amount)} is more than {parent.metadata.name} {have}"
                hint = f"lower it, or raise that of {parent.metadata.name}"
                yield FieldProblem(_steps(field, resource), message, hint)
                return


def _sum_problems(
    queue: Queue, parent: Queue, siblings: list[Queue], field: str
) -> Iterator[FieldProblem]:
    """Yields where the queues below a parent together exceed an amount that the parent names."""
    bounds = _amounts(parent, field)
    for resource, amount in _amounts(queue, field).items():
        if resource not in bounds:
            continue
        theirs = total(parse(_amounts(other, field).get(resource, 0)) for other in siblings)
        left = parse(bounds[resource]) - theirs
        if parse(amount) > max(left, ZERO):
            name = parent.metadata.name
            message = f"{parse(amount)} is more than the {max(left, ZERO)} that {name} has left"
            hint = f"{name} has {parse(bounds[resource])}, the queues below it {theirs} already"
            yield FieldProblem(_steps(field, resource), message, hint)


def deletion_problem(
    name: str, queues: Mapping[str, Queue], n_groups: GroupCount
) -> tuple[str, str] | None:
    """Returns why a queue must not be deleted, and what to do; None when it may be."""
    if name in BUILT_IN:
        return f"queue {name} is always there", "it would come again at once"
    below = sorted(other for other, queue in queues.items() if parent_name(queue) == name)
    if below:
        return f"queue {name} has queues below it: {', '.join(below)}", "delete those first"
    n = n_groups(name)
    if n:
        hint = f"wait until they have gone: swell queue close {name} --wait (or use --force)"
        return (
            f"queue {name} has {count_of(n, 'group')}, which could not be scheduled any more",
            hint,
        )
    return None


def _amounts(queue: Queue, field: str) -> Amounts:
    spec = queue.spec
    found: dict[str, Amounts] = {
        "capability": spec.capability,
        "deserved": spec.deserved,
        "guarantee": spec.guarantee.resource,
    }
    return found[field]


def _steps(field: str, resource: str) -> tuple[str, ...]:
    inner = ("resource",) if field == "guarantee" else ()
    return ("spec", field, *inner, resource)
