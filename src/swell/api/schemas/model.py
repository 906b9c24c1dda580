"""A structural schema: the shape of a JSON value, with its bounds and its rules.

Validation walks it, and CRDs are generated from it. It knows no kind of object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Scalar = str | int | bool


class SchemaType(Enum):
    """JSON types as OpenAPI names them; `INT_OR_STRING` is an extension of Kubernetes."""

    ANY = ""
    OBJECT = "object"
    ARRAY = "array"
    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A rule between fields, in CEL. `field` is the path of the wrong one, relative to the schema.

    `message_expression` is CEL that computes the message; `message` is used if that fails.
    """

    expression: str
    message: str
    field: str = ""
    message_expression: str = ""
    reason: str = "FieldValueInvalid"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression for a whole text, the same as a sentence, and an example."""

    regex: str
    requirement: str
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The schema of one value. Which fields apply depends on the type."""

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
    size_min: int | None = None  # characters, items or properties, depending on the type
    size_max: int | None = None
    format: str = ""
    is_open: bool = False  # the server keeps unknown fields
    reports_unknown: bool = False  # validation reports them although the server keeps them
    map_keys: tuple[str, ...] = ()  # the fields that identify an item of a list
    is_atomic: bool = False  # server-side apply tracks one owner for the whole
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
    """Returns the schema of an object with known fields."""
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
    """Returns the schema of an object with free keys."""
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
    """Returns the schema of a text that is one of an enumeration's values."""
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
    """Returns the schema of a timestamp."""
    return Schema(type=SchemaType.STRING, format="date-time", description=description)


def open_object(description: str = "") -> Schema:
    """Returns the schema of an object that is passed on unread."""
    return Schema(type=SchemaType.OBJECT, is_open=True, description=description)
