"""The patch that makes a live object what its manifest says. Pure.

Three views decide: the manifest now, the manifest applied last, the live object. What the manifest
says is set; what it said last time and no longer says is removed; what others wrote stays. A list
is taken as a whole, and counts as equal when each element says nothing but what is live already,
so that the server's own defaults inside it are no difference.
"""

from __future__ import annotations

from swell.api import codec
from swell.api.meta import Body

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def with_last_applied(manifest: Body) -> Body:
    """The manifest carrying itself as an annotation, for the next time."""
    meta = dict(manifest["metadata"])
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != LAST_APPLIED}
    bare = {**manifest, "metadata": {**meta, "annotations": annotations}}
    if not annotations:
        del bare["metadata"]["annotations"]
    record = codec.encode_stable(bare).decode() + "\n"
    return {
        **bare,
        "metadata": {**bare["metadata"], "annotations": {**annotations, LAST_APPLIED: record}},
    }


def patch_to(manifest: Body, live: Body) -> Body:
    """A JSON merge patch from live to what the manifest says; empty when nothing is to be done."""
    annotations = live["metadata"].get("annotations") or {}
    last = _last_applied(annotations.get(LAST_APPLIED, ""))
    change = _difference(manifest, last, live)
    return _with_record(change, with_last_applied(manifest), annotations.get(LAST_APPLIED))


def _last_applied(record: str) -> Body:
    return codec.decode(record.encode(), dict) if record else {}


def _with_record(change: Body, recorded: Body, old: str | None) -> Body:
    record = recorded["metadata"]["annotations"][LAST_APPLIED]
    if not change and record == old:
        return {}
    meta = change.setdefault("metadata", {})
    annotations = dict(meta.get("annotations") or {})
    return {
        **change,
        "metadata": {**meta, "annotations": {**annotations, LAST_APPLIED: record}},
    }


def _difference(new: Body, last: Body, live: Body) -> Body:
    change: Body = {}
    for name, value in new.items():
        before = live.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            old = last.get(name)
            inner = _difference(value, old if isinstance(old, dict) else {}, before)
            if inner:
                change[name] = inner
        elif not _holds(value, before) or _shortened(value, last.get(name)):
            change[name] = value
    for name in last:
        if name not in new and name in live and name != LAST_APPLIED:
            change[name] = None
    return change


def _holds(wanted: object, live: object) -> bool:
    """Whether the live value already says everything that is wanted."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return all(_holds(value, live.get(name)) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(live, list):
        return len(wanted) == len(live) and all(map(_holds, wanted, live))
    return wanted == live


def _shortened(wanted: object, last: object) -> bool:
    """Whether a list said more the last time: then the rest of it has to go."""
    return isinstance(last, list) and wanted != last
