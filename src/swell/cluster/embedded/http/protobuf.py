"""Request bodies in Kubernetes' protobuf, from bytes to JSON data. Pure.

A body is an envelope: four magic bytes, then a `runtime.Unknown` that names apiVersion and kind and
holds the object's own message. The messages of the built-in kinds are data, listed by
`tools/list_protobuf_fields.py`. The result is the body that the same client would have sent in
JSON: a zero that stands for "no value" is left out, as Go's `omitempty` does.

Unknown fields are skipped, as on a real server. A body that is no such message, is nested deeply or
has very many fields is refused with 400: a decoder in Python is slow enough for size alone to be an
attack.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple

from swell.api.codec import encode
from swell.api.meta import Body
from swell.cluster.embedded.builtin.definitions import read_data
from swell.cluster.embedded.http.bodies import read_json
from swell.cluster.embedded.refusals import bad_request
from swell.runtime.errors import ClusterError

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
DEPTH_MAX = (
    64  # messages in messages; a schema of a definition nests two for every level of its own
)
# A pod has some hundreds, a ConfigMap of 33,000 entries this many. They take a fifth of a second.
FIELDS_MAX = 100_000

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # the wire types of protobuf that are in use
_VARINT_BYTES_MAX = 10  # of 64 bits, 7 in a byte
_DELETE_OPTIONS = "DeleteOptions"


class MessageField(NamedTuple):
    """One field of a message: its name in JSON, and how its value is read.

    A name of "" says that the fields of the inner message belong to the outer one.
    """

    name: str
    scalar: str
    message: str
    repeated: bool
    mapped: bool
    keeps_zero: bool


class Part(NamedTuple):
    """A field on the wire: a number, or the bytes from `start` to `end`."""

    number: int
    wire: int
    value: int
    start: int
    end: int


def read_protobuf(raw: bytes, default: tuple[str, str]) -> Body:
    """The object in a protobuf body; `default` is the apiVersion and kind if it names none."""
    if not raw.startswith(MAGIC):
        raise _malformed(f"it does not begin with the bytes {MAGIC.hex(' ')}")
    body = _Decoder(raw).envelope(default)
    # By way of JSON, so that bytes become base64 and every bound on JSON bodies holds as well.
    value = read_json(encode(body))
    if not isinstance(value, dict):
        raise AssertionError("a message is an object in JSON")
    return value


class _Decoder:
    """Reads one body. It counts the fields, in all messages together."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._fields_left = FIELDS_MAX

    def envelope(self, default: tuple[str, str]) -> Body:
        api_version, kind = "", ""
        inner = (0, 0)
        for part in self._envelope_parts(len(MAGIC), len(self._raw), n_fields=4):
            match part.number:
                case 1:
                    api_version, kind = self._type_meta(part)
                case 2:
                    inner = (part.start, part.end)
                case 3 | 4 if part.end > part.start:
                    what = "contentEncoding" if part.number == 3 else "contentType"
                    raise _malformed(f"{what} {self._text(part)!a} is not accepted")
        api_version, kind = api_version or default[0], kind or default[1]
        body: Body = {"kind": kind, "apiVersion": api_version}
        self._message(_message_of(api_version, kind), inner[0], inner[1], 0, body)
        return body

    def _type_meta(self, outer: Part) -> tuple[str, str]:
        found = {1: "", 2: ""}
        for part in self._envelope_parts(outer.start, outer.end, n_fields=2):
            if part.number in found:
                found[part.number] = self._text(part)
        return found[1], found[2]

    def _envelope_parts(self, start: int, end: int, *, n_fields: int) -> Iterator[Part]:
        """The fields of the envelope, all of which are bytes."""
        for part in self._parts(start, end, "the envelope"):
            if part.number <= n_fields and part.wire != _BYTES:
                raise _malformed(f"field {part.number} of the envelope has no bytes")
            yield part

    def _message(self, name: str, start: int, end: int, depth: int, into: Body) -> None:
        """Read a message into a dict. A field that comes again is replaced, a message merged."""
        if depth > DEPTH_MAX:
            raise _malformed(f"messages are nested deeper than {DEPTH_MAX} levels")
        table = _tables().messages[name]
        for part in self._parts(start, end, name):
            field = table.get(part.number)
            if field is None:
                continue
            if field.mapped:
                key, value = self._entry(field, part, depth)
                into.setdefault(field.name, {})[key] = value
            elif field.repeated:
                into.setdefault(field.name, []).extend(self._items(field, part, depth))
            elif not field.message:
                value = self._scalar(field, part)
                if value or field.keeps_zero:
                    into[field.name] = value
                else:
                    into.pop(field.name, None)
            elif not field.name:
                _expect(part, _BYTES, field)
                self._message(field.message, part.start, part.end, depth + 1, into)
            else:
                into[field.name] = self._inner(field, part, depth, into.get(field.name))

    def _inner(self, field: MessageField, part: Part, depth: int, old: object) -> object:
        """The value of a field that is a message, merged into its old value."""
        _expect(part, _BYTES, field)
        body: Body = old if isinstance(old, dict) and field.message not in _SHAPES else {}
        self._message(field.message, part.start, part.end, depth + 1, body)
        return _shaped(field.message, body)

    def _items(self, field: MessageField, part: Part, depth: int) -> Iterator[object]:
        """The items in one part of a list: a message, a text, or packed numbers."""
        if field.message:
            yield self._inner(field, part, depth, None)
        elif part.wire == _BYTES and field.scalar not in {"string", "bytes"}:
            at = part.start
            while at < part.end:
                item, at = self._value(_WIRES[field.scalar], part.number, at, part.end, field.name)
                yield self._scalar(field, item)
        else:
            yield self._scalar(field, part)

    def _entry(self, field: MessageField, outer: Part, depth: int) -> tuple[str, object]:
        """One entry of a map: a message of a key and a value, both of which may be missing."""
        _expect(outer, _BYTES, field)
        key = ""
        value = _shaped(field.message, {}) if field.message else _ZEROS[field.scalar]
        for part in self._parts(outer.start, outer.end, field.name):
            if part.number == 1:
                _expect(part, _BYTES, field)
                key = self._text(part)
            elif part.number == 2 and field.message:
                value = self._inner(field, part, depth, None)
            elif part.number == 2:
                value = self._scalar(field, part)
        return key, value

    def _scalar(self, field: MessageField, part: Part) -> object:
        _expect(part, _WIRES[field.scalar], field)
        match field.scalar:
            case "string":
                return self._text(part)
            case "bytes":
                return self._raw[part.start : part.end]
            case "bool":
                return part.value != 0
            case "int32":
                return _signed(part.value, 32)
            case "int64":
                return _signed(part.value, 64)
        number: float = struct.unpack_from("<d", self._raw, part.start)[0]
        if not math.isfinite(number):
            raise _malformed(f"{field.name} is no finite number")
        return number

    def _text(self, part: Part) -> str:
        return self._raw[part.start : part.end].decode("utf-8", "replace")

    def _parts(self, start: int, end: int, where: str) -> Iterator[Part]:
        """The fields of a message on the wire, in their order."""
        at = start
        while at < end:
            tag, at = self._varint(at, end, where)
            number, wire = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise _malformed(f"{where} has a field of number {number}")
            part, at = self._value(wire, number, at, end, where)
            yield part

    def _value(self, wire: int, number: int, at: int, end: int, where: str) -> tuple[Part, int]:
        self._fields_left -= 1
        if self._fields_left < 0:
            raise _malformed(f"it has more than {FIELDS_MAX} fields")
        if wire == _VARINT:
            value, at = self._varint(at, end, where)
            return Part(number, wire, value, at, at), at
        if wire == _BYTES:
            size, at = self._varint(at, end, where)
        elif wire in _FIXED_SIZES:
            size = _FIXED_SIZES[wire]
        else:
            raise _malformed(f"field {number} of {where} has the wire type {wire}")
        if at + size > end:
            raise _malformed(f"field {number} of {where} has {size} bytes, but {end - at} are left")
        return Part(number, wire, 0, at, at + size), at + size

    def _varint(self, at: int, end: int, where: str) -> tuple[int, int]:
        """A number of up to 64 bits, and the place after it."""
        found = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            if at >= end:
                raise _malformed(f"{where} ends within a number")
            byte = self._raw[at]
            at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found, at
        raise _malformed(f"{where} has a number of more than 64 bits")


