"""The types of expressions, and the values that Python has no type of its own for.

A type may also know how large its values can be: costs are estimated from these sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from swell.cel.syntax import UInt

UNBOUNDED = math.inf


class EvaluationError(Exception):
    """The expression has no result for these values."""


@dataclass(frozen=True, slots=True)
class CelType:
    """A type by its kind: `int`, `list` with the item's type as parameter, `object` with fields.

    Two types are equal when kind and parameters are: sizes and fields do not count. A kind that
    begins with `param:` is a type parameter of an overload, bound by `unify`.
    """

    kind: str
    params: tuple[CelType, ...] = ()
    fields: Mapping[str, CelType] = field(default_factory=dict, compare=False)
    size_max: float = field(default=UNBOUNDED, compare=False)
    unordered: bool = field(default=False, compare=False)  # a list that is compared as a set

    def __str__(self) -> str:
        inside = ", ".join(str(param) for param in self.params)
        return f"{self.kind}({inside})" if inside else self.kind

    @property
    def size(self) -> float:
        """The largest size a value can have: characters, bytes, items or entries; 1 of a scalar."""
        return 1.0 if self.kind in SCALARS else self.size_max

    def sized(self, size_max: float) -> CelType:
        return replace(self, size_max=size_max)


BOOL = CelType("bool")
INT = CelType("int")
UINT = CelType("uint")
DOUBLE = CelType("double")
STRING = CelType("string")
BYTES = CelType("bytes")
TIMESTAMP = CelType("timestamp")
DURATION = CelType("duration")
NULL = CelType("null")
DYN = CelType("dyn")
TYPE = CelType("type")
# Type parameters of overloads: `list(A)` takes a list of anything.
A = CelType("param:A")
B = CelType("param:B")
SCALARS = frozenset({"bool", "int", "uint", "double", "timestamp", "duration", "null", "type"})


def list_of(item: CelType, size_max: float = UNBOUNDED) -> CelType:
    return CelType("list", (item,), size_max=size_max)


def map_of(key: CelType, value: CelType, size_max: float = UNBOUNDED) -> CelType:
    return CelType("map", (key, value), size_max=size_max)


def object_of(fields: Mapping[str, CelType]) -> CelType:
    """An object with exactly these fields; naming another one is an error at compile time.

    Its size is 0 because Kubernetes counts whole objects as nothing when it estimates a cost.
    """
    return CelType("object", fields=fields, size_max=0)


def optional_of(value: CelType) -> CelType:
    return CelType("optional", (value,))


class OpenMap(dict[str, object]):
    """A map in which every key can be looked up: one that it does not have gives an empty map.

    `in` still tells which keys it has.
    """

    cel_kind = "map"


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional value of the language. `present` tells a missing value from null."""

    value: object = None
    present: bool = False

    def get(self) -> object:
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self.value


NOTHING = Optional()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The result of `type(x)`."""

    name: str


TYPE_NAMES = {
    "bool": "bool", "int": "int", "uint": "uint", "double": "double", "string": "string",
    "bytes": "bytes", "list": "list", "map": "map", "null_type": "null", "type": "type",
}  # fmt: skip


def kind_of(value: object) -> str:
    """The kind of a value at run time. Values of our own classes say it in `cel_kind`."""
    kind = _KINDS.get(type(value))
    return kind if kind is not None else getattr(value, "cel_kind", "object")


# By exact class: bool and UInt are subclasses of int, but kinds of their own.
_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    type(None): "null",
    datetime: "timestamp",
    timedelta: "duration",
    Optional: "optional",
    TypeValue: "type",
}


def has_kind(value: object, wanted: CelType) -> bool:
    """Whether a value has the wanted type. Only the kind is compared, not items or fields."""
    if wanted.kind == "dyn" or wanted.kind.startswith("param:"):
        return True
    kind = kind_of(value)
    return kind == wanted.kind or (kind == "map" and wanted.kind == "object")


# The kinds whose values may be compared with null.
NULLABLE = frozenset({"null", "dyn", "object", "timestamp", "duration", "optional"})


def unify(wanted: CelType, given: CelType, bound: dict[str, CelType]) -> bool:
    """Whether a given type fits a wanted one. Adds the wanted one's type parameters to `bound`."""
    if wanted.kind.startswith("param:"):
        return _bind(wanted.kind, given, bound)
    if wanted.kind == "dyn" or given.kind == "dyn":
        return True
    if "null" in {wanted.kind, given.kind}:
        return wanted.kind in NULLABLE and given.kind in NULLABLE
    if wanted.kind != given.kind:
        # A map and an object may stand for each other when the given one declares no fields.
        return {wanted.kind, given.kind} == {"map", "object"} and not given.fields
    if wanted.kind == "object":
        return wanted.fields.keys() == given.fields.keys()
    return all(
        unify(want, give, bound) for want, give in zip(wanted.params, given.params, strict=True)
    )


def _bind(name: str, given: CelType, bound: dict[str, CelType]) -> bool:
    known = bound.get(name)
    # The first type binds the parameter; dyn fits all, and gives way to a more exact type.
    if known is None or known.kind == "dyn":
        bound[name] = given
        return True
    if given.kind == "dyn":
        return True
    # In both directions: a parameter stands for one type, not for a wider one.
    if unify(known, given, {}) and unify(given, known, {}):
        bound[name] = (
            known.sized(max(known.size, given.size)) if known.kind not in SCALARS else known
        )
        return True
    return False


def fill(wanted: CelType, bound: Mapping[str, CelType]) -> CelType:
    """The type with its type parameters replaced; one that was never bound becomes dyn."""
    if wanted.kind.startswith("param:"):
        return bound.get(wanted.kind, DYN)
    if not wanted.params:
        return wanted
    return replace(wanted, params=tuple(fill(param, bound) for param in wanted.params))
