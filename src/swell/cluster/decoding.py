"""Answers of an API server, from JSON bytes to the port's values.

A whole list is decoded in one pass. Only when that fails is it taken apart, so that one object
of a shape we do not understand becomes `Malformed` and hides no other. Never talks to anything.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

import msgspec
from msgspec.structs import replace

from swell.api import codec
from swell.api.meta import Body, Key, Status, StatusDetails, Uid
from swell.api.resource import ApiObject, Resource
from swell.runtime.cluster import EventType, IsKnown, Malformed, ObjectList, WatchEvent
from swell.runtime.errors import MalformedError, ServerError, error_for

T = TypeVar("T")
_CHANGES = {one.value: one for one in EventType if one is not EventType.BOOKMARK}
_STATES = {one.value: one for one in (EventType.ADDED, EventType.MODIFIED)}


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _ListPage(msgspec.Struct, Generic[T], frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] | None = ()


class _RawEvent(msgspec.Struct, Generic[T], frozen=True):
    type: str
    object: T


class _Versioned(msgspec.Struct, frozen=True):
    """The one thing a bookmark says."""

    metadata: _ListMeta = _ListMeta()


class _VersionedName(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _NameOnly(msgspec.Struct, frozen=True):
    """Which state of which object: read several times as fast as the object."""

    metadata: _VersionedName = _VersionedName()


def decode_object(raw: bytes | memoryview, resource: Resource[T]) -> T | Malformed:
    """One object, or what can be said of it when its shape is wrong."""
    try:
        return _complete(codec.decode(raw, resource.struct), resource)
    except msgspec.ValidationError as error:
        return _malformed(raw, str(error))


def decode_answer(raw: bytes, resource: Resource[T]) -> T:
    """The object of an answer that holds exactly one."""
    found = _sensible(raw, resource)
    if isinstance(found, Malformed):
        raise MalformedError(found.key, found.error)
    return found


def decode_list(raw: bytes, resource: Resource[T]) -> ObjectList[T]:
    """One page of a collection."""
    try:
        page = codec.decode(raw, _ListPage[resource.struct])  # type: ignore[name-defined]
    except msgspec.ValidationError:
        return _decode_one_by_one(raw, resource)
    except msgspec.DecodeError as error:
        raise nonsense(f"a list that is no JSON: {error}") from error
    items = tuple(_complete(item, resource) for item in page.items or ())
    return _list_of(page.metadata, items)


def decode_event(
    line: bytes, resource: Resource[T], is_known: IsKnown | None = None
) -> WatchEvent[T]:
    """One line of a watch; an ERROR event is raised as the error it carries."""
    known: WatchEvent[T] | None = _decode_known(line, is_known) if is_known else None
    change = known or _decode_change(line, resource)
    if change is not None:
        return change
    try:
        event = codec.decode(line, _RawEvent[msgspec.Raw])
        if event.type == "ERROR":
            raise error_for(codec.decode(event.object, Status))
        if event.type == "BOOKMARK":
            mark = codec.decode(event.object, _Versioned)
            return WatchEvent(EventType.BOOKMARK, None, mark.metadata.resource_version)
        found = decode_object(event.object, resource)
        return WatchEvent(EventType(event.type), found, version_of(found))
    except (msgspec.DecodeError, ValueError) as error:
        raise nonsense(f"an event that makes no sense: {error}") from error


def _decode_known(line: bytes, is_known: IsKnown) -> WatchEvent[T] | None:
    """An event without its object, if it tells nothing new; None if it may do so."""
    try:
        event = codec.decode(line, _RawEvent[_NameOnly])
    except msgspec.DecodeError:
        return None
    type_, named = _STATES.get(event.type), event.object.metadata
    if type_ is None or not is_known(Key(named.namespace, named.name), named.resource_version):
        return None
    return WatchEvent(type_, None, named.resource_version)


def _decode_change(line: bytes, resource: Resource[T]) -> WatchEvent[T] | None:
    """What an event says if it is one of the usual kind, in one pass; None if it is not."""
    try:
        event = codec.decode(line, _RawEvent[resource.struct])  # type: ignore[name-defined]
    except msgspec.DecodeError:
        return None
    type_ = _CHANGES.get(event.type)
    if type_ is None:
        return None
    found = _complete(event.object, resource)
    return WatchEvent(type_, found, version_of(found))


def decode_status(raw: bytes, code: int, retry_after: str = "") -> Status:
    """The Status of a refusal; made up from the code where the body is none.

    `retry_after` is the header of that name, which a server may send without saying so inside.
    """
    try:
        status = codec.decode(raw, Status)
    except msgspec.DecodeError:
        status = Status()
    if status.kind != "Status" or status.code != code:
        text = raw[:200].decode("utf-8", "replace").strip()
        status = Status(status="Failure", code=code, message=text or f"HTTP {code}")
    if not retry_after.isdecimal():
        return status
    details = status.details or StatusDetails()
    details = replace(details, retry_after_seconds=int(retry_after))
    return replace(status, details=details)


def nonsense(message: str) -> ServerError:
    """The error for an answer nobody could use, whatever its code said."""
    return ServerError(Status(status="Failure", code=0, reason="Unknown", message=message))


def version_of(found: object) -> str:
    """The version an object or a Malformed carries."""
    if isinstance(found, Malformed):
        return found.resource_version
    if isinstance(found, dict):
        return str(found.get("metadata", {}).get("resourceVersion", ""))
    return cast("ApiObject", found).metadata.resource_version


def _sensible(raw: bytes, resource: Resource[T]) -> T | Malformed:
    try:
        return decode_object(raw, resource)
    except msgspec.DecodeError as error:
        raise nonsense(f"an object that is no JSON: {error}") from error


def _complete(item: T, resource: Resource[T]) -> T:
    """Items of a list say no kind; plain JSON objects are given theirs back."""
    if resource.struct is dict and isinstance(item, dict) and "kind" not in item:
        return cast("T", {"apiVersion": resource.api_version, "kind": resource.kind, **item})
    return item


def _decode_one_by_one(raw: bytes, resource: Resource[T]) -> ObjectList[T]:
    try:
        page = codec.decode(raw, _ListPage[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise nonsense(f"a list that makes no sense: {error}") from error
    items: list[T] = []
    malformed: list[Malformed] = []
    for item in page.items or ():
        found = decode_object(item, resource)
        if isinstance(found, Malformed):
            malformed.append(found)
        else:
            items.append(found)
    return _list_of(page.metadata, tuple(items), tuple(malformed))


def _list_of(
    meta: _ListMeta, items: tuple[T, ...], malformed: tuple[Malformed, ...] = ()
) -> ObjectList[T]:
    version, token = meta.resource_version, meta.continue_token
    return ObjectList(items, version, token, meta.remaining_item_count, malformed)


def _malformed(raw: bytes | memoryview, error: str) -> Malformed:
    try:
        body: Body = codec.decode(raw, dict)
    except msgspec.ValidationError as wrong:
        raise nonsense(f"an object that is none: {wrong}") from wrong
    found = body.get("metadata")
    meta = found if isinstance(found, dict) else {}

    def text(name: str) -> str:
        value = meta.get(name)
        return value if isinstance(value, str) else ""

    key = Key(text("namespace"), text("name"))
    return Malformed(key, Uid(text("uid")), text("resourceVersion"), error, body)
