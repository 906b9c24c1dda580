"""Checks of custom resources against their schema, with the errors kube-apiserver reports.

A value that is equal to the stored one is not checked (Kubernetes calls this ratcheting), so that
a stricter schema never makes a stored object unwritable. Errors are collected, not raised.

A schema of n alternatives is compared n times with every value, so that a small schema and a small
object may need billions of comparisons: those of one object have a budget. Errors are bounded, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence, Sized
from typing import TypeAlias

from swell.api.codec import is_same
from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError, Path, render
from swell.schema.scalars import (
    INT_OR_STRING,
    Errors,
    Test,
    scalar_tests,
    type_test,
)

LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
KIND_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
NAMESPACE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _Missing:
    """The type of `MISSING`, which stands for an old value that does not exist."""


MISSING = _Missing()

# (new value, old value or MISSING, path, errors found)
Check: TypeAlias = Callable[[object, object, Path, Errors], None]
_Check: TypeAlias = "Callable[[object, object, Path, _Found], None]"
_JunctorTest: TypeAlias = "Callable[[object, Path, _Found], None]"

# A step costs about a tenth of a microsecond, an alternative that does not fit or has a pattern a
# hundred: the 20,000 alternatives of one object take no longer than some tenths of a second.
ALTERNATIVES_COST_MAX = 2_000_000
ALTERNATIVE_COST = 100
ITEM_COST = 5
# Errors of one object beyond which the rest of it is not looked at. Fewer are listed.
ERRORS_MAX = 2_000


class AlternativesBudget:
    """The comparisons with alternatives that are left for one object."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ALTERNATIVES_COST_MAX

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise AlternativesCostError


class AlternativesCostError(Exception):
    """The budget of one object is spent."""


class _Found(list[FieldError]):
    """The errors found in one object, or by one alternative for a part of it."""

    __slots__ = ("budget", "is_alternative")

    def __init__(self, budget: AlternativesBudget, *, is_alternative: bool = False) -> None:
        super().__init__()
        self.budget = budget
        self.is_alternative = is_alternative

    def visit(self, value: Sized) -> None:
        """Called for every object and list that is checked item by item."""
        if self.is_alternative:
            self.budget.spend(ITEM_COST * len(value))


def compile_values(schema: Body) -> Check:
    """The check of a structural schema against a whole value."""
    checked = _compile(schema)

    def check(value: object, old: object, path: Path, errors: Errors) -> None:
        found = _Found(AlternativesBudget())
        try:
            checked(value, old, path, found)
        except AlternativesCostError:
            detail = "too many comparisons with the alternatives of anyOf, oneOf, allOf and not"
            found.append(field_errors.invalid(field_errors.NO_FIELD, "", detail))
        errors.extend(found)

    return check


def _compile(schema: Body) -> _Check:
    """The check of a structural schema, or of a schema under anyOf, oneOf, allOf or not."""
    typed = type_test(schema)
    tests: list[Test | _JunctorTest] = [*scalar_tests(schema), *_junctor_tests(schema)]
    children = _object_check(schema), _list_check(schema)
    descend = [child for child in children if child is not None]
    nullable = bool(schema.get("nullable")) or typed is None

    def check(value: object, old: object, path: Path, errors: _Found) -> None:
        if old is not MISSING and is_same(value, old):
            return
        if value is None:
            if not nullable and typed is not None:
                typed(value, path, errors)
            return
        if typed is not None:
            typed(value, path, errors)
        for test in tests:
            test(value, path, errors)
        for child in descend:
            child(value, old, path, errors)

    return check


# --- anyOf, oneOf, allOf, not --------------------------------------------------------------------


