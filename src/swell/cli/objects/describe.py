"""The long form of an object for people: its metadata, its fields, and its events."""

from __future__ import annotations

import time

from swell.api.kinds import EVENTS
from swell.api.meta import Body
from swell.api.times import parse_time
from swell.cli.output import aligned, to_yaml
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.cluster import Selection

# Not shown: it repeats the object.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HEADING_WIDTH = 14


def describe_object(body: Body, client: OneShot) -> str:
    """Return the metadata of an object, its other fields as YAML, and its events."""
    parts = [_head(body)]
    parts += [
        f"{name.capitalize()}:\n{_indented(to_yaml(value))}"
        for name, value in body.items()
        if name not in {"apiVersion", "kind", "metadata"} and value
    ]
    parts.append(events_text(body, client))
    return "\n".join(parts)


def events_text(body: Body, client: OneShot) -> str:
    """Return a table of the events about an object, the oldest first."""
    meta = body["metadata"]
    # By uid as well: a former object of this name had events of its own.
    where = f"involvedObject.name={meta['name']},involvedObject.uid={meta['uid']}"
    events = client.send(
        calls.list_page(EVENTS.untyped(), Selection(meta.get("namespace", ""), fields=where))
    )
    return _events(list(events.items), time.time())


def _head(body: Body) -> str:
    meta = body["metadata"]
    annotations = dict(meta.get("annotations") or {})
    annotations.pop(_LAST_APPLIED, None)
    lines = [
        _line("Name", meta["name"]),
        _line("Namespace", meta.get("namespace", "")),
        _line("Kind", f"{body['kind']} ({body['apiVersion']})"),
        _line("Created", meta.get("creationTimestamp", "")),
        _line("Deleted", meta.get("deletionTimestamp", "")),
        _line("Owner", ", ".join(_owners(meta))),
        _line("Finalizers", ", ".join(meta.get("finalizers") or [])),
        *_pairs("Labels", meta.get("labels") or {}),
        *_pairs("Annotations", annotations),
    ]
    return "\n".join(line for line in lines if line)


def _owners(meta: Body) -> list[str]:
    return [f"{owner['kind']}/{owner['name']}" for owner in meta.get("ownerReferences") or []]


def _line(heading: str, value: str) -> str:
    return f"{heading + ':':<{_HEADING_WIDTH}}{value}" if value else ""


def _pairs(heading: str, values: dict[str, str]) -> list[str]:
    shown = [f"{name}={value}" for name, value in sorted(values.items())]
    return [_line(heading if at == 0 else "", text) for at, text in enumerate(shown)]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())


def _events(events: list[Body], now: float) -> str:
    if not events:
        return "Events:       none"
    rows = [["AGE", "TYPE", "REASON", "FROM", "MESSAGE"]]
    for event in sorted(events, key=_last_seen):
        source = event.get("source", {}).get("component") or event.get("reportingComponent", "")
        times = event.get("count") or 1
        age = _age(now - parse_time(_last_seen(event))) + (f" (x{times})" if times > 1 else "")
        rows.append(
            [age, event.get("type", ""), event.get("reason", ""), source, event.get("message", "")]
        )
    return f"Events:\n{_indented(aligned(rows))}"


def _last_seen(event: Body) -> str:
    """Return when an event was last seen.

    Writers of the older Event API set `lastTimestamp`, those of the newer `eventTime`.
    """
    for name in ("lastTimestamp", "eventTime"):
        if event.get(name):
            return str(event[name])
    return str(event["metadata"]["creationTimestamp"])


def _age(seconds: float) -> str:
    whole = max(int(seconds), 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        # From two of a unit on: 90s says more than 1m.
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
