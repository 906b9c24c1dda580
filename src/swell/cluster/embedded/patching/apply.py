"""Applies a patch of any kind to an object's body, and JSON merge patches (RFC 7386) themselves.

Errors of a patch become refusals here; `refusals` lists which status each gets.
"""

from __future__ import annotations

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.patching.jsonpatch import JsonPatchError, apply_operations
from swell.cluster.embedded.patching.strategic import (
    MergeSchema,
    StrategicMergeError,
    strategic_merge,
)
from swell.cluster.embedded.registry import ServedKind
from swell.runtime.cluster import Patch, PatchKind

OPERATIONS_MAX = 10_000  # kube-apiserver's limit
NAMES = ("apiVersion", "kind")


def apply_patch(kind: ServedKind, body: Body, patch: Patch) -> Body:
    """The patched body; the given one may be changed. ClusterError when the patch is bad."""
    match patch.kind:
        case PatchKind.JSON:
            return _json_patch(body, patch.body)
        case PatchKind.MERGE:
            if not isinstance(patch.body, dict):
                raise refusals.bad_request("a merge patch must be an object")
            return merge(body, patch.body)
        case PatchKind.STRATEGIC:
            return _strategic(kind, body, patch.body)
        case PatchKind.APPLY:
            raise AssertionError("an apply is no patch of a body: see `ownership`")


def merge(body: Body, patch: Body) -> Body:
    """Merge by RFC 7386: null removes, objects are merged, every other value replaces."""
    merged = dict(body)
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, dict):
            old = merged.get(field)
            merged[field] = merge(old if isinstance(old, dict) else {}, value)
        else:
            merged[field] = _without_nulls(value)
    return merged


def _without_nulls(value: object) -> object:
    """A value without the nulls in its objects; those that are items of lists stay."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {field: _without_nulls(inner) for field, inner in value.items() if inner is not None}
    return value


def _json_patch(body: Body, operations: object) -> Body:
    operations = [] if operations is None else operations
    if not isinstance(operations, list):
        raise refusals.bad_request("a JSON patch must be a list of operations")
    for operation in operations:
        _check_operation(operation)
    if len(operations) > OPERATIONS_MAX:
        raise refusals.too_many_patch_operations(OPERATIONS_MAX)
    try:
        patched = apply_operations(body, operations)
    except JsonPatchError as error:
        raise refusals.patch_not_applicable(f"the server rejected our request: {error}") from error
    if not isinstance(patched, dict):
        raise refusals.unreadable_body("patch", "the patched object is no object")
    return patched


def _check_operation(operation: object) -> None:
    """Refuse what cannot be read as an operation; one that is null has no fields."""
    if not isinstance(operation, dict | None):
        raise refusals.bad_request("error decoding patch: an operation is no object")
    for name in ("op", "path", "from"):
        if not isinstance((operation or {}).get(name), str | None):
            raise refusals.bad_request(f"error decoding patch: {name} of an operation is no text")


def _strategic(kind: ServedKind, body: Body, patch: object) -> Body:
    if not isinstance(kind.merge_schema, MergeSchema):
        raise refusals.strategic_patch_unsupported()
    patch = {} if patch is None else patch
    if not isinstance(patch, dict):
        raise refusals.bad_request("a strategic merge patch must be an object")
    # The object keeps its own type, whatever the patch names.
    named = {k: v for k, v in patch.items() if k not in NAMES or not isinstance(v, str)}
    try:
        return strategic_merge(body, named, kind.merge_schema)
    except StrategicMergeError as error:
        raise refusals.bad_request(str(error)) from error
