"""What types decide: the field of an object, the common type of parts, the functions that fit."""

from __future__ import annotations

from swell.cel import syntax
from swell.cel.functions import Overload
from swell.cel.names import unescape
from swell.cel.syntax import RESERVED, ExpressionError
from swell.cel.types import DYN, NULL, EvaluationError, Type, fill, kind_of, unify
from swell.schema.patterns import PatternError, compile_pattern


def literal_type(value: object) -> Type:
    kind = kind_of(value)
    if isinstance(value, (str, bytes)):
        return Type(kind, size_max=len(value))
    return NULL if value is None else Type(kind)


def field_of(base: Type, name: str) -> tuple[Type, str]:
    """The type of a field, and its name in the object."""
    if base.kind == "object":
        # Reserved words are fields all the same, though they also have an escaped name.
        known = name if name in base.fields else f"__{name}__" if name in RESERVED else name
        if known not in base.fields:
            raise ExpressionError(f"undefined field '{name}'")
        return base.fields[known], unescape(known)
    if base.kind == "map":
        return base.params[1], name
    if base.kind == "dyn":
        return DYN, name
    raise ExpressionError(f"type '{base}' does not support field selection")


def check_literals(node: syntax.Call, overloads: list[Overload]) -> None:
    """What is written out and can never be right is refused before it is ever run."""
    values = [arg.value for arg in node.args if isinstance(arg, syntax.Literal)]
    try:
        if node.name == "matches" and values and isinstance(values[-1], str):
            compile_pattern(values[-1])
        if node.target is None and node.name in CONVERSIONS and len(values) == 1:
            overloads[0].run(values[0])
    except (EvaluationError, PatternError) as error:
        raise ExpressionError(str(error)) from error


CONVERSIONS = frozenset({
    "bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint",
})  # fmt: skip


def inside(type_: Type) -> Type:
    return type_.params[0] if type_.kind == "optional" else type_


def common(types: list[Type]) -> Type:
    """The one type of several parts; they must agree, except for those that are dyn."""
    common: Type | None = None
    for type_ in types:
        if common is None or common.kind in {"dyn", "null"}:
            common = type_ if common is None or type_.kind != "null" else common
        elif unify(common, type_, {}):
            common = common.sized(max(common.size, type_.size))
        else:
            raise ExpressionError(f"expected type '{common}' but found '{type_}'")
    return common or DYN


def fitting(overloads: list[Overload], given: list[Type]) -> list[tuple[Overload, Type]]:
    """The overloads that can take these types, each with the type it then gives."""
    fitting: list[tuple[Overload, Type]] = []
    for overload in overloads:
        bound: dict[str, Type] = {}
        if len(overload.params) == len(given) and all(
            unify(want, give, bound) for want, give in zip(overload.params, given, strict=True)
        ):
            fitting.append((overload, fill(overload.result, bound)))
    return fitting
