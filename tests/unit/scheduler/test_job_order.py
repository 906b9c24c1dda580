"""The order in which queues and their jobs are served while their keys change."""

from __future__ import annotations

from typing import cast

import pytest

from swell.scheduler.hooks import Votes
from swell.scheduler.job_order import JobOrder
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.queues import QueueInfo


class _Queue:
    def __init__(self, name: str) -> None:
        self.name = name


class _Job:
    def __init__(self, name: str, queue: _Queue) -> None:
        self.name, self.queue = name, queue


class _Keys:
    """The keys of queues, which the test changes between turns."""

    def __init__(self, *, interact: bool = False, may_fall: bool = False) -> None:
        self.queue_keys_interact, self.queue_keys_may_fall = interact, may_fall
        self.now: dict[str, float] = {}

    def queue_key(self, queue: QueueInfo) -> tuple[object, ...]:
        return (self.now[queue.name], queue.name)

    def job_key(self, job: JobInfo) -> tuple[object, ...]:
        return (cast("_Job", job).name,)


def _served(keys: _Keys, changes: list[dict[str, float]]) -> list[str]:
    """Returns the jobs in order, with the keys changed after each of them."""
    queues = {name: _Queue(name) for name in keys.now}
    jobs = [_Job(f"{name}{at}", queue) for name, queue in queues.items() for at in range(2)]
    order = JobOrder(cast("Votes", keys), cast("list[JobInfo]", jobs))
    served = []
    for _, job in order:
        served.append(cast("_Job", job).name)
        keys.now |= changes.pop(0) if changes else {}
    return served


@pytest.mark.parametrize(
    ("may_fall", "expected"), [(True, ["a0", "c0", "c1", "b0", "b1", "a1"]), (False, None)]
)
def test_queue_whose_key_fell_is_served_next(may_fall: bool, expected: list[str] | None) -> None:
    """An allocation in one queue may put another one first that was last."""
    keys = _Keys(interact=True, may_fall=may_fall)
    keys.now = {"a": 0.0, "b": 1.0, "c": 2.0}

    served = _served(keys, [{"a": 3.0, "c": 0.5}])

    assert expected is None or served == expected
    assert (served[1] == "c0") is may_fall


def test_queue_whose_key_grew_is_put_back() -> None:
    """A relative's allocation delays a queue that waits for its turn."""
    keys = _Keys(interact=True)
    keys.now = {"a": 0.0, "b": 1.0, "c": 2.0}

    assert _served(keys, [{"a": 3.0, "b": 2.5}])[:2] == ["a0", "c0"]
