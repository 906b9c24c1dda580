"""The values in the store: one version of an object, a change to be made, one commit of the log.

None of them changes once it is made; a `Stored` only remembers what was decoded from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from swell.api.codec import decode, encode
from swell.api.meta import Body, Key

T = TypeVar("T")
# Of an old state whose decoded form is kept for its late readers. Nearly every object is smaller.
OLD_BYTES_MAX = 16 << 10
_TYPE = ("apiVersion", "kind")


class Stored:
    """One version of one object: its JSON, and what has been decoded from it so far."""

    __slots__ = (
        "_body",
        "_is_kept",
        "_texts",
        "_typed",
        "labels",
        "metadata",
        "raw",
        "uid",
        "version",
    )

    def __init__(self, raw: bytes, version: int, metadata: Body) -> None:
        self.raw = raw
        self.version = version
        # Read only, as everything here. Without the owners of fields: decoded they take ten times
        # the memory of their bytes in each of thousands of states, and no reader here needs them.
        self.metadata = {name: metadata[name] for name in metadata if name != "managedFields"}
        self.uid: str = metadata.get("uid", "")
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self._body: Body | None = None
        self._is_kept = True
        self._typed: tuple[object, ...] = ()
        self._texts: dict[tuple[str, ...], str | None] = {}

    @classmethod
    def of(cls, body: Body, version: int) -> Stored:
        """Encode a body under a version. The caller must not use the body afterwards."""
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(version)
        return cls(encode(_type_first(body)), version, metadata)

    @property
    def body(self) -> Body:
        """The object as JSON data, not to be changed.

        It is decoded on first use, because most objects are only passed on as bytes.
        """
        if self._body is not None:
            return self._body
        found = decode(self.raw, dict)
        if self._is_kept:
            self._body = found
        return found

    def copy(self) -> Body:
        """The object as JSON data that the caller may change.

        Decoding the bytes again is the cheapest deep copy there is (ADR 7).
        """
        return decode(self.raw, dict)

    def text_at(self, path: tuple[str, ...]) -> str | None:
        """The value of a field as text, None when it is missing.

        Only the texts are kept: a field selector must not keep every object decoded.
        """
        if path[0] == "metadata":
            return text_at(self.metadata, path[1:])
        if path not in self._texts:
            self._texts[path] = text_at(self._body or self.copy(), path)
        return self._texts[path]

    def typed(self, struct: type[T]) -> T:
        """The object as a struct, decoded once; msgspec.ValidationError when it does not fit."""
        # A node reads its own pods, and itself, as another struct than everybody else does. Readers
        # of both kinds take turns, so each struct is kept: whoever decoded again would hold a copy
        # of its own of every object.
        for known in self._typed:
            if type(known) is struct:
                return known
        found = decode(self.raw, struct)
        if self._is_kept:
            self._typed = (*self._typed, found)
        return found

    def forget_decoded(self) -> None:
        """Keep the bytes alone: the log holds thousands of old states that hardly any reader needs.

        Decoded, a large object takes ten times as much. Of a large one nothing is kept from now on:
        whoever reads the log late would bring it all back.
        """
        self._body, self._typed = None, ()
        self._is_kept = len(self.raw) <= OLD_BYTES_MAX

    def at(self, version: int) -> Stored:
        """The same content under another version: the last state of a deleted object."""
        return Stored.of(self.copy(), version)


def _type_first(body: Body) -> Body:
    """The same object with its type before everything else, as servers write it.

    A list of a built-in kind cuts the type off the bytes of each object, and would otherwise have
    to decode it. A status write builds its object from two others, and puts the type last.
    """
    if next(iter(body), "") in _TYPE:
        return body
    return {name: body[name] for name in _TYPE if name in body} | body


def text_at(body: Body, path: tuple[str, ...]) -> str | None:
    """The value at a path as selectors compare it, None when it is missing."""
    value: object = body
    for step in path:
        if not isinstance(value, dict) or value.get(step) is None:
            return None
        value = value[step]
    if isinstance(value, bool):  # as JSON writes it, not as Python does
        return "true" if value else "false"
    return str(value)


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change to commit. `before` is the state it was decided on; a `body` of None deletes."""

    collection: str
    key: Key
    before: Stored | None
    body: Body | None
    actor: str
    verb: str


@dataclass(slots=True)
class Commit:
    """One entry of the log. `undone` marks the reversal of a commit that the disk refused."""

    version: int
    time: float
    actor: str
    verb: str
    collection: str
    key: Key
    before: Stored | None
    after: Stored | None
    undone: bool = False
    _last: Stored | None = field(default=None, init=False, repr=False)

    @property
    def last(self) -> Stored:
        """The object of a DELETED event: the old state under the version of this commit."""
        if self._last is None:
            if self.before is None:
                raise ValueError("nothing was there before this commit")
            self._last = self.before.at(self.version)
            self._last.forget_decoded()
        return self._last