# --- messages that are no object in JSON --------------------------------------------------------


def _time(body: Body) -> str | None:
    return _moment(body, "seconds")


def _micro_time(body: Body) -> str | None:
    return _moment(body, "microseconds")


def _moment(body: Body, precision: str) -> str | None:
    """A time as text. An empty message is the zero of Go's type, which is null in JSON."""
    if not body:
        return None
    seconds, nanos = body.get("seconds", 0), body.get("nanos", 0)
    try:
        since = timedelta(seconds=seconds, microseconds=nanos // 1000)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + since
    except OverflowError:
        raise _malformed(f"a time of {seconds} seconds is out of range") from None
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _int_or_string(body: Body) -> object:
    if body.get("type"):
        return body.get("strVal", "")
    return body.get("intVal", 0)


def _embedded_json(body: Body) -> object:
    """JSON in a field of bytes, with its one name spelled as the message does."""
    raw = body.get("raw") or body.get("Raw") or b"null"
    try:
        return read_json(raw)
    except ClusterError as error:
        raise _malformed(f"a field holds JSON that cannot be read: {error}") from error


def _schema_or_list(body: Body) -> object:
    return body.get("jSONSchemas") or body.get("schema")


def _schema_or_bool(body: Body) -> object:
    return body["schema"] if "schema" in body else bool(body.get("allows"))


def _schema_or_names(body: Body) -> object:
    return body.get("property") or body.get("schema")


_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SHAPES: Mapping[str, Callable[[Body], object]] = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _embedded_json,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda body: body.get("string", ""),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _embedded_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_DEFINITION}JSON": _embedded_json,
    f"{_DEFINITION}JSONSchemaPropsOrArray": _schema_or_list,
    f"{_DEFINITION}JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_DEFINITION}JSONSchemaPropsOrStringArray": _schema_or_names,
}


