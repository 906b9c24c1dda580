"""The three-way patch of `swell apply`. Pure.

Three views of an object decide what is sent: the manifest now, the manifest applied last, and the
live object. A field of the manifest is set; a field of the last manifest that the new one lacks is
removed; fields that others wrote stay. A list is replaced as a whole.
"""

from __future__ import annotations

from swell.api import codec
from swell.api.meta import Body

# kubectl's own annotation: an object applied by either program can be applied by the other.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def with_last_applied(manifest: Body) -> Body:
    """Return the manifest with itself in an annotation, for the next three-way patch."""
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
    """Return the JSON merge patch from the live object to its manifest; empty if none is needed."""
    annotations = live["metadata"].get("annotations") or {}
    record = annotations.get(LAST_APPLIED, "")
    last = codec.decode(record.encode(), dict) if record else {}
    change = _difference(manifest, last, live)
    return _with_record(change, with_last_applied(manifest), annotations.get(LAST_APPLIED))


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
        elif not _is_contained(value, before) or _is_list_changed(value, last.get(name)):
            change[name] = value
    for name in last:
        if name not in new and name in live and name != LAST_APPLIED:
            change[name] = None
    return change


def _is_contained(manifest: object, live: object) -> bool:
    """Whether the live value has everything that the manifest's has.

    It may have more: defaults that the server filled in, also inside the elements of a list, are
    no difference.
    """
    if isinstance(manifest, dict) and isinstance(live, dict):
        return all(_is_contained(value, live.get(name)) for name, value in manifest.items())
    if isinstance(manifest, list) and isinstance(live, list):
        return len(manifest) == len(live) and all(map(_is_contained, manifest, live))
    return manifest == live


def _is_list_changed(manifest: object, last: object) -> bool:
    """Whether the last manifest had another list here.

    A field taken out of an element is then removed, which `_is_contained` does not notice.
    """
    return isinstance(last, list) and manifest != last


def merged(live: Body, patch: Body) -> Body:
    """Return the object after a merge patch."""
    result = dict(live)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result
