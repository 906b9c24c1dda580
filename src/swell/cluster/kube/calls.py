"""Builds the request of each verb of the cluster port, with the function that reads its answer.

A call is a value, which the asynchronous client and the single-call client both send. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote, urlencode

from swell.api import codec
from swell.api.meta import Body, Key, Uid
from swell.api.resource import Resource
from swell.cluster import decoding
from swell.runtime.cluster import (
    EVERYTHING,
    PLAIN,
    PLAIN_DELETION,
    Deletion,
    ObjectList,
    Patch,
    Selection,
    WriteOptions,
)

T = TypeVar("T")
R = TypeVar("R")
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class KubeCall(Generic[R]):
    """One request, and the function that decodes the body of its answer."""

    method: str
    path: str  # with the query, percent-encoded
    read: Callable[[bytes], R]
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    headers: tuple[tuple[str, str], ...] = ()  # beside those that every call has

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def get(resource: Resource[T], key: Key, resource_version: str = "") -> KubeCall[T]:
    path = _path(resource, key, resourceVersion=resource_version)
    return KubeCall("GET", path, lambda raw: decoding.decode_answer(raw, resource))


def list_page(
    resource: Resource[T],
    selection: Selection = EVERYTHING,
    *,
    limit: int = 0,
    continue_token: str = "",
    resource_version: str = "",
) -> KubeCall[ObjectList[T]]:
    paging = {"limit": str(limit) if limit else "", "continue": continue_token}
    path = _collection(resource, selection, resourceVersion=resource_version, **paging)
    return KubeCall("GET", path, lambda raw: decoding.decode_list(raw, resource))


def watch(
    resource: Resource[T], selection: Selection, resource_version: str, timeout_s: int
) -> KubeCall[None]:
    """Returns the call that opens a watch; its lines are read one by one, not as one answer."""
    path = _collection(
        resource,
        selection,
        watch="1",
        allowWatchBookmarks="true",
        resourceVersion=resource_version,
        timeoutSeconds=str(timeout_s),
    )
    return KubeCall("GET", path, lambda _: None)


def create(resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> KubeCall[T]:
    """Returns the call that creates an object.

    For a subresource such as a binding, the body's metadata name the parent.
    """
    key = _key_of(body)
    key = key if resource.subresource else Key(key.namespace, "")
    return _write("POST", resource, key, codec.encode(body), options)


def update(resource: Resource[T], body: Body, options: WriteOptions = PLAIN) -> KubeCall[T]:
    return _write("PUT", resource, _key_of(body), codec.encode(body), options)


def patch(
    resource: Resource[T], key: Key, change: Patch, options: WriteOptions = PLAIN
) -> KubeCall[T]:
    content_type = change.kind.value
    return _write(
        "PATCH", resource, key, codec.encode(change.body), options, content_type=content_type
    )


def delete(
    resource: Resource[T], key: Key, deletion: Deletion = PLAIN_DELETION
) -> KubeCall[T | None]:
    def read(raw: bytes) -> T | None:
        return decoding.decode_answer(raw, resource) if _lives_on(raw) else None

    return KubeCall("DELETE", _path(resource, key), read, _delete_options(deletion))


def try_delete(resource: Resource[T], key: Key) -> KubeCall[Uid]:
    """Returns the call that tries a delete and answers with the UID of the object."""
    options = _delete_options(Deletion(dry_run=True))
    return KubeCall("DELETE", _path(resource, key), _uid_in, options)


def delete_collection(
    resource: Resource[T],
    selection: Selection = EVERYTHING,
    deletion: Deletion = PLAIN_DELETION,
) -> KubeCall[None]:
    path = _collection(resource, selection)
    return KubeCall("DELETE", path, lambda _: None, _delete_options(deletion))


def raw(path: str, accept: str = JSON) -> KubeCall[bytes]:
    """Returns the call for something that is no object: a log, a table, a version."""
    return KubeCall("GET", path, lambda answer: answer, accept=accept)


def pod_port(
    pod: Key, port: int, path: str, headers: tuple[tuple[str, str], ...]
) -> KubeCall[bytes]:
    """Returns the call that the API server passes on to a port of a pod, without credentials."""
    place = f"/api/v1/namespaces/{quote(pod.namespace, '')}/pods/{quote(pod.name, '')}:{port}"
    return KubeCall("GET", f"{place}/proxy{path}", lambda answer: answer, headers=headers)


def _write(
    method: str,
    resource: Resource[T],
    key: Key,
    body: bytes,
    options: WriteOptions,
    *,
    content_type: str = JSON,
) -> KubeCall[T]:
    path = _path(
        resource,
        key,
        dryRun="All" if options.dry_run else "",
        fieldValidation=options.field_validation or "",
        fieldManager=options.field_manager,
        force="true" if options.force else "",
    )
    return KubeCall(
        method, path, lambda raw: decoding.decode_answer(raw, resource), body, content_type
    )


def _path(resource: Resource[T], key: Key, **query: str) -> str:
    return _with_query(resource.path(quote(key.namespace, ""), quote(key.name, "")), query)


def _collection(resource: Resource[T], selection: Selection, **query: str) -> str:
    selectors = {"labelSelector": selection.labels, "fieldSelector": selection.fields}
    return _with_query(resource.path(quote(selection.namespace, "")), selectors | query)


def _with_query(path: str, query: dict[str, str]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _key_of(body: Body) -> Key:
    meta = body.get("metadata", {})
    return Key(meta.get("namespace", ""), meta.get("name", ""))


def _delete_options(deletion: Deletion) -> bytes | None:
    preconditions = {"uid": deletion.uid, "resourceVersion": deletion.resource_version}
    given: Body = {
        "preconditions": {k: v for k, v in preconditions.items() if v is not None} or None,
        "gracePeriodSeconds": deletion.grace_s,
        "propagationPolicy": deletion.propagation,
        "dryRun": ["All"] if deletion.dry_run else None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    if not chosen:
        return None
    return codec.encode({"apiVersion": "v1", "kind": "DeleteOptions", **chosen})


def _lives_on(raw: bytes) -> bool:
    """Whether the answer of a delete shows an object that still waits to go.

    It waits for its grace period or for a finalizer. When the object is gone, some kinds answer
    with a Status and others with its last state, which looks alive but for its deletion time.
    """
    body = decoding.decode_answer(raw, _ANYTHING)
    meta = body.get("metadata", {})
    if body.get("kind") == "Status" or not meta.get("deletionTimestamp"):
        return False
    finalizers = meta.get("finalizers") or body.get("spec", {}).get("finalizers")
    return bool(finalizers) or meta.get("deletionGracePeriodSeconds", 0) > 0


def _uid_in(raw: bytes) -> Uid:
    """Returns the UID of an object that a delete answers with, or that its Status is about."""
    body = decoding.decode_answer(raw, _ANYTHING)
    about = body.get("details") if body.get("kind") == "Status" else body.get("metadata")
    return Uid((about or {}).get("uid", ""))


_ANYTHING: Resource[Body] = Resource("", "", "", "", dict)