def _shaped(message: str, body: Body) -> object:
    shape = _SHAPES.get(message)
    return body if shape is None else shape(body)


# --- tables -------------------------------------------------------------------------------------

_WIRES: Mapping[str, int] = {
    "bool": _VARINT,
    "bytes": _BYTES,
    "double": _FIXED64,
    "int32": _VARINT,
    "int64": _VARINT,
    "string": _BYTES,
}
_ZEROS: Mapping[str, object] = {
    "bool": False,
    "bytes": b"",
    "double": 0.0,
    "int32": 0,
    "int64": 0,
    "string": "",
}
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}


class ProtobufTables(NamedTuple):
    """The message of every kind, by `apiVersion/kind`, and the fields of every message."""

    kinds: Mapping[str, str]
    messages: Mapping[str, Mapping[int, MessageField]]


@cache
def _tables() -> ProtobufTables:
    data = read_data("protobuf-fields.json")
    messages = {
        name: {int(number): _message_field(*entry) for number, entry in fields.items()}
        for name, fields in data["messages"].items()
    }
    return ProtobufTables(data["kinds"], messages)


def _message_field(name: str, described: str, zero: str = "") -> MessageField:
    label, _, kind = described.rpartition(" ")
    scalar = kind in _WIRES
    return MessageField(
        name=name,
        scalar=kind if scalar else "",
        message="" if scalar else kind,
        repeated=label == "repeated",
        mapped=label == "map",
        keeps_zero=zero == "zero",
    )


def _message_of(api_version: str, kind: str) -> str:
    # Every group has the options of a delete under its own name.
    wanted = "v1/DeleteOptions" if kind == _DELETE_OPTIONS else f"{api_version}/{kind}"
    found = _tables().kinds.get(wanted)
    if found is None:
        raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
    return found


def _expect(part: Part, wire: int, field: MessageField) -> None:
    if part.wire != wire:
        raise _malformed(f"{field.name or field.message} has the wire type {part.wire}, not {wire}")


def _signed(value: int, bits: int) -> int:
    """The lowest bits of a number in two's complement."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _malformed(problem: str) -> ClusterError:
    return bad_request(f"the body is not valid protobuf: {problem}")
