"""The events about an object, in the order in which they happened, for people."""

from __future__ import annotations

import time
from collections.abc import Iterable

from swell.api.kinds import EVENTS
from swell.api.meta import Body
from swell.api.times import duration, parse_time
from swell.cli.output import aligned, indented
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.cluster import Selection


def events_text(body: Body, client: OneShot) -> str:
    """Return a table of the events about an object, the oldest first."""
    meta = body["metadata"]
    # By uid as well: a former object of this name had events of its own.
    where = f"involvedObject.name={meta['name']},involvedObject.uid={meta['uid']}"
    events = client.send(
        calls.list_page(EVENTS.untyped(), Selection(meta.get("namespace", ""), fields=where))
    )
    return _events(list(events.items), time.time())


def event_order(event: Body) -> tuple[float, float, str]:
    """Return the key by which events sort: when each was last seen, then when it began."""
    began = event.get("eventTime") or event.get("firstTimestamp") or last_seen(event)
    return parse_time(last_seen(event)), parse_time(str(began)), event["metadata"]["name"]


def _events(events: list[Body], now: float) -> str:
    if not events:
        return "Events:       none"
    return f"Events:\n{indented(aligned(events_table(sorted(events, key=event_order), now)))}"


def events_table(
    events: Iterable[Body], now: float, *, with_object: bool = False
) -> list[list[str]]:
    """Return heading and rows for events, in their order."""
    lead = ["OBJECT"] if with_object else []
    rows = [["AGE", "TYPE", "REASON", *lead, "FROM", "MESSAGE"]]
    for event in events:
        about = event.get("involvedObject") or {}
        lead = [f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"]
        source = event.get("source", {}).get("component") or event.get("reportingComponent", "")
        times = (event.get("series") or {}).get("count") or event.get("count") or 1
        age = duration(now - parse_time(last_seen(event))) + (f" (x{times})" if times > 1 else "")
        # A message with several lines would break the table's own.
        message = " ".join(str(event.get("message", "")).split())
        whose = lead if with_object else []
        kind, reason = event.get("type", ""), event.get("reason", "")
        rows.append([age, kind, reason, *whose, source, message])
    return rows


def last_seen(event: Body) -> str:
    """Return when an event was last seen.

    Writers of the older Event API set `lastTimestamp`, those of the newer `eventTime` and, when it
    repeats, `series`.
    """
    series = event.get("series") or {}
    for text in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
    ):
        if text:
            return str(text)
    return str(event["metadata"]["creationTimestamp"])
