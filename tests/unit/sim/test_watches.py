"""Merged watch events show the last states, in an order a server could have sent."""

from __future__ import annotations

from swell.api.meta import ObjectMeta
from swell.api.pod import Pod
from swell.runtime.cluster import EventType, WatchEvent
from swell.sim.faults.watches import merged

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


def event(kind: EventType, name: str, version: int) -> WatchEvent[Pod]:
    return WatchEvent(kind, Pod(metadata=ObjectMeta(name=name)), str(version))


def seen(events: list[WatchEvent[Pod]]) -> list[tuple[EventType, str]]:
    return [(e.type, e.resource_version) for e in merged(events)]


def test_merge_leaves_out_states_in_between() -> None:
    """Of several states of one object the last is sent."""
    assert seen([event(MODIFIED, "a", 1), event(MODIFIED, "a", 2), event(MODIFIED, "a", 3)]) == [
        (MODIFIED, "3")
    ]


def test_merge_keeps_versions_rising() -> None:
    """The order is that of the last versions."""
    events = [event(MODIFIED, "a", 1), event(MODIFIED, "b", 2), event(MODIFIED, "a", 3)]

    assert seen(events) == [(MODIFIED, "2"), (MODIFIED, "3")]


def test_merge_tells_a_new_object_as_added() -> None:
    """Who did not have the object learns of it by ADDED."""
    assert seen([event(ADDED, "a", 1), event(MODIFIED, "a", 2)]) == [(ADDED, "2")]


def test_merge_tells_a_replaced_object_as_modified() -> None:
    """Deleted and created anew under the same name: no deletion is seen."""
    assert seen([event(DELETED, "a", 1), event(ADDED, "a", 2)]) == [(MODIFIED, "2")]


def test_merge_still_tells_that_a_short_lived_object_has_gone() -> None:
    """Its creator has it in its cache, and would keep it there for ever."""
    assert seen([event(ADDED, "a", 1), event(DELETED, "a", 2)]) == [(DELETED, "2")]


def test_merge_keeps_bookmarks_last() -> None:
    """A bookmark promises everything before it."""
    mark: WatchEvent[Pod] = WatchEvent(EventType.BOOKMARK, None, "5")

    assert seen([event(MODIFIED, "a", 4), mark]) == [(MODIFIED, "4"), (EventType.BOOKMARK, "5")]
