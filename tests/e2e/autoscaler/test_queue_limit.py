"""A role in a queue that is full is not raised, and an event on the job says why."""

from __future__ import annotations

from swell.api.core import Event
from swell.api.kinds import EVENTS, QUEUES
from swell.api.meta import Body
from tests.e2e.autoscaler.kinds import Bounds, a_job
from tests.e2e.autoscaler.stage import NAMESPACE, Stage, play_embedded

SMALL: Body = {
    "apiVersion": QUEUES.api_version,
    "kind": QUEUES.kind,
    "metadata": {"name": "small"},
    "spec": {"weight": 1, "capability": {"cpu": "2"}},
}


async def live(stage: Stage) -> tuple[list[int], int, list[tuple[str, str]]]:
    """Two jobs, of which one is in a queue of two cpus; returns sizes and that one's events."""
    stage.may_resize.set()
    await stage.cluster.create(QUEUES.untyped(), SMALL)
    await stage.submit(a_job("capped", NAMESPACE, Bounds(1, 8), queue="small"))
    await stage.submit(a_job("free", NAMESPACE, Bounds(1, 8)))
    await stage.until("capped has two", lambda: len(stage.trainers("capped")) == 2)
    await stage.until("free has grown", lambda: len(stage.trainers("free")) == 8)
    await stage.go_on(120)
    targets = [target for _, target in stage.reported["capped"]]
    events = await stage.cluster.list(EVENTS)
    texts = [(one.reason, one.message) for one in events.items if isinstance(one, Event)]
    return targets, len(stage.trainers("free")), texts


def test_role_in_a_queue_capped_at_two_stays_at_two() -> None:
    """With room on the nodes it goes up to its queue's limit and no further, and says why."""
    targets, n_free, events = play_embedded(live)
    refusals = [text for reason, text in events if reason == "QueueRefuses"]

    assert max(targets) == 2
    assert targets[-1] == 2
    assert n_free == 8
    assert refusals == [
        "trainer stays at 2: queue small is at its capability: cpu 2 of 2, 1 more asked for"
    ]
