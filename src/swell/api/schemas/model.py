"""A structural schema: the shape of a JSON value, with its bounds and its rules.

Validation walks it, CRDs are generated from it. Holds no knowledge of any kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Scalar = str | int | bool


class SchemaType(Enum):
    """JSON types as schemas name them; `INT_OR_STRING` is Kubernetes' own."""

    ANY = ""
    OBJECT = "object"
    ARRAY = "array"
    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A rule between fields, in CEL. `field` names the one to blame, relative to the schema.

    Where `told` is given, it is CEL for what is said instead of `message`.
    """

    expression: str
    message: str
    field: str = ""
    message_expression: str = ""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a whole text must match, and the same in words."""

    regex: str
    requirement: str
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    type: SchemaType
    description: str = ""
    properties: Mapping[str, Schema] = field(default_factory=dict)
    values: Schema | None = None  # of a map with free keys
    items: Schema | None = None
    required: tuple[str, ...] = ()
    enum: tuple[str, ...] = ()
    default: Scalar | None = None
    example: str = ""
    minimum: int | None = None
    maximum: int | None = None
    pattern: Pattern | None = None
    size_min: int | None = None  # characters, items or properties, as the type has it
    size_max: int | None = None
    format: str = ""
    is_open: bool = False  # the server keeps unknown fields
    reports_unknown: bool = False  # validation reports them all the same
    map_keys: tuple[str, ...] = ()  # what identifies an item of a list
    is_atomic: bool = False  # has one owner as a whole; the server records none for its fields
    rules: tuple[ValidationRule, ...] = ()


def table(
    properties: Mapping[str, Schema],
    *,
    required: tuple[str, ...] = (),
    is_open: bool = False,
    reports_unknown: bool = False,
    is_atomic: bool = False,
    rules: tuple[ValidationRule, ...] = (),
    description: str = "",
) -> Schema:
    """An object with known fields."""
    return Schema(
        type=SchemaType.OBJECT,
        properties=properties,
        required=required,
        is_open=is_open,
        reports_unknown=reports_unknown,
        is_atomic=is_atomic,
        rules=rules,
        description=description,
    )


def mapping(values: Schema, *, size_max: int, size_min: int = 0, description: str = "") -> Schema:
    """An object with free keys."""
    return Schema(
        type=SchemaType.OBJECT,
        values=values,
        size_min=size_min or None,
        size_max=size_max,
        description=description,
    )


def listing(
    items: Schema,
    *,
    size_max: int,
    size_min: int = 0,
    map_keys: tuple[str, ...] = (),
    description: str = "",
) -> Schema:
    return Schema(
        type=SchemaType.ARRAY,
        items=items,
        size_min=size_min or None,
        size_max=size_max,
        map_keys=map_keys,
        description=description,
    )


def text(
    description: str = "",
    *,
    size_max: int = 253,
    size_min: int = 0,
    pattern: Pattern | None = None,
    default: str | None = None,
    example: str = "",
) -> Schema:
    return Schema(
        type=SchemaType.STRING,
        description=description,
        size_min=size_min or None,
        size_max=size_max,
        pattern=pattern,
        default=default,
        example=example,
    )


def choice(values: type[Enum], description: str = "", *, default: Enum | None = None) -> Schema:
    """One of an enumeration's values."""
    return Schema(
        type=SchemaType.STRING,
        description=description,
        enum=tuple(member.value for member in values),
        default=None if default is None else default.value,
    )


def integer(
    description: str = "",
    *,
    minimum: int | None = 0,
    maximum: int = INT32_MAX,
    default: int | None = None,
    example: str = "1",
) -> Schema:
    return Schema(
        type=SchemaType.INTEGER,
        description=description,
        minimum=minimum,
        maximum=maximum,
        default=default,
        example=example,
    )


def boolean(description: str = "", *, default: bool | None = None) -> Schema:
    return Schema(type=SchemaType.BOOLEAN, description=description, default=default)


def moment(description: str = "") -> Schema:
    """A time as the API writes it."""
    return Schema(type=SchemaType.STRING, format="date-time", description=description)


def open_object(description: str = "") -> Schema:
    """An object that goes elsewhere unread."""
    return Schema(type=SchemaType.OBJECT, is_open=True, description=description)
