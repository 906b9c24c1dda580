"""The scale subresource: a number of replicas read from, and written to, the object itself."""

from __future__ import annotations

from swell.api.meta import Body, Key
from swell.cluster.embedded import failures
from swell.cluster.embedded.faults import bad_request, invalid
from swell.cluster.embedded.registry import FieldError, Kind, ScalePaths
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.calls import Call, Written
from swell.cluster.embedded.verbs.core import Core
from swell.cluster.embedded.verbs.writing import ApplyPatch, Writing
from swell.runtime.cluster import Patch


class Scaling:
    def __init__(self, core: Core, writing: Writing, apply_patch: ApplyPatch) -> None:
        self._core = core
        self._writing = writing
        self._apply_patch = apply_patch

    def get(self, kind: Kind, key: Key) -> Stored:
        return _scale_of(kind, self._core.view(kind, self._core.need(kind, key)))

    def update(self, kind: Kind, key: Key, scale: Body, call: Call) -> Stored:
        stored = self._core.need(kind, key)
        if scale.get("kind") not in {None, "", "Scale"}:
            raise bad_request(f"kind {scale.get('kind')!r} in the body, expected 'Scale'")
        metadata = scale.get("metadata") or {}
        if metadata.get("name") != key.name:
            raise bad_request("the name of the object does not match the name on the URL")
        if metadata.get("uid") not in {None, "", stored.uid}:
            raise failures.conflict(kind, key.name, "Precondition failed: UID in object meta")
        return self._set(kind, key, scale, call)

    def patch(self, kind: Kind, key: Key, patch: Patch, call: Call) -> Stored:
        scale = self._apply_patch(kind, self.get(kind, key).copy(), patch)
        return self._set(kind, key, scale, call)

    def _set(self, kind: Kind, key: Key, scale: Body, call: Call) -> Stored:
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        errors = _replica_errors(replicas)
        if errors:
            raise failures.invalid("Scale", "autoscaling", key.name, errors)
        body = self._core.view(kind, self._core.need(kind, key)).copy()
        version = (scale.get("metadata") or {}).get("resourceVersion")
        body["metadata"]["resourceVersion"] = version or body["metadata"]["resourceVersion"]
        _put(body, _paths(kind).spec_replicas, replicas)
        written: Written = self._writing.update(kind, key, body, call)
        return _scale_of(kind, written.stored)


def _replica_errors(replicas: object) -> list[FieldError]:
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise bad_request(f"spec.replicas: {replicas!r} is not an integer")
    if replicas < 0:
        return [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
    return []


def _scale_of(kind: Kind, stored: Stored) -> Stored:
    paths, body = _paths(kind), stored.body
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Body = {"replicas": _find(body, paths.status_replicas) or 0}
    selector = _selector_text(_find(body, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    replicas = _find(body, paths.spec_replicas)
    scale: Body = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: body["metadata"][k] for k in kept if k in body["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }
    return Stored.of(scale, stored.version)


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise failures.not_found(kind.plural, kind.group, "scale")
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


def _selector_text(selector: object) -> str:
    """A label selector object as text; custom resources hold the text itself."""
    if not isinstance(selector, dict):
        return selector if isinstance(selector, str) else ""
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        key, values = term.get("key", ""), ",".join(sorted(term.get("values") or ()))
        spelled = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
        spelled |= {"Exists": key, "DoesNotExist": f"!{key}"}
        terms.append(spelled.get(term.get("operator", ""), key))
    return ",".join(terms)
