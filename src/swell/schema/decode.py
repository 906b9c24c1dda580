"""Decoding of built-in kinds, with the results of kube-apiserver's typed decoding.

- The first value of a wrong type ends it with a `DecodeError`.
- Unknown fields are dropped and reported.
- null counts as missing.
- Optional fields that hold the zero of their type are dropped.
- Quantities and times get their canonical text.
- Missing fields get their fixed defaults. Computed defaults are added by the kinds' own rules.

The input is never changed.
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
from swell.schema.scalars import INT_RANGES

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
# A schema of a custom resource, and what may stand in its place there.
_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA = f"{_DEFINITION}JSONSchemaProps"
UNIONS: Mapping[str, type] = {f"{SCHEMA}OrArray": list, f"{SCHEMA}OrBool": bool}
MILLI = 1_000_000  # a thousandth, in the nano units quantities are kept in

_SECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
TIME = re.compile(_SECONDS + r"(\.\d+)?(Z|[+-]\d\d:\d\d)")
MICRO_TIME = re.compile(_SECONDS + r"\.\d{6}(Z|[+-]\d\d:\d\d)")

# (value, where it is, unknown fields found) -> the value as it is stored
Decoder: TypeAlias = Callable[[object, Path, list[str]], object]


class Field(NamedTuple):
    """A field of a struct: how it is decoded, and whether a zero is kept.

    Values of the type `exact` are stored as they are, without a call of the decoder.
    """

    exact: type | None
    decoder: Decoder
    keeps_zero: bool


class DecodeError(Exception):
    """A value does not have the type of its field."""

    def __init__(self, path: Path, problem: str) -> None:
        self.field = render(path)
        super().__init__(f"{self.field}: {problem}" if self.field else problem)


class Decoders:
    """The decoders of definitions by name, compiled when first used."""

    def __init__(
        self,
        definitions: Mapping[str, Body],
        zero_values: Mapping[str, Mapping[str, list[str]]] | None = None,
    ) -> None:
        """Takes the definitions, and by definition what their schemas do not say.

        Of `zero_values`, `pointers` are fields that keep a zero, `emptyLists` those whose rules
        tell an empty list or map from none, and `nullTimes` are times shown as null when they are
        missing.
        """
        self._definitions = definitions
        self._zero_values = zero_values or {}
        self._compiled: dict[str, Decoder] = {}

    def of(self, name: str) -> Decoder:
        if name in WELL_KNOWN:
            return WELL_KNOWN[name]
        if name not in self._compiled:
            # A definition may refer to itself; the inner reference is resolved at decoding.
            self._compiled[name] = partial(self._decode_later, name)
            self._compiled[name] = self._compile(self._definitions[name], name)
        return self._compiled[name]

    def _decode_later(self, name: str, value: object, path: Path, unknown: list[str]) -> object:
        return self._compiled[name](value, path, unknown)

    def _compile(self, schema: Body, name: str = "") -> Decoder:
        if "$ref" in schema:
            return self.of(schema["$ref"])
        if name in UNIONS:
            return self._union(UNIONS[name])
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

    def _union(self, allowed: type) -> Decoder:
        """The decoder of a schema, or of what may stand in its place.

        Go decodes these by a function of their own, so that unknown fields inside are dropped and
        nobody is told.
        """

        def decode(value: object, path: Path, _unknown: list[str]) -> object:
            if type(value) is dict:
                return self.of(SCHEMA)(value, path, [])
            if type(value) is list and allowed is list:
                return [self.of(SCHEMA)(item, (path, n), []) for n, item in enumerate(value)]
            if type(value) is not allowed and allowed is bool:
                raise DecodeError(path, f"a schema or a boolean is wanted, not {_describe(value)}")
            # Anything else counts as given, but holds no schema: it reads like an empty list.
            return value if type(value) is allowed else []

        return decode

    def _struct(self, schema: Body, zeros: Mapping[str, list[str]]) -> Decoder:
        given = (*zeros.get("pointers", ()), *zeros.get("emptyLists", ()))
        kept_zeros = frozenset((*schema.get("required", ()), *given))
        fields: dict[str, Field] = {}
        defaults: list[tuple[str, Callable[[], object]]] = []
        for name, part in schema["properties"].items():
            # Go writes a struct that is no pointer even when it is empty.
            is_struct = "$ref" in part and "properties" in self._definitions[part["$ref"]]
            decoder = self._compile(part)
            fields[name] = Field(_exact_type(part), decoder, name in kept_zeros or is_struct)
            if "default" in part:
                defaults.append((name, _default(part["default"], decoder)))
        defaults += [(name, _default(None, _anything)) for name in zeros.get("nullTimes", ())]
        return _struct_decoder(fields, defaults)

    def _map(self, schema: Body | bool) -> Decoder:
        child = self._compile(schema) if isinstance(schema, dict) else _anything
        # A map of quantities is a list of resources, where amounts are rounded.
        if child is _quantity:
            child = _resource_amount
        exact = _exact_type(schema) if isinstance(schema, dict) else None
        zero = _zero(schema)

        def decode(value: object, path: Path, unknown: list[str]) -> object:
            if type(value) is not dict:
                raise DecodeError(path, f"a map is wanted, not {_describe(value)}")
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
                raise DecodeError(path, f"a list is wanted, not {_describe(value)}")
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
            raise DecodeError(path, f"an object is wanted, not {_describe(value)}")
        kept: Body = {}
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                unknown.append(render((path, name)))
            elif item is not None:
                exact, child, keeps_zero = field
                decoded = item if type(item) is exact else child(item, (path, name), unknown)
                # Go's omitempty: a zero is written only where the field is a pointer.
                if decoded or keeps_zero:
                    kept[name] = decoded
        for name, default in defaults:
            if name not in kept:
                kept[name] = default()
        return kept

    return decode


def _default(value: object, decoder: Decoder) -> Callable[[], object]:
    if value == {}:
        # A struct that is empty by default has defaults of its own.
        return lambda: decoder({}, None, [])
    return lambda: value


# --- leaves ------------------------------------------------------------------------------------


def _exact_type(schema: Body) -> type | None:
    """The Python type whose every value is stored as it is; None when the decoder is needed."""
    if "$ref" in schema or schema.get("format") == "byte":
        return None
    return {"string": str, "boolean": bool}.get(schema.get("type", ""))


def _zero(schema: Body | bool) -> Callable[[], object]:
    """The value that null becomes in a list or a map: the zero of Go's type."""
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
        # type() and not isinstance: true is no integer.
        if type(value) is not int or not low <= value <= high:
            raise DecodeError(path, f"a whole number is wanted, not {_describe(value)}")
        return value

    return decode


