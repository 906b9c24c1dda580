"""The difference between two statuses as a merge patch. Pure."""

from __future__ import annotations

from swell.api.codec import to_body
from swell.api.meta import ApiStruct, Body


def status_patch(old: ApiStruct, new: ApiStruct) -> Body:
    """What turns the old status into the new one; empty when they are equal.

    Only fields of the struct are touched: what others keep in a status stays.
    """
    return _difference(to_body(old), to_body(new))


def _difference(old: Body, new: Body) -> Body:
    patch: Body = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = _difference(before, value)
            if inner:
                patch[name] = inner
        elif name not in old or before != value:
            patch[name] = value
    return patch
