"""Events are shown in the order in which they happened, whichever API wrote them."""

from __future__ import annotations

from swell.api.meta import Body
from swell.cli.objects.events import _events, event_order

NOW = 1_767_225_700.0  # 2026-01-01T00:01:40Z


def an_event(name: str, **fields: object) -> Body:
    return {"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, **fields}


NEWER_FIRST = an_event("d", eventTime="2026-01-01T00:00:10.000001Z", reason="First")
NEWER_SECOND = an_event("c", eventTime="2026-01-01T00:00:10.000002Z", reason="Second")
OLDER = an_event("b", lastTimestamp="2026-01-01T00:00:11Z", count=3, reason="Third")
REPEATED = an_event(
    "a",
    eventTime="2026-01-01T00:00:01.000000Z",
    series={"count": 7, "lastObservedTime": "2026-01-01T00:00:12.000000Z"},
    reason="Fourth",
)


def test_events_sort_by_when_they_were_last_seen() -> None:
    """Microseconds count, and the last time of a series does."""
    mixed = [REPEATED, OLDER, NEWER_SECOND, NEWER_FIRST]

    ordered = [event["reason"] for event in sorted(mixed, key=event_order)]

    assert ordered == ["First", "Second", "Third", "Fourth"]


def test_table_of_events_counts_both_ways() -> None:
    """The older API counts in `count`, the newer in `series`."""
    lines = _events([REPEATED, OLDER, NEWER_FIRST], NOW).splitlines()

    assert [line.split()[0:2] for line in lines[2:]] == [
        ["89s", "First"],
        ["89s", "(x3)"],
        ["88s", "(x7)"],
    ]
