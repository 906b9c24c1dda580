"""Get, list and the start of a watch: which version is read, and how a list is paged.

A page after the first is read from the log as of the first page's version, so that all pages
together are one snapshot. When the log no longer reaches back, the client gets 410 and starts over.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from swell.api.codec import decode, encode
from swell.api.meta import Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.storage import CompactedError, Stored, StoreSnapshot
from swell.cluster.embedded.verbs.core import ServerCore
from swell.cluster.embedded.verbs.requests import ListOptions, Page, StoredEvent, WatchOptions
from swell.cluster.embedded.verbs.watching import FailedWatch, Filter, Watch, parse_filter, too_old
from swell.runtime.cluster import EventType
from swell.schema.field_errors import FieldError, forbidden, not_supported

_EXPIRED = "The provided continue parameter is too old to display a consistent list result."


_CONTINUE_FORMAT = "meta.k8s.io/v1"


class _Token(msgspec.Struct, frozen=True):
    """The content of a continue token: the version of the snapshot, and where to go on."""

    v: str
    rv: int
    start: str


class ReadVerbs:
    """The verbs get, list and watch."""

    def __init__(self, core: ServerCore) -> None:
        self._core = core

    def get(self, kind: ServedKind, key: Key, resource_version: str = "") -> Stored:
        self._checked_version(resource_version)
        return self._core.as_served(kind, self._core.require(kind, key))

    def list(self, kind: ServedKind, options: ListOptions) -> Page:
        if kind.ttl_s:
            self._core.expire()
        chosen = self.check(kind, options)
        after: Key | None = None
        limit = max(options.limit, 0)
        if options.continue_token:
            if options.resource_version not in {"", "0"}:
                raise bad_request("specifying resource version is not allowed with continue")
            token = _decode_token(options.continue_token)
            snapshot = self._snapshot_at(kind, options.namespace, token.rv)
            after = _last_sent(token, options.namespace)
        else:
            snapshot = self._first_snapshot(kind, options, limit)
        if options.resource_version == "0":
            limit = 0  # a real server answers version 0 from its cache, which has no pages
        return self._page(kind, chosen, snapshot, after, limit)

    def check(self, kind: ServedKind, options: ListOptions) -> Filter:
        """The filter of a list; options that no list can have are refused."""
        _refuse(_list_option_errors(options))
        return parse_filter(kind, options.namespace, options.labels, options.fields)

    def watch(self, kind: ServedKind, options: WatchOptions) -> Watch | FailedWatch:
        """Start a watch. Invalid options are refused here.

        A version that is too old or too new gives a `FailedWatch`: a real server opens the watch
        and sends the error as its first event.
        """
        _refuse(_watch_option_errors(options))
        chosen = parse_filter(kind, options.namespace, options.labels, options.fields)
        version = _parse_version(options.resource_version)
        initial = options.send_initial_events
        if version > self._core.storage.version and initial:
            return FailedWatch(refusals.version_too_large(version, self._core.storage.version))
        if initial or (initial is None and version == 0):
            return self._watch_all(kind, chosen, options.bookmarks)
        return self._watch_from(kind, chosen, version or self._core.storage.version)

    # -- lists -------------------------------------------------------------------------------

    def _first_snapshot(self, kind: ServedKind, options: ListOptions, limit: int) -> StoreSnapshot:
        wanted = self._checked_version(options.resource_version)
        exact = options.resource_version_match == "Exact"
        # Without a match rule a version together with a limit means exactly that version.
        exact = exact or bool(wanted and limit and not options.resource_version_match)
        if exact:
            return self._snapshot_at(kind, options.namespace, wanted)
        return self._core.storage.list(kind.collection, options.namespace)

    def _snapshot_at(self, kind: ServedKind, namespace: str, version: int) -> StoreSnapshot:
        try:
            return self._core.storage.list_at(kind.collection, namespace, version)
        except CompactedError as error:
            raise refusals.expired(_EXPIRED) from error

    def _checked_version(self, text: str) -> int:
        version = _parse_version(text)
        if version > self._core.storage.version:
            raise refusals.version_too_large(version, self._core.storage.version)
        return version

    def _page(
        self,
        kind: ServedKind,
        chosen: Filter,
        snapshot: StoreSnapshot,
        after: Key | None,
        limit: int,
    ) -> Page:
        # Filtering comes after skipping, so that a page costs only what is left of the list.
        items = snapshot.items
        if after is not None:
            items = items[_index_after(items, after) :]
        end = items[-1][0] if items else None
        if not chosen.selects_all:
            items = [item for item in items if chosen.matches(item[1])]
        page = items[:limit] if limit else items
        token, remaining = "", None
        # As on a real server, a full page goes on while any object follows, selected or not.
        if limit and len(page) == limit and page[-1][0] != end:
            last = page[-1][0]
            token = _encode_token(last, chosen.namespace, snapshot.version)
            # With a selector a real server does not know how many objects are left.
            remaining = len(items) - len(page) if chosen.selects_all else None
        objects = [stored for _, stored in page]
        if kind.conversion is not None:
            objects = [self._core.as_served(kind, stored) for stored in objects]
        return Page(tuple(objects), snapshot.version, token, remaining)

    # -- watches -----------------------------------------------------------------------------

    def _watch_from(self, kind: ServedKind, chosen: Filter, version: int) -> Watch | FailedWatch:
        try:
            cursor = self._core.storage.follow(kind.collection, version)
        except CompactedError as error:
            return FailedWatch(too_old(error))
        return Watch(self._core, kind, chosen, cursor, first=[], since=version)

    def _watch_all(self, kind: ServedKind, chosen: Filter, marked: bool) -> Watch:
        """A watch that begins with an ADDED event for every present object.

        With `marked`, a bookmark follows the last of them.
        """
        if kind.ttl_s:
            self._core.expire()
        snapshot = self._core.storage.list(kind.collection, chosen.namespace)
        first = [
            StoredEvent(EventType.ADDED, stored, stored.version)
            for _, stored in snapshot.items
            if chosen.matches(stored)
        ]
        if marked:
            first.append(StoredEvent(EventType.BOOKMARK, None, snapshot.version, ends_initial=True))
        cursor = self._core.storage.follow(kind.collection, snapshot.version)
        return Watch(self._core, kind, chosen, cursor, first=first, since=snapshot.version)


def _parse_version(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise bad_request(f"invalid resource version {text!r}")
    return int(text)


def _index_after(items: list[tuple[Key, Stored]], after: Key) -> int:
    wanted = f"{after.namespace}/{after.name}"
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        key = items[middle][0]
        if f"{key.namespace}/{key.name}" <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _encode_token(last: Key, namespace: str, version: int) -> str:
    # The least text after the last key, as a real server writes it.
    start = (last.name if namespace else f"{last.namespace}/{last.name}") + "\0"
    token = _Token(_CONTINUE_FORMAT, version, start)
    return base64.urlsafe_b64encode(encode(token)).decode().rstrip("=")


def _last_sent(token: _Token, namespace: str) -> Key:
    text = token.start.removesuffix("\0")
    return Key(namespace, text) if namespace else Key(*text.rpartition("/")[::2])


def _decode_token(text: str) -> _Token:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = decode(raw, _Token)
        if token.v != _CONTINUE_FORMAT or token.rv <= 0 or not token.start:
            raise ValueError("an unknown version of tokens")
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request("continue key is not valid") from error
    return token


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise refusals.invalid("ListOptions", "meta.k8s.io", "", errors)


def _list_option_errors(options: ListOptions) -> list[FieldError]:
    field, match = "resourceVersionMatch", options.resource_version_match
    errors: list[FieldError] = []
    if options.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "forbidden for list"))
    if not match:
        return errors
    if not options.resource_version:
        errors.append(forbidden(field, "forbidden unless resourceVersion is provided"))
    if options.continue_token:
        errors.append(forbidden(field, "forbidden when continue is provided"))
    if match not in {"Exact", "NotOlderThan"}:
        errors.append(not_supported(field, match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and options.resource_version == "0":
        errors.append(forbidden(field, "Exact is forbidden for resourceVersion 0"))
    return errors


def _watch_option_errors(options: WatchOptions) -> list[FieldError]:
    field, match = "resourceVersionMatch", options.resource_version_match
    errors: list[FieldError] = []
    if options.send_initial_events is not None and match != "NotOlderThan":
        errors.append(forbidden(field, "sendInitialEvents requires NotOlderThan"))
    if match and options.send_initial_events is None:
        errors.append(forbidden(field, "forbidden for watch unless sendInitialEvents is given"))
    if match and match != "NotOlderThan":
        errors.append(not_supported(field, match, ["NotOlderThan"]))
    # Without a version a watch begins with what there is, as if it had asked for that.
    begins_with_all = options.send_initial_events is None and options.resource_version in {"", "0"}
    if options.continue_token and (match or begins_with_all):
        errors.append(forbidden(field, "forbidden when continue is provided"))
    return errors