def _junctor_tests(schema: Body) -> list[_JunctorTest]:
    tests: list[_JunctorTest] = []
    if schema.get("anyOf") and not schema.get(INT_OR_STRING):
        tests.append(_any_of([_compile(part) for part in schema["anyOf"]]))
    elif schema.get("anyOf"):
        parts = [part for part in schema["anyOf"] if set(part) - {"type"}]
        if parts:
            tests.append(_any_of([_compile(part) for part in schema["anyOf"]]))
        else:
            tests.append(_int_or_string_form)
    if schema.get("oneOf"):
        tests.append(_one_of([_compile(part) for part in schema["oneOf"]]))
    if schema.get("allOf"):
        tests.append(_all_of([_compile(part) for part in schema["allOf"]]))
    if schema.get("not") is not None:
        tests.append(_not(_compile(schema["not"])))
    return tests


def _int_or_string_form(value: object, path: Path, errors: _Found) -> None:
    """The anyOf of the two types alone, which repeats what the type test checks, at no cost."""
    if type(value) in {dict, list, bool} or (type(value) is float and not value.is_integer()):
        errors.append(_composite(path, "must validate at least one schema (anyOf)"))


def _errors_by_part(
    parts: list[_Check], value: object, path: Path, budget: AlternativesBudget
) -> list[Errors]:
    results: list[Errors] = []
    for part in parts:
        budget.spend(ALTERNATIVE_COST)
        found = _Found(budget, is_alternative=True)
        part(value, MISSING, path, found)  # alternatives are not ratcheted
        results.append(found)
    return results


def _fewest(results: Sequence[Errors]) -> Errors:
    return min(results, key=len)


def _composite(path: Path, detail: str) -> FieldError:
    return field_errors.invalid(field_errors.NO_FIELD, "", f'"{render(path)}" {detail}')


def _any_of(parts: list[_Check]) -> _JunctorTest:
    def test(value: object, path: Path, errors: _Found) -> None:
        results = _errors_by_part(parts, value, path, errors.budget)
        if all(results):
            errors.append(_composite(path, "must validate at least one schema (anyOf)"))
            # Only the alternative with the fewest errors is reported.
            errors.extend(_fewest(results))

    return test


def _one_of(parts: list[_Check]) -> _JunctorTest:
    def test(value: object, path: Path, errors: _Found) -> None:
        results = _errors_by_part(parts, value, path, errors.budget)
        n_valid = sum(not found for found in results)
        if n_valid == 1:
            return
        how = f"Found {n_valid} valid alternatives" if n_valid else "Found none valid"
        detail = f"must validate one and only one schema (oneOf). {how}"
        errors.append(_composite(path, detail))
        if not n_valid:
            errors.extend(_fewest(results))

    return test


def _all_of(parts: list[_Check]) -> _JunctorTest:
    def test(value: object, path: Path, errors: _Found) -> None:
        results = _errors_by_part(parts, value, path, errors.budget)
        if any(results):
            errors.extend(error for found in results for error in found)
            errors.append(_composite(path, "must validate all the schemas (allOf)"))

    return test


def _not(part: _Check) -> _JunctorTest:
    def test(value: object, path: Path, errors: _Found) -> None:
        if not _errors_by_part([part], value, path, errors.budget)[0]:
            errors.append(_composite(path, "must not validate the schema (not)"))

    return test


# --- objects and lists -------------------------------------------------------------------------

OBJECT_KEYWORDS = (
    "properties",
    "additionalProperties",
    "required",
    "maxProperties",
    "minProperties",
)
LIST_KEYWORDS = ("items", "maxItems", "minItems", "uniqueItems", LIST_TYPE)


def _count_test(schema: Body, what: str) -> Callable[[Sized, Path, Errors], None]:
    most, least = schema.get(f"max{what}"), schema.get(f"min{what}")

    def test(value: Sized, path: Path, errors: Errors) -> None:
        if most is not None and len(value) > most:
            errors.append(field_errors.too_many(render(path), len(value), most))
        if least is not None and len(value) < least:
            detail = f"{render(path)} in body should have at least {least} {what.lower()}"
            errors.append(field_errors.invalid(render(path), len(value), detail))

    return test