def _of_type(types: tuple[type, ...], what: str) -> Decoder:
    def decode(value: object, path: Path, _unknown: list[str]) -> object:
        if type(value) not in types:
            raise DecodeError(path, f"{what} is wanted, not {_describe(value)}")
        return value

    return decode


def _int_or_text(value: object, path: Path, _unknown: list[str]) -> object:
    low, high = INT_RANGES["int32"]
    if type(value) is str or (type(value) is int and low <= value <= high):
        return value
    raise DecodeError(path, f"a number of 32 bits or a text is wanted, not {_describe(value)}")


def _anything(value: object, _path: Path, _unknown: list[str]) -> object:
    return value


def _base64(value: object, path: Path, _unknown: list[str]) -> object:
    if type(value) is not str:
        raise DecodeError(path, f"a text is wanted, not {_describe(value)}")
    try:
        # kube-apiserver accepts line breaks and drops them.
        text = value.replace("\n", "").replace("\r", "")
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(path, "illegal base64 data") from error
    return text


def _quantity(value: object, path: Path, _unknown: list[str]) -> object:
    if type(value) not in {str, int, float}:
        raise DecodeError(path, f"a quantity is wanted, not {_describe(value)}")
    try:
        return served(value)
    except QuantityError as error:
        raise DecodeError(path, str(error)) from error


def _resource_amount(value: object, path: Path, unknown: list[str]) -> object:
    """A quantity in a map of resources, rounded up to a thousandth as kube-apiserver does."""
    text = str(_quantity(value, path, unknown))
    amount = parse(text)
    if amount.nano % MILLI:
        return canonical(Quantity(divide_away(amount.nano, MILLI) * MILLI, amount.format))
    return text


def _time(pattern: re.Pattern[str], write: Callable[[float], str]) -> Decoder:
    def decode(value: object, path: Path, _unknown: list[str]) -> object:
        if type(value) is not str or not pattern.fullmatch(value):
            raise DecodeError(path, f"a time is wanted, not {_describe(value)}")
        try:
            return write(parse_time(value))
        except (ValueError, OverflowError) as error:
            raise DecodeError(path, f"{_describe(value)} is no time") from error

    return decode


def _describe(value: object) -> str:
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
