"""The state of a queue, by what users wrote, its parent and its groups."""

from __future__ import annotations

import pytest

from swell.api.codec import convert
from swell.api.scheduling import PodGroup, PodGroupPhase, Queue, QueueState, QueueStatus
from swell.scheduler.model.queue_rules import (
    CLOSED_BY_PARENT,
    DesiredQueueStatus,
    desired_status_of,
    parent_of,
    status_change,
)

MARKED = {CLOSED_BY_PARENT: "true"}


def a_queue(state: str = "", *, name: str = "q", parent: str = "", marked: bool = False) -> Queue:
    annotations = MARKED if marked else {}
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parent": parent},
        "status": {"state": state},
    }
    return convert(body, Queue)


def a_group(phase: str) -> PodGroup:
    return convert({"metadata": {"name": phase}, "status": {"phase": phase}}, PodGroup)


# State, marked, parent's state, how many groups; what follows.
RULES = [
    ("", False, None, 0, ("Open", False)),
    ("Open", False, None, 3, ("Open", False)),
    ("Closing", False, "Open", 1, ("Closing", False)),
    ("Closing", False, "Open", 0, ("Closed", False)),
    ("Closed", False, "Open", 2, ("Closing", False)),
    ("Unknown", False, "Open", 2, ("Unknown", False)),
    ("Open", False, "Closed", 0, ("Closed", True)),
    ("Open", False, "Closing", 1, ("Closing", True)),
    ("", False, "Closed", 0, ("Closed", True)),
    ("Unknown", False, "Closed", 0, ("Closed", True)),
    ("Closed", True, "Closed", 0, ("Closed", True)),
    ("Open", True, "Closed", 0, ("Closed", True)),
    ("Closed", True, "Open", 0, ("Open", False)),
    ("Closing", True, None, 4, ("Open", False)),
    ("Open", True, "Open", 0, ("Open", False)),
    ("Closed", False, "Closed", 0, ("Closed", False)),
    ("Closed", True, "Unknown", 0, ("Open", False)),
]


@pytest.mark.parametrize(("state", "marked", "above", "n_groups", "expected"), RULES)
def test_state_follows_from_parent_and_groups(
    state: str, marked: bool, above: str | None, n_groups: int, expected: tuple[str, bool]
) -> None:
    """Closing ends when the last group has gone; a parent closes what is open below it, marked,
    and opening it opens what is marked and nothing else."""
    parent = None if above is None else a_queue(above, name="above")
    standing = desired_status_of(
        a_queue(state, marked=marked), parent, [a_group("Running")] * n_groups
    )

    assert (standing.state.value, standing.is_marked) == expected


def test_groups_are_counted_by_phase() -> None:
    """A group without a phase is pending; only what differs is written."""
    groups = [a_group(phase) for phase in ("", "Pending", "Inqueue", "Running", "Completed")]
    standing = desired_status_of(a_queue("Open"), None, groups)
    now = QueueStatus(state=QueueState.OPEN, running=1)

    assert status_change(now, standing, None) == {"pending": 2, "inqueue": 1, "completed": 1}


def test_allocated_is_written_when_it_differs() -> None:
    """Resources no longer held are removed; an unknown allocation is left as it is."""
    standing = DesiredQueueStatus(
        QueueState.OPEN, is_marked=False, n_groups={PodGroupPhase.RUNNING: 1}
    )
    held = {"cpu": "2", "nvidia.com/gpu": "1"}
    now = QueueStatus(state=QueueState.OPEN, running=1, allocated=dict(held))

    assert status_change(now, standing, held) == {}
    assert status_change(now, standing, None) == {}
    assert status_change(now, standing, {"cpu": "3"}) == {
        "allocated": {"cpu": "3", "nvidia.com/gpu": None}
    }


def test_parent_is_root_unless_named() -> None:
    """Queues in a cycle, or below one, have no parent: they could never open again."""
    queues = {
        name: a_queue(name=name, parent=parent)
        for name, parent in {
            "root": "", "a": "", "b": "a", "x": "y", "y": "x", "z": "x", "own": "own",
        }.items()
    }  # fmt: skip
    found = {name: parent_of(queue, queues.get) for name, queue in queues.items()}

    assert {name: above.metadata.name for name, above in found.items() if above} == {
        "a": "root",
        "b": "a",
    }
