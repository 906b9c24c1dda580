"""Decodes answers of an API server from JSON bytes to the port's values. Pure.

A whole list is decoded in one pass. Only when that fails is each item decoded by itself, so that
an object of an unexpected shape becomes `Malformed` and does not hide the others. One that is
nested more deeply than can be read is read without its deepest levels: no field of ours is as deep.
Where every field matters, because the object is plain JSON that may be written again, it is
`Malformed`.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

import msgspec
from msgspec.structs import replace

from swell.api import codec
from swell.api.meta import Body, Key, Status, StatusDetails, Uid
from swell.api.resource import ApiObject, Resource
from swell.cluster.nesting import DEPTH_MAX, cut, is_deep
from swell.runtime.cluster import EventType, IsKnown, Malformed, ObjectList, WatchEvent
from swell.runtime.errors import MalformedError, ServerError, error_for

T = TypeVar("T")
_CHANGES = {one.value: one for one in EventType if one is not EventType.BOOKMARK}
# The levels around the object of an event, and around an item of a list.
_ABOVE_OBJECT, _ABOVE_ITEM = 1, 2
_STATES = {one.value: one for one in (EventType.ADDED, EventType.MODIFIED)}


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a list, or the version of a bookmark."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _ListPage(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. Go writes an empty list of items as null."""

    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] | None = ()


class _RawEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch."""

    type: str
    object: T


class _Versioned(msgspec.Struct, frozen=True):
    """The object of a bookmark, which has nothing but a version."""

    metadata: _ListMeta = _ListMeta()


class _VersionedName(msgspec.Struct, frozen=True, rename="camel"):
    """The name and version in an object's metadata."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _NameOnly(msgspec.Struct, frozen=True):
    """An object, decoded as far as its name and version.

    That takes a sixth of the time of a whole pod (measured in ADR 15).
    """

    metadata: _VersionedName = _VersionedName()


def decode_object(raw: bytes | memoryview, resource: Resource[T]) -> T | Malformed:
    """Returns one object, or Malformed when its shape is wrong."""
    try:
        return _complete(codec.decode(raw, resource.struct), resource)
    except codec.TooDeepError:
        return _decode_cut(cut(raw, DEPTH_MAX), resource)
    except msgspec.ValidationError as error:
        return _malformed(raw, str(error))


def decode_answer(raw: bytes, resource: Resource[T]) -> T:
    """Returns the object of an answer that holds exactly one; MalformedError, ServerError."""
    found = _sensible(raw, resource)
    if isinstance(found, Malformed):
        raise MalformedError(found.key, found.error)
    return found


def decode_list(raw: bytes, resource: Resource[T]) -> ObjectList[T]:
    """Returns one page of a collection."""
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
    """Returns the event of one line of a watch; an ERROR event is raised as its error."""
    known: WatchEvent[T] | None = _decode_known(line, is_known) if is_known else None
    change = known or _decode_change(line, resource)
    if change is not None:
        return change
    try:
        event, is_cut = _raw_event(line)
        if event.type == "ERROR":
            raise error_for(codec.decode(event.object, Status))
        if event.type == "BOOKMARK":
            mark = codec.decode(event.object, _Versioned)
            return WatchEvent(EventType.BOOKMARK, None, mark.metadata.resource_version)
        found = _decode_alone(event.object, resource, is_cut=is_cut)
        return WatchEvent(EventType(event.type), found, version_of(found))
    except (msgspec.DecodeError, ValueError) as error:
        raise nonsense(f"an event that makes no sense: {error}") from error


def _raw_event(line: bytes) -> tuple[_RawEvent[msgspec.Raw], bool]:
    """Returns an event with its object undecoded, and whether that had to be cut."""
    try:
        return codec.decode(line, _RawEvent[msgspec.Raw]), False
    except codec.TooDeepError:
        return codec.decode(cut(line, DEPTH_MAX + _ABOVE_OBJECT), _RawEvent[msgspec.Raw]), True


def _decode_known(line: bytes, is_known: IsKnown) -> WatchEvent[T] | None:
    """Returns an event without its object if the state is known already; None otherwise."""
    try:
        event = codec.decode(line, _RawEvent[_NameOnly])
    except msgspec.DecodeError:
        return None
    type_, named = _STATES.get(event.type), event.object.metadata
    if type_ is None or not is_known(Key(named.namespace, named.name), named.resource_version):
        return None
    return WatchEvent(type_, None, named.resource_version)


def _decode_change(line: bytes, resource: Resource[T]) -> WatchEvent[T] | None:
    """Returns an event that decodes in one pass; None for bookmarks, errors and wrong shapes."""
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
    """Returns the Status of a refusal; one made from the code when the body is none.

    `retry_after` is the header of that name. A server may send it without a value in the body.
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
    """Returns the error for an answer that cannot be used, whatever its code is."""
    return ServerError(Status(status="Failure", code=0, reason="Unknown", message=message))


def version_of(found: object) -> str:
    """Returns the resource version of an object or a Malformed."""
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
    """Returns a plain JSON object with its kind, which API servers leave out of list items."""
    if resource.struct is dict and isinstance(item, dict) and "kind" not in item:
        return cast("T", {"apiVersion": resource.api_version, "kind": resource.kind, **item})
    return item


def _decode_one_by_one(raw: bytes, resource: Resource[T]) -> ObjectList[T]:
    try:
        page, is_cut = _raw_page(raw)
    except msgspec.DecodeError as error:
        raise nonsense(f"a list that makes no sense: {error}") from error
    items: list[T] = []
    malformed: list[Malformed] = []
    for item in page.items or ():
        found = _decode_alone(item, resource, is_cut=is_cut)
        if isinstance(found, Malformed):
            malformed.append(found)
        else:
            items.append(found)
    return _list_of(page.metadata, tuple(items), tuple(malformed))


def _raw_page(raw: bytes) -> tuple[_ListPage[msgspec.Raw], bool]:
    """Returns a page with its items undecoded, and whether one of them had to be cut."""
    try:
        return codec.decode(raw, _ListPage[msgspec.Raw]), False
    except codec.TooDeepError:
        return codec.decode(cut(raw, DEPTH_MAX + _ABOVE_ITEM), _ListPage[msgspec.Raw]), True


def _decode_alone(raw: msgspec.Raw, resource: Resource[T], *, is_cut: bool) -> T | Malformed:
    """Returns an object of a list or an event, of which one has been cut if `is_cut`."""
    return _decode_cut(raw, resource) if is_cut else decode_object(raw, resource)


def _decode_cut(raw: bytes | memoryview, resource: Resource[T]) -> T | Malformed:
    if resource.struct is dict and is_deep(raw):
        return _malformed(raw, f"nested in {DEPTH_MAX} levels or more")
    return decode_object(raw, resource)


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
