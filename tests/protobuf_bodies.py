"""Writes objects as protobuf bodies, as a Go client does, from the same table that is read with.

Only what tests need: times as texts of whole seconds, and no schemas of definitions.
"""

from __future__ import annotations

import base64
import json
import struct
from datetime import datetime
from functools import cache
from typing import Any

from swell.cluster.embedded.builtin.definitions import read_data
from swell.cluster.embedded.http.protobuf import MAGIC

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
VARINTS = ("bool", "int32", "int64")


def encode_body(body: dict[str, Any]) -> bytes:
    """An object in its envelope."""
    message = _table()["kinds"][f"{body['apiVersion']}/{body['kind']}"]
    return envelope(body["apiVersion"], body["kind"], encode_message(message, body))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = chunk(1, api_version.encode()) + chunk(2, kind.encode())
    return MAGIC + chunk(1, type_meta) + chunk(2, raw) + chunk(3, b"") + chunk(4, b"")


def encode_message(name: str, body: dict[str, Any]) -> bytes:
    parts = []
    for number, (field, described, *_) in _table()["messages"][name].items():
        label, _, kind = described.rpartition(" ")
        if not field:
            parts.append(chunk(int(number), encode_message(kind, body)))
            continue
        if field not in body:
            continue
        value = body[field]
        if label == "map":
            for key, inner in value.items():
                entry = chunk(1, key.encode()) + _field(2, kind, inner)
                parts.append(chunk(int(number), entry))
        elif label == "repeated":
            parts += [_field(int(number), kind, inner) for inner in value]
        else:
            parts.append(_field(int(number), kind, value))
    return b"".join(parts)


def chunk(number: int, content: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _field(number: int, kind: str, value: Any) -> bytes:
    if kind in VARINTS:
        return number_field(number, int(value))
    if kind == "double":
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if kind == "string":
        return chunk(number, value.encode())
    if kind == "bytes":
        return chunk(number, base64.b64decode(value))
    return chunk(number, _message(kind, value))


def _message(kind: str, value: Any) -> bytes:
    match kind.rpartition(".")[2]:
        case "Time" | "MicroTime" if kind.startswith(META):
            if value is None:
                return b""
            moment = datetime.fromisoformat(value)
            nanos = number_field(2, moment.microsecond * 1000)
            return number_field(1, int(moment.timestamp())) + nanos
        case "Quantity":
            return chunk(1, str(value).encode())
        case "IntOrString" if isinstance(value, int):
            return number_field(1, 0) + number_field(2, value) + chunk(3, b"")
        case "IntOrString":
            return number_field(1, 1) + number_field(2, 0) + chunk(3, value.encode())
        case "FieldsV1" | "RawExtension":
            return chunk(1, json.dumps(value).encode())
    return encode_message(kind, value)


@cache
def _table() -> dict[str, Any]:
    return read_data("protobuf-fields.json")
