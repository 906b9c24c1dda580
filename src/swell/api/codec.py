"""JSON to structs and back. Decoding raises msgspec.ValidationError for a wrong shape.

That includes JSON nested more deeply than Python's limit of recursion, which anybody may send.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
# Equal content gives equal bytes, whatever the order in which a dict was built.
_stable_encoder = msgspec.json.Encoder(order="deterministic")


class TooDeepError(msgspec.ValidationError):
    """The text is nested too deeply to be read."""


def encode(value: object) -> bytes:
    return _encoder.encode(value)


def encode_stable(value: object) -> bytes:
    return _stable_encoder.encode(value)


def is_same(one: object, other: object) -> bool:
    """Whether two values are one in JSON. In Python true equals 1, and so does 1.0."""
    if one != other or type(one) is not type(other):
        return False
    # Equal texts and lone numbers are the same; in maps and lists their items may differ in type.
    plain = not isinstance(one, dict | list)
    return plain or encode_stable(one) == encode_stable(other)


@lru_cache(maxsize=256)
def _decoder(type_: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast("type[Any]", type_))


def decode(raw: bytes | memoryview, type_: type[T]) -> T:
    """Returns a struct from JSON bytes; raises msgspec.ValidationError if the shape is wrong."""
    try:
        return cast("T", _decoder(cast("Hashable", type_)).decode(raw))
    except RecursionError as error:
        raise TooDeepError("nested too deeply") from error


def convert(body: object, type_: type[T]) -> T:
    """Returns a struct from JSON that is decoded into dicts and lists already."""
    # An untyped resource keeps its objects as they are, without a copy.
    if type_ is dict:
        return cast("T", body)
    return msgspec.convert(body, type_)


def to_body(value: object) -> dict[str, Any]:
    """Returns a struct as plain JSON data."""
    # By way of bytes, because msgspec.to_builtins keeps tuples, which JSON does not have.
    return cast("dict[str, Any]", msgspec.json.decode(_encoder.encode(value)))
