"""The scale subresource: a Scale object computed from the fields of an object, and back."""

from __future__ import annotations

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.patching.apply import apply_patch
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ScalePaths, ServedKind
from swell.cluster.embedded.selectors import selector_text
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.requests import RequestContext, ScaleShape, read_shape
from swell.cluster.embedded.verbs.writing import WriteVerbs
from swell.runtime.cluster import Patch
from swell.runtime.errors import ClusterError
from swell.schema.field_errors import invalid


class ScaleVerbs:
    """The verbs get, update and patch of the scale subresource."""

    def __init__(self, core: ServerCore, writes: WriteVerbs) -> None:
        self._core = core
        self._writes = writes

    def get(self, kind: ServedKind, key: Key) -> Stored:
        return _scale_of(kind, self._core.as_served(kind, self._core.require(kind, key)))

    def update(self, kind: ServedKind, key: Key, scale: Body, request: RequestContext) -> Stored:
        _check_scale(scale, key, "update", request)
        stored = self._core.require(kind, key)
        if _uid(scale) not in {"", stored.uid}:
            raise refusals.conflict(kind, key.name, "Precondition failed: UID in object meta")
        return self._set(kind, key, scale, request)

    def patch(self, kind: ServedKind, key: Key, patch: Patch, request: RequestContext) -> Stored:
        held = self._core.as_served(kind, self._core.require(kind, key))
        scale = apply_patch(kind, _scale_of(kind, held, missing=_MISSING).copy(), patch)
        _check_scale(scale, key, "patch", request)
        if (scale.get("spec") or {}).get("replicas") == _MISSING:
            raise _empty(kind)
        if _uid(scale) not in {"", self._core.require(kind, key).uid}:
            raise refusals.subresource_conflict(kind, "scale", key.name, "the UID differs")
        return self._set(kind, key, scale, request)

    def _set(self, kind: ServedKind, key: Key, scale: Body, request: RequestContext) -> Stored:
        replicas = _replicas(scale)
        if replicas < 0:
            error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise refusals.invalid("Scale", "autoscaling", key.name, [error])
        body = self._core.as_served(kind, self._core.require(kind, key)).copy()
        # Without a version the update is unconditional: it takes the current one.
        version = (scale.get("metadata") or {}).get("resourceVersion")
        body["metadata"]["resourceVersion"] = version or body["metadata"]["resourceVersion"]
        _put(body, _paths(kind).spec_replicas, replicas)
        write = self._writes.decide_update(kind, key, body, request)
        return _scale_of(kind, self._writes.commit(write).stored)


# The number that a real server patches where a custom resource does not have the field yet.
_MISSING = -(2**31)


def _check_scale(scale: Body, key: Key, verb: str, request: RequestContext) -> None:
    """Refuse a body that is no Scale, and the Scale of another object."""
    read_shape(scale, ScaleShape, verb, request)
    metadata = scale.get("metadata") or {}
    if metadata.get("name") != key.name:
        raise bad_request("the name of the object does not match the name on the URL")
    if metadata.get("namespace") not in {None, "", key.namespace}:
        raise bad_request("the namespace of the object does not match the one of the request")


def _uid(scale: Body) -> str:
    return (scale.get("metadata") or {}).get("uid") or ""


def _replicas(scale: Body) -> int:
    return int((scale.get("spec") or {}).get("replicas") or 0)


def _empty(kind: ServedKind) -> ClusterError:
    return bad_request(f"the spec replicas field {_paths(kind).spec_replicas!r} cannot be empty")


def _scale_of(kind: ServedKind, stored: Stored, missing: int | None = None) -> Stored:
    paths, body = _paths(kind), stored.body
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Body = {"replicas": _find(body, paths.status_replicas) or 0}
    selector = selector_text(_find(body, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    replicas = _find(body, paths.spec_replicas)
    # Built-in kinds have a default, so only a custom resource can lack the field.
    if replicas is None and kind.custom:
        if missing is None:
            raise _empty(kind)
        replicas = missing
    scale: Body = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: body["metadata"][k] for k in kept if k in body["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},  # Go leaves out a 0
        "status": status,
    }
    return Stored.of(scale, stored.version)


def _paths(kind: ServedKind) -> ScalePaths:
    if kind.scale is None:
        raise refusals.not_found(kind.plural, kind.group, "scale")
    return kind.scale


def _find(body: Body, path: str) -> object:
    value: object = body
    for step in path.strip(".").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _put(body: Body, path: str, value: object) -> None:
    *parents, last = path.strip(".").split(".")
    for step in parents:
        body = body.setdefault(step, {})
    body[last] = value