def _object_check(schema: Body) -> _Check | None:
    embedded = schema.get("x-kubernetes-embedded-resource")
    if not embedded and not any(keyword in schema for keyword in OBJECT_KEYWORDS):
        return None
    fields = {name: _compile(part) for name, part in schema.get("properties", {}).items()}
    additional = schema.get("additionalProperties")
    other = _compile(additional) if isinstance(additional, dict) else None
    required = [*schema.get("required", ()), *(("apiVersion", "kind") if embedded else ())]
    count = _count_test(schema, "Properties")

    def check(value: object, old: object, path: Path, errors: _Found) -> None:
        if type(value) is not dict:
            return
        count(value, path, errors)
        errors.visit(value)
        before = old if type(old) is dict else {}
        for name, item in value.items():
            if len(errors) > ERRORS_MAX:
                return
            part = fields.get(name, other)
            if part is not None:
                part(item, before.get(name, MISSING), (path, name), errors)
        for name in required:
            if name not in value:
                errors.append(field_errors.required(render((path, name))))
        if embedded:
            _identity_test(value, path, errors)

    return check


def _identity_test(value: Body, path: Path, errors: Errors) -> None:
    """Check apiVersion and kind of an embedded resource."""
    version, kind = value.get("apiVersion"), value.get("kind")
    if isinstance(version, str) and (not version or version.count("/") > 1):
        where = render((path, "apiVersion"))
        errors.append(field_errors.invalid(where, version, "must be of the form <group>/<version>"))
    if isinstance(kind, str) and not KIND_NAME.fullmatch(kind.lower()):
        errors.append(
            field_errors.invalid(render((path, "kind")), kind, "must be a DNS-1035 label")
        )
    metadata = value.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    if isinstance(namespace, str) and namespace and not NAMESPACE_NAME.fullmatch(namespace):
        where = render(((path, "metadata"), "namespace"))
        errors.append(field_errors.invalid(where, namespace, "must be a DNS-1123 label"))


def _list_check(schema: Body) -> _Check | None:
    if not any(keyword in schema for keyword in LIST_KEYWORDS):
        return None
    item_check = _compile(schema["items"]) if isinstance(schema.get("items"), dict) else None
    count = _count_test(schema, "Items")
    list_type, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS, [])
    unique = list_type == "set" or schema.get("uniqueItems")

    def check(value: object, old: object, path: Path, errors: _Found) -> None:
        if type(value) is not list:
            return
        count(value, path, errors)
        if item_check is not None:
            # Only items of a list map have a counterpart in the old list.
            errors.visit(value)
            before = items_by_key(old, keys) if list_type == "map" else {}
            for index, item in enumerate(value):
                if len(errors) > ERRORS_MAX:
                    return
                previous = before.get(item_key(item, keys), MISSING) if before else MISSING
                item_check(item, previous, (path, index), errors)
        if unique:
            _duplicates(value, [_canonical_json(item) for item in value], path, errors)
        elif list_type == "map" and not _no_object(value, path, errors):
            _duplicates(value, [item_key(item, keys) for item in value], path, errors)

    return check


def items_by_key(items: object, keys: list[str]) -> dict[str, object]:
    """The items of a list whose type is map, by their keys; none when it is no list."""
    if type(items) is not list:
        return {}
    return {item_key(item, keys): item for item in items}


def item_key(item: object, keys: list[str]) -> str:
    return _canonical_json([item.get(key) for key in keys] if isinstance(item, dict) else item)


def _no_object(items: list[object], path: Path, errors: Errors) -> bool:
    """Report the first item that is no object; what follows it is not compared by keys."""
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            detail = "must be an object for an array of list-type map"
            errors.append(field_errors.invalid(render((path, index)), item, detail))
            return True
    return False


def _duplicates(items: list[object], ids: list[str], path: Path, errors: Errors) -> None:
    if len(set(ids)) == len(ids):  # the usual case, without a loop
        return
    seen: set[str] = set()
    for index, (item, identity) in enumerate(zip(items, ids, strict=True)):
        if identity in seen:
            errors.append(field_errors.duplicate(render((path, index)), item))
        seen.add(identity)


def _canonical_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
