"""Checks of values that a built-in kind's schema itself states: enumerations, required strings.

A definition is compiled once. Whatever its schema does not state is checked by the kind's rules.
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
    """The checks of definitions by name, compiled when first used.

    `elsewhere` names fields, by definition, that are left to the kinds' own rules. `pointers`
    names fields in which Go tells an empty string from a missing one.
    """

    def __init__(
        self,
        definitions: Mapping[str, Body],
        elsewhere: Mapping[str, frozenset[str]],
        pointers: Mapping[str, frozenset[str]],
    ) -> None:
        self._definitions = definitions
        self._elsewhere = elsewhere
        self._pointers = pointers
        self._compiled: dict[str, Check | None] = {}

    def of(self, name: str) -> Check | None:
        """The check of a definition; None when its schema states nothing about values."""
        if name not in self._compiled:
            # A definition may refer to itself; the inner reference is resolved at checking.
            self._compiled[name] = partial(self._check_later, name)
            self._compiled[name] = self._compile(self._definitions[name], name)
        return self._compiled[name]

    def _check_later(self, name: str, value: object, path: Path, errors: list[FieldError]) -> None:
        check = self._compiled[name]
        if check is not None:
            check(value, path, errors)

    def _compile(self, schema: Body, name: str = "", *, empty: bool = True) -> Check | None:
        """The check of a schema; `empty` says whether an empty string means a missing one."""
        if "$ref" in schema:
            return self.of(schema["$ref"])
        if "enum" in schema:
            return _enum(schema["enum"], empty=empty)
        if schema.get("type") == "array":
            item = self._compile(schema["items"], empty=False)
            return _each(item) if item is not None else None
        if schema.get("type") == "object" and "properties" in schema:
            return self._struct(schema, name)
        return None

    def _struct(self, schema: Body, definition: str) -> Check | None:
        elsewhere = self._elsewhere.get(definition, frozenset())
        pointers = self._pointers.get(definition, frozenset())
        fields: list[tuple[str, Check]] = []
        texts: list[str] = []
        for name, part in schema["properties"].items():
            if name in elsewhere:
                continue
            check = self._compile(part, empty=name not in pointers)
            if check is not None:
                fields.append((name, check))
            if part.get("type") == "string" and name in schema.get("required", ()):
                texts.append(name)
        return _struct(fields, texts) if fields or texts else None


def _struct(fields: list[tuple[str, Check]], texts: list[str]) -> Check:
    check_of = dict(fields).get

    def check(value: object, path: Path, errors: list[FieldError]) -> None:
        if type(value) is not dict:
            return
        if texts:
            missing = [name for name in texts if not value.get(name)]
            errors.extend(field_errors.required(render((path, name))) for name in missing)
        # By the value's fields, since objects have few of those a schema declares.
        for name, item in value.items():
            check_field = check_of(name)
            if check_field is not None:
                check_field(item, (path, name), errors)

    return check


def _each(item: Check) -> Check:
    def check(value: object, path: Path, errors: list[FieldError]) -> None:
        if isinstance(value, list):
            for index, one in enumerate(value):
                item(one, (path, index), errors)

    return check


def _enum(allowed: list[str], *, empty: bool) -> Check:
    def check(value: object, path: Path, errors: list[FieldError]) -> None:
        if value not in allowed and not (empty and value == ""):
            errors.append(field_errors.not_supported(render(path), value, allowed))

    return check
