"""What a built-in kind's schema itself says about values: enumerations and texts that must be.

Compiled once for a definition; what the schema does not say is checked by the kind's own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError, Path, render

# (value, where, errors found)
Check: TypeAlias = Callable[[object, Path, list[FieldError]], None]


class EnumChecks:
    """Checks of definitions by name, compiled when first asked for.

    `elsewhere` names fields, by definition, that are left to a kind's own rules.
    """

    def __init__(
        self, definitions: Mapping[str, Body], elsewhere: Mapping[str, frozenset[str]]
    ) -> None:
        self._definitions = definitions
        self._elsewhere = elsewhere
        self._compiled: dict[str, Check | None] = {}

    def of(self, name: str) -> Check | None:
        """None when the schema says nothing about values."""
        if name not in self._compiled:
            self._compiled[name] = partial(self._check_later, name)  # for what refers back to it
            left = self._elsewhere.get(name, frozenset())
            self._compiled[name] = self._compile(self._definitions[name], left)
        return self._compiled[name]

    def _check_later(self, name: str, value: object, path: Path, errors: list[FieldError]) -> None:
        check = self._compiled[name]
        if check is not None:
            check(value, path, errors)

    def _compile(self, schema: Body, elsewhere: frozenset[str] = frozenset()) -> Check | None:
        if "$ref" in schema:
            return self.of(schema["$ref"])
        if "enum" in schema:
            return _enum(schema["enum"])
        if schema.get("type") == "array":
            item = self._compile(schema["items"])
            return _each(item) if item is not None else None
        if schema.get("type") == "object" and "properties" in schema:
            return self._struct(schema, elsewhere)
        return None

    def _struct(self, schema: Body, elsewhere: frozenset[str]) -> Check | None:
        fields: list[tuple[str, Check]] = []
        texts: list[str] = []
        for name, part in schema["properties"].items():
            if name in elsewhere:
                continue
            check = self._compile(part)
            if check is not None:
                fields.append((name, check))
            if part.get("type") == "string" and name in schema.get("required", ()):
                texts.append(name)
        return _struct(fields, texts) if fields or texts else None


def _struct(fields: list[tuple[str, Check]], texts: list[str]) -> Check:
    by_name = dict(fields)

    def check(value: object, path: Path, errors: list[FieldError]) -> None:
        if type(value) is not dict:
            return
        for name in texts:
            if not value.get(name):
                _add_required(errors, (path, name))
        # Objects have few of the fields a schema knows.
        for name in value:
            if name in by_name:
                by_name[name](value[name], (path, name), errors)

    return check


def _add_required(errors: list[FieldError], path: Path) -> None:
    errors.append(field_errors.required(render(path)))


def _each(item: Check) -> Check:
    def check(value: object, path: Path, errors: list[FieldError]) -> None:
        if isinstance(value, list):
            for index, one in enumerate(value):
                item(one, (path, index), errors)

    return check


def _enum(allowed: list[str]) -> Check:
    def check(value: object, path: Path, errors: list[FieldError]) -> None:
        if value not in allowed and value != "":
            errors.append(field_errors.not_supported(render(path), value, allowed))

    return check
