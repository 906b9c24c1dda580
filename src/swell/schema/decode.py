"""Built-in kinds are read as a typed server reads them.

The first value of a wrong type ends the reading (`DecodeError`); unknown fields are dropped and
reported; null is absence; optional fields that hold a zero go; quantities and times get their
canonical text; fixed defaults come. What is computed, and what the values mean, is not decided
here. Never changes what it is given.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from swell.api.meta import Body
from swell.api.quantity import Quantity, QuantityError, canonical, divide_away, parse, served
from swell.api.times import format_micro_time, format_time, parse_time
from swell.schema.field_errors import MapKey, Path, render

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
MILLI = 1_000_000  # nano units
INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

_SECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
TIME = re.compile(_SECONDS + r"(\.\d+)?(Z|[+-]\d\d:\d\d)")
MICRO_TIME = re.compile(_SECONDS + r"\.\d{6}(Z|[+-]\d\d:\d\d)")

# (value, where it is, unknown fields found) -> the value as it is stored
Decoder: TypeAlias = Callable[[object, Path, list[str]], object]


class Field(NamedTuple):
    exact: type | None  # values of this type are right as they are
    decoder: Decoder
    keeps_zero: bool


class DecodeError(Exception):
    """A value cannot be read as what its field holds."""

    def __init__(self, path: Path, problem: str) -> None:
        self.field = render(path)
        super().__init__(f"{self.field}: {problem}" if self.field else problem)


class Decoders:
    """Decoders of definitions by name, compiled when first asked for (they may be recursive)."""

    def __init__(
        self,
        definitions: Mapping[str, Body],
        zero_values: Mapping[str, Mapping[str, list[str]]] | None = None,
    ) -> None:
        """`zero_values`: fields that keep a zero (`pointers`) or show null (`nullTimes`)."""
        self._definitions = definitions
        self._zero_values = zero_values or {}
        self._compiled: dict[str, Decoder] = {}

    def of(self, name: str) -> Decoder:
        if name in WELL_KNOWN:
            return WELL_KNOWN[name]
        if name not in self._compiled:
            self._compiled[name] = partial(self._decode_later, name)  # for what refers back to it
            self._compiled[name] = self._compile(self._definitions[name], name)
        return self._compiled[name]

    def _decode_later(self, name: str, value: object, path: Path, unknown: list[str]) -> object:
        return self._compiled[name](value, path, unknown)

    def _compile(self, schema: Body, name: str = "") -> Decoder:
        if "$ref" in schema:
            return self.of(schema["$ref"])
        kind = schema.get("type")
        if kind == "array":
            return self._list(schema["items"])
        if kind == "object" and "properties" in schema:
            return self._struct(schema, self._zero_values.get(name, {}))
        if kind == "object" and "additionalProperties" in schema:
            return self._map(schema["additionalProperties"])
        if kind == "integer":
            return _integer(*INT_RANGES[schema.get("format", "int64")])
        if kind == "string" and schema.get("format") == "byte":
            return _base64
        return PLAIN.get(kind or "", _anything)

    def _struct(self, schema: Body, zeros: Mapping[str, list[str]]) -> Decoder:
        kept_zeros = frozenset((*schema.get("required", ()), *zeros.get("pointers", ())))
        fields: dict[str, Field] = {}
        defaults: list[tuple[str, Callable[[], object]]] = []
        for name, part in schema["properties"].items():
            # A struct is shown even when empty.
            is_struct = "$ref" in part and "properties" in self._definitions[part["$ref"]]
            decoder = self._compile(part)
            fields[name] = Field(_exact_type(part), decoder, name in kept_zeros or is_struct)
            if "default" in part:
                defaults.append((name, _default(part["default"], decoder)))
        defaults += [(name, _default(None, _anything)) for name in zeros.get("nullTimes", ())]
        return _struct_decoder(fields, defaults)

    def _map(self, schema: Body | bool) -> Decoder:
        child = self._compile(schema) if isinstance(schema, dict) else _anything
        if child is _quantity:
            child = _resource_amount
        exact = _exact_type(schema) if isinstance(schema, dict) else None
        zero = _zero(schema)

        def decode(value: object, path: Path, unknown: list[str]) -> object:
            if type(value) is not dict:
                raise DecodeError(path, f"a map is wanted, not {_shown(value)}")
            return {
                key: item
                if type(item) is exact
                else zero()
                if item is None
                else child(item, (path, MapKey(key)), unknown)
                for key, item in value.items()
            }

        return decode

    def _list(self, schema: Body) -> Decoder:
        child, exact, zero = self._compile(schema), _exact_type(schema), _zero(schema)

        def decode(value: object, path: Path, unknown: list[str]) -> object:
            if type(value) is not list:
                raise DecodeError(path, f"a list is wanted, not {_shown(value)}")
            return [
                item
                if type(item) is exact
                else child(zero() if item is None else item, (path, index), unknown)
                for index, item in enumerate(value)
            ]

        return decode


def _struct_decoder(
    fields: Mapping[str, Field], defaults: list[tuple[str, Callable[[], object]]]
) -> Decoder:
    def decode(value: object, path: Path, unknown: list[str]) -> object:
        if type(value) is not dict:
            raise DecodeError(path, f"an object is wanted, not {_shown(value)}")
        kept: Body = {}
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                unknown.append(render((path, name)))
            elif item is not None:
                exact, child, keeps_zero = field
                decoded = item if type(item) is exact else child(item, (path, name), unknown)
                if decoded or keeps_zero:
                    kept[name] = decoded
        for name, default in defaults:
            if name not in kept:
                kept[name] = default()
        return kept

    return decode


def _default(value: object, decoder: Decoder) -> Callable[[], object]:
    if value == {}:
        return lambda: decoder({}, None, [])  # an empty struct has defaults of its own
    return lambda: value


# --- leaves ------------------------------------------------------------------------------------


def _exact_type(schema: Body) -> type | None:
    """The Python type whose every value is right as it is; None when the decoder must look."""
    if "$ref" in schema or schema.get("format") == "byte":
        return None
    return {"string": str, "boolean": bool}.get(schema.get("type", ""))


def _zero(schema: Body | bool) -> Callable[[], object]:
    """What null stands for in a list or a map."""
    if not isinstance(schema, dict) or schema == {}:
        return lambda: None
    if schema.get("$ref") == QUANTITY:
        return lambda: "0"
    if "$ref" in schema or "properties" in schema:
        return dict if schema.get("default") == {} else lambda: None
    return {"string": str, "integer": int, "boolean": bool, "array": list}.get(
        schema.get("type", ""), dict
    )


def _integer(low: int, high: int) -> Decoder:
    def decode(value: object, path: Path, _unknown: list[str]) -> object:
        if type(value) is not int or not low <= value <= high:
            raise DecodeError(path, f"a whole number is wanted, not {_shown(value)}")
        return value

    return decode


def _of_type(types: tuple[type, ...], what: str) -> Decoder:
    def decode(value: object, path: Path, _unknown: list[str]) -> object:
        if type(value) not in types:
            raise DecodeError(path, f"{what} is wanted, not {_shown(value)}")
        return value

    return decode


def _int_or_text(value: object, path: Path, _unknown: list[str]) -> object:
    low, high = INT_RANGES["int32"]
    if type(value) is str or (type(value) is int and low <= value <= high):
        return value
    raise DecodeError(path, f"a number of 32 bits or a text is wanted, not {_shown(value)}")


def _anything(value: object, _path: Path, _unknown: list[str]) -> object:
    return value


def _base64(value: object, path: Path, _unknown: list[str]) -> object:
    if type(value) is not str:
        raise DecodeError(path, f"a text is wanted, not {_shown(value)}")
    try:
        # Line breaks are allowed and forgotten, as they are by the server.
        text = value.replace("\n", "").replace("\r", "")
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(path, "illegal base64 data") from error
    return text


def _quantity(value: object, path: Path, _unknown: list[str]) -> object:
    if type(value) not in {str, int, float}:
        raise DecodeError(path, f"a quantity is wanted, not {_shown(value)}")
    try:
        return served(value)
    except QuantityError as error:
        raise DecodeError(path, str(error)) from error


def _resource_amount(value: object, path: Path, unknown: list[str]) -> object:
    """Amounts of resources have no parts finer than a thousandth: they are rounded up."""
    text = str(_quantity(value, path, unknown))
    amount = parse(text)
    if amount.nano % MILLI:
        return canonical(Quantity(divide_away(amount.nano, MILLI) * MILLI, amount.format))
    return text


def _time(shape: re.Pattern[str], write: Callable[[float], str]) -> Decoder:
    def decode(value: object, path: Path, _unknown: list[str]) -> object:
        if type(value) is not str or not shape.fullmatch(value):
            raise DecodeError(path, f"a time is wanted, not {_shown(value)}")
        try:
            return write(parse_time(value))
        except (ValueError, OverflowError) as error:
            raise DecodeError(path, f"{_shown(value)} is no time") from error

    return decode


def _shown(value: object) -> str:
    return {dict: "an object", list: "a list", type(None): "null"}.get(
        type(value), repr(value)[:80]
    )


PLAIN: Mapping[str, Decoder] = {
    "string": _of_type((str,), "a text"),
    "boolean": _of_type((bool,), "true or false"),
    "number": _of_type((int, float), "a number"),
    "object": _of_type((dict,), "an object"),
}
WELL_KNOWN: Mapping[str, Decoder] = {
    QUANTITY: _quantity,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": _time(TIME, format_time),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": _time(MICRO_TIME, format_micro_time),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_text,
}
