"""Decisions of the compiler that need only types.

These are: the type of a literal and of a field, the common type of several parts, the overloads
that fit given types, and the identifiers of properties whose names are no identifiers.
"""

from __future__ import annotations

import re

from swell.cel import syntax
from swell.cel.functions import Overload
from swell.cel.syntax import CONSTANTS, RESERVED, ExpressionError
from swell.cel.types import DYN, NULL, CelType, EvaluationError, fill, kind_of, unify
from swell.schema.patterns import PatternError, compile_pattern


def literal_type(value: object) -> CelType:
    """The type of a constant. A string knows its exact size, which lowers estimated costs."""
    kind = kind_of(value)
    if isinstance(value, (str, bytes)):
        return CelType(kind, size_max=len(value))
    return NULL if value is None else CelType(kind)


def field_of(base: CelType, name: str) -> tuple[CelType, str]:
    """The type of a field, and the name of the property it stands for."""
    if base.kind == "object":
        # A property named like a reserved word is declared by its escaped name, and may be selected
        # by either.
        known = name if name in base.fields else f"__{name}__" if name in RESERVED else name
        if known not in base.fields:
            raise ExpressionError(f"undefined field '{name}'")
        return base.fields[known], unescape(known)
    if base.kind == "map":  # `m.key` is `m["key"]`
        return base.params[1], name
    if base.kind == "dyn":
        return DYN, name
    raise ExpressionError(f"type '{base}' does not support field selection")


def check_literals(node: syntax.CallExpr, overloads: list[Overload]) -> None:
    """Raise ExpressionError for a literal argument that no evaluation could accept."""
    values = [arg.value for arg in node.args if isinstance(arg, syntax.LiteralExpr)]
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


def inside(type_: CelType) -> CelType:
    """The type of the value in an optional; another type stays as it is."""
    return type_.params[0] if type_.kind == "optional" else type_


def common(types: list[CelType]) -> CelType:
    """The type of several parts of a list, a map or a conditional.

    They must agree; parts of type dyn and null adapt to the others.
    """
    common: CelType | None = None
    for type_ in types:
        if common is None or common.kind in {"dyn", "null"}:
            common = type_ if common is None or type_.kind != "null" else common
        elif unify(common, type_, {}):
            common = common.sized(max(common.size, type_.size))
        else:
            raise ExpressionError(f"expected type '{common}' but found '{type_}'")
    return common or DYN


def fitting(overloads: list[Overload], given: list[CelType]) -> list[tuple[Overload, CelType]]:
    """The overloads that can take these types, each with the type it then returns."""
    fitting: list[tuple[Overload, CelType]] = []
    for overload in overloads:
        bound: dict[str, CelType] = {}
        if len(overload.params) == len(given) and all(
            unify(want, give, bound) for want, give in zip(overload.params, given, strict=True)
        ):
            fitting.append((overload, fill(overload.result, bound)))
    return fitting


# --- property names ------------------------------------------------------------------------------

_ACCESSIBLE = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_UNESCAPES = {escaped: sign for sign, escaped in _ESCAPES.items()}
_SIGN = re.compile(r"__|[.\-/]")
_ESCAPED = re.compile("|".join(_UNESCAPES))
_KEYWORDS = RESERVED | set(CONSTANTS) | {"in"}


def escape(name: str) -> str | None:
    """The identifier of a property in an expression; None when it has none.

    Kubernetes writes signs as words between double underscores (`a-b` is `a__dash__b`), and puts
    double underscores around keywords.
    """
    if not _ACCESSIBLE.fullmatch(name):
        return None
    if name in _KEYWORDS:
        return f"__{name}__"
    return _SIGN.sub(lambda match: _ESCAPES[match.group()], name)


def unescape(identifier: str) -> str:
    """The property an identifier stands for."""
    if identifier[2:-2] in _KEYWORDS and identifier == f"__{identifier[2:-2]}__":
        return identifier[2:-2]
    return _ESCAPED.sub(lambda match: _UNESCAPES[match.group()], identifier)
