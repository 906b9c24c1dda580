"""Where a queue stands: open, closing or closed, and how many groups it has in which phase.

Decides from the queue, the one above it and its groups. People say what they want in
`status.state`; closing a queue closes those below it, marked, and opening it opens the marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from swell.api.meta import Body
from swell.api.scheduling import PodGroup, PodGroupPhase, Queue, QueueState, QueueStatus

ROOT: Final = "root"
DEFAULT: Final = "default"
# Always there: what they are created with.
BUILT_IN: Final[Mapping[str, Body]] = {
    ROOT: {"weight": 1, "reclaimable": False},
    DEFAULT: {"weight": 1, "parent": ROOT},
}
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
SHUT: Final = frozenset({QueueState.CLOSING, QueueState.CLOSED})


@dataclass(frozen=True, slots=True)
class Standing:
    """What a queue's status should say; `is_marked` when only its parent keeps it closed."""

    state: QueueState
    is_marked: bool
    n_groups: Mapping[PodGroupPhase, int]


def standing_of(queue: Queue, parent: Queue | None, groups: Iterable[PodGroup]) -> Standing:
    n_groups = Counter(group.status.phase for group in groups)
    n_groups[PodGroupPhase.PENDING] += n_groups.pop(PodGroupPhase.EMPTY, 0)
    is_marked, is_shut = is_closed_by_parent(queue), queue.status.state in SHUT
    if parent is not None and parent.status.state in SHUT:
        is_marked = is_marked or not is_shut
        is_shut = True
    elif is_marked:
        is_marked = is_shut = False
    state = _state(queue.status.state, is_shut=is_shut, is_empty=not n_groups.total())
    return Standing(state, is_marked, n_groups)


def _state(said: QueueState, *, is_shut: bool, is_empty: bool) -> QueueState:
    if is_shut:
        return QueueState.CLOSED if is_empty else QueueState.CLOSING
    return said if said is QueueState.UNKNOWN else QueueState.OPEN


def is_closed_by_parent(queue: Queue) -> bool:
    return queue.metadata.annotations.get(CLOSED_BY_PARENT) == "true"


def parent_name(queue: Queue) -> str:
    """The queue above; empty for the root."""
    return queue.spec.parent or (ROOT if queue.metadata.name != ROOT else "")


def parent_of(queue: Queue, find: Callable[[str], Queue | None]) -> Queue | None:
    """The queue above, unless that is below at the same time: a circle would never open again."""
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
    now: QueueStatus, standing: Standing, allocated: Mapping[str, str] | None
) -> Body:
    """What of the status is to be written; nothing when it says all this already."""
    count = standing.n_groups
    wanted = {
        "pending": (now.pending, count.get(PodGroupPhase.PENDING, 0)),
        "inqueue": (now.inqueue, count.get(PodGroupPhase.INQUEUE, 0)),
        "running": (now.running, count.get(PodGroupPhase.RUNNING, 0)),
        "completed": (now.completed, count.get(PodGroupPhase.COMPLETED, 0)),
        "unknown": (now.unknown, count.get(PodGroupPhase.UNKNOWN, 0)),
    }
    change: Body = {name: new for name, (old, new) in wanted.items() if old != new}
    if now.state is not standing.state:
        change["state"] = standing.state.value
    if allocated is not None and dict(now.allocated) != dict(allocated):
        # A merge keeps what it is not told of.
        gone = {name: None for name in now.allocated if name not in allocated}
        change["allocated"] = {**allocated, **gone}
    return change
